"""Arms whose prompts are transformed: tokens before and after, the time it took, and what speaks against an arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from specq.core.nouns import counted
from specq.core.records import Generated
from specq.experiment.transformed import before_sha256
from specq.report.measures import Measure, from_interval
from specq.report.runfile import RunFile
from specq.report.words import number
from specq.stats.intervals import t_interval


def says(prompt: Mapping[str, Any], baseline: Any, own: Any) -> bool:
    """Whether a prompt says what the baseline's does: as it is, or before its transform where it has one."""
    if "before_sha256" not in prompt:
        return bool(own == baseline)
    return baseline is not None and prompt["before_sha256"] == before_sha256(baseline)


def faults(run: RunFile, arm: str, own: Collection[Generated]) -> Iterator[str]:
    """What voids the numbers of an arm whose prompts are transformed: a lost field, or time that is not charged."""
    reading = run.reading(arm)
    if not run.steps(arm):
        return
    logs = [(str(one["id"]), one["transform"]) for one in reading["prompts"]]
    logs += [(str(name), one["transform"]) for items in reading["evals"].values() for name, one in items.items()]
    if lost := [name for name, log in logs if log["lost"]]:
        yield f"{counted(len(lost), 'prompt or item')} lost protected fields, first {lost[0]}"
    if free := sorted({g.prompt for g in own if g.transform_s is None or g.transform_s > g.ttft_s}):
        yield f"{counted(len(free), 'prompt')} without the transform's time in ttft_s, first {free[0]}"


def measures(generations: Sequence[Generated]) -> Iterator[Measure]:
    """`prompt_tokens_before`, `prompt_tokens` and `transform_s`, means over prompts; nothing for other arms."""
    rows = [
        (g.prompt, float(g.prompt_tokens_before), float(g.prompt_tokens), g.transform_s)
        for g in generations
        if g.transform_s is not None and g.prompt_tokens_before is not None
    ]
    if not rows:
        return
    wanted = (
        ("prompt_tokens_before", "tokens", "a prompt before its transform"),
        ("prompt_tokens", "tokens", "a prompt as the arm read it"),
        ("transform_s", "s", "of a prompt's transform, charged to ttft_s and e2e_s"),
    )
    for column, (name, unit, note) in enumerate(wanted, start=1):
        by_prompt: dict[str, list[float]] = {}
        for row in rows:
            by_prompt.setdefault(row[0], []).append(float(row[column]))
        means = [sum(values) / len(values) for values in by_prompt.values()]
        yield from_interval(name, unit, t_interval(means), note)


def lines(run: RunFile) -> Iterator[str]:
    """A line for each plain arm with a transform: tokens, time, what went and why, and what was refused."""
    for arm, name in run.labels.items():
        if not (steps := run.steps(arm)) or run.plain(arm) != arm:
            continue
        found = {measure.name: measure.value for measure in measures(list(run.generated[arm].values()))}
        logs = [one["transform"] for one in run.reading(arm)["prompts"]]
        before, after, took = (found.get(key) for key in ("prompt_tokens_before", "prompt_tokens", "transform_s"))
        if before is None or after is None or took is None:
            continue
        yield (
            f"{name} transforms the prompts ({steps}): {number(before)} tokens a prompt become {number(after)}, in "
            f"{number(1000 * took)} ms, which its ttft_s and e2e_s hold; {_dropped(logs)}."
        )


def _dropped(logs: Sequence[Mapping[str, Any]]) -> str:
    gone = Counter[str]()
    for log in logs:
        for one in log["deletions"]:
            gone[str(one["reason"])] += int(one["tokens"])
    refused, fields = sum(len(log["kept"]) for log in logs), sum(int(log["protected"]) for log in logs)
    told = ", ".join(f"{reason} {count:,}" for reason, count in gone.items() if count) or "nothing"
    lost = sum(len(log["lost"]) for log in logs)
    return (
        f"tokens dropped: {told}; {counted(fields, 'protected field')} recognised, {lost or 'none'} of them lost, "
        f"{counted(refused, 'deletion')} refused"
    )


def change(run: RunFile, arm: str) -> str:
    """What a transform does to an arm's prompts in words; "" where it has none."""
    steps = run.steps(arm)
    return f"its prompts are transformed: {steps}" if steps else ""
