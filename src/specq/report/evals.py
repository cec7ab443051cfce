"""What an eval says, as data: scores, paired differences, flips, and what speaks against trusting them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specq.report.measures import Measure
from specq.stats.scores import Difference, Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """An item whose score changed: what was asked, what is right, both answers, and why the worse one is not right."""

    item: str
    critical: bool
    prompt: str
    reference: str
    before: str
    after: str
    score_before: float
    score_after: float
    why: str

    @property
    def worse(self) -> bool:
        """Whether the arm did worse on it than the baseline."""
        return self.score_after < self.score_before


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One arm on an eval's items, or on those of one tag (None: all).

    `rate` is the arm's own score; `change` the paired difference from the baseline's. `margin` is the floor's, None
    without one.
    """

    tag: str | None
    rate: Rate
    change: Difference
    margin: float | None

    @property
    def outcome(self) -> str:
        """keep, reject or undecided against the margin; "" without one."""
        return "" if self.margin is None else self.change.against(self.margin).outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmQuality:
    """What an eval says of one arm.

    `source` is the id of the arm that made its answers, "" where nobody did; `how` says so in words. `unseen` says why
    the eval cannot see what the arm does to the outputs, "" where it can. `proved` says that its scores are those of
    the baseline's own answers. `slices` begins with all items. `broken` lists critical items on which the baseline has
    the full score (1) and the arm less, or none. `unscored` counts items that the baseline has a score for and the arm
    has not. `faults` make the comparison void, `flags` are to be read with it. `seconds` are those of its own answers,
    None where it has none. `cut`, `empty` and `looping` count answers that ended at max_new_tokens, that say nothing,
    and that repeat themselves.
    """

    arm: str
    label: str
    source: str
    how: str
    slices: tuple[Slice, ...]
    flips: tuple[Flip, ...]
    broken: tuple[str, ...]
    failed: int
    cut: int
    empty: int
    looping: int
    answers: int
    seconds: float | None
    faults: tuple[str, ...]
    flags: tuple[str, ...]
    unscored: int = 0
    unseen: str = ""
    proved: bool = False

    @property
    def all(self) -> Slice | None:
        """All items; None where nothing can be compared."""
        return self.slices[0] if self.slices else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """One eval of a run. `noise` is the baseline against itself at another batch size, `probe` with noisy weights.

    `baseline` is None where the baseline answered nothing, and `own` are its answers. `against_control` are sentences
    on calibrated methods held against round-to-nearest at the same bits. `margins` are the floor's, by tag.
    `unmeasured` says of each guard that was not measured why not. `critical` counts critical items, and `can_break`
    those of them on which the baseline has the full score.
    """

    name: str
    metric: str
    output: str
    binary: bool
    items: int
    clusters: int
    batch_size: int
    baseline: Rate | None
    tags: Mapping[str, Rate]
    arms: tuple[ArmQuality, ...]
    noise: ArmQuality | None
    noise_batch_size: int | None
    probe: ArmQuality | None
    probe_noise: float
    flags: tuple[str, ...]
    against_control: tuple[str, ...]
    own: ArmQuality | None = None
    margins: Mapping[str | None, float] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    critical: int = 0
    can_break: int = 0

    def arm(self, id: str) -> ArmQuality | None:
        """The arm of that id, None where it is not judged."""
        return next((one for one in self.arms if one.arm == id), None)

    @property
    def caught(self) -> bool | None:
        """Whether the eval noticed the probe's noise: its upper bound lies below 0; None without a probe.

        A probe that was asked and has no score noticed nothing.
        """
        if self.probe is None:
            return None
        return self.probe.all is not None and self.probe.all.change.high_one_sided < 0


def measures(report: EvalReport, arm: str) -> tuple[Measure, ...]:
    """`quality.EVAL` of an arm, its own score, and `quality_change.EVAL` against the baseline."""
    found = report.arm(arm)
    if found is None or found.all is None:
        return ()
    rate, change = found.all.rate, found.all.change
    against = f"{change.method}; n = items, in {change.clusters} clusters"
    return (
        _measure(f"quality.{report.name}", report, rate, found.how),
        _measure(f"quality_change.{report.name}", report, change, against),
    )


def _measure(name: str, report: EvalReport, found: Rate | Difference, note: str) -> Measure:
    unit = "share" if report.binary else "score"
    return Measure(name=name, unit=unit, value=found.value, low=found.low, high=found.high, n=found.n, note=note)
