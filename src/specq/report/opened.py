"""A run as Python objects and pandas frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specq.core.records import Record, StepRow
from specq.report.assemble import Report, of_run
from specq.report.measures import Measure
from specq.report.runfile import RunFile, load

if TYPE_CHECKING:
    import pandas as pd

TURN = ("process", "arm", "prompt", "repeat")
FLAT = (
    "order",
    "prompt_tokens",
    "new_tokens",
    "finish",
    "ttft_s",
    "e2e_s",
    "rule",
    "past_stop",
    "repeated_share",
    "cache_share",
    "prompt_sha256",
    "output_sha256",
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that was opened: what was asked, what happened, and what follows from it."""

    file: RunFile

    @property
    def info(self) -> Mapping[str, Any]:
        """run.json: question, config, arms, prompts, provenance."""
        return self.file.info

    @property
    def records(self) -> list[Record]:
        """Every record, in the order in which it was written."""
        return list(self.file.records)

    @property
    def outputs(self) -> list[Mapping[str, Any]]:
        """Token ids and text: arm, prompt, repeat, process, ids, text."""
        return list(self.file.outputs)

    @cached_property
    def report(self) -> Report:
        """The report, derived anew."""
        return of_run(self.file)

    @property
    def measures(self) -> dict[str, list[Measure]]:
        """Per arm id, its measures."""
        return {arm.id: list(arm.measures.values()) for arm in self.report.arms}

    @cached_property
    def generations(self) -> pd.DataFrame:
        """One row a generation: the fields of Generated, the count of its steps, tpot_s and the prompt's tags."""
        import pandas as pd

        tags = {str(prompt["id"]): tuple(prompt.get("tags", ())) for prompt in self.info["prompts"]}
        rows = [
            {
                **{name: getattr(g, name) for name in TURN + FLAT},
                "steps": len(g.steps),
                "tpot_s": (g.e2e_s - g.ttft_s) / (g.new_tokens - 1) if g.new_tokens > 1 else None,
                "tags": tags.get(g.prompt, ()),
            }
            for turns in self.file.generated.values()
            for g in turns.values()
        ]
        return pd.DataFrame(rows, columns=[*TURN, *FLAT, "steps", "tpot_s", "tags"])

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row a step: its generation (process, arm, prompt, repeat), its number from 1, counts and seconds."""
        import pandas as pd

        rows = [
            (g.process, g.arm, g.prompt, g.repeat, number, *step)
            for turns in self.file.generated.values()
            for g in turns.values()
            for number, step in enumerate(g.steps, start=1)
        ]
        return pd.DataFrame(rows, columns=[*TURN, "step", *StepRow._fields])

    @cached_property
    def measures_frame(self) -> pd.DataFrame:
        """One row a measure: arm, name, unit, value, low, high, n, note."""
        import pandas as pd

        columns = ["name", "unit", "value", "low", "high", "n", "note"]
        rows = [
            {"arm": arm, **{column: getattr(measure, column) for column in columns}}
            for arm, measures in self.measures.items()
            for measure in measures
        ]
        return pd.DataFrame(rows, columns=["arm", *columns])


def open_run(path: Path | str) -> Run:
    """Open a run's folder, finished or not.

    Raises:
        RunFolderError: not a run's folder, or its files are damaged.
    """
    return Run(file=load(path))
