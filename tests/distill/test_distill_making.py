from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import SafetensorError

import tiny_models
from specq import cli
from specq.core import jsonl
from specq.core.errors import ConfigError, DiskFull, ModelError, PromptError, SpecqError
from specq.distill import artifact, distill_model, making, shards, train, work, writing
from specq.engines.hf import HFEngine

HOW: dict[str, Any] = {"tokens": 2500, "steps": 3, "minutes": 5}


@pytest.fixture(scope="module")
def made(target: Path) -> artifact.Distilled:
    """The target's first and last layer, trained three steps."""
    said: list[str] = []
    found = distill_model(
        str(target), 2, target.parent / "made", **HOW, on_progress=lambda progress: said.append(progress.text)
    )
    assert any("5 minutes: 2.0 for the target's texts" in line for line in said)
    return found


def test_a_folder_is_no_model_or_not_the_targets(made: artifact.Distilled, target: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (made.folder / name).read_bytes() == (target / name).read_bytes(), name
    config = json.loads((made.folder / "config.json").read_text())
    assert (config["num_hidden_layers"], len(config["layer_types"]), config["dtype"]) == (2, 2, "bfloat16")
    assert not made.folder.with_name("made.part").exists()
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(made.folder)
    source: Any = transformers.AutoModelForCausalLM.from_pretrained(target)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    assert torch.equal(loaded.model.embed_tokens.weight, source.model.embed_tokens.weight)
    moved = [
        float((a - b).detach().abs().max() / b.detach().abs().max())
        for mine, its in zip(loaded.model.layers, (source.model.layers[0], source.model.layers[2]), strict=True)
        for a, b in zip(mine.parameters(), its.parameters(), strict=True)
        if b.dim() == 2
    ]
    # Trained, and still those of the first and the last layer.
    assert 0 < max(moved) < 0.2


def test_what_is_noted_is_not_what_was_done(made: artifact.Distilled, target: Path) -> None:
    assert artifact.read(made.folder) == made
    assert made.layers == (0, 2)
    assert made.training["steps"] == len(made.training["curve"]) * 3 == 3
    assert made.texts["tokens"] >= 2500
    assert 48 < made.held_out["prompts"] <= made.held_out["asked"] == 64
    assert made.overlap["after"]["low"] < made.overlap["after"]["value"] < made.overlap["after"]["high"]
    gained = made.overlap["after"]["value"] - made.overlap["before"]["value"]
    assert made.overlap["gain"]["value"] == pytest.approx(gained, abs=2e-5)
    adds, hidden, wide = made.cost["multiply_adds"], 32, 48
    layer = hidden * (2 * hidden + 2 * 16) + 3 * hidden * wide + 2 * 16 + hidden + 2 * hidden
    assert adds["target"] - adds["draft"] == layer
    assert adds["ratio"] == pytest.approx(adds["draft"] / adds["target"], abs=1e-4)


def test_the_folder_drafts_for_nobody(made: artifact.Distilled, target: Path) -> None:
    from specq.core.types import DraftSpec

    with HFEngine(device="cpu").open(str(target)) as opened:
        prompt = tiny_models.prompt("abc")
        spec = DraftSpec(method="model", k=3, rule="rejection", model=str(made.folder))
        (plain,) = opened.decoder(None).generate([prompt], tiny_models.greedy(12))
        (drafted,) = opened.decoder(spec).generate([prompt], tiny_models.greedy(12))
    assert len(plain.ids) == len(drafted.ids) == 12
    assert sum(step.proposed for step in drafted.steps) > 0


def test_a_killed_run_goes_on_to_another_folder(
    made: artifact.Distilled, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "again"
    real, at = train.train, list[str]()

    def killed(*given: Any, **more: Any) -> Any:
        real(*given, **{**more, "checkpoint_s": 0.0})
        raise KeyboardInterrupt

    write = shards.write

    def stopped(path: Path, texts: Any, about: Any) -> None:
        write(path, texts, about)
        if path.name == shards.NAME.format(0) and not at:
            at.append(path.name)
            raise KeyboardInterrupt

    monkeypatch.setattr(shards, "write", stopped)
    monkeypatch.setattr(train, "train", killed)
    for resume in (False, True):
        with pytest.raises(SpecqError, match="type the same again with --resume"):
            distill_model(str(target), 2, out, **HOW, resume=resume)
        assert not out.exists()
        assert work.part_of(out).is_dir()
    with pytest.raises(ConfigError, match=r"seed was 0 and is 1; give what was given"):
        distill_model(str(target), 2, out, **HOW, seed=1, resume=True)
    with pytest.raises(ConfigError, match="add --resume"):
        distill_model(str(target), 2, out, **HOW)
    monkeypatch.setattr(train, "train", real)
    again = distill_model(str(target), 2, out, **HOW, resume=True)
    name = "model.safetensors"
    assert (again.folder / name).read_bytes() == (made.folder / name).read_bytes()
    assert again.overlap == made.overlap
    assert again.training["curve"] == made.training["curve"]
    assert not work.part_of(out).exists()


def test_prompts_of_a_file_are_not_answered(target: Path, tmp_path: Path) -> None:
    asked = [f"what is {a}{b}" for a in "abcd" for b in "abcdefgh"]
    (tmp_path / "texts.jsonl").write_text(
        "".join(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n" for text in asked)
        + json.dumps({"text": "some text that was written by somebody else"})
        + "\n"
    )
    held = [{"id": str(n), "prompt": f"held out {n}"} for n in range(3)]
    (tmp_path / "held.jsonl").write_text("".join(json.dumps(one) + "\n" for one in held))
    how = {"texts": tmp_path / "texts.jsonl", "prompts": tmp_path / "held.jsonl", "temperature": 0.7}
    found = distill_model(str(target), "1,2", tmp_path / "out", **how, tokens=9000, steps=1)
    assert (found.held_out["prompts"], found.held_out["source"]) == (3, "held.jsonl")
    assert found.recipe["texts"].startswith("texts.jsonl ")
    assert any("not the target's own" in note for note in found.notes)
    # 32 prompts give too little at once, so each is answered again with another seed.
    assert found.texts["texts"] > 33
    (tmp_path / "held.jsonl").write_text(json.dumps({"id": "a", "messages": [{"role": "user", "content": asked[3]}]}))
    with pytest.raises(PromptError, match=r"1 of its prompts stand in --texts"):
        distill_model(str(target), 2, tmp_path / "other", **how)
    assert not (tmp_path / "other.part").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--layers", "3"], "the target has 3 layers; allowed is 1 to 2"),
        (["--layers", "2", "--minutes", "0.2"], "--minutes 0.2"),
        (["--layers", "2", "--texts", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["--layers", "2", "--prompts", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["--layers", "2", "--resume"], "no unfinished work"),
        (["--layers", "2", "--vocabulary", "0"], "--vocabulary 0: allowed is 1 or more"),
        (["--layers", "2", "--vocabulary", "3"], "--vocabulary 3: 4 ids are special or end a text and always stay"),
        (["--layers", "2", "--vocabulary", "50"], "--vocabulary 50: the target has 50 ids; allowed is 5 to 49"),
        (["--layers", "2", "--texts", "few.jsonl"], r"few.jsonl: 35 tokens to learn, and one step of training takes"),
    ],
)
def test_a_mistake_loads_weights(
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(HFEngine, "load", lambda *given, **more: pytest.fail("weights were loaded"))
    Path("few.jsonl").write_text(json.dumps({"text": "some text that was written by somebody else"}) + "\n")
    assert cli.main(["distill", str(target), "--out", "out", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few.jsonl"]


def test_a_quantized_target_is_cut(target: Path, tmp_path: Path) -> None:
    shutil.copytree(target, tmp_path / "q")
    config = json.loads((target / "config.json").read_text()) | {"quantization_config": {"quant_method": "gptq"}}
    (tmp_path / "q" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="quantized already"):
        distill_model(str(tmp_path / "q"), 2, tmp_path / "out")


def test_a_target_that_does_not_fit_is_loaded(
    target: Path, tmp_path: Path, folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    free = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free._replace(available=10**6))
    with pytest.raises(ModelError, match="GB of memory to be distilled into 2 layers"):
        distill_model(str(target), 2, tmp_path / "out")


@pytest.mark.parametrize("tensor", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_weights_that_are_no_numbers_are_blamed_on_the_architecture(target: Path, tmp_path: Path, tensor: str) -> None:
    """Those of a layer that is left out, too: the target writes the texts."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(target, tmp_path / "nan")
    weights = load_file(tmp_path / "nan" / "model.safetensors")
    weights[tensor].view(-1)[3] = float("nan")
    save_file(weights, tmp_path / "nan" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=rf"nan: {tensor} holds values that are not finite: fetch the model again"):
        distill_model(str(tmp_path / "nan"), 2, tmp_path / "out")


def test_a_disk_fills_up_before_it_is_said(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(writing.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    said = r"no space left on the disk of .*out\.part; what was done is kept there: free some space and type the same"
    with pytest.raises(DiskFull, match=said) as caught:
        distill_model(str(target), 2, tmp_path / "out", tokens=10**6, steps=1)
    assert "nothing" not in str(caught.value)
    assert (tmp_path / "out.part" / "recipe.json").is_file()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "free some space and type the same again with --resume"),
        (
            SafetensorError("I/O error: File too large (os error 27)"),
            "ulimit -f unlimited, and type the same again with",
        ),
        (jsonl.disk_error(OSError(errno.ENOSPC, "full"), Path("x")), "what was done is kept there: free some space"),
    ],
)
def test_a_write_that_fails_says_that_nothing_was_kept(tmp_path: Path, error: Exception, says: str) -> None:
    with pytest.raises(DiskFull, match=says) as caught, work.opened(tmp_path / "out", {"a": 1}):
        raise error
    assert str(tmp_path / "out.part") in str(caught.value)
    assert "nothing" not in str(caught.value)


def test_the_command_prints_no_object(
    made: artifact.Distilled, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[Any] = []

    def make(*positional: Any, **named: Any) -> artifact.Distilled:
        given.append((positional, named))
        return made

    monkeypatch.setattr(making, "make", make)
    words = ["distill", "some/target", "--layers", "0,2", "--out", "here", "--loss", "overlap", "--seed", "4"]
    assert cli.main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in ("layers 0, 2 of", "overlap before training", "gained", "multiply-adds a token", "Folder: "):
        assert text in shown
    assert cli.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overlap"] == made.overlap
    (positional, named), _ = given
    assert (positional[0], positional[1].layers, positional[1].loss, positional[1].seed) == (
        *("some/target", "0,2", "overlap", 4),
    )
    assert (positional[2], named["resume"]) == (Path("here"), False)


def test_a_long_curve_is_kept_whole_or_loses_its_ends() -> None:
    values = [(8 * n + 1, 100 * n, float(n)) for n in range(1000)]
    found = making.curve(values)
    assert len(found) == making.CURVE_POINTS
    assert found[-1][:2] == [7993, 99900]
    assert sum(point[2] for point in found) / len(found) == pytest.approx(499.5)
    assert making.curve(values[:3]) == [list(value) for value in values[:3]]
    assert making.curve([]) == []
