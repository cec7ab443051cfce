"""What quality is measured on, and what will not be given up: the tables [[evals]], [floor], [objective], [price]."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from specq.experiment.levers import Table

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# Between an eval's name and a tag in floor.quality.
OF_TAG = ":"
_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)\s*")
_BYTE_UNITS = {
    **{"B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4},
    **{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
}


class Eval(Table):
    """A set of items and the metric that judges the answers, or a task of lm-eval by its name or YAML file.

    `options` are the metric's. A task has metrics, lengths and stops of its own; `metric` picks one of its metrics,
    `num_fewshot` and `chat_template` go with it. Answers are greedy, at most `max_new_tokens` long and cut before the
    first of `stop`. `batch_size` prompts are decoded at a time in all arms alike. An arm with a draft takes over the
    scores of its target once its outputs are proved the same, or is evaluated through its own loop with
    `through_loop`. `probe` is the noise that the sensitivity probe puts on the baseline's weights, as a share of each
    row's spread; 0: no probe.
    """

    name: str
    items: str | None = Field(default=None, min_length=1)
    task: str | None = Field(default=None, min_length=1)
    metric: str | None = Field(default=None, min_length=1)
    options: dict[str, Any] = Field(default_factory=dict)
    num_fewshot: int | None = Field(default=None, ge=0)
    chat_template: bool = False
    limit: int | None = Field(default=None, ge=1)
    max_new_tokens: int = Field(default=48, ge=1, le=1_000_000)
    stop: tuple[str, ...] = Field(default=(), strict=False)
    batch_size: int = Field(default=8, ge=1, le=1024)
    through_loop: bool = False
    probe: float = Field(default=0.2, ge=0, le=10)

    @model_validator(mode="after")
    def _fits_together(self) -> Eval:
        if not NAME.fullmatch(self.name):
            raise ValueError(f'name = "{self.name}": allowed are ASCII letters, digits, - and _')
        if "" in self.stop:
            raise ValueError("stop holds an empty text: allowed are texts of at least one character")
        if (self.items is None) == (self.task is None):
            raise ValueError("give either items (a JSONL file) or task (a task of lm-eval by name or YAML file)")
        if self.items is not None and self.metric is None:
            raise ValueError("metric is missing: items need one")
        ours, theirs = ("options", "max_new_tokens", "stop"), ("num_fewshot", "chat_template")
        for key in ours if self.task is not None else theirs:
            if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True):
                what = "task has its own" if self.task is not None else "items do not read it"
                raise ValueError(f"{key}: {what}, leave it out")
        return self


class Objective(Table):
    """What is minimised above the floor."""

    minimise: Literal["tpot_s", "e2e_s", "device_s_per_answer", "price_per_correct_answer"] = "tpot_s"


class Price(Table):
    """What an hour of the machine costs, or a million tokens, or both, in a currency of the user's own."""

    per_hour: float | None = Field(default=None, gt=0)
    input_price: float | None = Field(default=None, ge=0)
    cached_price: float | None = Field(default=None, ge=0)
    output_price: float | None = Field(default=None, ge=0)
    currency: str = Field(default="EUR", min_length=1)

    @model_validator(mode="after")
    def _fits_together(self) -> Price:
        tokens = {"input_price": self.input_price, "output_price": self.output_price}
        given = [key for key, value in {**tokens, "cached_price": self.cached_price}.items() if value is not None]
        if missing := [key for key, value in tokens.items() if given and value is None]:
            raise ValueError(f"{missing[0]} is missing beside {given[0]}: a bill of tokens needs both")
        if self.per_hour is None and not given:
            raise ValueError("per_hour is missing: give it, or input_price and output_price of a million tokens")
        return self


class Floor(Table):
    """What will not be given up.

    `quality` maps an eval, or "eval:tag" for its items of one tag, to the most that its score may fall, as a share.
    The others are ceilings of latencies in seconds, of memory and of the price of a correct answer, and the least
    speed-up of the objective.
    """

    quality: dict[str, float] = Field(default_factory=dict)
    ttft_s_p95: float | None = Field(default=None, gt=0)
    ttft_s_p99: float | None = Field(default=None, gt=0)
    tpot_s_p95: float | None = Field(default=None, gt=0)
    tpot_s_p99: float | None = Field(default=None, gt=0)
    e2e_s_p95: float | None = Field(default=None, gt=0)
    e2e_s_p99: float | None = Field(default=None, gt=0)
    peak_bytes: int | None = Field(default=None, ge=1)
    speedup: float | None = Field(default=None, gt=0)
    price_per_correct_answer: float | None = Field(default=None, gt=0)

    @field_validator("quality")
    @classmethod
    def _margins(cls, quality: dict[str, float]) -> dict[str, float]:
        for name, margin in quality.items():
            if not 0 < margin < 1:
                raise ValueError(
                    f"quality.{name} = {margin}: allowed is a share above 0 and below 1; 0.02 is 2 points worse"
                )
        return quality

    @field_validator("peak_bytes", mode="before")
    @classmethod
    def _bytes_of_text(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        if not (match := _BYTES.fullmatch(given)):
            raise ValueError(f'peak_bytes = "{given}": allowed is a count of bytes or text like "4 GiB" or "800 MB"')
        return round(float(match[1]) * _BYTE_UNITS[match[2]])


def split(key: str) -> tuple[str, str | None]:
    """An eval's name and the tag, or None for all its items, of a key of floor.quality."""
    name, colon, tag = key.partition(OF_TAG)
    return name, tag if colon else None
