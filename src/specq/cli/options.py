"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from specq.core.errors import ConfigError

File = Annotated[Path, typer.Argument(metavar="FILE", help="Experiment file (TOML).")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name under --out.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override any key; repeatable.")]
Smoke = Annotated[bool, typer.Option("--smoke", help="A minute-long version: few prompts, few tokens, one turn.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs are kept.")]
Gate = Annotated[bool, typer.Option("--gate", help="Exit with 3 when an audit or the floor is not met.")]
GateArm = Annotated[
    str | None, typer.Option("--gate-arm", metavar="ARM", help="Exit with 3 unless the verdict on this arm is keep.")
]
Revision = Annotated[str | None, typer.Option("--revision", help="Commit, branch or tag of a hub id.")]


def refuse_beside_resume(given: typer.Context, command: str, read: Collection[str]) -> None:
    """Refuse every option that --resume does not read: a run goes on as it began."""
    for one in given.command.params:
        source = None if one.name is None else given.get_parameter_source(one.name)
        if source is not None and source.name == "COMMANDLINE" and one.name not in read:
            own = "prompts" if one.name == "prompts" else "settings"
            raise ConfigError(f"{command}: --resume goes on with the run's own {own}; leave {one.opts[0]} out")
