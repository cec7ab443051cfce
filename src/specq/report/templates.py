"""What every page is made with: a template that escapes and refuses unknown names, and one style."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from specq.report.page_text import foreign, label

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def template(file: Path) -> Template:
    """A page's template, with the filters `foreign` and `label` for text that is not the page's own."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(file.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"foreign": foreign, "label": label}
    return environment.get_template(file.name)


@cache
def style() -> str:
    """The style sheet of all pages."""
    return (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
