"""From what a user gives to what a load run is asked: an experiment's own settings stand where nothing else is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError
from specq.core.types import Sampling
from specq.experiment import config
from specq.experiment.schema import Experiment
from specq.experiment.served_settings import reads_tokens_of
from specq.load import servers as serving
from specq.load.asked import FLOORS, Arrivals, Asked, Server, check_address
from specq.load.given import HERE, Given
from specq.load.prompts import MESSAGES
from specq.workloads.reading import How

LEVELS = (1, 2, 4, 8)
"""Levels of a closed loop on servers that are started, unless somebody says otherwise."""
SLOTS = 8
"""Requests that a server runs at once that is started for an open loop, unless somebody says otherwise."""
MAX_TOKENS = 128
REGIONS = ("US",)
"""Where telephone numbers are of, unless somebody says otherwise."""
_OWN = ("temperature", "max_new_tokens", "ignore_eos", "seed", "eos_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What measure_load was given; None is what nothing was said about."""

    target: str | None
    prompts: Path | None
    kind: str | None
    model: str | None
    name: str | None
    key_env: str | None
    against: str | None
    against_kind: str | None
    against_model: str | None
    against_name: str | None
    arms: Sequence[str]
    overrides: Sequence[str]
    engine: Mapping[str, Any]
    chunks: Sequence[str]
    concurrency: Sequence[int]
    rate: Sequence[float]
    steady: bool
    trace: Path | None
    repeats: int | None
    max_tokens: int | None
    temperature: float | None
    ignore_eos: bool
    seed: int | None
    limit: int | None
    limit_s: float | None
    tokenizer: str | None
    floors: Mapping[str, float]
    how: How
    files: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> tuple[Asked, Given, Experiment | None]:
        """What is asked, the files, and the experiment that the servers are from.

        Raises:
            UserError: what was given does not go together, or a value will not do.
        """
        if self.concurrency and (self.rate or self.trace):
            raise ConfigError("--concurrency is a closed loop, --rate and --trace are open ones: give one of them")
        self._refuse_idle()
        target = self.target or self.model
        if target is None:
            raise ConfigError(
                "load: a server is needed: the URL of one that runs, an experiment, or a model and its --kind; type: "
                "specq load http://HOST:PORT --prompts FILE --concurrency 1,2"
            )
        if target.startswith(("http://", "https://")):
            return self._attached(target)
        if self.against is not None:
            raise ConfigError("--against is a server that runs beside one that does; arms of an experiment are started")
        if target.endswith(".toml"):
            return self._of_experiment(Path(target))
        if "://" in target or "@" in target:
            # It is not repeated: what stands before an @ may be a key.
            raise ConfigError("load: what was given is no address of a server; write http://HOST:PORT")
        return self._of_model(target)

    def _refuse_idle(self) -> None:
        """Refuse options that would change nothing beside the others.

        Raises:
            ConfigError: there is one.
        """
        if self.steady and (self.trace is not None or not self.rate):
            raise ConfigError(
                "--steady spaces the requests of --rate R evenly, and a trace or a closed loop has none to space: "
                "leave --steady out, or give --rate without --trace"
            )
        of_other = {"kind": self.against_kind, "model": self.against_model, "name": self.against_name}
        if self.against is None and (idle := [name for name, value in of_other.items() if value is not None]):
            raise ConfigError(f"--against-{idle[0]} is of a second server, and none is named: add --against URL")
        if self.how.time_unit != "auto" and self.trace is None:
            raise ConfigError("--time-unit is of the times of --trace FILE, and none is given: leave it out")
        if self.how.keep_personal_data and self.how.regions != REGIONS:
            raise ConfigError("--phone-region says which numbers are replaced, and --keep-personal-data replaces none")
        sheet = [name for name in ("bandwidth", "flops") if self.files.get(name) is not None]
        if self.files.get("machine") == HERE and sheet:
            raise ConfigError(f"--{sheet[0]} beside --machine here, which measures it: give one of them")

    def _attached(self, url: str) -> tuple[Asked, Given, None]:
        # First of all, for what is said of other mistakes repeats the address.
        check_address(url)
        given = {"--arm": self.arms, "--set": self.overrides, "--prefill-chunk": self.chunks, **self.engine}
        if wrong := [name if name.startswith("--") else f"--{name}" for name, value in given.items() if value]:
            raise ConfigError(
                f"{wrong[0]} is for servers that are started here, and {url} runs already: name an experiment, or a "
                "model with --kind"
            )
        if self.prompts is None:
            raise ConfigError(f"load: prompts are needed; type: specq load {url} --prompts FILE --concurrency 1,2")
        kind = self.kind or "openai"
        found = [Server(name=self.name or "server", url=url, kind=kind, model=self.model or "", key_env=self.key_env)]
        if self.against is not None:
            other = Server(
                name=self.against_name or "other",
                url=self.against,
                kind=self.against_kind or kind,
                model=self.against_model or self.model or "",
                key_env=self.key_env,
            )
            found.append(other)
        return self._asked(found, levels=(1,)), self._given(str(self.prompts), self.tokenizer, self.how), None

    def _of_model(self, model: str) -> tuple[Asked, Given, Experiment]:
        if self.target is not None and self.model is not None:
            raise ConfigError(f"--model {self.model} beside {self.target}: name one model")
        engine = {name: value for name, value in self.engine.items() if value is not None and value != []}
        if self.tokenizer is not None:
            engine["tokenizer"] = self.tokenizer
        if self.overrides or self.arms:
            raise ConfigError("--arm and --set are of an experiment: name its file")
        for name, value in (("name", self.name), ("key-env", self.key_env)):
            if value is not None:
                raise ConfigError(f"--{name} is of a server that runs, and this one is started here: leave it out")
        return self._started(serving.experiment_of(model, self.kind, self.prompts, self._with_slots(engine)))

    def _of_experiment(self, file: Path) -> tuple[Asked, Given, Experiment]:
        experiment = config.load(file, tuple(self.overrides))
        for name, value in (("kind", self.kind), ("model", self.model), ("key-env", self.key_env), ("name", self.name)):
            if value is not None:
                raise ConfigError(f"--{name} beside {file}: the experiment says it; put another over it with --set")
        serving.check_kind(experiment)
        engine = {name: value for name, value in self.engine.items() if value is not None and value != []}
        if engine and experiment.engine.attaches:
            option = {"args": "arg"}.get(next(iter(engine)), next(iter(engine)))
            raise ConfigError(f"--{option} is for servers that are started here, and {file} names one that runs by url")
        if "slots" not in experiment.engine.model_fields_set:
            engine = self._with_slots(engine)
        if engine and not experiment.engine.attaches:
            experiment = serving.with_engine(experiment, engine)
        return self._started(experiment)

    def _with_slots(self, engine: Mapping[str, Any]) -> dict[str, Any]:
        """As many requests at once as the highest level has: else they would wait for each other's end."""
        slots = SLOTS if self.rate or self.trace else max(self.concurrency or LEVELS)
        # A long prompt that is injected comes on top.
        return {"slots": slots + (self.files.get("inject") is not None), **engine}

    def _started(self, experiment: Experiment) -> tuple[Asked, Given, Experiment]:
        found = serving.of_experiment(experiment, self.arms, _chunks(self.chunks))
        load = experiment.workload
        sampling, usual = experiment.sampling(), Sampling()
        told = {one.name: getattr(sampling, one.name) for one in fields(sampling) if one.name not in _OWN}
        floors = {name: value for name in FLOORS if (value := getattr(experiment.floor, name)) is not None}
        of_file = experiment.origin is not None
        asked = self._asked(
            found,
            levels=LEVELS if any(one.start is not None for one in found) else (1,),
            repeats=load.repeats if of_file else 1,
            max_tokens=load.max_new_tokens if of_file else MAX_TOKENS,
            temperature=load.temperature,
            ignore_eos=of_file and load.lengths == "equal",
            seed=load.seed,
            limit_s=experiment.engine.limit_s,
            floors=floors,
            sampling={name: value for name, value in told.items() if value != getattr(usual, name)},
        )
        how = self.how
        if self.prompts is None:
            # An experiment's prompts go out as it sends them; what is scrubbed are logs that are brought in.
            how = replace(how, keep_personal_data=True, limit=self.limit or load.limit)
        prompts = str(self.prompts or load.prompts)
        return asked, self._given(prompts, self.tokenizer or reads_tokens_of(experiment), how), experiment

    def _asked(
        self,
        found: Sequence[Server],
        *,
        levels: Sequence[int],
        repeats: int = 1,
        max_tokens: int = MAX_TOKENS,
        temperature: float = 0.0,
        ignore_eos: bool = False,
        seed: int = 0,
        limit_s: float = 300.0,
        floors: Mapping[str, float] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> Asked:
        if self.tokenizer is not None and all(one.kind in MESSAGES for one in found):
            raise ConfigError(
                f'--tokenizer makes text of messages, and kind "{found[0].kind}" takes messages and counts their '
                "tokens itself: leave it out, or name the server's own --kind"
            )
        way: Arrivals = "closed"
        if self.rate or self.trace:
            way = "trace" if self.trace else "steady" if self.steady else "poisson"

        def said(given: Any, else_: Any) -> Any:
            return else_ if given is None else given

        asked = Asked(
            servers=tuple(found),
            arrivals=way,
            levels=tuple(map(float, self.rate if way != "closed" else self.concurrency or levels)),
            repeats=said(self.repeats, repeats),
            max_tokens=said(self.max_tokens, max_tokens),
            temperature=said(self.temperature, temperature),
            ignore_eos=self.ignore_eos or ignore_eos,
            seed=said(self.seed, seed),
            limit_s=said(self.limit_s, limit_s),
            floors={**(floors or {}), **self.floors},
            sampling=sampling or {},
            **self.more,
        )
        asked.check()
        return asked

    def _given(self, prompts: str, tokenizer: str | None, how: How) -> Given:
        return Given(prompts=prompts, how=how, tokenizer=tokenizer, **self.files)


def _chunks(given: Sequence[str]) -> tuple[int, ...]:
    """Tokens of each server's chunks, 0 for whole prompts.

    Raises:
        ConfigError: no number, or the same twice.
    """
    words = [one.strip() for one in given]
    for one in words:
        if one != "off" and not (one.isdecimal() and int(one) > 0):
            raise ConfigError(
                f'--prefill-chunk "{one}": allowed are numbers of tokens, and off for whole prompts: off,64'
            )
    if len(set(words)) < len(words):
        raise ConfigError(
            f"--prefill-chunk {','.join(words)}: the same twice; the first is what others are held against"
        )
    return tuple(0 if one == "off" else int(one) for one in words)
