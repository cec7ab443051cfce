"""Prefix caches and batches, as the plan sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import Unsupported
from specq.engines.hf import CAPABILITIES
from specq.experiment import config, plan

TEXTS = ("be kind: one", "be kind: two", "else")
WARM, B2 = {"kind": "prefix_cache"}, {"kind": "batch", "size": 2}
LOOKUP = {"kind": "draft", "method": "lookup"}
ALONE = replace(CAPABILITIES, batches=False, prefix_cache=False)


def made(folder: Path, where: Path, run: list[str], able: Any = CAPABILITIES, **engine: Any) -> plan.Plan:
    prompts = where / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"id": text, "prompt": text}) + "\n" for text in TEXTS))
    values = {
        "name": "tiny",
        "target": {"model": str(folder)},
        "engine": {"dtype": "float32", "device": "cpu", **engine},
        "workload": {"prompts": str(prompts), "max_new_tokens": 4},
        "levers": {"warm": WARM, "b2": B2, "lookup": LOOKUP},
        "arms": {"run": run},
    }
    return plan.make(config.from_resolved(values), capabilities=able, available_bytes=1 << 40)


def test_a_plan_says_nothing_of_waves_and_of_shared_beginnings(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    found = made(folder_of("llama"), tmp_path, ["each", "warm + lookup", "b2 + lookup"])
    found.check()
    assert "b2#1: 3 prompts in their order make 2 waves of 2, the last of 1; a wave is over" in str(found.notes)
    # Nine letters of twelve, and none of the four of the last: the tokenizer knows letters alone.
    assert "warm#1: prompts begin with 56 % of their tokens like the one before them" in str(found.notes)
    sizes = {arm.id: arm.cache_bytes for arm in found.arms}
    assert sizes["b2#1"] == 2 * (sizes["baseline#1"] or 0)
    assert sizes["warm#1"] == sizes["baseline#1"]


@pytest.mark.parametrize(
    ("kind", "run", "able", "engine", "says"),
    [
        ("llama", "warm", ALONE, {}, 'engine kind "hf" keeps no cache between prompts; take levers.warm out'),
        ("llama", "b2", ALONE, {}, 'engine kind "hf" answers one prompt at a time; take levers.b2 out'),
        ("llama", "b2 + warm", CAPABILITIES, {}, "name them in two arms, or run them on a server"),
        ("llama", "warm", CAPABILITIES, {"compile": True}, "compile = true beside prefix_cache"),
        ("llama", "b2", CAPABILITIES, {"compile": True}, "compile = true beside a batch"),
        ("hybrid", "warm", CAPABILITIES, {}, "cannot be taken back to an earlier token exactly"),
        ("window", "b2", CAPABILITIES, {}, "layers with sliding windows or states of their own"),
    ],
)
def test_what_an_engine_cannot_do_is_found_after_loading(
    folder_of: Callable[..., Path], tmp_path: Path, kind: str, run: str, able: Any, engine: dict[str, Any], says: str
) -> None:
    found = made(folder_of(kind), tmp_path, [run], able, **engine)
    with pytest.raises(Unsupported, match=says.replace("(", "\\(")):
        found.check()
    assert all(arm.refused == (arm.id not in ("baseline#1", "baseline#2")) for arm in found.arms)


def served(folder: Path, where: Path, run: list[str], **engine: Any) -> plan.Plan:
    return made(folder, where, run, **{"dtype": "auto", "device": "auto", "kind": "vllm", **engine})


def test_a_server_is_started_as_if_nothing_were_asked_of_it(
    folder_of: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECQ_VLLM_PYTHON", "/usr/bin/python3")
    found = served(folder_of("llama"), tmp_path, ["each", "b2 + warm"])
    found.check()
    words = {one.arm: one.command for one in found.served}

    def slots(arm: str) -> str:
        return words[arm][words[arm].index("--max-num-seqs") + 1]

    assert [slots(arm) for arm in ("baseline#1", "warm#1", "b2#1", "b2+warm#1")] == ["1", "1", "2", "2"]
    caching = {arm: "--enable-prefix-caching" in own for arm, own in words.items()}
    assert caching == {
        **dict.fromkeys(("baseline#1", "baseline#2", "b2#1", "lookup#1"), False),
        **dict.fromkeys(("warm#1", "b2+warm#1"), True),
    }


def test_a_server_that_runs_already_is_started_anew(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    found = served(folder_of("llama"), tmp_path, ["warm", "b2"], url="http://localhost:1")
    with pytest.raises(Unsupported, match="levers\\.warm needs a server that is started with it") as told:
        found.check()
    assert "levers.b2 needs a server that is started with it" in str(told.value)
