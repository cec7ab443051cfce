"""Sums over records, and the measures that follow from them under this project's names.

A ratio takes both of its sums from the same records: those that know both, and whose counts can be. What cannot be
is flagged (`checks`) and in no measure.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

from specq.imports.checks import drafts_can_be, positions_can_be, steps_can_be
from specq.imports.record import Flag, Imported, Scope

_SHOWN = 5
_FIELDS = ("requests", "prompt_tokens", "cached_tokens", "new_tokens")
_DRAFTS = ("steps", "draft_steps", "proposed", "accepted")
LATENCIES = ("ttft_s", "tpot_s", "e2e_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A measure: its value, None where the file does not tell; its unit; and how many requests stand behind it.

    `tails` are p50, p95 and p99 over requests, for a latency of which single requests are known.
    """

    name: str
    unit: str
    value: float | None
    n: int
    tails: dict[str, float | None] | None = None


class Totals:
    """What a file comes to, added up a record at a time; the records themselves are not kept."""

    def __init__(self) -> None:
        self.records = 0
        self.derived = 0
        self.flags: dict[str, int] = {}
        self.first: dict[str, list[Flag]] = {}
        self._sums: dict[tuple[Scope, str], float] = {}
        self._ratios: dict[str, list[float]] = {}
        self._scopes: set[Scope] = set()
        self._positions: list[int] = []
        self._by_position_of: dict[str, int] = {"requests": 0, "steps": 0, "draft_steps": 0}
        self._by_steps = True
        self._tails = {name: array("d") for name in LATENCIES}

    def add(self, one: Imported | Flag) -> None:
        """Count a record or a flag."""
        if isinstance(one, Flag):
            self.flags[one.name] = self.flags.get(one.name, 0) + 1
            if len(shown := self.first.setdefault(one.name, [])) < _SHOWN:
                shown.append(one)
            return
        self.records += 1
        self._scopes.add(one.scope)
        for name in (*_FIELDS, *_DRAFTS, "wall_s"):
            if (value := getattr(one, name)) is not None:
                key = (one.scope, name)
                self._sums[key] = self._sums.get(key, 0) + value
        self.derived += one.steps_from == "derived"
        requests = one.requests or 0
        after = None if one.new_tokens is None or one.requests is None else one.new_tokens - one.requests
        if after is not None and after < 0:
            # An answer without a token has no first one either.
            return
        decode = None if one.e2e_s is None or one.ttft_s is None else one.e2e_s - one.ttft_s
        if steps_can_be(one):
            self._ratio("tokens_per_step", after, one.steps, requests)
        if drafts_can_be(one):
            self._ratio("tokens_per_draft_step", _plus(one.accepted, one.draft_steps), one.draft_steps, requests)
            self._ratio("draft_acceptance", one.accepted, one.proposed, requests)
        self._latency("ttft_s", one.scope, one.ttft_s, one.requests, requests)
        self._latency("tpot_s", one.scope, decode, after, requests)
        self._latency("e2e_s", one.scope, one.e2e_s, one.requests, requests)
        self._by_position(one)

    def _ratio(self, name: str, up: float | None, down: float | None, requests: int) -> None:
        if up is not None and down:
            sums = self._ratios.setdefault(name, [0.0, 0.0, 0.0])
            sums[0], sums[1], sums[2] = sums[0] + up, sums[1] + down, sums[2] + requests

    def _latency(self, name: str, scope: Scope, up: float | None, down: float | None, requests: int) -> None:
        self._ratio(f"{scope} {name}", up, down, requests)
        if up is not None and down and requests == 1 and scope == "request":
            self._tails[name].append(up / down)

    def _by_position(self, one: Imported) -> None:
        if one.accepted_by_position is None or one.draft_steps is None or not positions_can_be(one):
            return
        self._positions += [0] * (len(one.accepted_by_position) - len(self._positions))
        for place, count in enumerate(one.accepted_by_position):
            self._positions[place] += count
        self._by_position_of["requests"] += one.requests or 0
        self._by_position_of["draft_steps"] += one.draft_steps
        self._by_position_of["steps"] += one.steps or 0
        self._by_steps = self._by_steps and one.steps is not None

    @property
    def failed(self) -> int:
        """How many requests failed, as far as the file tells them one by one."""
        return self.flags.get("failed", 0)

    def count(self, name: str) -> int | None:
        """A sum by its field's name; requests and their tokens by those told one by one, where there are such."""
        scope: Scope = "request" if "request" in self._scopes else "run"
        both = (self._sums.get(("request", name)), self._sums.get(("run", name)))
        if name in _FIELDS:
            found = self._sums.get((scope, name))
        else:
            known = [one for one in both if one is not None]
            found = sum(known) if known else None
        return None if found is None else int(found)

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the file has no counts of, in words."""
        drafts = all(self.count(name) is None for name in ("draft_steps", "proposed", "accepted"))
        return (*(("new tokens",) if self.count("new_tokens") is None else ()), *(("drafts",) if drafts else ()))

    def accepted_by_position(self) -> tuple[tuple[int, ...], int] | None:
        """Steps that accepted each position, and of how many steps with proposals; None where no record tells."""
        return (tuple(self._positions), self._by_position_of["draft_steps"]) if self._positions else None

    def measures(self) -> tuple[Value, ...]:
        """Every measure, those that the file does not tell with None."""
        found = [
            self._value("tokens_per_step", "tokens/step"),
            self._value("tokens_per_draft_step", "tokens/step"),
            self._value("draft_acceptance", "share"),
        ]
        steps = self._by_position_of["steps"]
        n = self._by_position_of["requests"]
        for place, count in enumerate(self._positions):
            told = count / steps if self._by_steps and steps else None
            found.append(Value(name=f"survival[{place + 1}]", unit="share", value=told, n=n))
        found += [self._latency_value(name) for name in LATENCIES]
        tpot = found[-2]
        speed = 1 / tpot.value if tpot.value else None
        return (*found, Value(name="decode_tokens_per_s", unit="tokens/s", value=speed, n=tpot.n))

    def _value(self, name: str, unit: str) -> Value:
        up, down, requests = self._ratios.get(name, [0.0, 0.0, 0.0])
        return Value(name=name, unit=unit, value=up / down if down else None, n=int(requests))

    def _latency_value(self, name: str) -> Value:
        from specq.stats.intervals import percentiles

        scope = "request" if f"request {name}" in self._ratios else "run"
        up, down, requests = self._ratios.get(f"{scope} {name}", [0.0, 0.0, 0.0])
        tails = percentiles(self._tails[name]) if self._tails[name] else None
        return Value(name=name, unit="s", value=up / down if down else None, n=int(requests), tails=tails)

    def to_json(self) -> dict[str, Any]:
        """Counts, measures and how often each flag was raised, as JSON values."""
        positions = self.accepted_by_position()
        return {
            "records": self.records,
            **{name: self.count(name) for name in (*_FIELDS, *_DRAFTS)},
            "steps_derived": self.derived,
            "failed": self.failed,
            "lacks": list(self.lacks),
            "accepted_by_position": None if positions is None else list(positions[0]),
            "measures": {
                one.name: {"value": one.value, "unit": one.unit, "n": one.n} | (one.tails or {})
                for one in self.measures()
            },
            "flags": dict(self.flags),
        }


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
