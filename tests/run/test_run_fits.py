"""Warm-up and canary beside contexts and compiled graphs that hold just what was asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import run_fakes
from run_checks import assert_complete, of, want

from specq.core.errors import RunFailed
from specq.core.records import Canary, Note
from specq.core.types import DraftSpec, Prompt, Sampling, TargetSpec
from specq.run import inputs, measure, runner


def context(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    """A model whose context is full at so many tokens, as the plan and the engine see it."""
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.setattr(inputs, "models", lambda plan: {"target fake": {"weights_sha256": "00", "context": tokens}})
    want(monkeypatch, context=tokens)


def test_a_warm_up_or_a_canary_outgrows_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context(monkeypatch, len("prompt 0") + 6)
    run = runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    assert_complete(run)
    assert len(of(run, Canary)) >= 2
    assert not [note for note in of(run, Note) if "failed" in note.text or "canary" in note.text]


def test_a_canary_without_room_is_left_out_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context(monkeypatch, len("prompt 0") + 1)
    run = runner.run(run_fakes.write_experiment(tmp_path, max_new_tokens=1), out=tmp_path / "out")
    assert not of(run, Canary)
    assert [note.text for note in of(run, Note)] == [
        "no canary: the context holds 1 new token after the first prompt, it takes two"
    ]


def test_the_context_of_the_fake_is_no_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the tests above: an answer that does not fit does fail."""
    context(monkeypatch, len("prompt 0") + 5)
    with pytest.raises(RunFailed, match="failed on every sample"):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")


class Compiles:
    """A decoder that notes the length it was compiled for, and refuses a text beyond it."""

    notes = ()

    def warm_up(self, tokens: int) -> float:
        self.tokens = tokens
        return 0.0

    def generate(self, prompts: Any, sampling: Sampling, *, batch_size: int = 1) -> list[Any]:
        assert max(len(prompt.ids) for prompt in prompts) + sampling.max_new_tokens <= self.tokens
        return []


@pytest.mark.parametrize(("k", "longest"), [(2, 5 + 16), (10, 5 + 22)])
def test_a_graph_is_compiled_again_inside_a_sample(k: int, longest: int) -> None:
    said: list[Any] = []
    prompt = Prompt(id="p", ids=(1, 2, 3, 4, 5))
    job: Any = SimpleNamespace(
        process=0,
        store=SimpleNamespace(append=said.append),
        progress=SimpleNamespace(should_stop=lambda: False),
        prompts_of=lambda arm: {"p": prompt},
        first_prompt=lambda arm: prompt,
        experiment=SimpleNamespace(workload=SimpleNamespace(max_new_tokens=4)),
        drafts={"a": DraftSpec(method="lookup", k=k)},
        plain={"a": "baseline#1"},
        targets={"a": TargetSpec()},
        sampling=lambda prompt, repeat: Sampling(max_new_tokens=4),
        fitting=lambda tokens: tokens,
        fixed_length=lambda tokens: Sampling(max_new_tokens=tokens, ignore_eos=True),
    )
    decoder: Any = Compiles()
    measure._warm_up(job, {"a": decoder})
    assert (decoder.tokens, said) == (longest, [])
