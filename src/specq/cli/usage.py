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
    elif getattr(error, "param", None) is not None and hasattr(error.__cause__, "errors"):
        said = _value(error) or said
    elif commands and said.startswith("No such command"):
        said = _unknown("command", said.split("'")[1], commands)
    verb = where.removeprefix("specq").strip()
    return f"{verb}{': ' if verb else ''}{said[0].lower()}{said[1:]}; type: {where} --help"


def _value(error: Any) -> str:
    """A value that its option does not take, in place of the words of the library that reads it; "" for another error.

    What an option takes is asked of the type that reads it, so that the words hold for every option.
    """
    schema = error.param.get_runtime_param().adapter.json_schema()
    schema = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    kind = {"integer": "a whole number", "number": "a number"}.get(schema.get("type"))
    if kind is None:
        return ""
    name = error.param.opts[0] if error.param.param_type_name == "option" else error.param.human_readable_name
    given = error.__cause__.errors(include_url=False)[0]["input"]
    low, high = schema.get("minimum"), schema.get("maximum")
    limits = "" if low is None else f" from {low:g} to {high:g}" if high is not None else f", {low:g} or more"
    return f"{name} {given}: allowed is {kind}{limits}"


def is_help(error: Any) -> bool:
    """Whether it is no mistake but a command that was called with nothing, whose help is the answer."""
    context = getattr(error, "ctx", None)
    return context is not None and error.format_message() == context.get_help()


def _unknown(what: str, given: str, known: Iterable[str]) -> str:
    allowed = list(dict.fromkeys(known))
    return f"no {what} {given}{nearest(given, allowed) or ';'} allowed: {', '.join(allowed)}"
