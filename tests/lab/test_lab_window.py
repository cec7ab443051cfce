"""A server that is started is told a context that its model has: what is added stops at the model's window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from size_configs import LLAMA_3B, folder

import specq
from specq.core.errors import ConfigError
from specq.lab import asked, window
from specq.lab.bench import Settings
from specq.lab.requester import OwnPrompt
from specq.load import servers
from specq.load.asked import Asked, Server
from specq.load.start import Start
from specq.workloads import counting

TOKENS = counting.Counter(unit="tokens of it", spans=counting.counter().spans)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(folder(tmp_path / "model", {**LLAMA_3B, "max_position_embeddings": 1000}))


def of(model: str, length: int, *own: int) -> int | None:
    prompts = tuple(OwnPrompt(text="", tokens=tokens) for tokens in own)
    settings = Settings(lengths=(64, length), output_tokens=32)
    return asked.context_of(settings, TOKENS, asked.OwnPrompts(prompts=prompts, given={}), model)


def test_prompts_near_the_window_get_a_context_beyond_it(model: str) -> None:
    assert of(model, 600) == 768
    assert of(model, 800) == 1000
    assert of(model, 968) == 1000
    assert of(model, 64, 990) == 1000
    # What needs more is the server's to refuse, in its own words.
    assert of(model, 64, 1100) == 1102


def test_a_model_without_a_window_limits_or_fails(tmp_path: Path) -> None:
    bare = {key: value for key, value in LLAMA_3B.items() if key != "max_position_embeddings"}
    assert window.of_model(str(folder(tmp_path / "bare", bare))) is None
    assert window.of_model("a-name-that-only-the-server-knows") is None
    assert window.of_model(None) is None
    assert window.started(1000, None) == 1280


def test_a_server_under_load_gets_a_context_beyond_its_window(model: str) -> None:
    plan = SimpleNamespace(prompts=SimpleNamespace(prompts=[SimpleNamespace(ids=[0] * 900)]), injected=())
    server = Server(name="one", url="", kind="vllm", model="", start=Start(weights=model))
    run = Asked(servers=(server,), arrivals="closed", levels=(1.0,), max_tokens=32)
    (found,) = servers.with_context(run, plan).servers  # type: ignore[arg-type]
    assert found.start is not None
    assert found.start.context == 1000


def test_a_length_beyond_the_window_is_found_out_late(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    lengths = (10, 20, 30, 40, 50, 190)
    target, out = str(folder_of("llama")), tmp_path / "results"
    with pytest.raises(ConfigError, match=r"the window of .* is 192 tokens; give lengths of at most 160"):
        specq.measure_requests(target, parts=["halves"], lengths=lengths, out=out)
    # 150 and 32 would fit without the stamp.
    with pytest.raises(ConfigError, match=r"a stamp of \d+ tokens before its prompts; give lengths of at most 1\d\d"):
        specq.measure_requests(target, lengths=(*lengths[:-1], 150), out=out)
    assert not (tmp_path / "results").exists()
