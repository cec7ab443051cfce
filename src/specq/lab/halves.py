"""The two halves of a request: what reading a token costs, what writing one does, and whether a line tells it all.

Every prompt is read cold and begins as no other does. The model is additive: a request of P prompt tokens and O new
ones takes a + b P + c O seconds. It is fitted over all lengths but one, whose latency is written down before it is
asked. The departure is what a line leaves out: attention grows with the square of the length.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specq.core.clock import utc_stamp
from specq.core.errors import ConfigError, RunFailed, Unsupported
from specq.lab import rows as records
from specq.lab.bench import Bench
from specq.lab.fits import least
from specq.lab.rows import Prediction, Row, Spread, spread

PART = "halves"
FEWEST_LENGTHS, FEWEST_FITTED = 6, 5
SMALL = 0.02
"""A bend below this share of the longest prompt's time is called none, however quiet the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Additive:
    """Seconds of a request: base + prompt_token x P + output_token x O."""

    base_s: float
    prompt_token_s: float
    output_token_s: float
    lengths: int

    def e2e_s(self, prompt_tokens: float, output_tokens: float) -> float:
        """What it expects of a request."""
        return self.base_s + self.prompt_token_s * prompt_tokens + self.output_token_s * output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One length, its rates with their spread. `ratio` is over rows that each have both rates."""

    length: int
    prompt_tokens: float
    prefill_tokens_per_s: Spread
    decode_tokens_per_s: Spread | None
    ratio: Spread | None
    ttft_s: Spread
    e2e_s: Spread
    told_prefill_tokens_per_s: Spread | None
    off_line: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A prediction beside what was measured after it; `error` is measured over predicted, less 1."""

    prediction: Prediction
    e2e_s: Spread
    predicted_s: float
    error: float
    before: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend:
    """How far the time to the first token is from a line in P, at the longest prompt, as a share of that time.

    `share` is the quadratic part of a + b P + d P^2 there; `noise` how far repeats lie apart, the median over lengths
    or at the longest, whichever is more; `within` how large a part the scatter of the lengths about the fit can feign,
    95 times of 100 (fits.least). `bent` where it is more than these and 2 %.
    """

    share: float
    noise: float
    within: float
    prompt_tokens: float

    @property
    def bent(self) -> bool:
        """Whether a line does not tell it."""
        return abs(self.share) > max(SMALL, self.noise, self.within)


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """A cell a length, and what could be fitted; `warm_rows` were to be read cold, and came from a cache in part."""

    cells: tuple[Cell, ...]
    model: Additive | None
    checked: Checked | None
    bend: Bend | None
    warm_rows: int

    def cell(self, prompt_tokens: float) -> Cell:
        """The measured length that is nearest."""
        return min(self.cells, key=lambda one: abs(one.prompt_tokens - prompt_tokens))


def check(lengths: Sequence[int], repeats: int, output_tokens: int) -> None:
    """Refuse what no two halves can be told from.

    Raises:
        ConfigError: fewer than six lengths, one of them below 2, one repeat, or answers of less than 4 tokens.
    """
    if len(set(lengths)) < FEWEST_LENGTHS or min(lengths) < 2:
        raise ConfigError(
            f"lengths {', '.join(map(str, lengths))}: allowed are {FEWEST_LENGTHS} or more different ones of 2 tokens "
            "or more, since a line through fewer bends unseen; type --lengths 64,128,256,512,768,1024"
        )
    if repeats < 2 or output_tokens < 4:
        raise ConfigError(
            f"repeats {repeats}, output tokens {output_tokens}: allowed are 2 or more repeats, or there is no spread, "
            "and 4 or more tokens"
        )


def measure(bench: Bench) -> None:
    """Ask every length, in shuffled order, with answers of two lengths; then predict one more, and ask that.

    Raises Unsupported where every answer ended with its first token, RunFailed where too few lengths were answered.
    """
    settings = bench.settings
    lengths, repeats, output = sorted(set(settings.lengths)), settings.repeats, settings.output_tokens
    unseen = unseen_length(lengths)
    texts = iter(bench.texts(PART, [*(length for length in lengths for _ in range(repeats)), *[unseen] * repeats]))
    # Answers of two lengths tell what an answer's token costs apart from what every request costs.
    cases = [
        (length, repeat, output if repeat % 2 == 0 else max(2, output // 2), next(texts))
        for length in lengths
        for repeat in range(repeats)
    ]
    bench.rng(PART).shuffle(cases)
    bench.say(f"halves: {len(cases)} requests of {len(lengths)} lengths")
    for length, repeat, tokens, text in cases:
        prompt = bench.requester.prompt(f"{PART}-{length}-{repeat}", text)
        bench.ask(prompt, tokens, part=PART, what="length", length=length, repeat=repeat)
    bench.canary()
    own = _fitted(bench.rows)
    model = fit(own)
    if model is None and own and all(row.output_tokens < 2 for row in own):
        raise Unsupported("every answer ended with its first token: there is no time a token; give another --text")
    if model is None:
        raise RunFailed("halves: too many requests failed for a line through five lengths; see records.jsonl")
    prompts = [bench.requester.prompt(f"{PART}-unseen-{repeat}", text) for repeat, text in enumerate(texts)]
    expected = _tokens_at(unseen, own)
    bench.predict(
        Prediction(
            place=bench.place,
            utc=utc_stamp(),
            length=unseen,
            prompt_tokens=expected,
            output_tokens=output,
            e2e_s=model.e2e_s(expected, output),
            base_s=model.base_s,
            prompt_token_s=model.prompt_token_s,
            output_token_s=model.output_token_s,
        )
    )
    bench.say(f"halves: {unseen} is expected to take {model.e2e_s(expected, output):.3f} s, and is asked now")
    for repeat, prompt in enumerate(prompts):
        bench.ask(prompt, output, part=PART, what="unseen", length=unseen, repeat=repeat)
    bench.canary()


def unseen_length(lengths: Sequence[int]) -> int:
    """A length between the two longest, where a bend shows most and a line through the others is no extrapolation."""
    ordered = sorted(set(lengths))
    return (ordered[-2] + ordered[-1]) // 2


def fit(rows: Sequence[Row]) -> Additive | None:
    """The additive model by least squares on relative errors, over the medians of equal requests.

    None below five lengths or two tokens. Where all answers have one length, their cost a token is the rows' median.
    """
    cells: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.length, row.output_tokens), []).append(row)
    lengths = len({length for length, _ in cells})
    if lengths < FEWEST_FITTED:
        return None
    times = np.array([statistics.median(row.e2e_s or 0.0 for row in own) for own in cells.values()])
    prompts = np.array([statistics.median(row.prompt_tokens for row in own) for own in cells.values()])
    outputs = np.array([float(output) for _, output in cells])
    if len(set(outputs)) == 1:
        if (found := spread(row.tpot_s for row in rows)) is None:
            return None
        tpot = found.median
        line = least(np.stack([np.ones_like(times), prompts], 1), times - tpot * outputs, times)
        base, prompt_token = line.coefficients
        return Additive(base_s=base, prompt_token_s=prompt_token, output_token_s=tpot, lengths=lengths)
    plane = least(np.stack([np.ones_like(times), prompts, outputs], 1), times, times)
    base, prompt_token, output_token = plane.coefficients
    return Additive(base_s=base, prompt_token_s=prompt_token, output_token_s=output_token, lengths=lengths)


def bend(cells: Sequence[Cell]) -> Bend | None:
    """How far from a line the time to the first token is; None below five lengths, or where prompts have too few."""
    if len(cells) < FEWEST_FITTED:
        return None
    lengths = np.array([cell.prompt_tokens for cell in cells])
    times = np.array([cell.ttft_s.median for cell in cells])
    unit = lengths.max()
    scaled = lengths / unit
    fitted = least(np.stack([np.ones_like(scaled), scaled, scaled**2], 1), times, times)
    if fitted.within is None:
        return None
    longest = float(times[-1])
    # The longest prompt decides the quadratic part more than any other.
    noise = max(statistics.median(cell.ttft_s.width for cell in cells), cells[-1].ttft_s.width)
    return Bend(
        share=fitted.coefficients[2] / longest,
        noise=noise,
        within=fitted.within[2] / longest,
        prompt_tokens=float(unit),
    )


def found(rows: Sequence[Row], predictions: Sequence[Prediction]) -> Halves | None:
    """The halves from their rows; None where there are none."""
    own = _fitted(rows)
    if not own:
        return None
    model = fit(own)
    cells = tuple(cell for length, some in records.by_length(own).items() if (cell := _cell(length, some, model)))
    return Halves(
        cells=cells,
        model=model,
        checked=_checked(rows, predictions),
        bend=bend(cells),
        warm_rows=sum(bool(row.cached_tokens) for row in own),
    )


def _cell(length: int, rows: Sequence[Row], model: Additive | None) -> Cell | None:
    prefill, ttft, e2e = (
        spread(getattr(row, name) for row in rows) for name in ("prefill_tokens_per_s", "ttft_s", "e2e_s")
    )
    if prefill is None or ttft is None or e2e is None:
        return None
    off = [] if model is None else [_off(row, model) for row in rows]
    return Cell(
        length=length,
        prompt_tokens=statistics.median(row.prompt_tokens for row in rows),
        prefill_tokens_per_s=prefill,
        decode_tokens_per_s=spread(row.decode_tokens_per_s for row in rows),
        ratio=spread(row.ratio for row in rows),
        ttft_s=ttft,
        e2e_s=e2e,
        told_prefill_tokens_per_s=spread(_told(row) for row in rows),
        off_line=statistics.median(off) if off else None,
    )


def _off(row: Row, model: Additive) -> float:
    """How far a request is from the model, as a share of it: above 0 it took longer."""
    return (row.e2e_s or 0.0) / model.e2e_s(row.prompt_tokens, row.output_tokens) - 1


def _told(row: Row) -> float | None:
    seconds = row.told.get("prefill_s")
    return (row.prompt_tokens - (row.cached_tokens or 0)) / seconds if seconds else None


def _checked(rows: Sequence[Row], predictions: Sequence[Prediction]) -> Checked | None:
    unseen = records.of(rows, PART, "unseen")
    if not predictions or not unseen:
        return None
    said = predictions[0]
    measured = spread(row.e2e_s for row in unseen)
    assert measured is not None
    # Of the answer's real length: servers that cannot be told to go on end it where the model does.
    output = statistics.median(row.output_tokens for row in unseen)
    predicted = said.e2e_s + said.output_token_s * (output - said.output_tokens)
    return Checked(
        prediction=said,
        e2e_s=measured,
        predicted_s=predicted,
        error=measured.median / predicted - 1,
        before=said.place <= min(row.place for row in unseen)
        and all(row.place < said.place and row.length != said.length for row in _fitted(rows)),
    )


def _fitted(rows: Sequence[Row]) -> list[Row]:
    """The rows that the model is fitted on."""
    return records.of(rows, PART, "length")


def _tokens_at(length: int, rows: Sequence[Row]) -> float:
    """How many tokens a prompt of some length will have as the engine counts them, from those on both sides of it."""
    counted = {
        one: statistics.median(row.prompt_tokens for row in some) for one, some in records.by_length(rows).items()
    }
    return float(np.interp(length, list(counted), list(counted.values())))
