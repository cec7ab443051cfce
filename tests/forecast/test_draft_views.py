"""What specq drafts shows of strata and contexts: the tables, the JSON, and what is said where nothing was timed."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from specq import api, cli
from specq.cli import draft_views, drafting
from specq.core.errors import ConfigError, RunFailed
from specq.core.types import EXACT_RULES, DraftSpec, Prompt, Rule
from specq.forecast import predict
from specq.forecast.cost import Curve, Point
from specq.forecast.predict import Cell
from specq.forecast.replay import Traced
from specq.forecast.strata import strata
from specq.forecast.study import Spent

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from report_runs import whole_run


def point(proposed: int, step_s: float) -> Point:
    return Point(proposed=proposed, draft_s=0.0, verify_s=step_s, rest_s=0.0, n=20, spread=0.0)


def at(context: int, step_s: float, plain_s: float) -> Curve:
    return Curve(
        plain=point(0, plain_s),
        points=(point(1, step_s), point(2, step_s)),
        context=context,
        measured_s=1.0,
        prefill_tokens=context - 4,
        prefill_s=context / 1000,
    )


def text(right: float) -> Traced:
    return Traced(p=np.ones(9), q=np.full(9, right), hit=np.full(9, right))


def found(prompts: int = 18, tokens: int = 20, *depths: Curve) -> Any:
    """A study, as far as the views look at it, of a draft that is useless on every third prompt and perfect else."""
    curve = replace(depths[0], depths=depths) if depths else at(25, 0.0015, 0.001)
    texts = [text(1.0 if i % 3 else 0.0) for i in range(prompts)]
    asked = [Prompt(id=str(i), ids=tuple(range(tokens)), tags=("copy" if i % 3 else "write",)) for i in range(prompts)]
    ranking = predict.rank({"d": texts}, {"d": curve}, ks=(2,), rules=("match",), prompt_tokens=[tokens] * prompts)
    own = {"weight_bytes": 1, "bytes_per_token": 1}
    return SimpleNamespace(
        experiment=SimpleNamespace(
            workload=SimpleNamespace(temperature=0.0, max_new_tokens=9), target=SimpleNamespace(model="m")
        ),
        plan=SimpleNamespace(prompts=asked),
        drafts={"d": DraftSpec(method="early_exit", layers=2, k=2)},
        rules=("match",),
        curves={"d": curve},
        ranking=ranking,
        described={"target": own},
        spent=Spent(curves_s=1.0, texts_s=1.0, reading_s=1.0),
        strata=(strata(ranking.forecasts[0], texts, curve, asked, [1.0] * prompts, resamples=200),),
        tokens=9 * prompts,
        past_end=0,
        templates={},
    )


def shown(parts: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=200).print(*parts, sep="\n")
    return file.getvalue()


def test_a_draft_that_loses_a_tag_it_wins_overall_is_shown_with_the_tag() -> None:
    told = shown(draft_views.study(found()))
    assert "6 prompts" in told
    assert "middle third" in told
    assert "tag write (0.70" in told
    assert "but slower on" in told


def test_json_has_the_parts_of_every_draft() -> None:
    made = json.loads(json.dumps(draft_views.as_json(found(), [], None, None), allow_nan=False))
    (one,) = made["strata"]
    assert (one["draft"], one["k"], one["rule"]) == ("d", 2, "match")
    assert {part["by"] for part in one["parts"]} == {"tag", "position"}
    assert one["said"]


def test_every_context_has_its_seconds_its_ceiling_and_its_prefill() -> None:
    near, far = at(24, 0.001, 0.001), at(104, 0.004, 0.002)
    curve = replace(near, depths=(near, far))
    told = shown(draft_views.ceilings({"d": curve}, 2))
    rows = [line.split() for line in told.splitlines() if line.strip().startswith("d ")]
    assert [(row[1], row[2], row[6], row[9]) for row in rows] == [
        ("24", "1", "1.00", "2.00"),
        ("24", "2", "1.00", "3.00"),
        ("104", "1", "2.00", "1.00"),
        ("104", "2", "2.00", "1.50"),
    ]
    assert "a prompt of 20 tokens in 0.0240 s, of 100 tokens in 0.104 s" in told
    made = draft_views.as_json(found(12, 20, near, far), [], None, None)
    assert [depth["context"] for depth in made["curves"]["d"]["depths"]] == [24, 104]


@pytest.mark.parametrize(
    ("tokens", "depths", "says"),
    [
        (20, (at(24, 0.001, 0.001), at(104, 0.001, 0.001)), ""),
        (
            10,
            (at(24, 0.001, 0.001), at(104, 0.001, 0.001)),
            "Steps lie after 11 to 19 tokens, and were timed after 24 to",
        ),
        (20, (at(516, 0.001, 0.001),), "Steps lie after 21 to 29 tokens, and were timed after 516"),
        (20, (at(25, 0.001, 0.001),), ""),
    ],
)
def test_steps_that_lie_where_nothing_was_timed_are_told(tokens: int, depths: tuple[Curve, ...], says: str) -> None:
    told = shown(draft_views.study(found(12, tokens, *depths)))
    assert says in told
    assert ("were timed after" in told) is bool(says)


def test_one_prompt_gets_no_interval_and_says_so() -> None:
    told = shown(draft_views.study(found(1)))
    assert "One prompt: there is no interval" in told
    assert "nan" not in told


def test_one_text_with_steps_among_many_gets_no_interval_and_no_reason() -> None:
    one = found(3)
    texts = [text(1.0), *[Traced(p=np.ones(1), q=np.ones(1), hit=np.ones(1))] * 2]
    one.ranking = predict.rank({"d": texts}, one.curves, ks=(2,), rules=("match",), prompt_tokens=[20] * 3)
    told = " ".join(shown(draft_views.study(one)).split())
    assert "One of 3 texts alone has a step" in told
    assert "alone has a step" not in shown(draft_views.study(found(3)))


@pytest.mark.parametrize("ended", [True, False])
def test_a_live_run_that_fails_takes_the_forecast_with_it(
    ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = whole_run(tmp_path / "run")

    def fails(*_: Any, **__: Any) -> None:
        error = RunFailed("d_k2#1 has no answer: it broke")
        error.finished = folder if ended else None
        raise error

    monkeypatch.setattr(api, "ask_drafts", lambda *_, **__: SimpleNamespace(levers={"d": None}))
    monkeypatch.setattr(api, "study_drafts", lambda *_, **__: found())
    monkeypatch.setattr(api, "validate_drafts", fails)
    words = ["drafts", "m", "early_exit:2", "--prompts", "p.jsonl", "--out", str(tmp_path / "out")]
    assert cli.main([*words, "--json"]) == 1
    said = capsys.readouterr()
    made = json.loads(said.out.splitlines()[-1])
    assert (made["best"]["draft"], made["run"]) == ("d", str(folder) if ended else None)
    assert said.err.count("it broke") == 1
    assert cli.main(words) == 1
    assert "elsewhere: the rule decides" in " ".join(capsys.readouterr().out.split())


def test_contexts_on_the_command_line_are_numbers_with_commas() -> None:
    assert drafting._contexts("") == ()
    assert drafting._contexts("256, 1024") == (256, 1024)
    for words in ("256;1024", "0", "-4", "1e3", "256,", "256,,1"):
        with pytest.raises(ConfigError, match=r"--contexts .*: allowed are numbers of tokens"):
            drafting._contexts(words)


@pytest.mark.parametrize(("near", "says"), [(1, "about 1 more prompt like"), (2, "about 2 more prompts like")])
def test_one_draft_alone_is_told_apart_from_the_best_two(near: int, says: str) -> None:
    study = found(12)
    first = study.ranking.forecasts[0]
    study.ranking = replace(study.ranking, near=near)
    assert f"d and plain decoding are not apart; {says} these would part them." in shown(draft_views.study(study))
    more = [replace(first, cell=replace(first.cell, draft=name), speedup=up) for name, up in (("d", 1.2), ("e", 1.1))]
    study.ranking = replace(study.ranking, forecasts=tuple(more))
    study.drafts = dict.fromkeys("de", study.drafts["d"])
    assert f"d and e are not apart; {says}" in shown(draft_views.study(study))


def test_counts_of_one_have_nouns_of_many() -> None:
    told = shown(draft_views.study(found(1)))
    assert "Forecast from 1 text of the target" in told
    assert not re.search(r"\b1 (texts|prompts|tokens)\b", told)
    assert not re.search(r"\b1 (texts|prompts|tokens)\b", shown(draft_views.study(found(3))))


def test_text_past_the_targets_end_is_forecast_in_silence() -> None:
    some = found()
    assert "past the target's own end" not in shown(draft_views.study(some))
    some.past_end, some.tokens = 84, 576
    told = shown(draft_views.study(some, natural="--set workload.lengths=natural"))
    assert "84 of 576 tokens (15 %) lie past the target's own end, for lengths are equal" in told
    assert "type --set workload.lengths=natural" in told
    made = draft_views.as_json(some, [], None, None)
    assert (made["past_end_tokens"], made["tokens"]) == (84, 576)


def pasting(draft: DraftSpec, temperature: float, rules: tuple[Rule, ...] = EXACT_RULES) -> Any:
    """A study whose draft is best under each rule with another k."""
    study = found(12)
    first = study.ranking.forecasts[0]
    cells = [
        replace(first, cell=Cell(draft="d", k=k, rule=rule), tokens_per_step=1 + k / 10 + row, speedup=2 - row / 10)
        for row, rule in enumerate(rules)
        for k in (row + 1, 9)
    ]
    study.ranking = replace(study.ranking, forecasts=tuple(cells))
    study.experiment.workload.temperature = temperature
    study.drafts = {"d": draft}
    return study


def settings_of(study: Any) -> list[tuple[str, str, int, float | None]]:
    made = draft_views.as_json(study, [], None, None)["settings"]
    return [(one["engine"], one["rule"], one["k"], one["tokens_per_step"]) for one in made if one["paste"]]


def test_each_engine_gets_the_forecast_of_its_own_rule_at_the_k_that_is_best_there() -> None:
    told = settings_of(pasting(DraftSpec(method="model", model="m", k=2), 0.7))
    assert ("specq", "rejection", 1, 1.1) in told
    assert ("vllm", "greedy_draft", 2, 2.2) in told
    assert ("vllm", "block", 4, 4.4) in told
    assert ("mlx-lm", "match", 3, 3.3) in told
    one = settings_of(pasting(DraftSpec(method="model", model="m", k=2), 0.0, ("match",)))
    assert one[1] == ("vllm", "greedy_draft", 1, 1.1)


def test_a_lookup_of_another_engine_has_no_number_of_specqs_own() -> None:
    study = pasting(DraftSpec(method="lookup", k=2, rule="greedy_draft"), 0.7)
    told = settings_of(study)
    assert [one[3] is None for one in told] == [one[0] != "specq" for one in told]
    assert "measure it there" in shown(draft_views.outcome(study, [], None, None))


def test_the_table_of_drafts_has_no_word_of_their_chat_templates() -> None:
    study = found(12)
    study.drafts, study.templates = {"d": DraftSpec(method="model", model="m", k=2)}, {"d": "other"}
    told = shown(draft_views.study(study))
    assert "template" in told
    assert "other" in told
    assert draft_views.as_json(study, [], None, None)["templates"] == {"d": "other"}
