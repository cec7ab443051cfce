"""Measuring cost curves: short texts are decoded with each k of a small grid, between plain ones.

A machine's speed moves within seconds, so a step counts in plain steps of the texts right before and after it. Where
the context is asked for, texts are read after so many tokens of the given prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from specq.core.clock import now
from specq.core.types import DraftSpec, Prompt, Sampling, Step
from specq.engines.base import Decoder, LoadedTarget
from specq.forecast import rising
from specq.forecast.cost import Curve, Point, relative_error
from specq.forecast.places import laid, room, steps_of
from specq.forecast.pooled import factor, in_plain_steps, point, points, scaled, times
from specq.quantize.audited import NO_KERNEL

SECONDS = 5.0
"""Rounds are made for so long a draft, whole ones and one at least; loading and warming up are not in it."""
SHARED = 4
"""How many times as long the target's passes are measured, which all drafts' curves stand on."""
_ROUNDS = 8
_NEVER = 1e-30


@dataclass(slots=True, kw_only=True)
class _Depth:
    """What is measured at one context: its prompts by round, their tokens, its k, and the steps that were seen.

    `drafted` has the steps of a text with a draft, with the seconds of a plain step around it. `limit` is the models'
    context, None where it is not stated.
    """

    prompts: Sequence[Prompt]
    tokens: int
    ks: tuple[int, ...]
    limit: int | None
    plain: list[list[Step]] = field(default_factory=list)
    drafted: list[tuple[list[Step], float]] = field(default_factory=list)


def measure(
    target: LoadedTarget,
    drafts: Mapping[str, DraftSpec],
    prompts: Sequence[Prompt],
    sampling: Sampling,
    *,
    grid: Sequence[int],
    contexts: Sequence[int] = (),
    limit: int | None = None,
    middle: int | None = None,
    seconds: float = SECONDS,
    prober: DraftSpec | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Curve]:
    """The curve of each draft; stops are ignored.

    Every round decodes short texts with each k of the grid and plain ones around each, and takes the next prompt; as
    many rounds are made as fit `seconds` a draft. A step's seconds are those of the median plain step times its share
    of the plain steps before and after its text. Where a pass over more tokens took less than one over fewer, rounds go
    on for as long again, one at least; points that still fall count as that much less certain. A lookup reads prompts
    that say everything twice, at their length, so that it has something to propose. A draft with a lookup before it is
    measured as the two that it is, each half as long. A draft that stops below a confidence looks at it here too, and
    goes on.

    Args:
        target: with its weights.
        drafts: by name.
        prompts: which are read as they are, by round, or laid end to end where contexts are asked for.
        sampling: of the workload.
        grid: the k that are measured; at all contexts but the first its two ends alone, since each needs a prefill.
        contexts: tokens of a prompt, rising; none: the prompts as they are.
        limit: the shortest context of the models, which a prompt with the tokens of its steps is cut to fit; None: it
            is not stated.
        middle: the context that a curve tells first, where there are several; None: halfway.
        seconds: rounds are made for so long a draft, whole ones and one at least.
        prober: a light draft that always proposes k tokens, with which the target's passes are measured once for all
            drafts, for SHARED times as long; None: each draft has its own.
        say: told which draft is measured, and when it is done.
    """
    say = say or (lambda _: None)
    passes: list[dict[int, Point]] | None = None
    prefills: dict[int, list[float]] = {}
    if prober is not None:
        at = _depths(prober, prompts, limit, grid, contexts)
        with _telling(say, "the target's passes, for all drafts") as tell:
            passes = in_plain_steps(_curve(target, prober, at, sampling, SHARED * seconds, prefills, tell))
    found = {}
    for place, (name, draft) in enumerate(drafts.items(), start=1):
        for part, one, share in _parts(draft, seconds):
            depths = _depths(one, prompts, limit, grid, contexts)
            copied = ", copied" if part == "copies" else ""
            with _telling(say, f"draft {place} of {len(drafts)}, {name}{copied}") as tell:
                found[name, part] = _curve(target, one, depths, sampling, share, prefills, tell, passes)
    # The target reads a prompt as fast whichever draft is measured, so that each context has one number for all.
    taken = {tokens: float(np.median(some)) for tokens, some in prefills.items()}
    told = {key: _told(curve, taken, middle) for key, curve in found.items()}
    return {name: replace(told[name, "own"], copies=told.get((name, "copies"))) for name in drafts}


@contextmanager
def _telling(say: Callable[[str], None], what: str) -> Iterator[Callable[[str], None]]:
    """What begins to be measured, and at its end how long that took; what is yielded tells of it meanwhile."""
    begun = now()
    say(f"cost curves: {what}")
    yield lambda words: say(f"cost curves: {what}: {words}")
    say(f"cost curves: {what}: done in {now() - begun:.1f} s")


def _parts(draft: DraftSpec, seconds: float) -> list[tuple[str, DraftSpec, float]]:
    """What is measured of a draft, and how long each; one that stops by its confidence looks at it, and never stops."""
    if draft.stop_below is not None:
        draft = replace(draft, stop_below=_NEVER)
    if not draft.lookup_first:
        return [("own", draft, seconds)]
    return [("own", draft.alone, seconds / 2), ("copies", draft.lookup, seconds / 2)]


def _told(curve: Curve, prefills: Mapping[int, float], middle: int | None) -> Curve:
    depths = tuple(
        rising.widened(replace(depth, prefill_s=prefills.get(depth.prefill_tokens))) for depth in curve.depths
    )
    first, last = depths[0], depths[-1]
    whole = replace(first, depths=depths)
    if len(depths) == 1:
        return whole
    wanted = (first.context + last.context) // 2 if middle is None else middle
    return replace(whole.at(min(max(wanted, first.context), last.context)), prefill_tokens=0, prefill_s=None)


def _depths(
    draft: DraftSpec, prompts: Sequence[Prompt], limit: int | None, grid: Sequence[int], contexts: Sequence[int]
) -> list[_Depth]:
    if not contexts:
        tokens = int(np.median([len(prompt.ids) for prompt in prompts]))
        read = _read_by(draft, prompts)
        return [_Depth(prompts=read, tokens=tokens, ks=tuple(grid), limit=limit)]
    ends = tuple(dict.fromkeys((min(grid), max(grid))))
    return [
        _Depth(
            prompts=_read_by(draft, [laid(prompts, tokens, turn) for turn in range(_ROUNDS)]),
            tokens=tokens,
            ks=ends if place else tuple(grid),
            limit=limit,
        )
        for place, tokens in enumerate(contexts)
    ]


def _curve(
    target: LoadedTarget,
    draft: DraftSpec,
    depths: Sequence[_Depth],
    sampling: Sampling,
    seconds: float,
    prefills: dict[int, list[float]],
    tell: Callable[[str], None],
    passes: Sequence[Mapping[int, Point]] | None = None,
) -> Curve:
    passes = [{}] * len(depths) if passes is None else passes
    plain = target.decoder(None)
    decoders = {k: target.decoder(replace(draft, k=k)) for k in depths[0].ks}
    # Loading and the first passes of each shape belong to no curve.
    for k, decoder in decoders.items():
        _steps(decoder, depths[0].prompts[0], sampling, k, depths[0].limit)
    begun, rounds, used = now(), 0, 0.0
    most, again = _ROUNDS, False
    # Whole rounds, as many as fit: a round that is cut would measure the small k more often than the large ones.
    while True:
        if rounds and (rounds >= most or used * (rounds + 1) / rounds >= seconds):
            found = [_measured(depth, used) for depth in depths]
            # The target's passes that were measured once for all drafts are as they are.
            if again or any(passes) or not any(rising.of_points(one.plain, one.points) for one in found):
                break
            most, seconds, again = 2 * most, 2 * seconds, True
            tell("a pass over more tokens took less than one over fewer, so it is measured for as long again")
        for depth in depths[:: 1 if rounds % 2 == 0 else -1]:
            prompt = depth.prompts[rounds % len(depth.prompts)]
            before = _plainly(plain, prompt, sampling, depth, prefills)
            for k in depth.ks[:: 1 if rounds % 2 == 0 else -1]:
                taken = _steps(decoders[k], prompt, sampling, k, depth.limit)[0]
                after = _plainly(plain, prompt, sampling, depth, prefills)
                depth.drafted.append((taken, (before + after) / 2))
                before = after
        rounds, used = rounds + 1, now() - begun
    pairs = list(zip(depths, passes, strict=True))
    slower = (
        factor((*text, known) for depth, known in pairs for text in depth.drafted) if draft.method == "model" else 1.0
    )
    why = _without_kernel(decoders.values())
    each = tuple(replace(_measured(depth, used, known, slower), no_kernel=why) for depth, known in pairs)
    return replace(each[0], depths=each)


def _without_kernel(decoders: Iterable[Decoder]) -> str:
    """Why layers of a draft's own model have no packed kernel here, "" where all have theirs."""
    notes = [note for decoder in decoders for note in decoder.notes]
    return "; ".join(dict.fromkeys(note.partition(NO_KERNEL)[2] for note in notes if NO_KERNEL in note))


def _plainly(
    plain: Decoder, prompt: Prompt, sampling: Sampling, depth: _Depth, prefills: dict[int, list[float]]
) -> float:
    """Decode a short plain text, keep its steps, and say what its median step took."""
    taken, prefill_s = _steps(plain, prompt, sampling, 0, depth.limit)
    depth.plain.append(taken)
    prefills.setdefault(depth.tokens, []).append(prefill_s)
    return point(0, [taken]).step_s


def _measured(
    depth: _Depth, used: float, passes: Mapping[int, Point] = MappingProxyType({}), slower: float = 1.0
) -> Curve:
    """The curve at one depth; `passes` has the target's pass by proposals, in plain steps, `slower` by so much."""
    plain = point(0, depth.plain)
    return Curve(
        plain=plain,
        points=points(
            scaled(depth.drafted, plain.step_s),
            {size: times(one, plain.step_s) for size, one in passes.items()},
            depth.ks,
            slower=slower,
        ),
        # Of plain steps, which lie as far after the prompt at each depth, so that depths keep their order.
        context=int(np.median([step.context for text in depth.plain for step in text])),
        measured_s=used,
        prefill_tokens=depth.tokens,
        passes_error=relative_error(passes.values()),
    )


def _read_by(draft: DraftSpec, prompts: Sequence[Prompt]) -> list[Prompt]:
    if draft.method != "lookup":
        return list(prompts)
    return [replace(prompt, ids=(prompt.ids[len(prompt.ids) // 2 :] * 2)[-len(prompt.ids) :]) for prompt in prompts]


class _Enough(Exception):
    """As many steps were seen as are wanted of a text."""


def _steps(decoder: Decoder, prompt: Prompt, sampling: Sampling, k: int, limit: int | None) -> tuple[list[Step], float]:
    """The steps of a short text but its first, which warms up, as many whatever is accepted; and the prefill's seconds.

    Those are 0 for a text with a draft: it is not decoded to its end, and its draft may read the prompt as well.
    """
    seen: list[Step] = []

    def keep(step: Step) -> None:
        seen.append(step)
        if k and len(seen) > steps_of(k):
            raise _Enough

    most = room(k)
    # A prompt is read as it is, however short its answer: only what the models' context does not hold is cut.
    over = 0 if limit is None else max(0, len(prompt.ids) + most - limit)
    prompt = replace(prompt, ids=prompt.ids[min(over, len(prompt.ids) - 1) :])
    short = replace(sampling, max_new_tokens=most, ignore_eos=True, stop=(), min_new_tokens=0)
    prefill_s = 0.0
    with suppress(_Enough):
        # A plain text ends by itself after as many steps.
        (made,) = decoder.generate([prompt], short, on_step=keep)
        prefill_s = made.ttft_s
    return seen[1:], prefill_s
