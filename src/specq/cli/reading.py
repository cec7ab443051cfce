"""The commands that read a run's folder, whichever command wrote it."""

from __future__ import annotations

from pathlib import Path

from specq.cli import labbing, loading
from specq.cli.options import Gate, GateArm, Json, Out, RunArgument
from specq.core.errors import ConfigError
from specq.run.catalog import DEFAULT_OUT, find_run, kind_of


def report(
    run: RunArgument, out: Out = DEFAULT_OUT, json: Json = False, gate: Gate = False, gate_arm: GateArm = None
) -> None:
    """Build a run's report anew from its records."""
    from specq import api
    from specq.cli import output

    folder = find_run(run, out)
    if (gate or gate_arm is not None) and (kind := kind_of(folder)) != "run":
        raise ConfigError(f"--gate asks for audits and verdicts, and {run} is of specq {kind}, which has none")
    if _other(folder, json, write=True):
        return
    made = api.rebuild_report(folder)
    if json:
        output.print_json(made.to_json())
    else:
        output.print_report(made)
    if gate or gate_arm is not None:
        api.check_gate(made, gate_arm)


def show(run: RunArgument, out: Out = DEFAULT_OUT, json: Json = False) -> None:
    """Print a run's report, finished or not; write nothing."""
    from specq import api
    from specq.cli import output

    folder = find_run(run, out)
    if _other(folder, json, write=False):
        return
    made = api.open_run(folder).report
    if json:
        output.print_json(made.to_json())
    else:
        output.print_report(made)


def _other(folder: Path, json: bool, *, write: bool) -> bool:
    """Show the report of a load or lab run; whether it is one."""
    kind = kind_of(folder)
    if kind == "load":
        from specq.load import folder as load_folder
        from specq.load import runs

        info = load_folder.info_of(folder)
        loading.shown(runs.write(folder, info) if write else runs.opened(folder, info), json)
    if kind == "lab":
        from specq.lab import lab_report, measured

        labbing.shown(lab_report.write(folder) if write else measured.open_lab(folder), folder, json, written=write)
    return kind != "run"
