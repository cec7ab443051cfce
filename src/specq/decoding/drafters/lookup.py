"""Drafts copied from the text itself: n-gram and suffix matching over prompt and output.

Both indexes grow by a token in O(1) amortised; nothing is scanned again. A lookup may also go before another draft,
which then proposes where nothing matches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specq.decoding.drafters import Drafter, Proposal
from specq.decoding.sampling import Warper


class NgramIndex:
    """Where each n-gram of the text was last followed by something.

    For n from `longest` down to `shortest` the n-gram that ends the text is looked up; its most
    recent earlier occurrence tells what followed. One dictionary a length, one entry a token.
    """

    def __init__(self, longest: int, shortest: int) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self.clear()

    def clear(self) -> None:
        """Forget the text."""
        self.ids: list[int] = []
        self._next: dict[int, dict[tuple[int, ...], int]] = {n: {} for n in self._sizes}

    def extend(self, ids: Sequence[int]) -> None:
        """Add tokens to the end of the text."""
        for token in ids:
            position = len(self.ids)
            # The n-grams that end before this token are now known to be followed by it.
            for n, seen in self._next.items():
                if position >= n:
                    seen[tuple(self.ids[position - n :])] = position
            self.ids.append(token)

    def follow(self) -> int | None:
        """The position whose token followed the longest known n-gram that ends the text."""
        for n, seen in self._next.items():
            if len(self.ids) >= n and (position := seen.get(tuple(self.ids[-n:]))) is not None:
                return position
        return None


class SuffixIndex:
    """The longest suffix of the text that occurred before, by an online suffix automaton.

    State 0 is the empty string; each state keeps its longest length, its suffix link and where its
    strings first ended. The link of the state of the whole text is the longest suffix that also
    ends elsewhere (Blumer et al. 1985).
    """

    def __init__(self, shortest: int) -> None:
        self._shortest = shortest
        self.clear()

    def clear(self) -> None:
        """Forget the text."""
        self.ids: list[int] = []
        self._edges: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._first_end = [-1]
        self._last = 0

    def extend(self, ids: Sequence[int]) -> None:
        """Add tokens to the end of the text."""
        for token in ids:
            self._add(token)

    def follow(self) -> int | None:
        """The position after the first occurrence of the longest repeated suffix, if long enough."""
        state = self._link[self._last]
        if state <= 0 or self._length[state] < self._shortest:
            return None
        return self._first_end[state] + 1

    def _add(self, token: int) -> None:
        new = self._state({}, self._length[self._last] + 1, len(self.ids))
        self.ids.append(token)
        state = self._last
        while state >= 0 and token not in self._edges[state]:
            self._edges[state][token] = new
            state = self._link[state]
        if state < 0:
            self._link[new] = 0
        else:
            target = self._edges[state][token]
            if self._length[target] == self._length[state] + 1:
                self._link[new] = target
            else:
                self._link[new] = self._split(state, token, target)
        self._last = new

    def _split(self, state: int, token: int, target: int) -> int:
        clone = self._state(dict(self._edges[target]), self._length[state] + 1, self._first_end[target])
        self._link[clone] = self._link[target]
        self._link[target] = clone
        while state >= 0 and self._edges[state].get(token) == target:
            self._edges[state][token] = clone
            state = self._link[state]
        return clone

    def _state(self, edges: dict[int, int], length: int, first_end: int) -> int:
        self._edges.append(edges)
        self._length.append(length)
        self._first_end.append(first_end)
        self._link.append(0)
        return len(self._edges) - 1


class LookupDrafter:
    """Proposes what followed the end of the text where it stood before; the index says which place."""

    def __init__(self, index: NgramIndex | SuffixIndex) -> None:
        self._index = index

    def start(self, ids: Sequence[int], warper: Warper, stream: np.random.Generator) -> None:
        """Index the prompt; proposals need neither probabilities nor chance."""
        self._index.clear()
        self._index.extend(ids)

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """K tokens, or none when nothing matches; a copy that reaches the text's end goes on in itself."""
        self.commit(ids)
        position, text = self._index.follow(), self._index.ids
        copied: list[int] = []
        if position is not None:
            for at in range(position, position + k):
                copied.append(text[at] if at < len(text) else copied[at - len(text)])
        return Proposal(copied, None, copied=True)

    def commit(self, ids: Sequence[int]) -> None:
        """Index the tokens that are new."""
        self._index.extend(ids[len(self._index.ids) :])


class LookupFirstDrafter:
    """A lookup where it finds a place, another draft elsewhere; each block is proposed by one of them alone.

    Which of the two proposes follows from the tokens that stand, so whatever comes out keeps the target's law: a
    copied block is one-hot, a drafted one has the q that it was drawn from. The other draft's cache holds a prefix of
    what stands; tokens of copied blocks are fed to it in one pass when it proposes again.
    """

    def __init__(self, lookup: LookupDrafter, other: Drafter) -> None:
        self._lookup, self._other = lookup, other

    def start(self, ids: Sequence[int], warper: Warper, stream: np.random.Generator) -> None:
        """Begin both with the prompt."""
        self._lookup.start(ids, warper, stream)
        self._other.start(ids, warper, stream)

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """K tokens after ids: copied, or else drafted."""
        copied = self._lookup.propose(ids, k)
        return copied if copied.ids else self._other.propose(ids, k)

    def commit(self, ids: Sequence[int]) -> None:
        """Index what is new, and roll the other draft's cache to what stands."""
        self._lookup.commit(ids)
        self._other.commit(ids)
