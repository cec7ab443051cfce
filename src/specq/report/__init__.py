"""Reads a run folder and says what it shows. Imports no model library."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specq.report.arm import ArmReport
    from specq.report.assemble import Report, build, write
    from specq.report.measures import Measure
    from specq.report.opened import Run, open_run

__all__ = ["ArmReport", "Measure", "Report", "Run", "build", "open_run", "write"]
_HOMES = {"ArmReport": "arm", "Measure": "measures", "Run": "opened", "open_run": "opened"}


def __getattr__(name: str) -> Any:
    # Commands that print a table and read no run would else wait for all that a report is made of.
    if name in __all__:
        return getattr(import_module(f"specq.report.{_HOMES.get(name, 'assemble')}"), name)
    raise AttributeError(f"module 'specq.report' has no attribute {name!r}")
