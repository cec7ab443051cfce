"""The specq command: arguments in, one call of specq.api out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

import specq
from specq.cli import (
    costing,
    distilling,
    drafting,
    evaluating,
    importing,
    labbing,
    loading,
    prompting,
    quantizing,
    reading,
    replaying,
    sizing,
    starting,
    stdout,
    usage,
    workloading,
)
from specq.cli.options import File, Gate, GateArm, Json, Out, Revision, Set, Smoke
from specq.core.errors import ConfigError, RunFailed, SpecqError
from specq.run.catalog import DEFAULT_OUT

STOPPED = 130

app = typer.Typer(
    help="Speculative decoding and quantization experiments: an answer, its evidence and its price.",
    epilog="--debug, anywhere on the line, shows the traceback of an error.",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)
models = typer.Typer(help="Built-in models, and the facts of any model.", rich_markup_mode=None, no_args_is_help=True)
app.add_typer(models, name="models")
app.add_typer(evaluating.app, name="evals")
app.add_typer(labbing.app, name="lab")


@app.command()
def run(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Experiment file (TOML).")] = None,
    set_: Set = None,
    smoke: Smoke = False,
    resume: Annotated[str | None, typer.Option("--resume", metavar="RUN", help="Go on with an unfinished run.")] = None,
    out: Out = DEFAULT_OUT,
    json: Json = False,
    gate: Gate = False,
    gate_arm: GateArm = None,
) -> None:
    """Run an experiment and print its report."""
    from specq import api
    from specq.cli import output
    from specq.cli.progress import watch

    if file is None and resume is None:
        raise ConfigError("run: no FILE and no --resume RUN; type: specq run experiments/quickstart.toml")
    if file is None and (set_ or smoke):
        raise ConfigError("run: --set and --smoke change an experiment, so FILE must be given; or leave them out")
    experiment = None if file is None else api.load_experiment(file, set_ or (), smoke=smoke)
    if experiment is not None and gate_arm is not None:
        from specq.report.gate import check_name, names_of

        check_name(gate_arm, names_of(experiment))
    failed: RunFailed | None = None
    with watch() as on_progress:
        try:
            folder = api.run_experiment(experiment, out=out, resume=resume, on_progress=on_progress)
        except RunFailed as error:
            # An arm without any answer or score: the others have theirs, so what the run found is printed.
            if error.finished is None:
                raise
            failed, folder = error, error.finished
    report = api.open_run(folder).report
    if json:
        output.print_json({"run": str(folder), "report": report.to_json()})
    else:
        output.print_report(report)
        output.line(f"Report: {folder / 'report.html'}, and report.md beside it")
    if failed is not None:
        raise failed
    if gate or gate_arm is not None:
        api.check_gate(report, gate_arm)


@app.command()
def plan(file: File, set_: Set = None, smoke: Smoke = False, json: Json = False) -> None:
    """Show arms, bytes, ceilings and refusals; load no weights."""
    from specq import api
    from specq.cli import output, views

    made = api.plan_experiment(api.load_experiment(file, set_ or (), smoke=smoke))
    if json:
        output.print_json(made.to_json())
    else:
        output.show(views.plan(made.to_json()))
    made.check()


app.command()(starting.init)
app.command()(drafting.drafts)
app.command()(replaying.replay)
app.command()(quantizing.quantize)
app.command()(quantizing.audit)
app.command()(distilling.distill)
app.command()(sizing.size)
app.command()(workloading.workload)
app.command()(prompting.prompts)
app.command()(costing.cost)
app.command()(loading.load)
app.command("import")(importing.import_)


@app.command()
def doctor(json: Json = False) -> None:
    """Say what this machine can run, and what it cannot and why."""
    from specq import api
    from specq.cli import output, views

    facts = api.doctor()
    if json:
        output.print_json(facts)
    else:
        output.show(views.doctor(facts))


app.command()(reading.report)
app.command()(reading.show)


@app.command()
def ls(out: Out = DEFAULT_OUT, json: Json = False) -> None:
    """List the runs: when, what was asked, and whether they are done."""
    from dataclasses import asdict

    from specq import api
    from specq.cli import output, views

    found = api.list_runs(out)
    if json:
        output.print_json({"runs": [asdict(one) for one in found]})
    else:
        output.show(views.runs(found, out))


@app.command()
def version() -> None:
    """Print the version."""
    sys.stdout.write(f"specq {specq.__version__}\n")


@models.command("fetch")
def models_fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A built-in model, a hub id or a GGUF file.")
    ] = "smollm2-135m",
    gguf: Annotated[bool, typer.Option("--gguf", help="A built-in's GGUF file, for servers that load such.")] = False,
) -> None:
    """Bring a model into the cache, once."""
    from specq import api
    from specq.cli import output

    output.line(str(api.fetch_model(name, gguf=gguf, progress=output.note)))


@models.command("ls")
def models_ls(json: Json = False) -> None:
    """List the built-in models and whether they are fetched."""
    from specq import api
    from specq.cli import output, views

    found = api.list_models()
    if json:
        output.print_json({"models": found})
    else:
        output.show(views.models(found))


@models.command("facts")
def models_facts(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Hub id, folder, GGUF file or built-in.")],
    revision: Revision = None,
    json: Json = False,
) -> None:
    """A model in numbers, from its config and headers."""
    from specq import api
    from specq.cli import output, views

    facts = api.model_facts(name, revision=revision)
    if json:
        output.print_json(facts)
    else:
        output.show(views.facts(facts))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 a failed run, 2 a mistake, 3 a failed gate, 130 stopped.

    It is 141 where nobody reads what is printed any more.
    """
    try:
        return stdout.flush(_command(argv))
    except stdout.Full as error:
        return _say(str(error), 2)


def _command(argv: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given
    try:
        # Outside of its standalone mode the parser raises its errors, so that each becomes one line like all others.
        code = app([word for word in given if word != "--debug"], prog_name="specq", standalone_mode=False)
        # A stop before a command listens for signals; the parser makes a code of it and says nothing.
        return _say("stopped; nothing was recorded", code) if code == STOPPED else int(code or 0)
    except TyperException as error:
        if usage.is_help(error):
            sys.stdout.write(f"{error.format_message()}\n")
            return error.exit_code
        return _say(usage.sentence(error), error.exit_code)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            # So parser and console end where nobody reads what they print.
            stdout.drop()
            return stdout.UNREAD
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except SpecqError as error:
        if debug:
            raise
        return _say(str(error), error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has closed it; there is nobody left to tell.
        stdout.drop()
        return stdout.UNREAD
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError) and (full := stdout.full(error)) is not None:
            return _say(str(full), 2)
        return _say(f"internal error, {type(error).__name__}: {error} (--debug shows where)", 1)


def _say(message: str, code: int) -> int:
    # Where stderr takes nothing either, the code alone is left to tell.
    with suppress(OSError):
        sys.stderr.write(f"specq: {' '.join(message.split())}\n")
        sys.stderr.flush()
    return code
