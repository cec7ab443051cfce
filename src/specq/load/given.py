"""What a load run is given beside servers and levels: files, how they are read, the machine; kept in run.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, ModelError, RunFolderError, Unsupported
from specq.evals import items as reading_items
from specq.evals.items import Item
from specq.lab.size import size_models
from specq.load import arrivals, judging
from specq.load import asked as asking
from specq.load import prompts as reading_prompts
from specq.load.asked import Asked
from specq.load.ceiling import Machine
from specq.load.measuring import Plan
from specq.load.prompts import Prompts
from specq.run import provenance
from specq.workloads import formats
from specq.workloads.reading import How

HERE = "here"
"""The name of this machine as --machine: its bandwidth and FLOP/s are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Files and settings of a run. `weights`, `machine`, `bandwidth` and `flops` are for the shares of the ceilings.

    `here` says that bandwidth and FLOP/s were measured on this machine.
    """

    prompts: str
    how: How
    tokenizer: str | None = None
    trace: str | None = None
    inject: str | None = None
    schema: str | None = None
    metric: str | None = None
    weights: str | None = None
    machine: str | None = None
    bandwidth: str | None = None
    flops: str | None = None
    here: bool = False

    def plan(self, asked: Asked) -> Plan:
        """Read everything that is sent.

        Raises:
            PromptError, ConfigError, ModelError: a file cannot be read, or does not fit.
        """
        kinds = [server.kind for server in asked.servers]
        path = Path(self.prompts)
        found, items = self._read(path, self.how, kinds)
        at_s: Sequence[float] | None = None
        if asked.arrivals == "trace":
            if self.trace is None or Path(self.trace) == Path(self.prompts):
                found = reading_prompts.in_time(found)
                at_s = found.at_s
            else:
                at_s = reading_prompts.times(Path(self.trace), self.how)
            arrivals.rate_of(at_s or ())
            found = replace(found, notes=(*found.notes, *asked.fits_trace(len(at_s or ()))))
        # Long prompts are rows of any format, whatever the others are, and all of them are sent.
        any_format = replace(self.how, format=formats.AUTO, limit=None)
        long = () if self.inject is None else self._read(Path(self.inject), any_format, kinds)[0].prompts
        return Plan(
            asked=asked,
            prompts=found,
            at_s=None if at_s is None else tuple(at_s),
            injected=long,
            judging=judging.of(items, path, self.metric, None if self.schema is None else Path(self.schema)),
        )

    def _read(self, path: Path, how: How, kinds: Sequence[str]) -> tuple[Prompts, tuple[Item, ...]]:
        """Prompts of a file, and the items that they are, where it is an evaluation set."""
        if not judging.is_items(path, how.format):
            return reading_prompts.read(path, how, kinds, self.tokenizer), ()
        items = reading_items.load(path)[: how.limit]
        return reading_prompts.of_items(items, path, kinds, self.tokenizer), items

    def models(self, asked: Asked) -> dict[str, str]:
        """By server, the model whose size counts: the one that is named, else what a server is started with.

        A server is left out whose model is not here, or runs already where none is named.
        """
        if self.weights is not None:
            return {one.name: self.weights for one in asked.servers}
        found = {}
        for one in asked.servers:
            if one.start is not None and one.start.spec.recipe is None:
                with suppress(ConfigError, ModelError, Unsupported):
                    model = one.start.served(one.kind, warm_prefix=asked.warm_prefix).loads
                    size_models(model)
                    found[one.name] = model
        return found

    def on(self, asked: Asked) -> dict[str, Machine]:
        """By server, the machine and the model whose ceilings its levels are held against; none where none is known.

        Raises:
            ConfigError, ModelError: as `specq size`.
        """
        named = self.machine or self.bandwidth or self.flops
        started = any(one.start is not None for one in asked.servers)
        if self.weights is None and named and not started:
            raise ConfigError("a machine without a model tells no share of it: name the weights with --weights MODEL")
        if not named:
            if self.weights is not None and not started:
                raise ConfigError(
                    "--weights without a machine tells no share of it: add --machine NAME or --bandwidth RATE"
                )
            return {}
        if self.machine == HERE:
            return {}
        found = {}
        for name, model in self.models(asked).items():
            sized = size_models(model, machine=self.machine, bandwidth=self.bandwidth, flops=self.flops)
            if sized.asked.bandwidth is None:
                raise ConfigError("the share of a machine needs its memory's bandwidth: add --bandwidth RATE")
            start = next(one.start for one in asked.servers if one.name == name)
            kv = "fp16" if start is None or start.spec.kv_cache is None else f"{start.spec.kv_cache}_0"
            found[name] = Machine(
                model=sized.models[0].model, bandwidth=sized.asked.bandwidth, flops=sized.asked.flops, kv=kv
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        return asdict(self)


def read(run: Path, info: Mapping[str, Any]) -> tuple[Asked, Given]:
    """What run.json says that was asked and given.

    Raises:
        RunFolderError: it is not as a load run writes it.
    """
    try:
        return asking.from_json(provenance.show_home(info["asked"])), from_json(provenance.show_home(info["given"]))
    except (TypeError, KeyError, ValueError) as error:
        raise RunFolderError(f"{run}/run.json: not as specq load writes it ({error}); put it back") from error


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
        "judging": "" if plan.judging is None else plan.judging.sha256,
    }


def check_same(run: Path, then: Mapping[str, Any], now: Plan) -> None:
    """Do nothing where what is sent is what the run began with.

    Raises:
        RunFolderError: something else.
    """
    changed = [name for name, value in fingerprint(now).items() if then.get(name) != value]
    if changed:
        raise RunFolderError(f"{run}: the {' and '.join(changed)} are not those of the run any more; start a new one")
