"""What a user asks the lab for, whole, as run.json keeps it: a run that was stopped goes on with the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from specq.core.typed import checks_of, tuples


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `specq lab measure`, as given; empty tuples and None stand for the defaults."""

    target: str
    kind: str | None = None
    parts: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    new_tokens: int = 32
    repeats: int = 3
    batch: tuple[int, ...] = ()
    seed: int = 0
    text: str = "builtin:manual"
    model: str | None = None
    served_as: str | None = None
    key_env: str | None = None
    prompts: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_share: float | None = None
    machine: str | None = None
    device: str = "auto"
    dtype: str | None = None
    threads: int | None = None
    args: tuple[str, ...] = ()

    @property
    def attached(self) -> bool:
        """Whether the target is a server that runs already."""
        return is_url(self.target)

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        return asdict(self)


def is_url(target: str) -> bool:
    """Whether a target is the address of a server, and no model."""
    return target.startswith(("http://", "https://"))


def from_json(value: Mapping[str, Any]) -> Options:
    """What `to_json` made, back.

    Raises:
        ValueError: a key is missing, unknown, or of another type.
    """
    given = {name: tuples(one) for name, one in value.items()}
    checks = checks_of(Options)
    if wrong := [name for name in checks if name not in given or not checks[name](given[name])]:
        raise ValueError(f"asked lacks {', '.join(wrong)}")
    if extra := sorted(given.keys() - checks.keys()):
        raise ValueError(f"asked has unknown {', '.join(extra)}")
    return Options(**given)
