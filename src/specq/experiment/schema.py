"""An experiment as data: the tables of an experiment file, their defaults and their limits."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr, model_validator

from specq.core import hashes
from specq.core.errors import nearest
from specq.core.types import Sampling
from specq.experiment.engine_table import Engine as Engine
from specq.experiment.levers import Lever, Table
from specq.experiment.quality import NAME, Eval, Floor, Objective, Price, split

# What config_sha256 leaves out: words for the reader, which cannot change a number. What a smoke run cuts is in
# other keys.
HASH_LEAVES_OUT = ("question", "name", "smoke")

_RESERVED_LEVERS = ("baseline", "each")


class Target(Table):
    """The model being served: hub id, folder, GGUF file or built-in; a revision pins a hub id."""

    model: str = Field(min_length=1)
    revision: str | None = Field(default=None, min_length=1)


class Workload(Table):
    """What speed is measured on.

    `lengths` "equal" ignores every stop, so that all arms emit max_new_tokens; "natural" lets
    the model stop. `limit` takes the first prompts of the file, in file order. `processes`
    counts fresh worker processes, `repeats` balanced turns in each. `order` "interleaved" lets all
    arms take turns on each prompt, while memory holds all targets together; "blocks" holds one
    target at a time and runs its arms by themselves. `memory` measures each arm's peak in a
    process of its own.
    """

    prompts: str = Field(min_length=1)
    limit: int | None = Field(default=None, ge=1)
    max_new_tokens: int = Field(default=64, ge=1, le=1_000_000)
    min_new_tokens: int = Field(default=0, ge=0)
    lengths: Literal["equal", "natural"] = "equal"
    temperature: float = Field(default=0.0, ge=0, le=100)
    top_k: int = Field(default=0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0, le=100)
    stop: tuple[str, ...] = Field(default=(), strict=False)
    repeats: int = Field(default=2, ge=1, le=1000)
    processes: int = Field(default=1, ge=1, le=100)
    order: Literal["interleaved", "blocks"] = "interleaved"
    seed: int = Field(default=0, ge=0, le=(1 << 63) - 1)
    memory: bool = True

    @model_validator(mode="after")
    def _lengths_agree(self) -> Workload:
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError(
                f"min_new_tokens = {self.min_new_tokens}: allowed is 0 to max_new_tokens ({self.max_new_tokens})"
            )
        if "" in self.stop:
            raise ValueError("stop holds an empty text: allowed are texts of at least one character")
        if self.stop and self.lengths == "equal":
            raise ValueError('stop: lengths = "equal" ignores every stop; write lengths = "natural" or take stop out')
        return self


class Arms(Table):
    """Which levers run together: "each" runs every lever alone, "a + b" runs two in one arm."""

    run: tuple[str, ...] = Field(default=("each",), strict=False)


class Canary(Table):
    """How far the fixed prompt's time may drift before the run is flagged, as a share of its median."""

    drift_limit: float = Field(default=0.15, gt=0, le=10)


class Audit(Table):
    """The check that lossless arms were lossless; `seeds` draws bound the first tokens' law."""

    enabled: bool = True
    seeds: int = Field(default=100, ge=1, le=1_000_000)


class Origin(NamedTuple):
    """The file that an experiment was read from, what `--set` put over it, and whether it was cut to a smoke run."""

    file: str
    overrides: tuple[str, ...]
    smoke: bool


class Experiment(Table):
    """One question, asked of one target. Equal experiments have equal `config_sha256`, wherever they are from.

    `smoke` says that the run was cut short to see that all works; its report draws no conclusion.
    """

    name: str
    question: str = ""
    smoke: bool = False
    target: Target
    engine: Engine = Field(default_factory=Engine)
    workload: Workload
    levers: dict[str, Lever] = Field(default_factory=dict)
    arms: Arms = Field(default_factory=Arms)
    canary: Canary = Field(default_factory=Canary)
    audit: Audit = Field(default_factory=Audit)
    objective: Objective = Field(default_factory=Objective)
    floor: Floor = Field(default_factory=Floor)
    price: Price | None = None
    evals: tuple[Eval, ...] = Field(default=(), strict=False)
    _origin: Origin | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self.resolved() == other.resolved()

    @property
    def origin(self) -> Origin | None:
        """Where it was read from; None where it was made in Python."""
        return self._origin

    def read_from(self, origin: Origin) -> Experiment:
        """The same, with where it was read from."""
        own = self.model_copy()
        own._origin = origin
        return own

    @model_validator(mode="after")
    def _fits_together(self) -> Experiment:
        if not NAME.fullmatch(self.name):
            raise ValueError(f'name = "{self.name}": allowed are ASCII letters, digits, - and _ (it names a folder)')
        for name in self.levers:
            if not NAME.fullmatch(name) or name in _RESERVED_LEVERS:
                raise ValueError(
                    f'levers: "{name}" cannot name a lever, allowed are ASCII letters, digits, - and _, '
                    f"and not {' or '.join(_RESERVED_LEVERS)}"
                )
        self.lever_sets()
        self._quality_fits()
        return self

    def _quality_fits(self) -> None:
        """Refuse what is to be held against nothing: margins of no eval, a price without a price sheet."""
        names = [one.name for one in self.evals]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f'evals: the name "{twice[0]}" stands twice; names are unique')
        for key in self.floor.quality:
            if (name := split(key)[0]) not in names:
                known = ", ".join(names) or "none: there is no [[evals]]"
                raise ValueError(
                    f'floor.quality: no eval is called "{name}"{nearest(name, names) or ";"} the evals are {known}'
                )
        priced = self.objective.minimise == "price_per_correct_answer" or self.floor.price_per_correct_answer
        if priced and (self.price is None or self.price.per_hour is None or not self.evals):
            raise ValueError(
                "price_per_correct_answer: it needs [price] with per_hour, and [[evals]] that say what is correct"
            )
        if priced and len(names) > 1:
            raise ValueError(f"price_per_correct_answer: it needs one eval to be about, given are {', '.join(names)}")

    def lever_sets(self) -> tuple[tuple[str, ...], ...]:
        """The lever names of each arm beside the baseline, sorted within an arm; no arm stands twice.

        Raises:
            ValueError: `arms.run` names an unknown lever, one lever twice, two levers of one kind in one arm, or two
                that both name the weights.
        """
        sets: dict[tuple[str, ...], None] = {}
        for entry in self.arms.run:
            if entry.strip() == "each":
                sets.update(dict.fromkeys((name,) for name in self.levers))
            else:
                sets[self._levers_of(entry)] = None
        return tuple(sets)

    def _levers_of(self, entry: str) -> tuple[str, ...]:
        names = [part.strip() for part in entry.split("+")]
        for name in names:
            if name not in self.levers:
                known = ("each", *self.levers)
                raise ValueError(
                    f'arms.run: no lever is called "{name}"{nearest(name, known) or ";"} allowed: {", ".join(known)}'
                )
        if len(set(names)) < len(names):
            raise ValueError(f'arms.run: "{entry}" names one lever twice; name each once')
        kinds = [self.levers[name].kind for name in names]
        if twice := sorted({kind for kind in kinds if kinds.count(kind) > 1}):
            raise ValueError(f'arms.run: "{entry}" has two levers of kind {twice[0]}; name one of each kind')
        own = dict(zip(kinds, names, strict=True))
        if "model" in own and "quantize" in own and (folder := self.levers[own["quantize"]].model) is not None:
            raise ValueError(
                f'arms.run: "{entry}" names two sets of weights, {folder} ({own["quantize"]}) and '
                f"{self.levers[own['model']].model} ({own['model']}); give {own['quantize']} a recipe, which quantizes "
                "whatever stands in the target's place, or name one of them"
            )
        return tuple(sorted(names))

    def resolved(self) -> dict[str, Any]:
        """Every key with its value, defaults filled in, as JSON values; `config.from_resolved` reads it back."""
        return self.model_dump(mode="json")

    @property
    def config_sha256(self) -> str:
        """Hex sha256 of `resolved()` less HASH_LEAVES_OUT."""
        return hashes.of_json({key: value for key, value in self.resolved().items() if key not in HASH_LEAVES_OUT})

    def sampling(self) -> Sampling:
        """How tokens are drawn; `seed` is the run's, from which each prompt's own seed is derived."""
        load = self.workload
        return Sampling(
            temperature=load.temperature,
            top_k=load.top_k,
            top_p=load.top_p,
            min_p=load.min_p,
            repetition_penalty=load.repetition_penalty,
            min_new_tokens=load.min_new_tokens,
            max_new_tokens=load.max_new_tokens,
            stop=load.stop,
            ignore_eos=load.lengths == "equal",
            seed=load.seed,
        )
