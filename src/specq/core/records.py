"""The lines of records.jsonl and outputs.jsonl: counts and seconds, never a rate.

Each record is frozen; `kind` on disk names its class. `to_json` and `from_json` are the only
way to and from the disk, so that a record that is read equals the one that was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from specq.core.errors import RunFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one worker process found itself on.

    `bandwidth_bytes_per_s` is the read bandwidth of the device that holds the weights, measured
    in that process; `imports_bytes` is the resident memory that stood after imports.
    """

    process: int
    bandwidth_bytes_per_s: float
    threads: int
    device: str
    imports_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model as it was loaded: sizes from the tensors, not from the config."""

    process: int
    role: str
    name: str
    weight_bytes: int
    bytes_per_token: int
    cache_bytes_per_token: int
    parameters: int
    dtype: str
    sha256: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The fixed prompt's plain decode time at one moment of the run; shows drift."""

    process: int
    at_s: float
    tpot_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """One arm on one prompt in one turn.

    `steps` holds a row a step: context, proposed, accepted, emitted, draft_s, verify_s,
    sample_s, rest_s. `order` is the place of the arm within the prompt's turn. `past_stop`
    counts tokens after the model's first own eos when the stop is ignored.
    """

    process: int
    arm: str
    prompt: str
    repeat: int
    order: int
    prompt_tokens: int
    new_tokens: int
    finish: str
    ttft_s: float
    e2e_s: float
    rule: str | None
    steps: tuple[tuple[int, int, int, int, float, float, float, float], ...]
    past_stop: int
    repeated_share: float
    prompt_sha256: str
    output_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An arm that raised on a prompt: its own record, so that errors never pass as speed."""

    process: int
    arm: str
    prompt: str
    repeat: int
    error: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDied:
    """A worker process that ended without saying done; exit_code is negative for a signal."""

    process: int
    task: str
    exit_code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """An arm's peak memory in a fresh process, less what stood after imports.

    `source` is "rss" (peak resident memory) or "cuda" (the allocator's peak).
    """

    arm: str
    peak_bytes: int
    source: str
    prompt: str
    new_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GapNoise:
    """The baseline against itself: its own text in one-row and in block passes.

    `moves` are absolute changes of the gap between the two best logits; `ties` counts the positions
    whose argmax changed.
    """

    prompt: str
    rows: int
    positions: int
    ties: int
    moves: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """An arm's own text scored on the baseline's path at temperature 0.

    `gaps` lists, for each position where the baseline would have said another token, the
    position and how far the arm's token lies below the baseline's, in logits.
    """

    arm: str
    prompt: str
    positions: int
    first_difference: int | None
    gaps: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """An arm's own text scored above temperature 0.

    Sums over positions of -log p(y) - H(p) and of its variance; the steps taken, and their
    mean and variance given the text from the accepted-length law. `outside` counts tokens that
    truncation (top-k, top-p, min-p) leaves no probability when the text is scored; they are in no
    sum. Rounding puts some there at the edge of what is kept, and a wrong cache many.
    """

    arm: str
    prompt: str
    repeat: int
    positions: int
    outside: int
    surprise: float
    surprise_variance: float
    steps: int
    steps_mean: float
    steps_variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Counts of one early token over repeated seeds against its exact law at a fixed prompt.

    `cells` are the most likely tokens, the rest pooled last (id -1); `expected` are their
    exact probabilities under the target.
    """

    arm: str
    prompt: str
    draws: int
    cells: tuple[int, ...]
    counts: tuple[int, ...]
    expected: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something the reader of the report must see: a warning, a cut line, a dropped row."""

    process: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A worker's part of the run is complete."""

    process: int
    task: str


Record = (
    Machine
    | LoadedModel
    | Canary
    | Generated
    | Failed
    | WorkerDied
    | Memory
    | GapNoise
    | Audited
    | Sampled
    | FirstTokens
    | Note
    | Done
)
KINDS: dict[str, type[Record]] = {cls.__name__: cls for cls in Record.__args__}


def to_json(record: Record) -> dict[str, Any]:
    """The record as a JSON object with its kind first."""
    return {"kind": type(record).__name__, **asdict(record)}


def from_json(value: Mapping[str, Any]) -> Record:
    """The record of a JSON object.

    Raises:
        RunFailed: the kind is unknown or a field is missing or unknown (another specq wrote it).
    """
    cls = KINDS.get(str(value.get("kind")))
    if cls is None:
        raise RunFailed(f"unknown record kind {value.get('kind')!r}: this run was written by another version of specq")
    given = {key: _tuples(item) for key, item in value.items() if key != "kind"}
    known = {f.name for f in fields(cls)}
    if extra := sorted(set(given) - known):
        raise RunFailed(
            f"record {cls.__name__} has unknown fields {extra}: this run was written by another version of specq"
        )
    try:
        return cls(**given)
    except TypeError as error:
        raise RunFailed(f"record {cls.__name__} is incomplete: {error}") from error


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
