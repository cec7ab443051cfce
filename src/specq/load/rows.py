"""The lines of a load run's records.jsonl: counts and times, never a rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from specq.core import jsonl, typed
from specq.core.errors import RunFolderError
from specq.core.hashes import of_bytes
from specq.engines.served.kinds.base import Numbers
from specq.engines.served.request import Streamed
from specq.load.phases import Job

_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """An attempt at a point has begun. One that no Measured follows was interrupted, and its requests count nowhere.

    `began` is UTC, `url` where the server was.
    """

    point: str
    attempt: int
    began: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A server was started for the points that follow, by `command`, and was ready after `seconds`.

    `log` is the file of the run's folder with what it wrote, `settings` how it says that it runs, "unknown" for what it
    does not say. `exactness` says what its way to verify a draft leaves of the target's law, with `reason` and
    `source`; "" where it drafts nothing.
    """

    server: str
    began: str
    url: str
    model: str
    command: tuple[str, ...]
    log: str
    seconds: float
    settings: dict[str, Any]
    exactness: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """One request. Times ending in `_at_s` are seconds after its attempt's beginning; None where there was none.

    `due_at_s` is when it was to be sent, `sent_at_s` when its bytes went out, `events_at_s` when each event with output
    came and `event_tokens` how many tokens it had (empty: one each). Tokens are the server's counts where `counted`
    says "usage" or "ids". `queue_s` to `accepted` are the server's own numbers of this request, None where it tells
    none. `schema` is how the answer fits the schema that was given: "fits", "misfit", "no JSON", None without one.
    `output_sha256` is of its text.
    """

    id: str
    point: str
    attempt: int
    number: int
    phase: str
    prompt: str
    tags: tuple[str, ...]
    due_at_s: float
    sent_at_s: float | None
    connect_s: float | None
    first_byte_at_s: float | None
    first_token_at_s: float | None
    last_token_at_s: float | None
    end_at_s: float
    events_at_s: tuple[float, ...]
    event_tokens: tuple[int, ...]
    output_tokens: int | None
    counted: str
    prompt_tokens: int | None
    cached_tokens: int | None
    queue_s: float | None
    prefill_s: float | None
    decode_s: float | None
    server_ttft_s: float | None
    draft_steps: int | None
    proposed: int | None
    accepted: int | None
    finish: str | None
    error: str | None
    said: str
    status: int | None
    retries: int
    notes: tuple[str, ...]
    output_sha256: str
    schema: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the answer of a steady request is worth, under the request's own `id`; of requests that ended well.

    `score` is None where none could be made, and `why` says why it is not right. `cluster` is the item's.
    """

    id: str
    point: str
    attempt: int
    prompt: str
    cluster: str
    metric: str
    score: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A point is complete. `start_at_s` and `end_at_s` are its steady state's.

    `client_cpu_s` is what specq itself took of the processor in the `client_wall_s` that the point took. `numbers` are
    what the server's counters grew by over the steady state, empty where it has none; `device` what was seen of the
    device: `source`, and the mean and highest of each reading.
    """

    point: str
    attempt: int
    server: str
    level: float
    repeat: int
    start_at_s: float
    end_at_s: float
    client_cpu_s: float
    client_wall_s: float
    numbers: dict[str, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


Row = Began | Started | Requested | Judged | Measured
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Began, Started, Requested, Judged, Measured)}


def to_json(row: Row) -> dict[str, Any]:
    """The row as a JSON object with its kind."""
    return {"kind": type(row).__name__, **asdict(row)}


def from_json(value: Mapping[str, Any]) -> Row:
    """The row of a JSON object.

    Raises:
        RunFolderError: an unknown kind, a field that is missing or unknown, or a value of another type.
    """
    cls = KINDS.get(str(value.get("kind")))
    if cls is None:
        raise RunFolderError(f"unknown record kind {value.get('kind')!r}: edited, or of another version of specq")
    checks = typed.checks_of(cls)
    given = {name: typed.tuples(item) for name, item in value.items() if name != "kind"}
    if wrong := sorted(given.keys() ^ checks.keys()):
        raise RunFolderError(f"{cls.__name__} has missing or unknown fields {wrong}: another version of specq wrote it")
    for name, item in given.items():
        if not checks[name](item):
            allowed = typed.in_words(typed.fields_of(cls)[name])
            raise RunFolderError(f"{cls.__name__}.{name} is {str(item)[:60]!r}, allowed is {allowed}")
    made: Row = cls(**given)
    return made


def read(path: Path) -> tuple[list[Row], int]:
    """All rows of a file, and the bytes of a torn last line.

    Raises:
        RunFolderError: a line is damaged; the message names it.
    """
    lines, torn = jsonl.scan(path)
    found = []
    for number, line in lines:
        try:
            found.append(from_json(line))
        except RunFolderError as error:
            raise jsonl.damaged(path, number, str(error)) from error
    return found, torn


def requested(
    streamed: Streamed,
    numbers: Numbers,
    job: Job,
    *,
    point: str,
    attempt: int,
    prompt: str,
    tags: tuple[str, ...],
    began_s: float,
    schema: str | None = None,
) -> Requested:
    """The row of a request that has ended; `began_s` is when its attempt began."""

    def at(stamp_s: float | None) -> float | None:
        return None if stamp_s is None else round(stamp_s - began_s, _DIGITS)

    one_each = all(count == 1 for count in streamed.event_tokens)
    return Requested(
        id=streamed.id,
        point=point,
        attempt=attempt,
        number=job.number,
        phase=job.phase,
        prompt=prompt,
        tags=tags,
        due_at_s=round(job.due_s - began_s, _DIGITS),
        sent_at_s=at(streamed.sent_s),
        connect_s=streamed.connect_s,
        first_byte_at_s=at(streamed.first_byte_s),
        first_token_at_s=at(streamed.first_token_s),
        last_token_at_s=at(streamed.last_token_s),
        end_at_s=round(streamed.end_s - began_s, _DIGITS),
        events_at_s=tuple(round(one - began_s, _DIGITS) for one in streamed.event_s),
        event_tokens=() if one_each else streamed.event_tokens,
        output_tokens=streamed.tokens,
        counted=streamed.counted,
        prompt_tokens=numbers.prompt_tokens,
        cached_tokens=numbers.cached_tokens,
        queue_s=numbers.queue_s,
        prefill_s=numbers.prefill_s,
        decode_s=numbers.decode_s,
        server_ttft_s=numbers.ttft_s,
        draft_steps=numbers.draft_steps,
        proposed=numbers.proposed,
        accepted=numbers.accepted,
        finish=streamed.finish,
        error=streamed.error,
        said=streamed.said,
        status=streamed.status,
        retries=streamed.retries,
        notes=streamed.notes,
        output_sha256=of_bytes(streamed.text.encode()),
        schema=schema,
    )
