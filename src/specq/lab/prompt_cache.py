"""What a prefix cache saves: prompts that are new, that are the same, and that differ in one word somewhere.

Each trial has a text of its own behind a fresh stamp. It is asked once, so that the cache holds it, and then once
more as it is, or with one word changed at the top, at unit 12 or at the bottom, or with a newer stamp at the top, as
prompts have that begin with the time. What a cache could hold at most is what both prompts begin with alike.
"""

from __future__ import annotations

import itertools
import secrets
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from specq.decoding.prefix import shared
from specq.lab import rows as records
from specq.lab.bench import Bench
from specq.lab.requester import OwnPrompt
from specq.lab.rows import Row, Spread, spread
from specq.workloads.counting import Counter

PART = "cache"
COLD, WARM, TOP, TWELVE, BOTTOM, STAMP = "cold", "warm", "top", "at 12", "bottom", "stamp"
CASES = (COLD, WARM, BOTTOM, TWELVE, TOP, STAMP)
FIRST = "first"
"""The request of a trial that fills the cache; it is no case."""
ALONE, TURNS, OWN = "alone", "in turns", "own prompts"
USERS = ("user A", "user B")
TURNS_EACH = 4
OWN_TOKENS = 2
"""How long answers to the user's own prompts are: one token and one more, so that the first is told from the rest."""
PLACE = 12
SLACK = 16
"""A server's cache may be told in whole blocks, and a template may add tokens: so many more than shared are no lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Cached tokens over prompt tokens: a long prompt weighs more. None where the engine does not tell them."""

    requests: int
    prompt_tokens: int
    cached_tokens: int | None

    @property
    def share(self) -> float | None:
        """The token-weighted hit rate."""
        return None if self.cached_tokens is None or not self.prompt_tokens else self.cached_tokens / self.prompt_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of request. `possible` is the share that the two prompts begin with alike, None without a tokenizer.

    `prompt_tokens` are those of the middle prompt as the engine counts them, its stamp among them. `saved` is the share
    of a cold first token's time that it did not take.
    """

    name: str
    prompt_tokens: float
    ttft_s: Spread
    rate: Rate
    possible: float | None
    saved: float | None
    beyond: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Two users whose conversations grow: one after the other, and taking turns. First questions are left out."""

    alone: Rate
    turns: Rate
    alone_ttft_s: Spread
    turns_ttft_s: Spread

    @property
    def thrown_out(self) -> bool | None:
        """Whether taking turns lost more than half of the hits; None where the engine tells none."""
        alone, turns = self.alone.share, self.turns.share
        return None if alone is None or turns is None else turns < alone / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What was found; `all` is the rate over the cases, `tags` those of the user's own prompts, in their order."""

    cases: tuple[Case, ...]
    all: Rate
    users: Users | None
    own: Rate | None
    tags: Mapping[str, Rate]

    def case(self, name: str) -> Case | None:
        """A case by its name."""
        return next((one for one in self.cases if one.name == name), None)

    @property
    def beyond(self) -> int:
        """Requests that were told more cached tokens than their prompt shares with any before it."""
        return sum(one.beyond for one in self.cases)


def measure(bench: Bench, own: Sequence[OwnPrompt] = ()) -> None:
    """Ask all cases in shuffled order, then two users, then the user's own prompts in their order.

    Raises:
        Unsupported: the engine keeps no cache that can be reused.
    """
    length, repeats = max(bench.settings.lengths), bench.settings.repeats
    cases = [(case, repeat) for case in CASES for repeat in range(repeats)]
    bench.rng(PART).shuffle(cases)
    texts = bench.texts(PART, [length] * len(cases))
    # A stamp is longer than it looks: tens of tokens.
    counted = bench.counter.count(f"{stamp()}\n{texts[0]}")
    bench.say(f"cache: {len(cases)} trials of about {counted} {bench.counter.unit}, a stamp before {length} of text")
    for (case, repeat), text in zip(cases, texts, strict=True):
        _trial(bench, case, repeat, f"{stamp()}\n{text}", length)
    bench.canary()
    _users(bench, length)
    bench.canary()
    if own:
        bench.say(f"cache: {len(own)} prompts of your own, in their order")
        group, before = bench.group(), list[tuple[int, ...]]()
        for one in own:
            prompt = bench.requester.prompt("own", one.text, special=one.special, messages=one.messages)
            at_most = max((shared(prompt.ids, ids) for ids in before), default=0) if prompt.ids else None
            before.append(prompt.ids)
            labels = {"part": PART, "what": OWN, "length": one.tokens, "group": group}
            bench.ask(prompt, OWN_TOKENS, cached=True, tags=one.tags, shared_tokens=at_most, alone=False, **labels)  # type: ignore[arg-type]


def stamp() -> str:
    """A line that no other request has: letters at random, for dates begin alike, and the time."""
    return f"{secrets.token_hex(4)} {datetime.now(UTC).isoformat()}"


def stamp_tokens(counter: Counter) -> int:
    """How many tokens a stamp may add to a prompt; 0 where lengths are counted in words, which no window is told in."""
    # Digits at random merge differently from stamp to stamp.
    longest = max(counter.count(f"{stamp()}\n") for _ in range(8))
    return longest + 2 if counter.unit.startswith("tokens") else 0


def changed(text: str, case: str, counter: Counter) -> str:
    """The text with the word changed that holds its first, its 12th or its last unit, or with a newer stamp on top."""
    if case == STAMP:
        return f"{stamp()}\n{text.partition(chr(10))[2]}"
    spans = counter.spans(text)
    place = {TOP: 0, TWELVE: min(PLACE, len(spans)) - 1, BOTTOM: len(spans) - 1}[case]
    at = spans[place][0]
    while at < len(text) - 1 and text[at].isspace():
        at += 1
    start = at - len("".join(itertools.takewhile(lambda one: not one.isspace(), reversed(text[:at]))))
    word = "".join(itertools.takewhile(lambda one: not one.isspace(), text[start:]))
    # In the place of a word that holds the unit, so that the difference is no earlier than the word.
    other = "changed" if word[:1] != "c" else "altered"
    return text[:start] + other + text[start + len(word) :]


def _trial(bench: Bench, case: str, repeat: int, text: str, length: int) -> None:
    group, tokens = bench.group(), 4
    labels = {"part": PART, "length": length, "repeat": repeat, "group": group}
    first = bench.requester.prompt(f"{PART}-{group}-first", text)
    if case == COLD:
        bench.ask(first, tokens, what=COLD, cached=True, shared_tokens=0, **labels)  # type: ignore[arg-type]
        return
    bench.ask(first, tokens, what=FIRST, cached=True, **labels)  # type: ignore[arg-type]
    then = first if case == WARM else bench.requester.prompt(f"{PART}-{group}", changed(text, case, bench.counter))
    at_most = min(shared(first.ids, then.ids), len(then.ids) - 1) if first.ids else None
    bench.ask(then, tokens, what=case, cached=True, shared_tokens=at_most, alone=False, **labels)  # type: ignore[arg-type]


def _users(bench: Bench, length: int) -> None:
    """Each user's conversation is the text so far and one more line; half of the longest length, to leave room."""
    bench.say("cache: two users, one after the other and taking turns")
    texts = iter(bench.texts(f"{PART}-users", [max(2, length // 2)] * 4))
    one_by_one = [(user, turn) for user in USERS for turn in range(TURNS_EACH)]
    in_turns = [(user, turn) for turn in range(TURNS_EACH) for user in USERS]
    for what, order in ((ALONE, one_by_one), (TURNS, in_turns)):
        group = bench.group()
        said = {user: f"{stamp()}\n{next(texts)}" for user in USERS}
        for user, turn in order:
            said[user] += f"\nquestion {turn + 1}"
            prompt = bench.requester.prompt(f"{PART}-{user}-{turn}", said[user])
            labels = {"part": PART, "what": what, "length": length // 2, "repeat": turn, "group": group}
            bench.ask(prompt, 2, cached=True, tags=(user,), alone=False, **labels)  # type: ignore[arg-type]


def found(rows: Sequence[Row]) -> Cache | None:
    """What the rows show; None where there are none."""
    own = records.of(rows, PART)
    cold = spread(row.ttft_s for row in own if row.what == COLD)
    if cold is None:
        return None
    cases = tuple(case for name in CASES if (case := _case(name, own, cold)) is not None)
    replayed = [row for row in own if row.what == OWN]
    tags = dict.fromkeys(tag for row in replayed for tag in row.tags)
    return Cache(
        cases=cases,
        all=rate([row for row in own if row.what in CASES]),
        users=_two(own),
        own=rate(replayed) if replayed else None,
        tags={tag: rate([row for row in replayed if tag in row.tags]) for tag in tags},
    )


def rate(rows: Sequence[Row]) -> Rate:
    """The token-weighted hit rate of some rows; not told where one of them does not tell."""
    told = [row.cached_tokens for row in rows]
    return Rate(
        requests=len(rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        cached_tokens=None if None in told else sum(one for one in told if one is not None),
    )


def _case(name: str, rows: Sequence[Row], cold: Spread) -> Case | None:
    own = [row for row in rows if row.what == name]
    ttft = spread(row.ttft_s for row in own)
    if ttft is None:
        return None
    could = [row.shared_tokens for row in own]
    prompt_tokens = sum(row.prompt_tokens for row in own)
    return Case(
        name=name,
        prompt_tokens=statistics.median(row.prompt_tokens for row in own),
        ttft_s=ttft,
        rate=rate(own),
        possible=None if None in could else sum(one for one in could if one is not None) / prompt_tokens,
        saved=None if name == COLD else 1 - ttft.median / cold.median,
        beyond=sum(_beyond(row) for row in own),
    )


def _beyond(row: Row) -> bool:
    """Whether more is told cached than was ever asked before."""
    if row.shared_tokens is None or row.cached_tokens is None:
        return False
    return row.cached_tokens > row.shared_tokens + SLACK


def _two(rows: Sequence[Row]) -> Users | None:
    alone, turns = ([row for row in rows if row.what == what and row.repeat > 0] for what in (ALONE, TURNS))
    first, second = spread(row.ttft_s for row in alone), spread(row.ttft_s for row in turns)
    if first is None or second is None:
        return None
    return Users(alone=rate(alone), turns=rate(turns), alone_ttft_s=first, turns_ttft_s=second)
