"""From what a user names to a requester: a model on the reference engine, a server by its URL, or one started here."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from specq.core.errors import ConfigError, nearest
from specq.core.types import Sampling, TargetSpec
from specq.engines.served import files, launch
from specq.engines.served.kinds import KINDS, weights
from specq.engines.served.kinds.base import Served
from specq.engines.served.session import Session, Where
from specq.engines.served.target import Settings
from specq.lab.requester import Requester
from specq.lab.requester_served import ServedRequester
from specq.models import light_tokenizer, refs

HF = "hf"
NAMES = (HF, *KINDS)
LOG = "server.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be asked. `model` is the one whose tokenizer and sizes are taken, `served_as` a name in requests.

    `threads`, `device` and `dtype` are of the reference engine; a started server gets threads, dtype and args.
    """

    target: str
    kind: str
    model: str | None = None
    served_as: str | None = None
    key_env: str | None = None
    context: int | None = None
    device: str = "auto"
    dtype: str | None = None
    threads: int | None = None
    args: tuple[str, ...] = ()

    @property
    def attached(self) -> bool:
        """Whether it is a server that runs already."""
        return self.target.startswith(("http://", "https://"))

    @property
    def local(self) -> str | None:
        """The model whose tokenizer and config can be read here; None where none is named."""
        known = not self.attached and not files.is_named(self.kind, self.target)
        return self.model or (self.target if known else None)

    @property
    def sized(self) -> str | None:
        """As `local`, or what is really loaded, where that is another and can be read here."""
        if self.kind in files.OF_GGUF and not self.attached and not files.is_named(self.kind, self.target):
            return str(weights.gguf_file(self.target))
        return self.target if self.kind == HF else self.local

    @property
    def held(self) -> bool:
        """Whether the weights of `sized` are those that answer, as far as is known before the server is asked."""
        if self.attached:
            return False
        if files.is_named(self.kind, self.target):
            return False
        return self.kind in (HF, *files.OF_GGUF) or self.local == self.target


def check(wanted: Wanted) -> None:
    """Refuse what no requester can be made of, before anything loads or starts.

    Raises:
        ConfigError: no such kind, or one that does not go with the target.
        Unsupported, ModelError: the server is not installed or cannot load such weights, or there is no such model.
    """
    if wanted.kind not in NAMES:
        raise ConfigError(f'--kind "{wanted.kind}"{nearest(wanted.kind, NAMES) or ";"} allowed: {", ".join(NAMES)}')
    if wanted.attached and wanted.kind == HF:
        raise ConfigError(f"--kind hf loads a model, and {wanted.target} is a server: leave it out, or name a kind")
    _refuse_idle(wanted)
    if wanted.attached:
        return
    if wanted.kind == HF:
        refs.resolve(wanted.target)
        return
    if wanted.served_as is not None:
        raise ConfigError(f"--served-as {wanted.served_as}: it goes with the URL of a server that runs; leave it out")
    kind, served = KINDS[wanted.kind], _served(wanted, 1)
    if refused := kind.cannot(served, Sampling()):
        raise ConfigError("; ".join(refused))
    kind.command(served, launch.free_port(), environ=os.environ)


def _refuse_idle(wanted: Wanted) -> None:
    """Refuse options that this way to come to a model does not read."""
    started = not wanted.attached and wanted.kind != HF
    given = (
        ("device", wanted.device != "auto", wanted.kind == HF, "the reference engine"),
        ("dtype", wanted.dtype is not None, not wanted.attached, "what is loaded or started here"),
        ("threads", wanted.threads is not None, not wanted.attached, "what is loaded or started here"),
        ("arg", bool(wanted.args), started, "a server that is started here"),
        ("served-as", wanted.served_as is not None, wanted.kind != HF, "a server"),
        ("key-env", wanted.key_env is not None, wanted.attached, "a server that runs already"),
    )
    for name, is_given, read, whose in given:
        if is_given and not read:
            raise ConfigError(f"--{name} is of {whose}, and {wanted.target} ({wanted.kind}) is none: leave it out")


@contextmanager
def opened(
    wanted: Wanted, *, slots: int, folder: Path | None, say: Callable[[str], None] = lambda text: None
) -> Iterator[Requester]:
    """The requester, and the end of what was loaded or started for it. `slots` is for a server that is started.

    A started server writes its log into `folder`.

    Raises:
        ModelError, Unsupported, RunFailed: it cannot be loaded, started or reached.
    """
    if wanted.kind == HF:
        from specq.engines.hf import HFEngine
        from specq.lab.requester_hf import HFRequester

        say(f"loading {wanted.target}")
        engine = HFEngine(device=wanted.device, dtype=wanted.dtype or "auto", threads=wanted.threads)
        with engine.open(wanted.target) as target:
            yield HFRequester(target, wanted.target)
        return
    local, asked = wanted.local, wanted.served_as
    settings = None
    server: Session | launch.Server
    if wanted.attached:
        server = launch.attach(wanted.target, KINDS[wanted.kind].HEALTH, key_env=wanted.key_env)
    else:
        log = _own_log(Path.cwd() if folder is None else folder)
        say(f"starting {wanted.kind} with {slots} slots; its log is {log}")
        server = Session.open(wanted.kind, _served(wanted, slots), Where(log=log, key_env=wanted.key_env))
    with server:
        if isinstance(server, Session):
            asked, settings = server.model, server.settings()
        requester = ServedRequester(
            server.url,
            wanted.kind,
            name=wanted.target,
            model=asked,
            settings=settings,
            tokenizer=None if local is None else light_tokenizer.load(local),
            key_env=wanted.key_env,
        )
        try:
            yield requester
        finally:
            requester.close()


def _own_log(folder: Path) -> Path:
    """A log for each start: settings are read from it, and those of an earlier server are not this one's."""
    later = (LOG.replace(".", f"-{i}.") for i in itertools.count(2))
    return next(path for name in itertools.chain([LOG], later) if not (path := folder / name).exists())


def _served(wanted: Wanted, slots: int) -> Served:
    """As an experiment's servers are told, with names of models as the files that such a server loads."""
    settings = Settings(
        kind=wanted.kind,
        args=wanted.args,
        context=wanted.context,
        slots=slots,
        threads=wanted.threads,
        dtype=wanted.dtype,
    )
    return settings.served(wanted.target, TargetSpec(prefix_cache=True), None)
