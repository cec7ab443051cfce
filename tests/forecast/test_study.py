"""Replay held to what the engine really does, on tiny models: step counts, other people's texts, the whole command."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import specq
import tiny_models as tiny
from specq.cli import draft_views
from specq.core.errors import ConfigError, UserError
from specq.core.types import EXACT_RULES, DraftSpec, Sampling
from specq.forecast import replay, validate, written
from specq.forecast.asked import experiment as ask
from specq.forecast.replay import Traced

PROMPTS = [tiny.prompt(f"{c}{c}ab {i} ab {i} {c}", id=c) for i, c in enumerate("bcdefg")]
DRAFTS = {
    "lookup": DraftSpec(method="lookup", k=4, rule="greedy_draft"),
    "early": DraftSpec(method="early_exit", layers=2, k=4),
    "self8": DraftSpec(method="model", model="self", bits=8, k=4),
    "early_lookup": DraftSpec(method="early_exit", layers=2, k=4, lookup_first=True, max_ngram=4, min_ngram=2),
    "self8_lookup": DraftSpec(method="model", model="self", bits=8, k=4, lookup_first=True, match="suffix"),
}
GREEDY = Sampling(max_new_tokens=40, ignore_eos=True)
WARM = dataclasses.replace(GREEDY, temperature=0.7, seed=5)


@pytest.mark.parametrize("name", DRAFTS)
def test_greedy_step_counts_equal_the_live_ones_prompt_by_prompt(target_of: Callable[..., Any], name: str) -> None:
    target = target_of("llama")
    for k in (1, 3, 6):
        live = target.decoder(dataclasses.replace(DRAFTS[name], k=k)).generate(PROMPTS, GREEDY)
        texts = written.read(target, {name: DRAFTS[name]}, PROMPTS, live, GREEDY)[name]
        row = EXACT_RULES.index(DRAFTS[name].rule)
        assert replay.steps(texts, k).mean[:, row, k - 1].tolist() == [len(one.steps) for one in live]


@pytest.mark.parametrize("name", ["early", "early_lookup"])
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_sampled_step_counts_are_those_expected_on_the_text_that_the_live_arm_emitted(
    target_of: Callable[..., Any], rule: str, name: str
) -> None:
    target, early = target_of("llama"), dataclasses.replace(DRAFTS[name], rule=rule, k=3)  # type: ignore[arg-type]
    live = target.decoder(early).generate(PROMPTS, WARM)
    texts = written.read(target, {"early": early}, PROMPTS, live, WARM)["early"]
    found, at = replay.steps(texts, 3), (slice(None), EXACT_RULES.index(rule), 2)  # type: ignore[arg-type]
    gap = sum(len(one.steps) for one in live) - found.mean[at].sum()
    assert abs(gap) < 3 * np.sqrt(found.variance[at].sum()) + 1e-6


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
def test_a_text_of_another_model_is_refused_before_its_acceptance_can_lie(
    target_of: Callable[..., Any], sampling: Sampling
) -> None:
    target, other = target_of("llama"), target_of("llama", seed=9)
    texts = other.decoder(None).generate(PROMPTS, sampling)
    with pytest.raises(UserError, match=r"prompt b: .*anew"):
        written.read(target, {"lookup": DRAFTS["lookup"]}, PROMPTS, texts, sampling)


def test_a_draft_that_knows_less_of_the_law_is_read_on_the_targets_vocabulary(target_of: Callable[..., Any]) -> None:
    target = target_of("llama")
    texts = target.decoder(None).generate(PROMPTS, WARM)
    (one,) = written.read(target, {"self8": DRAFTS["self8"]}, PROMPTS[:1], texts[:1], WARM)["self8"]
    assert isinstance(one, Traced)
    assert one.q == pytest.approx(one.p, abs=0.05)


@pytest.fixture
def prompts_file(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    rows = [{"id": str(i), "prompt": f"{c}{c}ab {i} ab {i} {c}"} for i, c in enumerate("bcdef")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def test_the_whole_study_ranks_validates_and_splits_the_gap(
    folder_of: Callable[..., Path], prompts_file: Path, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}
    asked = specq.ask_drafts(
        str(folder_of("llama")),
        ["lookup", "early_exit:2"],
        prompts_file,
        workload={"max_new_tokens": 12, "limit": 3, "memory": False},
    )
    found = specq.study_drafts(asked, most=2, contexts=(60, 20), ceilings=lambda curves: seen.update(curves))
    assert set(seen) == {"lookup", "early_exit2"}
    assert (asked.workload.lengths, found.past_end) == ("natural", 0)
    assert found.tokens == sum(len(one) for one in found.texts["early_exit2"])
    for curve in seen.values():
        assert [one.prefill_tokens for one in curve.depths] == [20, 60]
        assert 20 < curve.depths[0].context < 60 < curve.depths[1].context
        assert all(one.prefill_s for one in curve.depths)
    assert [one.cell for one in found.strata] == validate.chosen(found)
    assert {part.by for part in found.strata[0].parts} >= {"entropy", "position"}
    assert len(found.ranking.forecasts) == 2 * 2 * len(EXACT_RULES)
    folder, gaps = specq.validate_drafts(found, out=tmp_path / "runs", repeats=1)
    assert (folder / "done.json").is_file()
    assert [gap.cell.key for gap in gaps] == [(one.draft, one.k, one.rule) for one in validate.chosen(found)]
    assert {gap.cell.draft for gap in gaps} == {"lookup", "early_exit2"}
    for gap in gaps:
        split = gap.acceptance * gap.draft * gap.verify * gap.rest
        assert split == pytest.approx(gap.speedup.value / gap.cell.speedup)
        # Greedy and in float32, the live run takes the steps that were replayed.
        assert gap.acceptance == pytest.approx(1.0)
    found_again = specq.open_run(folder).report.forecast
    assert [(one.arm, one.factors) for one in found_again.gaps] == [
        (gap.arm, (gap.acceptance, gap.draft, gap.verify, gap.rest)) for gap in gaps
    ]
    whole = specq.open_run(folder).report
    beyond = dataclasses.replace(whole, flags=("the machine drifted: by a half",))
    file = io.StringIO()
    Console(file=file, width=200).print(*draft_views.outcome(found, gaps, beyond, folder), sep="\n")
    assert "Read this first: the machine drifted: by a half" in file.getvalue()
    assert "Plain decoding against itself in that run (A/A): speedup" in file.getvalue()
    assert f"{gaps[0].arm}: audit passed" in file.getvalue()
    told = draft_views.as_json(found, gaps, beyond, folder)["trust"]
    assert (told["flags"], set(told["audits"])) == (list(beyond.flags), {gap.arm for gap in gaps})
    assert set(told["null"]) == {"speedup", "e2e_speedup"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no DRAFT is given"),
        (["lookup", "lookup"], "given twice"),
        (["self:5"], '"self:5" is no draft'),
        (["early_exit:x"], "is no draft"),
        (["lookup:trie"], "is no draft"),
        (["lookup+lookup"], "a lookup goes before another draft"),
        (["self:8+lookup:trie"], '"self:8\\+lookup:trie" is no draft'),
        (["self:8+lookup", "self:8+lookup"], "given twice"),
        ([" "], "is no draft"),
    ],
)
def test_words_that_are_no_draft_are_refused_with_those_that_are(words: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ask("builtin:smollm2-135m", words, Path("p.jsonl"))


def test_each_word_becomes_the_lever_that_an_experiment_would_have() -> None:
    made = ask(
        "m", ["lookup", "lookup:suffix", "early_exit:7", "self:4", "self:8", "org/draft", "other/draft"], Path("p")
    )
    assert list(made.levers) == [
        "lookup",
        "lookup_suffix",
        "early_exit7",
        "self4",
        "self8",
        "draft",
        "draft_",
    ]
    assert (made.levers["self4"].bits, made.levers["self4"].group_size, made.levers["early_exit7"].layers) == (4, 32, 7)
    assert made.levers["lookup_suffix"].match == "suffix"
    after = ask("m", ["org/draft+lookup", "early_exit:7+lookup:suffix", "self:4+lookup", "self:4"], Path("p")).levers
    assert list(after) == ["draft_lookup", "early_exit7_lookup_suffix", "self4_lookup", "self4"]
    assert [(one.lookup_first, one.match, one.min_ngram) for one in after.values()] == [
        *((True, "ngram", 3), (True, "suffix", 3), (True, "ngram", 3), (None, None, None))
    ]
    stops = ask("m", ["d", "d+stop:0.4", "d+stop:0.25", "early_exit:7+lookup+stop:.5"], Path("p")).levers
    assert {name: one.stop_below for name, one in stops.items()} == {
        **{"d": None, "d_stop0-4": 0.4, "d_stop0-25": 0.25, "early_exit7_lookup_stop-5": 0.5}
    }
    assert (stops["d_stop0-4"].model, stops["early_exit7_lookup_stop-5"].lookup_first) == ("d", True)
    assert (after["draft_lookup"].model, after["self4_lookup"].bits) == ("org/draft", 4)


def test_values_out_of_range_are_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="max_new_tokens"):
        ask("m", ["lookup"], Path("p"), workload={"max_new_tokens": 0})


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (
            {"contexts": (20, 500)},
            r"contexts = 500: the context of .* is 192 tokens, .*the longest prompt has 13 tokens",
        ),
        ({"contexts": (0,)}, "contexts = 0: allowed are whole numbers"),
        ({"most": 0}, "most = 0: a draft proposes at least 1 token and at most 32"),
        ({"most": 33}, "most = 33"),
    ],
)
def test_what_a_study_cannot_measure_is_refused_before_weights_load(
    folder_of: Callable[..., Path], prompts_file: Path, how: dict[str, Any], says: str
) -> None:
    asked = specq.ask_drafts(str(folder_of("llama")), ["lookup"], prompts_file, workload={"limit": 3})
    with pytest.raises(ConfigError, match=says):
        specq.study_drafts(asked, say=lambda words: pytest.fail(words), **how)


def test_texts_written_greedily_are_not_all_equally_sure(target_of: Callable[..., Any]) -> None:
    target = target_of("llama")
    texts = target.decoder(None).generate(PROMPTS, GREEDY)
    laws = written.laws(target, PROMPTS, texts, GREEDY)
    assert all(law.entropy.mean() > 0 for law in laws)
    # Only how sure the target is differs from its law at temperature 0, not which tokens are its own.
    assert laws[0].gap.tolist() == target.law(PROMPTS[0], texts[0].ids, GREEDY).gap.tolist()
