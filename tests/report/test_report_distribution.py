"""Distances of a changed target by document and by context: known answers, and intervals that know documents."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from quantized_runs import Change, divergence, each, quantized_run
from report_runs import PROMPTS

from specq import report
from specq.core import lines
from specq.core.errors import RunFolderError
from specq.core.records import Divergence, Record, to_json
from specq.report.layout import sections
from specq.report.markdown import render
from specq.report.section import Section

NAMES = (
    *("kl_mean", "kl_median", "kl_p99", "kl_worst", "argmax_agreement"),
    *("reference_probability_change", "perplexity_ratio"),
)


def built(folder: Path, change: Change = list) -> report.Report:
    return report.build(quantized_run(folder, change))


def table(found: report.Report, title: str) -> Section | None:
    return next((section for section in sections(found) if section.title == title), None)


def known(prompts: Sequence[str], lengths: Sequence[int], start: int = 50, seed: int = 0) -> dict[str, Divergence]:
    """Answers whose documents differ: some are moved much, others hardly."""
    rng = np.random.default_rng(seed)
    made = {}
    for prompt, n in zip(prompts, lengths, strict=True):
        moved = rng.gamma(1.0, 0.2)
        base = np.log(rng.uniform(0.3, 0.99, n))
        kl = np.round(moved * rng.gamma(1.0, 1.0, n), 4)
        agree = rng.random(n) > moved
        made[prompt] = Divergence(
            arm="w4#1",
            prompt=prompt,
            positions=n,
            kl_sum=float(kl.sum()),
            kl_worst=float(kl.max()),
            agreed=int(agree.sum()),
            prompt_tokens=start,
            kl=tuple(kl.tolist()),
            base_logprobs=tuple(base.tolist()),
            logprobs=tuple((base - moved + rng.normal(0, 0.01, n)).tolist()),
            differ=tuple(np.flatnonzero(~agree).tolist()),
        )
    return made


def of_w4(made: dict[str, Divergence]) -> Change:
    return each(Divergence, lambda r: made[r.prompt], "w4#1")


def expected(made: Sequence[Divergence], first: int = 0, end: float = math.inf) -> dict[str, float]:
    kl, base, own, agree = [], [], [], []
    for r in made:
        assert r.prompt_tokens is not None
        for t in range(r.positions):
            if first <= r.prompt_tokens + t < end:
                kl.append((r.kl or ())[t])
                base.append((r.base_logprobs or ())[t])
                own.append((r.logprobs or ())[t])
                agree.append(t not in (r.differ or ()))
    return {
        "kl_mean": float(np.mean(kl)),
        "kl_median": float(np.median(kl)),
        "kl_p99": float(np.percentile(kl, 99)),
        "kl_worst": max(kl),
        "argmax_agreement": float(np.mean(agree)),
        "reference_probability_change": float(np.mean(np.exp(own)) - np.mean(np.exp(base))),
        "perplexity_ratio": float(np.exp(-np.mean(own)) / np.exp(-np.mean(base))),
    }


def test_a_measure_or_a_bucket_differs_from_numpy(tmp_path: Path) -> None:
    lengths = (600, 90, 2100, 300, 450, 128)
    made = known(PROMPTS, lengths)
    measures = built(tmp_path / "run", of_w4(made)).arm("w4#1").measures
    edges = {"": (0, math.inf), ".below_128": (0, 128), ".from_128": (128, 512), ".from_512": (512, 2048)}
    for suffix, (first, end) in {**edges, ".from_2048": (2048, math.inf)}.items():
        wanted = expected(list(made.values()), first, end)
        for name in NAMES:
            assert measures[f"{name}{suffix}"].value == pytest.approx(wanted[name], rel=1e-9), name + suffix
    # 50 tokens of prompt: the first 78 of each answer, and of the answer of 2100 the 102 from the 1998th on.
    assert measures["kl_worst.below_128"].n == 6 * 78
    assert (measures["kl_worst.from_2048"].n, measures["kl_mean.from_2048"].n) == (102, 1)
    assert measures["kl_mean.from_128"].n == 6
    assert "one cluster" in measures["perplexity_ratio.from_2048"].note
    for name in ("kl_mean", "argmax_agreement", "reference_probability_change", "perplexity_ratio"):
        one = measures[name]
        assert one.n == 6
        assert (one.low or -9) < (one.value or 0) < (one.high or -9)


def test_positions_of_a_document_pass_for_evidence_of_their_own(tmp_path: Path) -> None:
    made = known(PROMPTS, (100,) * 6)
    measures = built(tmp_path / "run", of_w4(made)).arm("w4#1").measures
    base, own = (np.array([getattr(r, name) for r in made.values()]).ravel() for name in ("base_logprobs", "logprobs"))
    for name, values in (
        ("perplexity_ratio", base - own),
        ("reference_probability_change", np.exp(own) - np.exp(base)),
    ):
        over_tokens = 2 * 1.96 * values.std(ddof=1) / math.sqrt(values.size)
        low, high = measures[name].low, measures[name].high
        assert low is not None
        assert high is not None
        width = math.log(high / low) if name == "perplexity_ratio" else high - low
        assert width > 3 * over_tokens, name


def test_a_tail_that_was_not_seen_is_printed(tmp_path: Path) -> None:
    measures = built(tmp_path / "run").arm("w4#1").measures
    assert measures["kl_p99"].value is None
    assert "too few: p99 needs 100" in measures["kl_p99"].note
    assert measures["kl_worst"].n == 75
    assert measures["kl_median"].value == pytest.approx(1 / 12)
    hundred = built(tmp_path / "more", of_w4(known(PROMPTS, (20, 20, 20, 20, 10, 10))))
    assert hundred.arm("w4#1").measures["kl_p99"].value is not None


def test_a_bucket_without_a_position_is_shown_or_one_alone_gets_a_table(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    by_context = table(found, "Changed outputs by context")
    assert by_context is not None
    # q8 has sums alone, and lookup + w4 the rows of w4.
    assert [row[:2] for row in by_context.rows] == [("w4", "below 128"), ("w4", "128 to 511")]
    counts = [tuple(map(int, row[-2:])) for row in by_context.rows]
    # The first two prompts' answers begin before 128: 10 positions, and 8 of 11.
    assert counts == [(18, 2), (57, 5)]
    assert not any("512" in name or "2048" in name for name in found.arm("w4#1").measures)
    short = built(tmp_path / "short", of_w4(known(PROMPTS, (20,) * 6)))
    assert table(short, "Changed outputs by context") is None
    assert "perplexity_ratio.below_128" in short.arm("w4#1").measures


def test_the_text_s_own_token_is_not_in_the_table(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    measures = found.arm("w4#1").measures
    positions = [10 + i for i in range(6)]
    change = -sum(n * (0.1 + i / 100) for i, n in enumerate(positions)) / 75
    ratio = math.exp(sum(n * math.log(0.9 / (0.8 - i / 100)) for i, n in enumerate(positions)) / 75)
    assert measures["reference_probability_change"].value == pytest.approx(change)
    assert measures["perplexity_ratio"].value == pytest.approx(ratio)
    changed = table(found, "Changed outputs")
    assert changed is not None
    rows = {row[0]: dict(zip(enumerate(changed.columns), row, strict=True)) for row in changed.rows}
    at = {name: place for place, name in reversed(list(enumerate(changed.columns)))}
    w4, q8 = rows["w4"], rows["q8"]
    of_text = "text's token, points"
    assert w4[at[of_text], of_text] == f"{100 * change:+.1f}"
    assert w4[at["perplexity ratio"], "perplexity ratio"] == f"{ratio:.3f}"
    low, high = (
        100 * (end or 0)
        for end in (measures["reference_probability_change"].low, measures["reference_probability_change"].high)
    )
    assert f"{low:+.1f} to {high:+.1f}" in w4.values()
    # An arm whose records are older has dashes, and what sums tell.
    assert q8[at["perplexity ratio"], "perplexity ratio"] == q8[at["KL median"], "KL median"] == "-"
    assert q8[at["KL mean"], "KL mean"] != "-"
    assert rows["lookup + w4"][at["perplexity ratio"], "perplexity ratio"] == f"{ratio:.3f}"
    assert any("A ratio below 1 is possible" in line for line in changed.lines)
    assert "perplexity ratio" in render(found)


def sums_alone(record: Divergence) -> Record:
    return replace(record, prompt_tokens=None, kl=None, base_logprobs=None, logprobs=None, differ=None)


def test_a_run_of_an_older_version_is_not_read(tmp_path: Path) -> None:
    folder = quantized_run(tmp_path / "old", each(Divergence, sums_alone))
    written = (folder / "records.jsonl").read_text().splitlines()
    fields = ("prompt_tokens", "kl", "base_logprobs", "logprobs", "differ")
    kept = []
    for line in map(json.loads, written):
        kept.append({name: item for name, item in line.items() if line["kind"] != "Divergence" or name not in fields})
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    old, new = report.build(folder), built(tmp_path / "new")
    for name in ("kl_mean", "kl_worst", "argmax_agreement"):
        assert old.arm("w4#1").measures[name] == new.arm("w4#1").measures[name]
    assert "perplexity_ratio" not in old.arm("w4#1").measures
    changed = table(old, "Changed outputs")
    assert changed is not None
    assert "perplexity ratio" not in changed.columns
    assert table(old, "Changed outputs by context") is None


def test_prompts_without_positions_are_left_out_in_silence(tmp_path: Path) -> None:
    made = {prompt: divergence("w4#1", prompt, i) for i, prompt in enumerate(PROMPTS)}
    mixed = {prompt: sums_alone(r) if i < 2 else r for i, (prompt, r) in enumerate(made.items())}
    measures = built(tmp_path / "run", each(Divergence, lambda r: mixed[r.prompt], "w4#1")).arm("w4#1").measures
    assert (measures["kl_mean"].n, measures["perplexity_ratio"].n) == (6, 4)
    assert "4 of 6 prompts: the others were kept as sums" in measures["perplexity_ratio"].note


def test_an_arm_that_gives_the_text_no_probability_breaks_the_report(tmp_path: Path) -> None:
    lost = {prompt: replace(r, logprobs=(-2000.0,) * r.positions) for prompt, r in known(PROMPTS, (20,) * 6).items()}
    measure = built(tmp_path / "run", of_w4(lost)).arm("w4#1").measures["perplexity_ratio"]
    assert measure.value is None
    assert "all but no probability" in measure.note


def test_positions_that_were_cut_or_altered_are_computed_with() -> None:
    whole = divergence("w4#1", "e1", 2)
    line = to_json(whole)
    assert lines.from_json(json.loads(json.dumps(line))) == whole
    for damage in (
        {"kl": line["kl"][:-1]},
        {"logprobs": None},
        {"prompt_tokens": None},
        {"differ": ()},
        {"base_logprobs": (*line["base_logprobs"], -1.0)},
    ):
        with pytest.raises(RunFolderError, match=r"Divergence of w4#1 on e1 .* allowed are 12 of each"):
            lines.from_json({**line, **damage})
