"""Replay: the steps that a draft would need to emit a text that the target wrote, without running it.

The text is given, so how far a step gets is a random variable whose law follows from the two models' probabilities
of the text's own tokens (see `decoding.law`, the slow twin of this file, for the law and where it comes from). The
number of steps is then a recursion over the tokens that are left: with u of them left a step accepts N <= min(k, u - 1)
proposals and emits N + 1, so C(u) = 1 + sum over n of P(N = n) C(u - 1 - n). All rules, all k and all texts go through
it together, aligned at their ends.

A live step does not know where the text will end. It proposes all tokens that the limit of the text leaves it: past the
end of a text that ended by itself, where nothing can be accepted any more. That moves no count, and it costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specq.core.types import EXACT_RULES, Rule
from specq.forecast import MOST_K


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A text of T tokens that the target wrote, and what a model draft says along it.

    `p` and `q` [T] are the probabilities of the text's tokens under target and draft after warping, `hit` [T] is 1
    where the token is the draft's likeliest, 0 where it is not, and 0.5 where rounding decides. `stops` [T] is True
    where a draft that proposed the text's token would end its proposals with it, by its own confidence; None: it never
    does, nor past the end. `unsure` [T], some of those, is True where it would whatever it proposed, its likeliest
    token included: so far a step is taken to propose, for what it says off the text is not known; None: as `stops`.
    Token 0 came from the prefill. `room` counts the tokens that the text might have had beyond its T, which its last
    steps propose for: 0 where its limit ended it.
    """

    p: np.ndarray
    q: np.ndarray
    hit: np.ndarray
    stops: np.ndarray | None = None
    unsure: np.ndarray | None = None
    room: int = 0

    def __post_init__(self) -> None:
        ends = {"stops": self.stops, "unsure": self.unsure}
        arrays = {"p": self.p, "q": self.q, "hit": self.hit}
        arrays |= {name: each for name, each in ends.items() if each is not None}
        if len({each.shape for each in arrays.values()}) != 1 or self.p.ndim != 1:
            shapes = ", ".join(f"{name} {each.shape}" for name, each in arrays.items())
            raise ValueError(f"replay: {shapes}: all must be [T]")
        if len(self.p) and not (self.p > 0).all():
            raise ValueError("replay: p has tokens without probability: the target did not write this text")
        for name in ("p", "q", "hit"):
            if not ((arrays[name] >= 0) & (arrays[name] <= 1 + 1e-9)).all():
                raise ValueError(f"replay: {name} must lie between 0 and 1")
        _check_room(self.room)

    def __len__(self) -> int:
        return len(self.p)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A text of T tokens, and what a lookup draft proposes at every start.

    For a step whose first proposal stands at position t, `proposed` [T] counts the tokens that it would propose if it
    may propose `MOST_K`, `matched` [T] how many of them the text goes on with. The rule makes no difference.

    `elsewhere` is what a draft says along the text that proposes where the lookup has nothing; None: nobody does. Which
    of the two proposes at a start follows from the tokens before it, so each start has the law of one of them.
    `room` is that of Traced, for both of them.
    """

    matched: np.ndarray
    proposed: np.ndarray
    elsewhere: Traced | None = None
    room: int = 0

    def __post_init__(self) -> None:
        _check_room(self.room)
        other = None if self.elsewhere is None else len(self.elsewhere)
        if self.matched.shape != self.proposed.shape or other not in (None, len(self.proposed)):
            raise ValueError(
                f"replay: matched {self.matched.shape}, proposed {self.proposed.shape}, elsewhere {other}: all must be "
                "of one text"
            )

    def __len__(self) -> int:
        return len(self.proposed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Mean and variance of a sum over the steps of each text, [texts, rules, k], for k = 1 .. K."""

    mean: np.ndarray
    variance: np.ndarray


def survival(traced: Traced, k: int = MOST_K) -> np.ndarray:
    """P(N >= j | text) for j = 0 .. k of a step at each position, [rules, T, k + 1], rules as in EXACT_RULES.

    Proposals beyond the text's end are never accepted. Early stops bound it as the end does: what comes after a stop is
    not proposed. That a step ends at a token depends on the tokens up to it alone, which is all that the law of N asks.
    """
    with np.errstate(divide="ignore"):
        gains = np.log(traced.q) - np.log(traced.p)
    shares: dict[Rule, np.ndarray] = {
        "rejection": np.minimum(1.0, traced.q / traced.p),
        "greedy_draft": traced.hit,
        "match": traced.q,
    }
    return reached(gains, shares, k, stops=traced.stops)


def reached(
    gains: np.ndarray, shares: Mapping[Rule, np.ndarray], k: int, *, stops: np.ndarray | None = None
) -> np.ndarray:
    """The recursion of `survival`, [rules, T, k + 1], from what each token gives.

    Args:
        gains: log q - log p of each token, [T], which the block rule sums.
        shares: of the other rules, the probability that each token is accepted, [T].
        k: the most that a step proposes.
        stops: as in Traced.
    """
    total = len(gains)
    out = np.zeros((len(EXACT_RULES), total, k + 1))
    out[:, :, 0] = 1.0
    gain, going = np.zeros(total), np.ones(total)
    for j in range(1, min(k, total) + 1):
        size = total - j + 1
        if stops is not None and j > 1:
            going[:size] *= ~stops[j - 2 : total - 1]
        # In logarithms: products of tiny numbers would end as 0 / 0. See decoding.law for the block rule.
        gain[:size] += gains[j - 1 :]
        for row, rule in enumerate(EXACT_RULES):
            before = out[row, :size, j - 1]
            if rule == "block":
                out[row, :size, j] = np.minimum(before, np.exp(np.minimum(gain[:size], 0.0)))
            else:
                out[row, :size, j] = before * shares[rule][j - 1 :]
            out[row, :size, j] *= going[:size]
    return out


def steps(texts: Sequence[Traced | Copied], k: int = MOST_K) -> Expected:
    """Mean and variance of the steps that emit each text, for every exact rule and every k up to `k`."""
    return summed(texts, np.ones(k + 1))


def summed(texts: Sequence[Traced | Copied], cost: np.ndarray | Sequence[np.ndarray]) -> Expected:
    """Mean and variance of the sum of a cost over the steps that emit each text after its first token.

    Args:
        texts: of any lengths.
        cost: [K + 1]: what a step with 0 .. K proposals costs; or for each text [T, K + 1], of the steps whose first
            proposal stands at each position.
    """
    several: Sequence[np.ndarray] = [cost] * len(texts) if isinstance(cost, np.ndarray) else cost
    most = (cost if isinstance(cost, np.ndarray) else cost[0]).shape[-1] - 1
    tails = [_tail(text, most) for text in texts]
    longest = max((tail.shape[1] for tail in tails), default=0)
    # Aligned at their ends, by the tokens left: u = T - t.
    tail = np.zeros((len(texts), len(EXACT_RULES), longest + 1, most + 1))
    offers = np.zeros((len(texts), longest + 1), dtype=int)
    prices = np.zeros((len(texts), longest + 1, most + 1))
    for place, (text, one, price) in enumerate(zip(texts, tails, several, strict=True)):
        tail[place, :, 1 : one.shape[1] + 1] = one[:, ::-1]
        offers[place, 1 : one.shape[1] + 1] = _offers(text, most)[::-1]
        prices[place, 1 : one.shape[1] + 1] = price[::-1] if price.ndim > 1 else price
    # What runs past the text's end is never accepted, but proposed as far as there is room.
    tail *= np.arange(most + 1) < np.arange(longest + 1)[:, None]
    room = np.array([text.room for text in texts], dtype=int)[:, None]
    ks, within, rows = np.arange(1, most + 1), np.tri(most), np.arange(len(texts))
    # Column `most + u` holds what u tokens left cost, its row below what one token less changes.
    mean, less_mean, square, less_square = np.zeros((4, len(texts), len(EXACT_RULES), most, most + longest + 1))
    for left in range(1, longest):
        at = most + left
        made = np.minimum(np.minimum(ks, left - 1 + room), offers[:, left, None])
        paid = prices[rows[:, None], left, made][:, None, :]
        # sum of P(N = n) C(u - 1 - n), by parts: C(u - 1) + sum of P(N >= n) (C(u - 1 - n) - C(u - n)), n = 1 .. k.
        alive, window = tail[:, :, left, 1:], slice(at - 1, at - 1 - most, -1)
        first = mean[..., at - 1] + _dot(less_mean[..., window] * within, alive)
        second = square[..., at - 1] + _dot(less_square[..., window] * within, alive)
        mean[..., at] = paid + first
        square[..., at] = paid * paid + 2 * paid * first + second
        less_mean[..., at] = mean[..., at - 1] - mean[..., at]
        less_square[..., at] = square[..., at - 1] - square[..., at]
    # Token 0 came from the prefill: the steps begin with T - 1 tokens left.
    ends = np.array([most + max(0, one.shape[1] - 1) for one in tails], dtype=int)
    means, squares = mean[rows, :, :, ends], square[rows, :, :, ends]
    return Expected(mean=means, variance=np.maximum(0.0, squares - means * means))


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Where the steps of one text start, under one rule and k: the same recursion, followed forwards.

    `chance` [T] is the probability that a step starts at each position, `proposed` [T] how many tokens it proposes
    there, `alive` [T, k + 1] P(N >= j) of the j = 0 .. k that it may accept. Token 0 came from the prefill.
    """

    chance: np.ndarray
    proposed: np.ndarray
    alive: np.ndarray

    @property
    def emitted(self) -> np.ndarray:
        """The tokens that a step at each position is expected to emit, [T]: those accepted and one more."""
        found: np.ndarray = self.alive.sum(axis=1)
        return found


def starts(text: Traced | Copied, rule: Rule, k: int) -> Starts:
    """Where steps start: C(u) counts the steps that are to come, this says at which tokens they do."""
    alive = _tail(text, k)[EXACT_RULES.index(rule)].copy()
    total = len(alive)
    left = np.maximum(0, total - 1 - np.arange(total))
    proposed = np.minimum(_offers(text, k), left + text.room)
    alive *= np.arange(k + 1) <= np.minimum(proposed, left)[:, None]
    chance = np.zeros(total + k + 1)
    chance[1] = 1.0
    ends = alive - np.pad(alive[:, 1:], ((0, 0), (0, 1)))
    for t in range(1, total):
        chance[t + 1 : t + k + 2] += chance[t] * ends[t]
    return Starts(chance=chance[:total], proposed=proposed, alive=alive)


def _tail(text: Traced | Copied, most: int) -> np.ndarray:
    if isinstance(text, Traced):
        return survival(text, most)
    one = (text.matched[:, None] >= np.arange(most + 1)).astype(float)
    if text.elsewhere is not None:
        return np.where((text.proposed > 0)[:, None], one, survival(text.elsewhere, most))
    return np.broadcast_to(one, (len(EXACT_RULES), *one.shape))


def _offers(text: Traced | Copied, most: int) -> np.ndarray:
    """How many tokens the draft would propose at each start, `most` where nothing ends its proposals."""
    if isinstance(text, Copied):
        own = np.minimum(text.proposed, most)
        return own if text.elsewhere is None else np.where(own > 0, own, _offers(text.elsewhere, most))
    total = len(text.p)
    ends = text.stops if text.unsure is None else text.unsure
    if ends is None:
        return np.full(total, most)
    # The first stop at or after each position; a step there proposes up to it.
    ahead, offers = most, np.empty(total, dtype=int)
    for t in range(total - 1, -1, -1):
        ahead = 1 if ends[t] else min(most, ahead + 1)
        offers[t] = ahead
    return offers


def _check_room(room: int) -> None:
    if room < 0:
        raise ValueError(f"replay: room = {room}: a text has no more tokens than it may have; give 0 or more")


def _dot(each: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Sums over n of [.., k, n] and [.., n]: [.., k]."""
    found: np.ndarray = np.matmul(each, alive[..., None])[..., 0]
    return found
