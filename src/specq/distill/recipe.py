"""What a distillation is asked to do, checked before anything loads; imports no model library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from specq.core.errors import ConfigError

Loss = Literal["kl", "overlap"]
LOSSES: tuple[Loss, ...] = ("kl", "overlap")
SELF = "self"
"""The value of `texts` for texts that the target writes from its own chat template."""
LEAST_MINUTES = 0.5
SAMPLING_SHARE = 0.40
"""The share of the minutes in which the target writes its texts."""
TRAINING_SHARE = 0.55
"""The share of the minutes for training; what is left goes into loading, checking and measuring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One distillation.

    `layers` is a count ("4": spread, first and last kept) or a list ("0,1,15,29"). `texts` is "self" or a file,
    `prompts` a file of held-out prompts or None. `temperature` is that of the sampled texts and of the laws in the
    loss (1 in the loss where it is 0). `tokens` and `steps` end sampling and training after so many instead of after
    their share of the minutes. `vocabulary` is how many ids the draft proposes from, None: all.
    """

    layers: str
    texts: str = SELF
    prompts: str | None = None
    minutes: float = 45.0
    loss: Loss = "kl"
    temperature: float = 1.0
    seed: int = 0
    tokens: int | None = None
    steps: int | None = None
    vocabulary: int | None = None

    @property
    def sampling_s(self) -> float:
        """Seconds for the target's texts."""
        return 60 * self.minutes * SAMPLING_SHARE

    def training_s(self, sampled_s: float) -> float:
        """Seconds for training after so many for the texts: its own share, and what of the texts' is left."""
        return 60 * self.minutes * TRAINING_SHARE + max(0.0, self.sampling_s - sampled_s)

    @property
    def loss_temperature(self) -> float:
        """The temperature of both laws in the loss."""
        return self.temperature or 1.0

    def to_json(self) -> dict[str, Any]:
        """All keys as plain values."""
        return asdict(self)


def make(values: Mapping[str, Any]) -> Recipe:
    """A checked recipe.

    Raises:
        ConfigError: a value is out of range.
    """
    recipe = Recipe(**values)
    if recipe.loss not in LOSSES:
        raise ConfigError(f"--loss {recipe.loss}: allowed is {' or '.join(LOSSES)}")
    if not (math.isfinite(recipe.temperature) and 0 <= recipe.temperature <= 10):
        raise ConfigError(f"--temperature {recipe.temperature:g}: allowed is 0 to 10; 0 is greedy")
    if not math.isfinite(recipe.minutes) or recipe.minutes < LEAST_MINUTES:
        raise ConfigError(
            f"--minutes {recipe.minutes:g}: loading and measuring alone take as long; allowed is {LEAST_MINUTES} or "
            "more, and 45 is the default"
        )
    for name in ("tokens", "steps", "vocabulary"):
        if (value := getattr(recipe, name)) is not None and value < 1:
            raise ConfigError(f"--{name} {value}: allowed is 1 or more")
    if recipe.temperature == 0 and recipe.texts == SELF:
        raise ConfigError(
            "--temperature 0 with --texts self: a greedy target writes the same text each time; give --texts FILE "
            "with prompts, or a temperature above 0"
        )
    if recipe.seed < 0:
        raise ConfigError(f"--seed {recipe.seed}: allowed is 0 or more")
    if not recipe.texts.strip():
        raise ConfigError("--texts is empty: allowed is a file, or self")
    listed(recipe.layers)
    return recipe


def listed(asked: str) -> list[int]:
    """The whole numbers of `layers`.

    Raises:
        ConfigError: something else stands there.
    """
    parts = [part.strip() for part in asked.split(",")]
    # A comma at the end makes a list of a single layer's number.
    parts = parts[:-1] if len(parts) == 2 and not parts[1] else parts
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ConfigError(
            f"--layers {asked!r}: allowed is how many (--layers 4) or which of them from 0 (--layers 0,1,15,29)"
        )
    return [int(part) for part in parts]


def chosen(asked: str, total: int) -> tuple[int, ...]:
    """The layers to keep of `total`, rising.

    A count spreads them evenly from the first to the last; a single one is the first.

    Raises:
        ConfigError: none, all or more of them; one out of range, twice or out of order.
    """
    numbers = listed(asked)
    if total < 2:
        raise ConfigError(
            f"--layers {asked}: the target has a single layer, so no draft can keep fewer: give a target with more"
        )
    if "," not in asked:
        count = numbers[0]
        if not 1 <= count < total:
            raise ConfigError(f"--layers {asked}: the target has {total} layers; {_allowed(total)}")
        last = max(1, count - 1)
        return tuple(dict.fromkeys(round(i * (total - 1) / last) for i in range(count)))
    _check_list(asked, numbers, total)
    return tuple(numbers)


def _allowed(total: int) -> str:
    return "allowed is 1" if total == 2 else f"allowed is 1 to {total - 1}"


def _check_list(asked: str, numbers: Sequence[int], total: int) -> None:
    if wrong := [n for n in numbers if n >= total]:
        raise ConfigError(
            f"--layers {asked}: no layer {wrong[0]}, the target's {total} layers are 0 to {total - 1}; "
            "a number without a comma is how many"
        )
    if len(set(numbers)) < len(numbers):
        twice = next(n for i, n in enumerate(numbers) if n in numbers[:i])
        raise ConfigError(f"--layers {asked}: layer {twice} stands twice; name each once")
    if sorted(numbers) != list(numbers):
        raise ConfigError(
            f"--layers {asked}: layers keep the target's order; type --layers {','.join(map(str, sorted(numbers)))}"
        )
    if len(numbers) >= total:
        raise ConfigError(f"--layers {asked}: these are all {total} layers of the target; name fewer")
