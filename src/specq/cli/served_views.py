"""The part of specq plan on servers: what each arm is started as, and how its draft is verified."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from specq.report.tables import Grid, Paragraph


def served(arms: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """One line an arm with the command that starts its server, then one row a draft; nothing for other engines."""
    for arm in arms:
        if arm["command"]:
            env = [f"{name}={value}" for name, value in arm["env"].items()]
            yield Paragraph(text=f"{arm['arm']}: {shlex.join([*env, *arm['command']])}")
    rows = tuple(
        (arm["arm"], arm["exactness"], arm["rule"] or "", f"{arm['reason']} ({arm['source']})")
        for arm in arms
        if arm["exactness"]
    )
    if rows:
        columns = ("arm", "keeps the target's law", "rule", "why, and who says so")
        yield from ("", Grid(columns=columns, rows=rows, prose=[3]), "")
