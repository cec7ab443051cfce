"""What a server told of one answer, beside its text: counts and seconds, None where it does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Counted = Literal["ids", "usage", "events"]
"""Where an answer's tokens were counted: by their ids, as the server says, or by the events that had some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAnswer:
    """One answer of a server.

    `tokens` counts the answer's, from the source that `counted` names. `prompt_tokens` has those of the cache in it.
    `queue_s`, `prefill_s` and `decode_s` are the server's own seconds. `draft_steps` counts the passes that verified
    proposals, `accepted_by_position` those of them that accepted each position. `event_s` are the seconds from the
    request to each event with output, `event_tokens` how many tokens each had. `retries` counts refusals that were
    asked again before anything came, `repeats` the times that the whole answer was asked again after it broke off.
    `finish` is the server's own word.
    """

    tokens: int
    counted: Counted
    finish: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    queue_s: float | None
    prefill_s: float | None
    decode_s: float | None
    draft_steps: int | None
    proposed: int | None
    accepted: int | None
    accepted_by_position: tuple[int, ...] | None
    event_s: tuple[float, ...]
    event_tokens: tuple[int, ...]
    retries: int = 0
    repeats: int = 0

    def to_json(self) -> dict[str, Any]:
        """As a record holds it."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> ServedAnswer:
        """Undo to_json; what another version wrote beside it is left out.

        Raises:
            TypeError: a field is missing.
        """
        known = {field.name for field in fields(cls)}
        kept: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in told.items() if name in known
        }
        return cls(**kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A server as it was when a task of a run came to it: how it was started, and what it says of itself.

    `server` is the kind, `model` the name that it was asked for. `command` is () and `log` "" where it ran already;
    `log` is relative to the run's folder. `settings` are kinds.base.Settings, "unknown" for what it does not say.
    `exactness` is "exact", "exact_by_match", "lossy" or "unknown", "" without a draft, with the rule and the reason.
    """

    process: int
    task: str
    arms: tuple[str, ...]
    server: str
    model: str
    command: tuple[str, ...]
    log: str
    settings: dict[str, Any]
    exactness: str
    rule: str | None
    reason: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SameText:
    """An arm's answer beside that of its plain arm, both from the same kind of server at temperature 0.

    `first_difference` counts `unit`s, "tokens" where both gave ids, else "characters"; None: they are the same.
    """

    arm: str
    prompt: str
    plain: str
    unit: str
    length: int
    plain_length: int
    first_difference: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDraws:
    """The first `tokens` tokens of an arm's answers to one prompt over many seeds: what came, and how often.

    `outcomes` are token ids with blanks between them where the server gives ids, else texts; `unit` says
    which, "tokens" or "characters".
    """

    arm: str
    prompt: str
    tokens: int
    draws: int
    unit: str
    outcomes: tuple[str, ...]
    counts: tuple[int, ...]
