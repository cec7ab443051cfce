"""Speed-ups: two groups of arms on the same turns of the same prompts.

The baseline of every arm is the baseline and its twin together: the twin doubles what the
comparison rests on, at no cost, since it ran anyway. The twin against the baseline alone is the
A/A comparison, which shows what "no difference" looks like in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specq.core.records import Generated
from specq.report.measures import Measure, from_interval
from specq.report.runfile import RunFile, Turn
from specq.stats.intervals import SpeedUp, log_ratio, speed_ratio

Arm = dict[Turn, Generated]
# Per prompt: the bases' seconds and tokens (or answers), and the arm's.
_PromptSums = tuple[dict[str, float], dict[str, float], dict[str, float], dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One comparison on the turns (process, prompt, repeat) that all its arms have.

    `decode` is of tpot_s, `e2e` of e2e_s; either is None when no prompt allows it. `dropped`
    counts turns that some arm has and another lacks. `by_process` and `e2e_by_process` are the
    pooled ratios of each worker process. `other_tokens` says where both do not speak the same tokens: then a token is
    no common unit, and there is no `decode`. `device` is of the device's seconds for an answer, which is e2e_s where
    nothing ran in batches.
    """

    decode: SpeedUp | None
    e2e: SpeedUp | None
    prompts: int
    turns: int
    dropped: int
    by_process: tuple[tuple[int, float], ...]
    e2e_by_process: tuple[tuple[int, float], ...]
    other_tokens: str = ""
    device: SpeedUp | None = None
    device_by_process: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One tag of the prompts: an arm's speed-up, tokens per step and acceptance on them."""

    tag: str
    n: int
    speedup: Measure
    tokens_per_step: float | None
    draft_acceptance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """What the steps of one generation come to; every tag of its prompt adds it up."""

    prompt: str
    steps: int
    decoded: int
    proposed: int
    accepted: int

    @classmethod
    def of(cls, g: Generated) -> _Counts:
        return cls(
            prompt=g.prompt,
            steps=len(g.steps),
            decoded=g.new_tokens - 1,
            proposed=sum(step[1] for step in g.steps),
            accepted=sum(step[2] for step in g.steps),
        )


def compare(bases: Sequence[Arm], arm: Arm, *, other_tokens: str = "") -> Compared:
    """Compare an arm with the pooled bases; `other_tokens` as in Compared."""
    turns = _shared(bases, arm)
    groups: dict[int, list[Turn]] = {}
    for turn in turns:
        groups.setdefault(turn[0], []).append(turn)
    e2e, e2e_by_process = _log_ratio(_e2e(bases, arm, turns)), _by_process(_e2e, bases, arm, groups)
    batched = any(g.batch is not None for one in (*bases, arm) for g in one.values())
    return Compared(
        decode=None if other_tokens else _log_ratio(_decode(bases, arm, turns)),
        e2e=e2e,
        prompts=len({turn[1] for turn in turns}),
        turns=len(turns),
        dropped=len(set(arm).union(*bases)) - len(turns),
        by_process=() if other_tokens else _by_process(_decode, bases, arm, groups),
        e2e_by_process=e2e_by_process,
        other_tokens=other_tokens,
        device=_log_ratio(_device(bases, arm, turns)) if batched else e2e,
        device_by_process=_by_process(_device, bases, arm, groups) if batched else e2e_by_process,
    )


def strata(run: RunFile, bases: Sequence[Arm], arm: Arm, *, other_tokens: str = "") -> tuple[Stratum, ...]:
    """One stratum a tag that the run's prompts carry, in the order of run.json; `other_tokens` as in Compared."""
    shared = _shared(bases, arm)
    counted = [_Counts.of(g) for g in arm.values()]
    found = []
    for tag, named in run.tags.items():
        prompts = set(named)
        turns = [turn for turn in shared if turn[1] in prompts]
        own = [counts for counts in counted if counts.prompt in prompts]
        steps, proposed = sum(one.steps for one in own), sum(one.proposed for one in own)
        speedup = None if other_tokens else _log_ratio(_decode(bases, arm, turns))
        found.append(
            Stratum(
                tag=tag,
                n=len({turn[1] for turn in turns}),
                speedup=speed_measure("speedup", speedup, f"on the tag {tag}", other_tokens),
                tokens_per_step=sum(one.decoded for one in own) / steps if steps else None,
                draft_acceptance=sum(one.accepted for one in own) / proposed if proposed else None,
            )
        )
    return tuple(found)


def speed_measure(name: str, found: SpeedUp | None, note: str, other_tokens: str = "") -> Measure:
    """The pooled ratio as a measure of that name; `other_tokens` as in Compared."""
    if found is None:
        why = f"tokens are no common unit: {other_tokens}" if other_tokens else "no turn that both have"
        return Measure(name=name, unit="ratio", value=None, note=f"{why}; {note}")
    return from_interval(name, "ratio", found.pooled, f"{note}; interval: {found.pooled.method} over prompts")


def speed_measures(compared: Compared, baseline: str) -> tuple[Measure, ...]:
    """The speed-ups with their spread over prompts; the note names the baseline."""
    found = [
        speed_measure("speedup", compared.decode, f"of tpot_s against {baseline}", compared.other_tokens),
        speed_measure("e2e_speedup", compared.e2e, f"of e2e_s against {baseline}"),
        speed_measure("throughput_speedup", compared.device, f"of device_s_per_answer against {baseline}"),
    ]
    spread = compared.decode
    if spread is not None:
        n = spread.per_prompt.n
        found.append(from_interval("speedup_per_prompt", "ratio", spread.per_prompt, "geometric mean over prompts"))
        five = {
            "min": spread.minimum,
            "q1": spread.q1,
            "median": spread.median,
            "q3": spread.q3,
            "max": spread.maximum,
        }
        found += [
            Measure(name=f"speedup_per_prompt.{name}", unit="ratio", value=value, n=n) for name, value in five.items()
        ]
        found.append(Measure(name="slower_share", unit="share", value=spread.slower, n=n, note="prompts made slower"))
    found += [
        Measure(name=f"speedup[process {process}]", unit="ratio", value=value, n=compared.prompts)
        for process, value in compared.by_process
    ]
    return tuple(found)


def prefill_measure(bases: Sequence[Arm], arm: Arm, baseline: str) -> Measure:
    """`prefill_speedup`: baseline / arm of ttft_s, pooled; below 1 the first token comes later."""
    found = _log_ratio(_per_answer(bases, arm, _shared(bases, arm), lambda g: g.ttft_s))
    return speed_measure("prefill_speedup", found, f"of ttft_s against {baseline}")


def _shared(bases: Sequence[Arm], arm: Arm) -> list[Turn]:
    """The turns that all of them have, in order."""
    return sorted(set(arm).intersection(*bases))


def _by_process(
    measure: Callable[[Sequence[Arm], Arm, Sequence[Turn]], _PromptSums],
    bases: Sequence[Arm],
    arm: Arm,
    groups: dict[int, list[Turn]],
) -> tuple[tuple[int, float], ...]:
    # The value alone: an interval would cost a bootstrap for each process, and none is shown.
    found = ((process, _on_prompts(measure(bases, arm, turns))) for process, turns in groups.items())
    return tuple((process, speed_ratio(*rows)) for process, rows in found if rows is not None)


def _decode(bases: Sequence[Arm], arm: Arm, turns: Sequence[Turn]) -> _PromptSums:
    def time(g: Generated) -> float:
        return g.e2e_s - g.ttft_s

    waves = _waves(arm)
    return _sums(bases, turns, time, waves) + _sums([arm], turns, time, waves)


def _e2e(bases: Sequence[Arm], arm: Arm, turns: Sequence[Turn]) -> _PromptSums:
    return _per_answer(bases, arm, turns, lambda g: g.e2e_s)


def _device(bases: Sequence[Arm], arm: Arm, turns: Sequence[Turn]) -> _PromptSums:
    return _per_answer(bases, arm, turns, lambda g: g.device_s)


def _per_answer(
    bases: Sequence[Arm], arm: Arm, turns: Sequence[Turn], time: Callable[[Generated], float]
) -> _PromptSums:
    """Of a ratio of seconds an answer."""
    waves = _waves(arm)
    base_time, _ = _sums(bases, turns, time, waves)
    arm_time, _ = _sums([arm], turns, time, waves)
    answers: dict[str, float] = {}
    for turn in turns:
        name = waves.get(turn[1], turn[1])
        answers[name] = answers.get(name, 0.0) + 1
    pooled = {prompt: count * len(bases) for prompt, count in answers.items()}
    return base_time, pooled, arm_time, answers


def _waves(arm: Arm) -> dict[str, str]:
    """For each prompt that was asked in a batch the first of those asked with it: one wave has one time."""
    found: dict[tuple[int, int, float], list[str]] = {}
    for g in arm.values():
        if g.batch_s is not None:
            found.setdefault((g.process, g.repeat, g.batch_s), []).append(g.prompt)
    waves: dict[str, str] = {}
    for prompts in found.values():
        # A wave that a resume asked again is split in two there, and whole in the other turns.
        first = min(waves.get(prompt, prompt) for prompt in prompts)
        waves |= dict.fromkeys(prompts, first)
    return waves


def _sums(
    arms: Sequence[Arm], turns: Sequence[Turn], time: Callable[[Generated], float], waves: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds and decoded tokens of each prompt, or of each wave."""
    seconds: dict[str, float] = {}
    tokens: dict[str, float] = {}
    for arm in arms:
        for turn in turns:
            g = arm[turn]
            name = waves.get(g.prompt, g.prompt)
            seconds[name] = seconds.get(name, 0.0) + time(g)
            tokens[name] = tokens.get(name, 0.0) + max(g.new_tokens - 1, 0)
    return seconds, tokens


def _on_prompts(sums: _PromptSums) -> list[list[float]] | None:
    """The four sums as rows [prompts], on the prompts that have all of them; None where none has."""
    prompts = [p for p in sums[0] if all(of_arm[p] > 0 for of_arm in sums)]
    return [[of_arm[p] for p in prompts] for of_arm in sums] if prompts else None


def _log_ratio(sums: _PromptSums) -> SpeedUp | None:
    rows = _on_prompts(sums)
    return None if rows is None else log_ratio(*rows)
