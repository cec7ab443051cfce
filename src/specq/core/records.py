"""The lines of records.jsonl and outputs.jsonl: counts and seconds, never a rate.

Each record is frozen; `kind` on disk names its class. `to_json` is the way to the disk and
`lines.from_json` the way back, so that a record that is read equals the one that was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from specq.core.crossover import Crossover as Crossover
from specq.core.evaluated import EvalAnswer as EvalAnswer
from specq.core.evaluated import EvalChunk as EvalChunk
from specq.core.evaluated import EvalProof as EvalProof
from specq.core.scored import Audited as Audited
from specq.core.scored import Divergence as Divergence
from specq.core.scored import FirstTokens as FirstTokens
from specq.core.scored import GapNoise as GapNoise
from specq.core.scored import Sampled as Sampled
from specq.core.served import SameText as SameText
from specq.core.served import ServedDraws as ServedDraws
from specq.core.served import Serving as Serving
from specq.core.types import Step

Key = tuple[int, str, str, int]
# How the error of an audit that raised begins.
AUDIT = "audit "


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one worker process found itself on.

    `bandwidth_bytes_per_s` is the read bandwidth of the device that holds the weights, measured
    in that process: the median of several tries. `bandwidth_min_bytes_per_s` and
    `bandwidth_max_bytes_per_s` are the slowest and the fastest try, None where they were not kept.
    `imports_bytes` is the resident memory that stood after imports.
    """

    process: int
    bandwidth_bytes_per_s: float
    threads: int
    device: str
    imports_bytes: int
    bandwidth_min_bytes_per_s: float | None = None
    bandwidth_max_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedModel:
    """A model that a recipe quantized for this run, made once and kept.

    `label` says which recipe of which model; `folder` is where it lies, `key` the hash over all that can
    change it. `seconds` and `peak_bytes` are those of making it, which may have been earlier. `recipe` and
    `audit` are a quantize.Recipe and a quantize.QuantAudit as JSON.
    """

    process: int
    label: str
    folder: str
    key: str
    seconds: float
    peak_bytes: int
    recipe: dict[str, Any]
    audit: dict[str, Any] | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model as it was loaded: sizes from the tensors, not from the config. `arms` run on it, () means all."""

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
    arms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The fixed prompt's plain decode time at one moment of the run; shows drift.

    `at_s` counts from the start of its worker's turns. `arm` decoded it: the baseline, or the plain arm of
    a block that runs without it.
    """

    process: int
    at_s: float
    tpot_s: float
    arm: str = "baseline#1"


class StepRow(NamedTuple):
    """A Step as it lies on disk: a row without names, in this order."""

    context: int
    proposed: int
    accepted: int
    emitted: int
    draft_s: float
    verify_s: float
    sample_s: float
    rest_s: float

    @classmethod
    def of(cls, step: Step) -> StepRow:
        """The row of a step; what was copied stands beside the rows."""
        values = asdict(step)
        del values["copied"]
        return cls(**values)

    def step(self) -> Step:
        """The step of this row."""
        return Step(**self._asdict())


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """One arm on one prompt in one turn.

    `steps` holds a row a step. `order` is the place of the arm within the prompt's turn. `past_stop`
    counts tokens after the model's first own eos when the stop is ignored. `cache_share` is the share of the
    keys and values that attention read from a quantized cache, None where the cache is kept as computed. `copied`
    counts the proposals of each step that a lookup copied, all or none; None where no lookup goes before a draft.
    `served` is a core.served.ServedAnswer as JSON, None of an engine of specq's own: there `steps` is empty, and where
    its `counted` is not "ids", no ids are known, and `output_sha256` is that of the text.

    `cached_tokens` counts the prompt's tokens that came out of a prefix cache, None where nobody tells. Of `batch`
    requests that were asked at once, None alone, `batch_s` runs from the first request to the last token of all.

    Where the arm transforms its prompts `prompt_tokens` is what it read, `prompt_tokens_before` what the prompt was and
    `transform_s` what the transform took, which `ttft_s` and `e2e_s` hold; both are None where it does not.
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
    steps: tuple[StepRow, ...]
    past_stop: int
    repeated_share: float
    prompt_sha256: str
    output_sha256: str
    cache_share: float | None = None
    copied: tuple[int, ...] | None = None
    served: dict[str, Any] | None = None
    prompt_tokens_before: int | None = None
    transform_s: float | None = None
    cached_tokens: int | None = None
    batch: int | None = None
    batch_s: float | None = None

    @property
    def device_s(self) -> float:
        """The device's seconds for this answer: all of its own, or its share of those of its batch."""
        if self.batch is None or self.batch_s is None:
            return self.e2e_s
        return self.batch_s / self.batch + (self.transform_s or 0.0)

    @property
    def has_ids(self) -> bool:
        """Whether the ids of its tokens are known."""
        return self.served is None or self.served.get("counted") == "ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An arm that raised on a prompt: its own record, so that errors never pass as speed."""

    process: int
    arm: str
    prompt: str
    repeat: int
    error: str
    message: str

    @property
    def of_audit(self) -> bool:
        """Whether an audit raised, and no sample."""
        return self.error.startswith(AUDIT)


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
    | QuantizedModel
    | LoadedModel
    | Crossover
    | Canary
    | Generated
    | Failed
    | WorkerDied
    | Memory
    | GapNoise
    | Audited
    | Sampled
    | FirstTokens
    | Divergence
    | Serving
    | SameText
    | ServedDraws
    | EvalAnswer
    | EvalChunk
    | EvalProof
    | Note
    | Done
)
KINDS: dict[str, type[Record]] = {cls.__name__: cls for cls in Record.__args__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A line of outputs.jsonl: the answer whose Generated record has the same arm, prompt, repeat and process."""

    arm: str
    prompt: str
    repeat: int
    process: int
    ids: tuple[int, ...]
    text: str


def key(line: Generated | Output) -> Key:
    """(process, arm, prompt, repeat): what a record and its output share."""
    return (line.process, line.arm, line.prompt, line.repeat)


def to_json(record: Record) -> dict[str, Any]:
    """The record as a JSON object with its kind first."""
    return {"kind": type(record).__name__, **asdict(record)}


def failed_arms(records: Iterable[Record]) -> dict[str, Failed]:
    """Per arm whose every sample raised, the first failure; an arm that answered once is not among them."""
    first: dict[str, Failed] = {}
    answered = set()
    for record in records:
        if isinstance(record, Generated):
            answered.add(record.arm)
        elif isinstance(record, Failed) and not record.of_audit:
            first.setdefault(record.arm, record)
    return {arm: failure for arm, failure in first.items() if arm not in answered}
