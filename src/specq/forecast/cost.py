"""Cost curves: the seconds of a step by what it proposes, measured in the loop itself, and what follows from them.

A curve is measured before anything is forecast: short texts are decoded with each k of a small grid, plain decoding in
turn with it, so that both sides of every ratio come from the same minutes. From the curve alone follow the ceiling
with a perfect draft, (k + 1) T(1) / step(k), and the tokens per step at which drafting breaks even, step(k) / T(1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from specq.core.clock import now
from specq.core.types import DraftSpec, Prompt, Sampling, Step
from specq.engines.base import Decoder, LoadedTarget

SECONDS = 5.0
"""At most so long a draft, but one round at least; loading and warming up are not in it."""
_STEPS = 5
_ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Seconds of a step with `proposed` proposals: medians of its parts over `n` steps.

    `rest_s` holds sampling, verifying, rolling back and bookkeeping. `spread` is the median distance of whole steps
    from their median, as a share of it.
    """

    proposed: int
    draft_s: float
    verify_s: float
    rest_s: float
    n: int
    spread: float

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.draft_s + self.verify_s + self.rest_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A draft's steps by what they propose, and the plain steps (no draft) that took turns with them.

    `points` rise in `proposed`, from 0 where a step without proposals was seen (a lookup without a match).
    `context` is the tokens before a step, in the middle of what was measured; `measured_s` what measuring took.
    """

    plain: Point
    points: tuple[Point, ...]
    context: int
    measured_s: float

    def parts(self, most: int) -> dict[str, np.ndarray]:
        """Seconds of "draft", "verify" and "rest" for 0 .. most proposals, [most + 1] each.

        Between measured points on a line, beyond the last one on the line of the last two. A step that proposes
        nothing costs a plain step where none was seen.
        """
        points = list(self.points)
        if points[0].proposed:
            points.insert(0, replace(self.plain, draft_s=0.0))
        at, wanted = np.array([point.proposed for point in points], dtype=float), np.arange(most + 1.0)
        found = {}
        for name in ("draft", "verify", "rest"):
            seconds = np.array([getattr(point, f"{name}_s") for point in points])
            line = np.interp(wanted, at, seconds)
            if len(at) > 1:
                slope = (seconds[-1] - seconds[-2]) / (at[-1] - at[-2])
                line = np.where(wanted > at[-1], seconds[-1] + slope * (wanted - at[-1]), line)
            found[name] = line
        return found

    def step_s(self, most: int) -> np.ndarray:
        """Seconds of a step with 0 .. most proposals, [most + 1]."""
        whole: np.ndarray = sum(self.parts(most).values(), np.zeros(most + 1))
        return whole

    def ceiling(self, k: int) -> float:
        """The speed-up of a draft of k tokens that is always right: (k + 1) T(1) / step(k)."""
        return (k + 1) * self.plain.step_s / float(self.step_s(k)[k])

    def break_even(self, k: int) -> float:
        """The tokens per step at which a draft of k tokens is as fast as none: step(k) / T(1)."""
        return float(self.step_s(k)[k]) / self.plain.step_s

    def why_hopeless(self, most: int) -> str:
        """Why even a perfect draft loses at every k up to `most`; "" where it can win."""
        if any(self.ceiling(k) > 1 for k in range(1, most + 1)):
            return ""
        k = max(range(1, most + 1), key=self.ceiling)
        parts, plain = self.parts(k), self.plain.step_s
        draft, verify = float(parts["draft"][k]), float(parts["verify"][k])
        said = f"even if every token were right, {k} of them a step reach {self.ceiling(k):.2f} times plain decoding"
        if draft / k >= plain:
            return f"{said}: a drafted token takes {draft / k / plain:.2f} of a plain step"
        if verify >= (k + 1) * plain:
            return f"{said}: verifying {k + 1} tokens takes {verify / plain:.2f} plain steps"
        return f"{said}: drafting takes {draft / plain:.2f} and verifying {verify / plain:.2f} plain steps"


def grid(most: int) -> tuple[int, ...]:
    """The k that are measured for a forecast up to `most`: powers of two, and `most`; between them lies a line."""
    return tuple(sorted({1 << power for power in range(most.bit_length())} | {most}))


def measure(
    target: LoadedTarget,
    drafts: Mapping[str, DraftSpec],
    prompts: Sequence[Prompt],
    sampling: Sampling,
    *,
    grid: Sequence[int],
    seconds: float = SECONDS,
) -> dict[str, Curve]:
    """The curve of each draft, at the context lengths of some prompts; stops are ignored.

    Every round decodes short texts with each k of the grid and plain ones between them, and takes the next prompt; as
    many rounds are made as fit `seconds` a draft. A lookup reads prompts that say everything twice, at their length,
    so that it has something to propose.
    """
    twice = [replace(prompt, ids=(prompt.ids[(len(prompt.ids) + 1) // 2 :] or prompt.ids) * 2) for prompt in prompts]
    return {
        name: _curve(target, draft, twice if draft.method == "lookup" else prompts, sampling, grid, seconds)
        for name, draft in drafts.items()
    }


def _curve(
    target: LoadedTarget,
    draft: DraftSpec,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    grid: Sequence[int],
    seconds: float,
) -> Curve:
    plain = target.decoder(None)
    decoders = {k: target.decoder(replace(draft, k=k)) for k in grid}
    plain_steps: list[Step] = []
    steps: list[Step] = []
    # Loading and the first passes of each shape belong to no curve.
    for k, decoder in decoders.items():
        _steps(decoder, prompts[0], sampling, k)
    begun, rounds, used = now(), 0, 0.0
    # Whole rounds, as many as fit: a round that is cut would measure the small k more often than the large ones.
    while rounds == 0 or (rounds < _ROUNDS and used * (rounds + 1) / rounds < seconds):
        prompt = prompts[rounds % len(prompts)]
        order = list(decoders) if rounds % 2 == 0 else list(decoders)[::-1]
        for place, k in enumerate(order):
            if place % 2 == 0:
                # Every other turn is plain, since the machine's speed moves within seconds.
                plain_steps += _steps(plain, prompt, sampling, 0)
            steps += _steps(decoders[k], prompt, sampling, k)
        rounds, used = rounds + 1, now() - begun
    by_size: dict[int, list[Step]] = {}
    for step in steps:
        by_size.setdefault(step.proposed, []).append(step)
    points = [_point(size, by_size[size]) for size in sorted(by_size) if size in (0, *grid)]
    contexts = [step.context for step in (*plain_steps, *steps)]
    return Curve(
        plain=_point(0, plain_steps),
        points=tuple(points),
        context=int(np.median(contexts)),
        measured_s=used,
    )


class _Enough(Exception):
    """As many steps were seen as are wanted of a text."""


def _steps(decoder: Decoder, prompt: Prompt, sampling: Sampling, k: int) -> list[Step]:
    """The steps of a short text but its first, which warms up; as many whatever is accepted."""
    seen: list[Step] = []

    def keep(step: Step) -> None:
        seen.append(step)
        if len(seen) > _STEPS:
            raise _Enough

    most = (_STEPS + 1) * (k + 1) + 1
    # Where the request is shorter than this, its prompt is cut by as much: what fits the context fits it still.
    prompt = replace(prompt, ids=prompt.ids[min(max(0, most - sampling.max_new_tokens), len(prompt.ids) - 1) :])
    short = replace(sampling, max_new_tokens=most, ignore_eos=True, stop=(), min_new_tokens=0)
    with suppress(_Enough):
        decoder.generate([prompt], short, on_step=keep)
    return seen[1:]


def _point(proposed: int, steps: Sequence[Step]) -> Point:
    parts = np.array([(step.draft_s, step.verify_s, step.sample_s + step.rest_s) for step in steps])
    whole = parts.sum(axis=1)
    middle = float(np.median(whole))
    draft, verify, rest = np.median(parts, axis=0)
    return Point(
        proposed=proposed,
        draft_s=float(draft),
        verify_s=float(verify),
        rest_s=float(rest),
        n=len(steps),
        spread=float(np.median(np.abs(whole - middle))) / middle,
    )
