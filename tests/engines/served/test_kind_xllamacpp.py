"""llama.cpp's server out of xllamacpp: its options fill the right fields, and the real one serves a real model."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specq.core.types import DraftSpec, Prompt, Sampling, TargetSpec
from specq.engines.served import control, launch
from specq.engines.served.client import Client
from specq.engines.served.kinds import llamacpp, weights, xllamacpp_host
from specq.engines.served.kinds.base import HOST, LOG, Served
from specq.engines.served.request import Streamed

IDS = (1, 4093, 3388, 28, 665, 436, 253, 655)
NEW = 12
TRIES = 5
"""A busy machine may make one request's bytes late, and not each of five."""


class Fields(SimpleNamespace):
    """An object whose fields are made as they are asked for, like a CommonParams with everything in it."""

    def __getattr__(self, name: str) -> Fields:
        made = Fields()
        setattr(self, name, made)
        return made


class Names:
    """An enumeration that has every name."""

    def __getattr__(self, name: str) -> str:
        return name


def filled(*argv: str) -> Any:
    params = Fields()
    given = xllamacpp_host.parser().parse_args(["--model", "m.gguf", "--port", "7", *argv])
    names = SimpleNamespace(llama_flash_attn_type=Names(), ggml_type=Names(), common_speculative_type=Names())
    xllamacpp_host.fill(params, given, names)
    return params


def test_the_hosted_server_does_not_know_an_option_that_specq_gives() -> None:
    draft = DraftSpec(method="model", model="m", k=3, rule="rejection")
    lookup = DraftSpec(method="lookup", k=5, rule="greedy_draft", max_ngram=4, min_ngram=4)
    for one in (draft, lookup):
        served = Served(
            weights="a.gguf",
            target=TargetSpec(kv_cache="q8"),
            draft=one,
            draft_weights="b.gguf",
            context=256,
            slots=2,
            threads=1,
            seed=9,
        )
        words = llamacpp.command(served, 7, environ={llamacpp.SERVER: "python"}).argv
        assert words[:2] == ("python", str(llamacpp.HOSTED))
        assert isinstance(xllamacpp_host.parser().parse_args(list(words[2:])), argparse.Namespace)


def test_an_option_fills_another_field() -> None:
    params = filled(
        *("--parallel", "2", "--ctx-size", "512", "--threads", "3", "--threads-batch", "4", "--seed", "9"),
        *("--metrics", "--no-cache-prompt", "--cache-ram", "0", "--flash-attn", "on", "--log-verbosity", "4"),
        *("--cache-type-k", "q8_0", "--cache-type-v", "q4_0"),
    )
    assert (params.model.path, params.hostnames, params.port) == ("m.gguf", ["127.0.0.1"], 7)
    assert (params.n_parallel, params.n_ctx, params.sampling.seed, params.verbosity) == (2, 512, 9, 4)
    assert (params.endpoint_metrics, params.cache_prompt, params.cache_ram_mib) == (True, False, 0)
    assert (params.cache_type_k, params.cache_type_v) == ("GGML_TYPE_Q8_0", "GGML_TYPE_Q4_0")
    assert params.flash_attn_type == "LLAMA_FLASH_ATTN_TYPE_ENABLED"
    draft = params.speculative.draft
    threads = [
        cpu.n_threads for cpu in (params.cpuparams, params.cpuparams_batch, draft.cpuparams, draft.cpuparams_batch)
    ]
    assert threads == [3, 4, 3, 4]
    assert params.speculative.types == ["COMMON_SPECULATIVE_TYPE_NONE"]


def test_a_draft_fills_another_field() -> None:
    names = ("--spec-draft-n-max", "3", "--spec-draft-n-min", "2", "--spec-draft-p-min", "0.5")
    params = filled("--spec-draft-model", "d.gguf", *names, "--spec-draft-sampling", "probabilistic")
    draft = params.speculative.draft
    assert (draft.mparams.path, draft.n_max, draft.n_min, draft.p_min) == ("d.gguf", 3, 2, 0.5)
    assert draft.probabilistic is True
    assert params.speculative.types == ["COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE"]
    simple = "--spec-ngram-simple"
    sizes = (f"{simple}-size-n", "4", f"{simple}-size-m", "5", f"{simple}-min-hits", "1")
    params = filled("--spec-type", "ngram-simple", *sizes)
    assert params.speculative.types == ["COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE"]
    ngram = params.speculative.ngram_simple
    assert (ngram.size_n, ngram.size_m, ngram.min_hits) == (4, 5, 1)
    assert params.speculative.draft.probabilistic is False


def test_an_unknown_option_is_left_out_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as told:
        filled("--rope-scale", "2")
    assert told.value.code == 2
    assert "unrecognized arguments: --rope-scale 2" in capsys.readouterr().err


HERE = importlib.util.find_spec("xllamacpp") is not None or bool(os.environ.get(llamacpp.SERVER))
real = pytest.mark.skipif(not HERE, reason=f"no xllamacpp in this Python, and {llamacpp.SERVER} is not set")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[launch.Server, Served]]:
    """The built-in model as it comes, one thread, with itself as the draft and an 8-bit cache."""
    file = str(weights.gguf_file("builtin:smollm2-135m"))
    draft = DraftSpec(method="model", model="self", k=3, rule="greedy_draft")
    what = Served(
        weights=file,
        target=TargetSpec(kv_cache="q8"),
        draft=draft,
        draft_weights=file,
        context=256,
        threads=1,
        seed=3,
        args=("--no-warmup",),
    )
    port = launch.free_port()
    command = llamacpp.command(what, port, environ=os.environ)
    log = tmp_path_factory.mktemp("served") / "llama.log"
    with launch.start(command, port=port, health=llamacpp.HEALTH, log=log, limit_s=120) as server:
        yield server, what
    assert server.ended() is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port), timeout=5)


def streamed(server: launch.Server, sampling: Sampling, ids: tuple[int, ...] = IDS) -> Streamed:
    """The answer to a cold request."""

    async def ask() -> Streamed:
        async with Client(server.url, limit_s=120) as client:
            return await client.stream(asked)

    asked = llamacpp.request(Prompt(id="p", ids=ids), sampling, id="p", model="m", cold="nonce")
    answer = asyncio.run(ask())
    assert (answer.error, answer.status, answer.counted) == (None, 200, "ids")
    return answer


@real
@pytest.mark.real_model
def test_a_real_llamacpp_is_asked_or_read_wrong(served: tuple[launch.Server, Served], tmp_path: Path) -> None:
    server, what = served
    assert server.log is not None
    before, _ = control.ask(server.url, ("/metrics",))
    found = streamed(server, Sampling(max_new_tokens=NEW, ignore_eos=True))
    again = streamed(server, Sampling(max_new_tokens=NEW, ignore_eos=True))
    after, _ = control.ask(server.url, ("/metrics",))
    assert (found.tokens, found.finish) == (NEW, "limit")
    assert found.token_ids == again.token_ids
    numbers = llamacpp.numbers(found)
    assert (numbers.prompt_tokens, numbers.cached_tokens, numbers.new_tokens) == (len(IDS), 0, NEW)
    assert numbers.damaged == ()
    assert numbers.prefill_s is not None
    assert numbers.decode_s is not None
    assert numbers.proposed is not None
    assert numbers.accepted is not None
    # The model proposes to itself, so that only the 8-bit cache of one side parts the two.
    assert 0 < numbers.accepted <= numbers.proposed <= 3 * NEW
    grown = llamacpp.between(before["/metrics"], after["/metrics"])
    assert (grown.prompt_tokens, grown.new_tokens, grown.restarted) == (2 * len(IDS), 2 * NEW, False)
    assert (grown.proposed, grown.accepted) == (2 * numbers.proposed, 2 * numbers.accepted)
    assert grown.accepted_by_position is not None
    assert sum(grown.accepted_by_position) == grown.accepted
    told, failed = control.ask(server.url, llamacpp.ASKS)
    assert failed == {}
    settings = llamacpp.settings({**told, LOG: server.log.read_text(errors="replace")})
    assert (settings.window, settings.slots, settings.speculation) == (256, 1, "some draft")
    assert (settings.cache_type, settings.attention) == ("q8_0", "flash attention enabled")
    assert settings.model == what.weights


@real
@pytest.mark.real_model
def test_a_real_llamacpp_draws_alike_from_another_seed(served: tuple[launch.Server, Served]) -> None:
    server, _ = served
    texts = [
        streamed(server, Sampling(temperature=1.5, max_new_tokens=NEW, seed=seed, ignore_eos=True)).token_ids
        for seed in (1, 2)
    ]
    assert texts[0] != texts[1]


@real
@pytest.mark.real_model
def test_a_clock_starts_or_stops_elsewhere_than_the_servers(served: tuple[launch.Server, Served]) -> None:
    server, _ = served
    gaps: list[tuple[float, float]] = []
    for _ in range(TRIES):
        found = streamed(server, Sampling(max_new_tokens=NEW, ignore_eos=True), IDS * 16)
        numbers = llamacpp.numbers(found)
        assert found.ttft_s is not None
        assert found.tpot_s is not None
        assert numbers.prefill_s is not None
        assert numbers.decode_s is not None
        # The first token ends the prompt's time, so that the rest has one token less.
        tpot_s = numbers.decode_s / (NEW - 1)
        gaps.append((abs(found.ttft_s / numbers.prefill_s - 1), abs(found.tpot_s / tpot_s - 1)))
        if all(min(of) < 0.05 for of in zip(*gaps, strict=True)):
            return
    pytest.fail(f"TTFT and TPOT differ from the server's own by these shares: {gaps}")


def test_the_command_of_the_docs_has_an_option_that_the_script_does_not_know() -> None:
    page = (Path(__file__).parents[3] / "docs" / "load.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith(f"python -m {xllamacpp_host.__name__} ")]
    given = xllamacpp_host.parser().parse_args(shlex.split(line)[3:])
    assert (given.threads, given.threads_batch, given.parallel, given.metrics) == (1, 1, 2, True)
