"""Whose weights the lab tells of: those that answer, and never those of a model that was only named beside a URL."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import Fake
from test_lab_report import INFO, run_of
from test_lab_requesters import play, stub

import specq
from specq.core.errors import ModelError
from specq.engines.served import control, launch
from specq.lab import asked, lab_layout, measured, opening, planning, told_weights
from specq.lab.bench import Settings
from specq.lab.options import Options
from specq.lab.requester_served import ServedRequester
from specq.lab.told_weights import Told

sys.path.append(str(Path(__file__).parents[1] / "models"))
import model_files

URL = "http://127.0.0.1:8080"
META = {"vocab_type": 2, "n_vocab": 49152, "n_ctx_train": 8192, "n_embd": 576}
OWN = asked.OwnPrompts(prompts=(), given={"prompt": 20, "output_tokens": 5})
SETTINGS = Settings(lengths=(10,), output_tokens=4)


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A server that says so of its models and of its properties."""

    def plant(models: Any = None, props: Any = None) -> None:
        said = {"/v1/models": models, "/props": props}
        monkeypatch.setattr(
            control, "ask", lambda url, paths, **how: ({path: said[path] for path in paths if said[path]}, {})
        )

    return plant


def listed(*models: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(models)}


def test_weights_that_a_server_tells_of_are_not_believed(says: Callable[..., None]) -> None:
    q4 = {"id": "a", "meta": {**META, "n_params": 134_515_008, "size": 96_000_000}}
    says(listed(q4))
    assert told_weights.ask(URL) == Told(bytes=96_000_000, bits=8 * 96_000_000 / 134_515_008)
    other = {"id": "b", "meta": {"n_params": 8, "size": 16}}
    says(listed(q4, other))
    assert told_weights.ask(URL) is None
    assert told_weights.ask(URL, served_as="b") == Told(bytes=16, bits=16)
    for damaged in (None, "x", {"size": "92 MiB"}, {"size": -1, "n_params": 3}, {"n_params": 3}):
        says(listed({"id": "a", "meta": damaged}))
        assert told_weights.ask(URL) is None
    for told in (None, "text", [], {"data": None}, {"data": ["x"]}):
        says(told)
        assert told_weights.ask(URL) is None


def test_a_file_of_another_machine_passes_for_the_servers(
    says: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    asked_of = []

    def sizes(name: str) -> Any:
        asked_of.append(name)
        raise ModelError("damaged")

    monkeypatch.setattr("specq.lab.size.size_models", sizes)
    says(props={"model_path": str(file)})
    assert told_weights.ask("http://elsewhere:8080/v1") is None
    says(props={"model_path": str(tmp_path / "none.gguf")})
    assert told_weights.ask(URL) is None
    assert asked_of == []
    says(props={"model_path": str(file)})
    for url in (URL, "http://localhost:1/v1", "http://[::1]:1"):
        assert told_weights.ask(url) is None
    assert asked_of == [str(file)] * 3


def test_the_weights_of_a_model_named_pass_for_those_that_answer(folder_of: Callable[..., Path]) -> None:
    model = str(folder_of("llama"))
    named = asked.size(model, OWN, SETTINGS, held=False)
    assert named is not None
    assert (named.origin, named.bits, named.cache_read) == ("named", 32, None)
    told = asked.size(model, OWN, SETTINGS, held=False, told=Told(bytes=1000, bits=5.0))
    assert told == dataclasses.replace(named, weight_bytes=1000, bits=5.0, origin="told")
    assert told.cache_read == told.cache_bytes / (told.cache_bytes + 1000)  # type: ignore[operator]
    alone = asked.size(None, OWN, SETTINGS, held=False, told=Told(bytes=1000, bits=5.0))
    assert alone is not None
    assert (alone.weight_bytes, alone.bits, alone.cache_bytes, alone.cache_read) == (1000, 5.0, None, None)
    assert asked.size(None, OWN, SETTINGS) is None
    ridge = asked.machine("h100-sxm", named, opening.Wanted(target=URL, kind="openai"))
    assert ridge is not None
    assert ridge.bytes_per_weight is None


@pytest.mark.parametrize(
    ("how", "held"),
    [
        ({"target": URL, "kind": "llamacpp", "model": "m"}, False),
        ({"target": "m", "kind": "hf"}, True),
        ({"target": "m", "kind": "vllm"}, True),
        ({"target": "m", "kind": "vllm", "model": "other"}, False),
    ],
)
def test_a_model_for_its_tokenizer_is_taken_for_what_is_loaded(how: dict[str, Any], held: bool) -> None:
    assert opening.Wanted(**how).held == held
    assert opening.Wanted(target="m", kind="hf", model="other").sized == "m"


@pytest.mark.parametrize(
    ("size", "lever", "said"),
    [
        ({"origin": "named"}, "speculative decoding", "16 bits a weight, of the model named: what the server holds is"),
        ({}, "speculative decoding", "of the model named"),
        ({"origin": "told"}, "quantized weights", "16 bits a weight, as the server says of its own"),
        ({"origin": "told", "bits": 4.98}, "speculative decoding", "4.98 bits a weight, as the server says"),
        ({"origin": "told", "cache_bytes": None, "tokens": None}, "quantized weights", "as the server says"),
    ],
)
def test_a_lever_on_weights_is_named_by_those_of_another_model(
    tmp_path: Path, size: dict[str, Any], lever: str, said: str
) -> None:
    info = {**INFO, "target": URL, "size": {**INFO["size"], **size}}
    found = measured.open_lab(run_of(tmp_path / "run", Fake(), info))
    assert found.deliverable is not None
    assert found.deliverable.lever.name == lever
    shown = {section.title: section for section in lab_layout.sections(found)}[lab_layout.COMES].rows
    (weights,) = [row for row in shown if row[0] == "weights"]
    assert said in weights[2]
    assert ("cache of one request" in [row[0] for row in shown]) == ("cache_bytes" not in size)


def test_an_attached_server_gets_the_sizes_of_the_model_that_was_named(
    folder_of: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Played(ServedRequester):
        def __init__(self, *args: Any, **how: Any) -> None:
            super().__init__(*args, **how, edit=play(tokens=4, rate=2000.0))

    monkeypatch.setattr(opening, "ServedRequester", Played)
    monkeypatch.setattr(launch, "attach", lambda url, health, **how: launch.Server(url))
    monkeypatch.setattr(
        "specq.engines.served.stub_events.told",
        lambda path, model: (
            listed({"id": "stub", "meta": {**META, "n_params": 100, "size": 62}}) if path == "/v1/models" else None
        ),
    )
    with stub() as one:
        found, run = specq.measure_requests(
            one.url,
            kind="llamacpp",
            model=str(folder_of("llama")),
            parts=("context",),
            lengths=(4, 6),
            new_tokens=4,
            repeats=2,
            text="builtin:text",
            out=tmp_path / "results",
        )
    size = json.loads((run / "run.json").read_text())["size"]
    assert (size["weight_bytes"], size["bits"], size["origin"]) == (62, pytest.approx(4.96), "told")
    assert found.deliverable is not None
    assert found.deliverable.known.bits == pytest.approx(4.96)


def test_a_gguf_file_is_held_by_its_size(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    file = model_files.write_gguf(tmp_path / "m.gguf", kind="Q4_0", hidden_size=64)
    asks = Options(target=str(file), model=str(folder_of("llama")), kind="llamacpp", parts=("context",), lengths=(4, 8))
    before = planning.plan(asks).said()["models"]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    after = planning.plan(asks).said()["models"]
    assert before.keys() == after.keys() == {str(folder_of("llama")), "m.gguf"}
    assert before["m.gguf"] != after["m.gguf"]
