"""Mistakes of who typed drafts and options are told in those words, and what cannot win or stands twice is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiny_models as tiny
from specq import cli
from specq.core.errors import ConfigError
from specq.core.types import DraftSpec
from specq.experiment.config import from_resolved
from specq.forecast import of_file, remarks
from specq.forecast.asked import experiment as ask

KEYS = ("--set", "levers.", "workload.", "engine.", "[workload]", "[engine]", "method =", "#1")


@pytest.fixture
def here(folder_of: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").symlink_to(folder_of("llama"))
    (tmp_path / "d").symlink_to(folder_of("llama", noise=0.1))
    turned = (*tiny.PIECES[:4], *reversed(tiny.PIECES[4:]))
    tiny.save(tmp_path / "q", tiny.make("qwen2"), pieces=turned)
    for name, prompt in (("p", "ab ab"), ("long", "ab " * 100)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "0", "prompt": prompt}) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("early_exit:7", "early_exit:7: allowed is 1 to 2, for ./m has 3 layers; type early_exit:2"),
        ("early_exit:7+lookup", "type early_exit:2+lookup"),
        ("lookup --prompts nope.jsonl", "nope.jsonl: no such file; set --prompts to a JSONL file"),
        ("lookup --prompts long.jsonl", "shorten it or lower --max-new-tokens"),
        ("lookup --max-new-tokens 100000000", "--max-new-tokens 100000000: allowed is 1 to 1000000"),
        ("./q", "./q: target and draft do not speak the same tokens"),
        ("./q", "a draft with the target's tokenizer, or lookup"),
        ("lookup --dtype int3", '--dtype int3: allowed is "auto"'),
        ("lookup --lengths long", '--lengths long: allowed is "equal", "natural"'),
        ("lookup --engine mlx", "lookup: --engine mlx allows model; give a DRAFT of that kind in the place of lookup"),
        ("./d+lookup --engine mlx", "./d+lookup: +lookup: --engine mlx looks nothing up before a draft; take it out"),
        ("./d+stop:0.4 --engine mlx", "./d+stop:0.4: +stop:0.4: --engine mlx has no such stop; take it out"),
        ("./d+stop:2", '"./d+stop:2": allowed after +stop: is above 0 and below 1; type ./d+stop:0.4'),
        ("./d+stop:", '"./d+stop:": allowed after +stop: is above 0 and below 1; type ./d+stop:0.4'),
        ("lookup+stop:0.4", '"lookup+stop:0.4" is no draft: a lookup has no probabilities to stop by; take +stop out'),
        ("./d+stop:0.4 d+stop:0.40", 'as "./d+stop:0.4" and as "d+stop:0.40"; give each draft once'),
        ("lookup --engine vllm", "--engine vllm: allowed is hf or mlx, which read the weights; for a model that is"),
        ("lookup --revision main", "revision"),
        (
            "lookup lookup:ngram",
            '"lookup:ngram" is given twice, as "lookup" and as "lookup:ngram"; give each draft once',
        ),
        ("./d+lookup d/+lookup:ngram", 'as "./d+lookup" and as "d/+lookup:ngram"; give each draft once'),
        ("./d d/", 'drafts: "d/" is given twice, as "./d" and as "d/"; give each draft once'),
    ],
)
def test_a_hint_names_keys_of_an_experiment_that_nobody_gave(
    here: Path, words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = [] if "--prompts" in words else ["--prompts", "p.jsonl"]
    assert cli.main(["drafts", "./m", *words.split(), *prompts, "--no-live"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not [key for key in KEYS if key in line]


def test_an_option_of_mlx_leads_to_a_refusal_of_its_only_rule(here: Path) -> None:
    made = ask("./m", ["./d", "self:8"], Path("p.jsonl"), engine={"kind": "mlx"})
    assert {one.rule for one in made.levers.values()} == {"match"}


def test_a_server_is_asked_for_what_its_weights_alone_tell() -> None:
    values: dict[str, Any] = {
        "name": "x",
        "target": {"model": "m"},
        "engine": {"kind": "vllm"},
        "workload": {"prompts": "p"},
    }
    values["levers"] = {"lookup": {"kind": "draft", "method": "lookup"}}
    with pytest.raises(ConfigError, match=r"engine.kind = \"vllm\": allowed is hf or mlx, .* specq replay"):
        of_file.ask(from_resolved(values), targets=False)


def test_a_model_of_a_file_stands_twice_by_two_spellings(here: Path) -> None:
    levers = {name: {"kind": "draft", "method": "model", "model": model} for name, model in (("a", "d"), ("b", "./d/"))}
    values = {"name": "x", "target": {"model": "m"}, "workload": {"prompts": "p.jsonl"}, "levers": levers}
    asked = of_file.ask(from_resolved(values), targets=False)
    assert asked.drafts == ("a",)
    assert asked.notes == ("b propose as a does: with every k and rule, a stands for them",)


def test_letters_with_marks_become_dashes_in_the_name_of_a_draft() -> None:
    assert list(ask("m", ["./naïve", "./Übung-é", "./模型"], Path("p")).levers) == ["naive", "Ubung-e", "draft"]


@pytest.mark.parametrize(
    ("keys", "reads", "sha256", "says"),
    [
        ({}, 100, "t", "the target itself: each token is right and costs a whole step of the target, so it cannot win"),
        ({}, 250, "x", "a drafted token reads 2.50 times what a step of the target reads, so it cannot win"),
        ({"lookup_first": True}, 250, "x", "so only what its lookup copies can win"),
        ({"bits": 8, "model": "self"}, 50, "t", ""),
        ({}, 50, "x", ""),
    ],
)
def test_a_draft_that_cannot_win_passes_without_a_remark(
    keys: dict[str, Any], reads: int, sha256: str, says: str
) -> None:
    draft = DraftSpec(**{"method": "model", "model": "m", "k": 2} | keys)
    described = {
        "target": {"bytes_per_token": 100, "sha256": "t"},
        "d": {"bytes_per_token": reads, "sha256": sha256},
    }
    told = dict(remarks.of_drafts({"d": draft}, described)).get("d", "")
    assert told.endswith(says)
    assert bool(told) is bool(says)


def test_a_target_that_drafts_for_itself_is_told_after_its_texts_and_curves_are_made_in_silence(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["drafts", "./m", "m", "--prompts", "p.jsonl", "--no-live", "--max-new-tokens", "4", "--k", "1", "--json"]
    assert cli.main(asked) == 0
    out, err = capsys.readouterr()
    said = err.splitlines()
    (told,) = [place for place, line in enumerate(said) if line.startswith("m is the target itself: ")]
    (curve,) = [place for place, line in enumerate(said) if line == "cost curves: draft 1 of 1, m"]
    (done,) = [place for place, line in enumerate(said) if line.startswith("cost curves: draft 1 of 1, m: done in ")]
    assert told < curve < done < said.index("the target writes 1 text")
    assert list(json.loads(out)["remarks"]) == ["m"]


def test_other_libraries_draw_bars_while_a_model_is_loaded(
    folder_of: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    from specq.engines.hf import HFEngine

    with HFEngine(device="cpu").open(str(folder_of("llama"))):
        assert capfd.readouterr().err == ""
