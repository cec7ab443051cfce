"""How a server is started for a load run: an arm as plain data, which run.json keeps, and the words of its command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from specq.core.errors import ConfigError
from specq.core.types import DraftSpec, TargetSpec
from specq.engines.served.kinds import llamacpp, sglang, vllm
from specq.engines.served.kinds.base import Served
from specq.engines.served.target import Settings

CHUNKING = (vllm.NAME, llamacpp.NAME, sglang.NAME)
"""Kinds that say how many tokens of a prompt they read between two steps of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A server of an arm that is to be started. Fields as in an experiment's [engine], and as its arms have them.

    `weights` is the experiment's target by its name; `spec` and `draft` are what the arm makes of it. `chunk` is how
    many tokens of a prompt are read at a time, 0 the whole prompt at once, None as the server has it by itself.
    """

    weights: str
    revision: str | None = None
    spec: TargetSpec = field(default_factory=TargetSpec)
    draft: DraftSpec | None = None
    context: int | None = None
    slots: int = 1
    threads: int | None = None
    dtype: str | None = None
    seed: int = 0
    args: tuple[str, ...] = ()
    start_s: float = 600.0
    chunk: int | None = None

    @property
    def loads(self) -> str:
        """The model that it loads: a folder, a file or a name."""
        return self.spec.model or self.spec.source or self.weights

    def served(self, kind: str, *, warm_prefix: bool) -> Served:
        """What its kind of server is told.

        Raises:
            UserError: a model cannot be found, or not as the server loads it, or the kind reads prompts in one way.
        """
        settings = Settings(
            kind=kind,
            args=self.args,
            context=self.context,
            slots=self.slots,
            threads=self.threads,
            dtype=self.dtype,
            seed=self.seed,
        )
        made = settings.served(self.weights, self.spec.loaded, self.draft, revision=self.revision)
        # What the user adds stays last, where it wins.
        return replace(made, prefix_cache=warm_prefix, args=(*self.chunk_args(kind), *self.args))

    def chunk_args(self, kind: str) -> tuple[str, ...]:
        """The server's options for `chunk`.

        Sources: --enable-chunked-prefill and --max-num-batched-tokens of vLLM (docs/configuration/optimization.md),
        --batch-size and --ubatch-size of llama.cpp (tools/server/README.md): a batch holds the next tokens of all slots
        and is filled up with a prompt's; --chunked-prefill-size of SGLang (docs/advanced_features/server_arguments.md).

        Raises:
            ConfigError: the kind has none, or nothing says how long the longest prompt is.
        """
        if self.chunk is None:
            return ()
        if kind not in CHUNKING:
            raise ConfigError(f'--prefill-chunk: kind "{kind}" has no such option; allowed: {", ".join(CHUNKING)}')
        if kind == vllm.NAME:
            if not self.chunk:
                return ("--no-enable-chunked-prefill",)
            return ("--enable-chunked-prefill", "--max-num-batched-tokens", str(self.chunk))
        if kind == sglang.NAME:
            return ("--chunked-prefill-size", str(self.chunk or -1))
        tokens = self.chunk or self.context
        if tokens is None:
            raise ConfigError("--prefill-chunk off: how long a request can be is not known here; add --context N")
        return ("--batch-size", str(tokens), "--ubatch-size", str(tokens))


def from_json(value: Mapping[str, Any]) -> Start:
    """What dataclasses.asdict made, back. Raises TypeError where a key is missing or unknown."""
    given = dict(value)
    given["spec"] = TargetSpec(**given["spec"])
    given["draft"] = None if given["draft"] is None else DraftSpec(**given["draft"])
    given["args"] = tuple(given["args"])
    return Start(**given)
