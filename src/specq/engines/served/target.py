"""The engine contracts on a server: an arm is a server of its own, which is started anew for it.

A server gives no logits, so what needs some is refused here, and the plan says so before anything starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np

from specq.core.errors import Unsupported
from specq.core.records import Audited, Divergence, FirstTokens, GapNoise, Sampled
from specq.core.types import CacheType, DraftSpec, Generation, Prefill, Prompt, Sampling, TargetSpec
from specq.decoding.law import Law
from specq.engines.base import Capabilities, Copies, Scores
from specq.engines.served import files
from specq.engines.served.answers import ServedDecoder
from specq.engines.served.kinds import KINDS
from specq.engines.served.kinds.base import Served
from specq.engines.served.session import Session, Where

CAPABILITIES = Capabilities(
    rules=(), methods=(), devices=("server",), step_traces=False, logprobs=False, batches=False, lookup_first=False
)
"""What is common to all servers; what a kind can do for an arm says its `cannot`."""


def nobody_listens(text: str) -> None:
    """For callers that need not know when a server was started again."""


def nobody_stops(passed_s: float) -> None:
    """For callers that wait for a server until it is healthy or too late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How servers are come by, and what is the same for all arms.

    `url`, `key_env`, `start_s` and `limit_s` as in session.Where; the others as in kinds.base.Served. `logs` is the
    folder for the logs of servers that are started. `told` hears what happened to a server on the way. `waited` hears
    every so often how many seconds a server has been starting for, and what it raises ends the wait and the server.
    """

    kind: str
    url: str | None = None
    key_env: str | None = None
    name: str | None = None
    args: tuple[str, ...] = ()
    context: int | None = None
    slots: int = 1
    threads: int | None = None
    dtype: str | None = None
    seed: int = 0
    start_s: float = 600.0
    limit_s: float = 300.0
    logs: Path | None = None
    told: Callable[[str], None] = nobody_listens
    waited: Callable[[float], None] = nobody_stops

    def served(
        self,
        weights: str,
        target: TargetSpec,
        draft: DraftSpec | None,
        *,
        revision: str | None = None,
        fetch: bool = True,
    ) -> Served:
        """An arm as its kind of server takes it: names of models are where their files lie, if they are started here.

        Raises:
            UserError: a model cannot be found, or not as the server loads it.
        """
        if self.url is None:
            place = files.Places(self.kind, revision=revision, fetch=fetch)
            own = target.model or target.source
            target = replace(target, source=None, model=place.of(own) if own else None)
            weights = place.of(weights)
            draft_weights = None if draft is None else place.of_draft(draft, target.model or weights)
        else:
            draft_weights = None if draft is None else draft.model
        return Served(
            weights=weights,
            target=target,
            draft=draft,
            draft_weights=draft_weights,
            context=self.context,
            slots=max(self.slots, target.batch),
            dtype=self.dtype,
            threads=self.threads,
            seed=self.seed,
            prefix_cache=target.prefix_cache,
            args=self.args,
            name=self.name,
        )


class ServedEngine:
    """Opens targets on servers of one kind; a context that ends stops what was started in it."""

    device = "server"
    capabilities = CAPABILITIES

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.kind = KINDS[settings.kind]
        self._numbers = itertools.count(1)

    def open(self, model: Any, *, prefill: Prefill = "dense", noise: float = 0.0) -> ServedTarget:
        """A target by its name or as it was resolved; nothing is started before a decoder is asked for.

        Raises:
            Unsupported: noise was asked for.
        """
        if noise:
            raise Unsupported("noise: the weights of a server cannot be perturbed; take the probe out")
        name = model if isinstance(model, str) else str(model.name)
        return ServedTarget(self, name, revision=None if isinstance(model, str) else model.revision)

    def facts(self, name: str, revision: str | None) -> files.Known | None:
        """What is known of a model as these servers hold it; None where nothing is."""
        own = self.settings
        return files.facts(own.kind, name, revision=revision, started=own.url is None, dtype=own.dtype)

    def log(self) -> Path | None:
        """A file for the next server's log."""
        if self.settings.logs is None:
            return None
        names = (f"{self.settings.kind}-{number}.log" for number in self._numbers)
        return next(path for name in names if not (path := self.settings.logs / name).exists())


class ServedTarget:
    """A model that servers serve; a context manager, which stops the server that it started."""

    def __init__(
        self, engine: ServedEngine, name: str, *, revision: str | None, cache: CacheType | None = None
    ) -> None:
        self.engine, self.name, self.revision, self.cache = engine, name, revision, cache
        self._facts = engine.facts(name, revision)
        self.eos_ids: tuple[int, ...] = () if self._facts is None else self._facts.eos_ids
        # One where servers are started here; all that were asked for where there is one server for them all.
        self._decoders: list[ServedDecoder] = []
        self._views: list[ServedTarget] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server where it was started here."""
        for view in self._views:
            view.close()
        while self._decoders:
            self._decoders.pop().close()

    def decoder(self, draft: DraftSpec | None, *, prefix_cache: bool = False, slots: int = 1) -> ServedDecoder:
        """Start the server for an arm, or attach to it; one that was started for another arm is stopped.

        Raises:
            UserError, ServerGone, DiskFull: as Session.open.
        """
        settings = self.engine.settings
        if settings.url is None:
            self.close()
        spec = TargetSpec(kv_cache=self.cache, prefix_cache=prefix_cache, batch=slots)
        served = settings.served(self.name, spec, draft, revision=self.revision)
        where = Where(
            url=settings.url,
            key_env=settings.key_env,
            log=self.engine.log() if settings.url is None else None,
            start_s=settings.start_s,
            limit_s=settings.limit_s,
        )
        session = Session.open(settings.kind, served, where, on_wait=settings.waited)
        made = ServedDecoder(session, eos_ids=self.eos_ids, told=settings.told)
        self._decoders.append(made)
        return made

    def with_cache(self, kind: CacheType | None) -> ServedTarget:
        """The same weights with keys and values kept in 8 or 4 bits; None: as the server keeps them."""
        if kind == self.cache:
            return self
        view = ServedTarget(self.engine, self.name, revision=self.revision, cache=kind)
        self._views.append(view)
        return view

    def describe(self) -> dict[str, Any]:
        """The fields of records.LoadedModel less `process` and `role`; 0 and "unknown" where nothing is known."""
        return files.described(self.name, self._facts)

    def describe_draft(self, draft: DraftSpec) -> dict[str, Any] | None:
        """As `describe`, of a draft's second model; None where the draft has none of its own."""
        if draft.method != "model":
            return None
        name = self.name if draft.model in (None, "self") else str(draft.model)
        return files.described(name, self.engine.facts(name, None))

    def score(self, prompt_ids: Sequence[int], several: Sequence[Sequence[int]]) -> list[Scores]:
        """Not possible. Raises Unsupported."""
        _no_logits("scores")

    def law(self, prompt: Prompt, ids: Sequence[int], sampling: Sampling) -> Law:
        """Not possible. Raises Unsupported."""
        _no_logits("laws")

    def draft_law(
        self, draft: DraftSpec, prompt: Prompt, ids: Sequence[int], sampling: Sampling, k: int
    ) -> Law | Copies:
        """Not possible. Raises Unsupported."""
        _no_logits("laws of drafts")

    def gap_noise(self, prompt: Prompt, ids: Sequence[int], rows: int) -> GapNoise:
        """Not possible. Raises Unsupported."""
        _no_logits("gaps")

    def audit_greedy(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline_ids: Sequence[int] | None) -> Audited:
        """Not possible. Raises Unsupported."""
        _no_logits("an audit by scores")

    def audit_sampled(
        self,
        arm: str,
        prompt: Prompt,
        repeat: int,
        generation: Generation,
        draft: DraftSpec | None,
        sampling: Sampling,
    ) -> Sampled:
        """Not possible. Raises Unsupported."""
        _no_logits("an audit by scores")

    def first_tokens(
        self, arm: str, prompt: Prompt, draft: DraftSpec | None, sampling: Sampling, draws: int
    ) -> FirstTokens:
        """Not possible: ServedDecoder.draws tells what came, and no exact law stands beside it. Raises Unsupported."""
        _no_logits("exact laws")

    def logits(self, prompt: Prompt, ids: Sequence[int]) -> Iterator[np.ndarray]:
        """Not possible. Raises Unsupported."""
        _no_logits("logits")

    def divergence(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline: Any) -> Divergence:
        """Not possible. Raises Unsupported."""
        _no_logits("a divergence")


def _no_logits(what: str) -> NoReturn:
    raise Unsupported(f'a server gives no logits, so there are no {what}: write kind = "hf" in [engine]')
