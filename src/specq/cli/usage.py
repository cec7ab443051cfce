"""A mistake on the command line itself, in one line: what was given, what is allowed and what to type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from specq.core.errors import nearest


def sentence(error: Any) -> str:
    """One line for an error of the command line's parser (typer's own classes, which are not public)."""
    said = str(error.format_message()).rstrip(".")
    context: Any = getattr(error, "ctx", None)
    where = "specq" if context is None else context.command_path
    commands = {} if context is None else getattr(context.command, "commands", {})
    if hasattr(error, "possibilities"):
        options = [name for param in context.command.params for name in param.opts if name.startswith("--")]
        said = _unknown("option", error.option_name, [*options, "--help"])
    elif commands and said.startswith("No such command"):
        said = _unknown("command", said.split("'")[1], commands)
    verb = where.removeprefix("specq").strip()
    return f"{verb}{': ' if verb else ''}{said[0].lower()}{said[1:]}; type: {where} --help"


def is_help(error: Any) -> bool:
    """Whether it is no mistake but a command that was called with nothing, whose help is the answer."""
    context = getattr(error, "ctx", None)
    return context is not None and error.format_message() == context.get_help()


def _unknown(what: str, given: str, known: Iterable[str]) -> str:
    allowed = list(dict.fromkeys(known))
    return f"no {what} {given}{nearest(given, allowed) or ';'} allowed: {', '.join(allowed)}"
