"""On which tags of the prompts an arm is faster, even, slower or unclear, in words."""

from __future__ import annotations

from collections.abc import Sequence

from specq.report.measures import Measure
from specq.report.speed import Stratum
from specq.report.words import interval, ratio

# An interval within 1 +- EVEN is even; a wide one that holds 1 is unclear, for equality needs evidence as well.
EVEN = 0.1
SHOWN = 2
STATES = ("faster", "slower", "even", "unclear")


def by_tag(strata: Sequence[Stratum]) -> str:
    """Each tag under the word that its own interval allows; "" below two tags.

    faster: the interval lies above 1; slower: below 1; even: it holds 1 within 0.9 to 1.1;
    unclear: it holds 1 and is wider, or there is none. Of more than two tags of one word two are shown.
    Where all are unclear, no tag is named.
    """
    known = [stratum for stratum in strata if stratum.speedup.value is not None]
    if len(known) < 2:
        return ""
    groups: dict[str, list[Stratum]] = {word: [] for word in STATES}
    for stratum in known:
        groups[state(stratum.speedup)].append(stratum)
    if len(groups["unclear"]) == len(known):
        return "no tag stands out"
    return "by tag " + ", ".join(_group(word, group) for word, group in groups.items() if group)


def state(speedup: Measure) -> str:
    """faster, even, unclear or slower, by the interval alone."""
    low, high = speedup.low, speedup.high
    if low is None or high is None:
        return "unclear"
    if low > 1 or high < 1:
        return "faster" if low > 1 else "slower"
    return "even" if low >= 1 - EVEN and high <= 1 + EVEN else "unclear"


def _group(word: str, group: Sequence[Stratum]) -> str:
    # The strongest first: the fastest of the faster ones, the slowest of the slower ones.
    listed = sorted(group, key=lambda one: one.speedup.value or 0.0, reverse=word != "slower")
    shown = [_shown(one) for one in listed[:SHOWN]]
    if left := len(listed) - SHOWN:
        shown += [f"{left} more"] if left > 0 else []
    return f"{word} on {' and '.join(shown) if len(shown) < 3 else f'{shown[0]}, {shown[1]} and {shown[2]}'}"


def _shown(stratum: Stratum) -> str:
    measure = stratum.speedup
    ends = "" if measure.low is None else f", {interval(measure)}"
    return f"{stratum.tag} ({ratio(measure.value)}{ends}, n = {stratum.n})"
