"""From [engine] to the settings that servers are come by with; nothing is asked of a server here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from specq.core.errors import ConfigError
from specq.engines.served.address import address_of
from specq.engines.served.files import is_named
from specq.engines.served.target import Settings, nobody_listens, nobody_stops
from specq.experiment.engine_table import Engine
from specq.experiment.schema import Experiment


def address(engine: Engine) -> str | None:
    """Where the server is; None where one is started.

    Raises:
        UserError: the environment does not have the variable of `url_env`, or what is in it is no address.
    """
    if engine.url_env is None:
        return engine.url
    found = os.environ.get(engine.url_env, "")
    if not found:
        raise ConfigError(
            f'url_env = "{engine.url_env}": the environment has no such variable; set it to the server\'s address, '
            "http://HOST:PORT"
        )
    return address_of(found).url


def reads_tokens_of(experiment: Experiment) -> str | None:
    """The model whose tokenizer and template make the prompts; None where the server alone knows its own."""
    engine, model = experiment.engine, experiment.target.model
    if engine.tokenizer is not None:
        return engine.tokenizer
    return None if is_named(engine.kind, model) else model


def settings_of(
    experiment: Experiment,
    *,
    logs: Path | None = None,
    told: Callable[[str], None] = nobody_listens,
    waited: Callable[[float], None] = nobody_stops,
) -> Settings:
    """The settings of an experiment whose engine is a server; `logs`, `told` and `waited` as in Settings.

    Raises:
        UserError: as `address`.
    """
    engine = experiment.engine
    return Settings(
        kind=engine.kind,
        url=address(engine),
        key_env=engine.key_env,
        name=engine.served_name,
        args=engine.args,
        context=engine.context,
        slots=engine.slots,
        threads=engine.threads,
        dtype=None if engine.dtype == "auto" else engine.dtype,
        seed=experiment.workload.seed,
        start_s=engine.start_s,
        limit_s=engine.limit_s,
        logs=logs,
        told=told,
        waited=waited,
    )
