"""What verdicts rest on: one arm's case, and the ground that all arms of a run share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specq.report.audit import Audit
from specq.report.blocks import Apart
from specq.report.judged import Judged
from specq.report.measures import Measure
from specq.report.price import Price
from specq.report.speed import Compared, Stratum
from specq.stats.intervals import SpeedUp

PROCESSES_FOR_A_VERDICT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a verdict on one arm rests on.

    `faults` are the guards that failed, `shortfall` says how many of its samples failed or are
    not recorded, None when all are there. `changes` says in words how a changed target moves the
    outputs, "" for an arm that must leave them alone. `caveats` go with its speed. `apart` is there
    where it ran in other blocks than the baseline. `quality` is None where the run has no evals,
    `advantage` is what the objective price_per_correct_answer goes by, `price` what its ceiling is held against.
    `kinds` says what the arm changes: draft, lossy (its rule too), quantize, model, kv_cache, prompt, prefix_cache,
    batch.
    """

    arm: str
    label: str
    measures: Mapping[str, Measure]
    compared: Compared
    strata: tuple[Stratum, ...]
    audit: Audit
    faults: tuple[str, ...]
    shortfall: str | None = None
    changes: str = ""
    caveats: tuple[str, ...] = ()
    apart: Apart | None = None
    quality: Judged | None = None
    advantage: SpeedUp | None = None
    price: Price | None = None
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all verdicts of a run share.

    `objective` is tpot_s, e2e_s, device_s_per_answer or price_per_correct_answer. `audited` says that the run audits
    its outputs. `shortfalls` are those of the baselines, named. `null` is the A/A speed-up on the objective, `drift`
    the canary's where it is beyond its limit.
    """

    objective: str = "tpot_s"
    floor: Mapping[str, Any]
    processes: int
    audited: bool
    smoke: bool = False
    complete: bool = True
    shortfalls: tuple[str, ...] = ()
    null: Measure | None = None
    drift: float | None = None

    @property
    def end_to_end(self) -> bool:
        """Whether whole requests are judged, and not decoding alone."""
        return self.objective != "tpot_s"

    @property
    def by_price(self) -> bool:
        """Whether correct answers for the money are judged."""
        return self.objective == "price_per_correct_answer"

    @property
    def by_device(self) -> bool:
        """Whether the device's seconds for an answer are judged."""
        return self.objective == "device_s_per_answer"

    @property
    def measure(self) -> str:
        """The measure of an arm that the objective goes by."""
        if self.by_price or self.by_device:
            return "price_advantage" if self.by_price else "throughput_speedup"
        return "e2e_speedup" if self.end_to_end else "speedup"

    def speed(self, case: Case) -> SpeedUp | None:
        """An arm's speed-up on the objective."""
        if self.by_price or self.by_device:
            return case.advantage if self.by_price else case.compared.device
        return case.compared.e2e if self.end_to_end else case.compared.decode

    def by_process(self, case: Case) -> tuple[tuple[int, float], ...]:
        """The same of each worker process, before what is right of its answers."""
        if self.by_price or self.by_device:
            return case.compared.device_by_process
        return case.compared.e2e_by_process if self.end_to_end else case.compared.by_process

    @property
    def one_of_few(self) -> str:
        """What is to be said where there are too few processes for a firm verdict; else ""."""
        if self.processes >= PROCESSES_FOR_A_VERDICT:
            return ""
        count = f"{self.processes} process{'' if self.processes == 1 else 'es'}"
        return f"measured in {count}, a firm verdict takes {PROCESSES_FOR_A_VERDICT}"
