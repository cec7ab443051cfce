"""What a load run is given beside servers and levels: files, how they are read, the machine; kept in run.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, PromptError, RunFolderError
from specq.evals import schemas
from specq.load import prompts as reading_prompts
from specq.load.asked import Asked
from specq.load.ceiling import Machine
from specq.load.measuring import Judge, Plan
from specq.workloads.reading import How


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Files and settings of a run. `model`, `machine`, `bandwidth` and `flops` are for the shares of the ceilings."""

    prompts: str
    how: How
    tokenizer: str | None = None
    trace: str | None = None
    inject: str | None = None
    schema: str | None = None
    weights: str | None = None
    machine: str | None = None
    bandwidth: str | None = None
    flops: str | None = None

    def plan(self, asked: Asked) -> Plan:
        """Read everything that is sent.

        Raises:
            PromptError, ConfigError, ModelError: a file cannot be read, or does not fit.
        """
        kinds = [server.kind for server in asked.servers]
        found = reading_prompts.read(Path(self.prompts), self.how, kinds, self.tokenizer)
        at_s: Sequence[float] | None = None
        if asked.arrivals == "trace":
            if self.trace is None or Path(self.trace) == Path(self.prompts):
                found = reading_prompts.in_time(found)
                at_s = found.at_s
            else:
                at_s = reading_prompts.times(Path(self.trace), self.how)
        long = (
            ()
            if self.inject is None
            else reading_prompts.read(Path(self.inject), self.how, kinds, self.tokenizer).prompts
        )
        judge = None if self.schema is None else _judge(Path(self.schema))
        return Plan(asked=asked, prompts=found, at_s=None if at_s is None else tuple(at_s), injected=long, judge=judge)

    def on(self) -> Machine | None:
        """The machine and the model whose ceilings the levels are held against; None where none was named.

        Raises:
            ConfigError, ModelError: as `specq size`.
        """
        if self.weights is None:
            if self.machine or self.bandwidth or self.flops:
                raise ConfigError(
                    "a machine without a model tells no share of it: name the weights with --weights MODEL"
                )
            return None
        from specq.lab.size import size_models

        sized = size_models(self.weights, machine=self.machine, bandwidth=self.bandwidth, flops=self.flops)
        if sized.asked.bandwidth is None:
            raise ConfigError(
                "--weights without a machine tells no share of it: add --machine NAME or --bandwidth RATE"
            )
        return Machine(model=sized.models[0].model, bandwidth=sized.asked.bandwidth, flops=sized.asked.flops)

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        return asdict(self)


def from_json(value: Mapping[str, Any]) -> Given:
    """What `to_json` made, back. Raises TypeError or KeyError where a key is missing or unknown."""
    how = dict(value["how"])
    how["regions"] = tuple(how["regions"])
    return Given(**{**value, "how": How(**how)})


def fingerprint(plan: Plan) -> dict[str, str]:
    """Hashes of all that is sent: a run that goes on with something else would measure something else."""
    said = [[one.id, one.text, list(one.ids), list(one.messages)] for one in plan.injected]
    return {
        "prompts": plan.prompts.sha256,
        "times": hashes.of_json(list(plan.at_s or ())),
        "injected": hashes.of_json(said),
    }


def check_same(run: Path, then: Mapping[str, Any], now: Plan) -> None:
    """Do nothing where what is sent is what the run began with.

    Raises:
        RunFolderError: something else.
    """
    changed = [name for name, value in fingerprint(now).items() if then.get(name) != value]
    if changed:
        raise RunFolderError(f"{run}: the {' and '.join(changed)} are not those of the run any more; start a new one")


def _judge(path: Path) -> Judge:
    """A function that says how an answer fits a JSON Schema in a file."""
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PromptError(f"{path}: no JSON Schema can be read from it ({error}); give a file with one") from error
    if why := schemas.fault(schema):
        raise PromptError(f"{path}: the schema {why}")

    def judge(text: str) -> str:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return "no JSON"
        return "fits" if schemas.misfit(schema, value) is None else "misfit"

    return judge
