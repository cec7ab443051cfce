"""What binds here: weights, cache, bandwidth or prefill; which lever touches that, and what freed memory would hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from specq.core.records import Generated
from specq.report.arm import ArmReport
from specq.report.measures import Measure
from specq.report.runfile import RunFile
from specq.report.targets import BOTH, loaded
from specq.report.words import number, share, size

# From this share of a request's time on, prefill is what costs; up to the other decoding is, and neither in between.
PREFILL_BINDS, DECODING_BINDS = 0.6, 0.4
# Below this share of the passes that bandwidth allows, memory is not what decoding waits for.
BANDWIDTH_BINDS = 0.5
Binds = Literal["prefill", "half", "decoding"]


def lines(run: RunFile, arms: Sequence[ArmReport], workload: Mapping[str, Measure]) -> tuple[str, ...]:
    """What costs in the baseline, then what each lever touches of it; empty without a baseline's answers."""
    base = next((arm for arm in arms if arm.id in run.baselines and arm.generations), None)
    target = loaded(run, base.id) if base is not None else None
    prefill = workload.get("prefill_share")
    if base is None or target is None or prefill is None or prefill.value is None:
        return ()
    if target.bytes_per_token <= 0:
        # A server's weights are not known here.
        return ()
    own = list(run.generated[base.id].values())
    tokens = _context(own)
    cache = tokens * target.cache_bytes_per_token
    binds = _binds(prefill.value)
    found = [_costs(prefill.value, base, cache, float(target.bytes_per_token), binds)]
    if binds == "prefill":
        found.append(
            "Prompts are what costs: fewer bits speed decoding up and not prefill, so quantizing is the wrong answer "
            "to slow requests here; shorter prompts, a cached prefix or a faster prefill are the right ones."
        )
    changed = [arm for arm in arms if arm.id not in run.baselines and arm.generations]
    found += [line for arm in changed for line in _touches(run, arm, binds, cache, float(target.bytes_per_token))]
    found += [line for arm in changed if (line := _freed(run, arm, base, target.cache_bytes_per_token, own))]
    return tuple(found)


def _context(own: Sequence[Generated]) -> float:
    """Tokens of context that a pass of decoding reads on average."""
    return sum(g.prompt_tokens + g.new_tokens / 2 for g in own) / len(own)


def _binds(prefill: float) -> Binds:
    if prefill >= PREFILL_BINDS:
        return "prefill"
    return "half" if prefill > DECODING_BINDS else "decoding"


def _costs(prefill: float, base: ArmReport, cache: float, weights: float, binds: Binds) -> str:
    read = (
        f"a pass of decoding reads {size(weights)} of weights and {size(cache)} of cache "
        f"({share(cache / (cache + weights))} of both)"
    )
    times = f"Prefill takes {share(prefill)} of a request's time, decoding the rest; {read}"
    reached = base.measures.get("ceiling_share")
    if reached is not None and reached.value is not None:
        times += f", at {share(reached.value)} of the passes that the bandwidth allows"
    if binds == "prefill":
        return f"{times}. What binds is the compute of prefill."
    waits = _waits(base, cache, weights)
    if binds == "decoding":
        return f"{times}. What binds {waits}."
    return (
        f"{times}. Neither half binds alone: with decoding at no cost a request would be {1 / prefill:.1f} times as "
        f"fast, with prefill at no cost {1 / (1 - prefill):.1f} times. What binds within decoding {waits}."
    )


def _waits(base: ArmReport, cache: float, weights: float) -> str:
    """What decoding waits for; without a bandwidth nobody knows."""
    reached = base.measures.get("ceiling_share")
    if reached is None or reached.value is None:
        return (
            "is not measured: there is no bandwidth to hold passes of decoding against, so whether they wait for "
            "memory is not known"
        )
    if reached.value < BANDWIDTH_BINDS:
        return (
            "is neither weights nor cache: passes wait for work that is not memory (arithmetic, calls), so fewer bytes "
            "help less than their number says"
        )
    return f"is decode bandwidth, and of it the bytes of the {'cache' if cache > weights else 'weights'}"


def _touches(run: RunFile, arm: ArmReport, binds: Binds, cache: float, weights: float) -> Iterator[str]:
    """What an arm's levers touch, beside what binds."""
    target, said = run.target(arm.id) or {}, []
    before, after = (arm.measures.get(name) for name in ("prompt_tokens_before", "prompt_tokens"))
    if before is not None and after is not None:
        said.append(f"the tokens that prefill reads ({number(before.value)} to {number(after.value)} a prompt)")
    spared = ", and not prefill" if binds != "decoding" and not said else ""
    if run.other_weights(arm.id):
        own = loaded(run, arm.id)
        if own is not None and float(own.bytes_per_token) >= weights:
            # Held in floats, for want of a kernel: a pass reads what it read before.
            yield f"{arm.label} does not lessen the bytes of the weights here ({size(weights)} a pass, as before)."
        else:
            fewer = "" if own is None else f" ({size(weights)} to {size(float(own.bytes_per_token))} a pass)"
            said.append(f"the bytes of the weights{fewer}{spared}")
    if target.get("kv_cache"):
        part = share(cache / (cache + weights))
        said.append(f"the bytes of the cache, {part} of what a pass reads here" + _little(binds, cache, weights))
    if arm.draft:
        said.append(f"how many passes there are{spared}")
    if run.keeps_prefixes(arm.id):
        said.append("the tokens that prefill reads, as far as prompts begin alike, and not decoding")
    if run.batch(arm.id) > 1:
        said.append(f"how many answers share a pass ({run.batch(arm.id)})")
    if said:
        yield f"{arm.label} touches {' and '.join(said)}."


def _little(binds: Binds, cache: float, weights: float) -> str:
    return ": too little to show" if binds == "decoding" and cache < 0.1 * (cache + weights) else ""


def _freed(run: RunFile, arm: ArmReport, base: ArmReport, cache_bytes: int, own: Sequence[Generated]) -> str:
    """What the memory that an arm's weights free would hold, or that they free none; "" for arms that change none."""
    mine, theirs = arm.measures.get("weight_bytes"), base.measures.get("weight_bytes")
    if not run.other_weights(arm.id) or arm.draft or mine is None or theirs is None:
        return ""
    model = loaded(run, arm.id)
    if run.source(arm.id) and model is not None:
        # Another model's cache has a size of its own.
        cache_bytes = model.cache_bytes_per_token
    freed = (theirs.value or 0.0) - (mine.value or 0.0)
    if freed <= 0:
        why = ': packed weights and a dense copy; prefill = "packed" frees memory' if mine.note == BOTH else ""
        more = f"{size(-freed)} more than" if freed < 0 else "as much as"
        return f"{arm.label} frees no memory: it holds {more} the baseline{why}."
    if cache_bytes <= 0:
        return f"{arm.label} frees {size(freed)}."
    tokens = freed / cache_bytes
    longest = max(g.prompt_tokens + g.new_tokens for g in own)
    return (
        f"{arm.label} frees {size(freed)}: {number(tokens)} more tokens of context, or {number(tokens // longest)} "
        f"more requests of {longest} tokens at once."
    )
