"""Options of the commands that read workloads and logs."""

from __future__ import annotations

from typing import Annotated

import typer

Format = Annotated[str, typer.Option("--format", metavar="NAME", help="auto, or a format by name.")]
Turns = Annotated[
    str, typer.Option("--turns", metavar="WHICH", help="Of a ShareGPT conversation: first question, or each.")
]
Tag = Annotated[
    str | None, typer.Option("--tag", metavar="KEY", help="A key of the rows, as metadata.app, whose value is a tag.")
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="The first so many rows.")]
Tokenizer = Annotated[
    str | None, typer.Option("--tokenizer", metavar="MODEL", help="Whose tokens count; loads no weights.")
]
Keep = Annotated[bool, typer.Option("--keep-personal-data", help="Leave e-mail addresses, phones, keys as they are.")]
Regions = Annotated[
    list[str] | None,
    typer.Option("--phone-region", metavar="CC", help="A country whose numbers need no country code; repeatable."),
]
DEFAULT_REGIONS = ("US",)
