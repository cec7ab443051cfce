"""Which lever to pull first, the number behind it and the quality that it puts at risk: a rule over measured numbers.

The half that takes more of a request comes first, for a lever on the other half can win no more than that half. In it
the order is that of what is at risk: what changes no answer comes before what may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Name = Literal[
    "prompt cache",
    "fewer prompt tokens",
    "quantized KV cache",
    "quantized weights",
    "a smaller model",
    "speculative decoding",
]
WORTH = 0.20
"""A cache that saves so much of a whole request goes first, whichever half is larger: it changes no answer."""
SOME = 0.10
CUT = 0.40
"""By how much a prompt is taken to shrink, where fewer tokens are the lever: what is really won is measured."""
BITS, NOMINAL, CACHE_BITS = 6.0, 4.5, 8.5
"""Weights of more bits than the first can be cut to the second, scales with them; a cache of 16 bits to the third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was measured at the user's own length. Shares are of 1; None where it is not known.

    `cacheable` is the share of prompt tokens that a cache holds, `warm_saved` what a wholly cached prompt saves of a
    first token's time, below 0 where it took longer than a cold one. `bits` are those of a weight, `cache_read` the
    share of what a decode step reads that is keys and values. `free_until` is the largest batch whose step takes no
    longer than that of one row, `measured` the largest that was tried.
    """

    ttft_s: float
    decode_s: float
    cacheable: float | None = None
    warm_saved: float | None = None
    bits: float | None = None
    cache_read: float | None = None
    free_until: int | None = None
    measured: int | None = None

    @property
    def ttft_share(self) -> float:
        """The share of a request that its first token takes."""
        whole = self.ttft_s + self.decode_s
        return self.ttft_s / whole if whole else 0.0

    @property
    def cache_saves(self) -> float:
        """The share of a request that a prompt cache saves, where both numbers behind it are known; else 0."""
        if self.cacheable is None or self.warm_saved is None:
            return 0.0
        return self.ttft_share * max(0.0, min(self.cacheable, self.warm_saved))

    @property
    def arithmetic_binds(self) -> bool:
        """Whether a second row already made a step slower: then the machine does not wait for memory."""
        return self.free_until == 1 and (self.measured or 0) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """The first lever: `saves` is the share of a request that it could save at most, `risk` what it may do to answers.

    `why` is the number behind it, in words; `then` is what to do about the risk, or what to look at next.
    """

    name: Name
    saves: float
    why: str
    risk: str
    then: str

    @property
    def speedup(self) -> float:
        """The whole request's speed-up at most."""
        return 1 / (1 - self.saves) if self.saves < 1 else float("inf")


NO_RISK = "none: the same tokens go in, and the same law comes out"
EVAL = "run it beside the baseline on your own evaluation set, with the loss that you would accept as its floor"


def first(known: Known) -> Lever:
    """The first lever to pull."""
    prefill = known.ttft_share
    # A cache whose warm prompts took no less time than cold ones saves nothing, whatever it could hold.
    holds = (known.cacheable or 0.0) >= SOME and known.cache_saves > 0
    if known.cache_saves >= WORTH or (prefill >= 0.5 and holds):
        return Lever(
            name="prompt cache",
            saves=known.cache_saves,
            why=f"{_percent(known.cacheable or 0.0)} of the prompt tokens can come from a cache, and the first token "
            f"is {_percent(prefill)} of a request",
            risk=NO_RISK,
            then="a hit says that a prompt was seen before, and nothing of how good its answer is; put what changes "
            "last, and see what breaks it first with specq lab prefix",
        )
    if prefill >= 0.5:
        return Lever(
            name="fewer prompt tokens",
            saves=CUT * prefill,
            why=f"reading the prompt is {_percent(prefill)} of a request, and its time follows the prompt's length",
            risk="what is cut may be what the answer needed: amounts, dates, exceptions, the middle of a document",
            then=f"the saving is that of {_percent(CUT)} less prompt; {EVAL}",
        )
    return _decode(known, 1 - prefill)


def _decode(known: Known, decode: float) -> Lever:
    """The first lever where writing takes more than reading."""
    half = f"writing the answer is {_percent(decode)} of a request"
    reads = known.cache_read or 0.0
    if known.arithmetic_binds:
        return Lever(
            name="a smaller model",
            saves=0.5 * decode,
            why=f"{half}, and a step of two rows already takes longer than one of one: the machine does not wait for "
            "memory, so that fewer bits and drafts win little",
            risk="a smaller model knows less; its answers are other answers",
            then=f"the saving is that of half the weights; {EVAL}",
        )
    if reads >= 0.5:
        return Lever(
            name="quantized KV cache",
            saves=decode * reads * (1 - CACHE_BITS / 16),
            why=f"{half}, and {_percent(reads)} of what a step reads there are keys and values",
            risk="answers that hang on details far back in a long context may change",
            then=EVAL,
        )
    if known.bits is not None and known.bits > BITS:
        return Lever(
            name="quantized weights",
            saves=decode * (1 - reads) * (1 - NOMINAL / known.bits),
            why=f"{half}, and each step reads weights of {known.bits:.3g} bits",
            risk="answers change, on rare words, numbers and small languages first; how often is not known before it "
            "is measured",
            then=f"{EVAL}; speculative decoding under an exact rule changes no answer's law and is the other way",
        )
    bits = "how many bits a weight has is not known" if known.bits is None else f"weights have {known.bits:.3g} bits"
    return Lever(
        name="speculative decoding",
        saves=decode,
        why=f"{half}, and {bits}",
        risk="none under an exact rule: the text keeps the target's law",
        then="the saving is what a draft that is always right and costs nothing would bring; specq drafts says what "
        "real ones do, and the win shrinks as the batch grows",
    )


def paragraph(known: Known, lever: Lever) -> str:
    """The lever in one paragraph: its name, the number behind it, the most that it can save, and the risk."""
    return (
        f"Pull first: {lever.name}. {lever.why[0].upper()}{lever.why[1:]} ({_ms(known.ttft_s)} to the first token, "
        f"{_ms(known.decode_s)} after it). It can save at most {_percent(lever.saves)} of a request. "
        f"Quality risk accepted with it: {lever.risk}. {lever.then[0].upper()}{lever.then[1:]}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"
