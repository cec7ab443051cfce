"""Reads a run folder and says what it shows. Imports no model library."""

from specq.report.arm import ArmReport
from specq.report.assemble import Report, build, write
from specq.report.measures import Measure
from specq.report.opened import Run, open_run

__all__ = ["ArmReport", "Measure", "Report", "Run", "build", "open_run", "write"]
