"""A task of lm-eval made from its YAML: what cannot work is refused by name, before any weights are loaded."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import lm_eval.api.metrics  # noqa: F401 - fills the registries
import numpy as np
from lm_eval.api.registry import AGGREGATION_REGISTRY, METRIC_REGISTRY
from lm_eval.api.task import ALL_OUTPUT_TYPES, ConfigurableTask
from lm_eval.config.task import TaskConfig
from lm_eval.defaults import DEFAULT_OTHER_SEED, DEFAULT_RANDOM_SEED

from specq.core.errors import ConfigError, SpecqError, Unsupported, nearest
from specq.evals.adapter import sampling_of
from specq.evals.judge import said
from specq.models.quiet import quiet

_FILES = ("json", "csv", "text", "parquet", "arrow")
# Keys of YAML files that are no settings of a task.
_OTHER_KEYS = ("group", "tag", "task_list", "include")


class Built(ConfigurableTask):
    """A task whose documents are read once: a task that shuffles them must not do so twice.

    `prompts` holds its requests once they are written: for which tokenizer, and what its template rendered.
    """

    prompts: tuple[Any, list[Any], dict[str, tuple[int, ...]]] | None = None
    _docs: Any = None

    @property
    def eval_docs(self) -> Any:
        """The documents that are evaluated, in their order."""
        if self._docs is None:
            self._docs = super().eval_docs
        return self._docs

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Read the data set.

        Raises:
            ConfigError: it is not here and cannot be fetched, or cannot be read.
        """
        try:
            super().download(dataset_kwargs, **kwargs)
        except Exception as error:  # each way to hold data has errors of its own
            raise ConfigError(f'task "{self.config.task}": {_no_data(self.config, error)}') from error


def need_possible(name: str, given: Mapping[str, Any]) -> None:
    """Do nothing where an engine can do what a task asks; known before any code of the task is run.

    Raises:
        Unsupported: it runs what a model wrote, shows pictures or sound, samples, or asks several times.
    """
    if given.get("unsafe_code"):
        raise Unsupported(f'task "{name}" runs code that the model wrote; what a model wrote is never run here')
    if given.get("doc_to_image") or given.get("doc_to_audio"):
        raise Unsupported(f'task "{name}" shows pictures or sound: allowed are tasks of text')
    if given.get("repeats", 1) != 1:
        raise Unsupported(f'task "{name}" asks each document {given["repeats"]} times; greedy answers do not differ')
    if given.get("output_type", "generate_until") == "generate_until":
        try:
            sampling_of(given.get("generation_kwargs") or {})
        except Unsupported as error:
            raise Unsupported(f'task "{name}": {error}; write a YAML of your own that includes this one') from error


def build(name: str, given: Mapping[str, Any]) -> Built:
    """The task of a YAML's settings, its functions resolved, with its data.

    Raises:
        ConfigError: an unknown key, metric or aggregation, settings or data that cannot be read.
    """
    config = {key: value for key, value in given.items() if key not in _OTHER_KEYS}
    _check(name, config)
    notes = config.get("metadata") or {}
    config["metadata"] = notes if isinstance(notes, dict) else {"_metadata": notes}
    try:
        with undisturbed():
            built = Built(config=config)
    except SpecqError:
        raise
    except (Exception, SystemExit) as error:  # a task's code and templates may raise anything
        raise ConfigError(f'task "{name}": cannot be built ({said(error)}); mend its YAML') from error
    for metric, function in built._metric_fn_list.items():
        if function is None and config.get("process_results") is None:
            raise ConfigError(
                f'task "{name}": metric "{metric}" is one of the evaluate library\'s, which is not on this machine and '
                "cannot be fetched; leave hf_evaluate out, or write !function FILE.NAME"
            )
    return built


@contextmanager
def undisturbed() -> Iterator[None]:
    """The random state in which lm-eval loads tasks, and nothing of what it logs; the caller's are put back."""
    states, logged = (random.getstate(), np.random.get_state()), logging.root.manager.disable
    random.seed(DEFAULT_RANDOM_SEED)
    np.random.seed(DEFAULT_OTHER_SEED)
    logging.disable(logging.CRITICAL)
    try:
        with quiet():
            yield
    finally:
        logging.disable(logged)
        random.setstate(states[0])
        np.random.set_state(states[1])


def _check(name: str, config: Mapping[str, Any]) -> None:
    known = [one.name for one in fields(TaskConfig)]
    for key in config:
        if key not in known:
            raise ConfigError(
                f'task "{name}": unknown key "{key}"{nearest(key, known) or ";"} see lm-eval\'s TaskConfig'
            )
    output = config.get("output_type", "generate_until")
    if output not in ALL_OUTPUT_TYPES:
        allowed = ", ".join(ALL_OUTPUT_TYPES)
        raise ConfigError(
            f'task "{name}": output_type "{output}"{nearest(str(output), ALL_OUTPUT_TYPES) or ";"} allowed: {allowed}'
        )
    for entry in config.get("metric_list") or []:
        _check_metric(name, entry, own="process_results" in config)


def _check_metric(name: str, entry: Any, *, own: bool) -> None:
    """`own`: the task computes its metrics itself, so that their names are its own too."""
    if not isinstance(entry, Mapping) or "metric" not in entry:
        raise ConfigError(f'task "{name}": metric_list holds {entry!r}; write - metric: NAME')
    metric = entry["metric"]
    if isinstance(metric, str) and not own and not entry.get("hf_evaluate") and metric not in METRIC_REGISTRY:
        known = list(METRIC_REGISTRY.keys())
        raise ConfigError(
            f'task "{name}": no metric "{metric}"{nearest(metric, known) or ";"} allowed: {", ".join(known)}, one '
            "of the evaluate library with hf_evaluate: true, or !function FILE.NAME"
        )
    how = entry.get("aggregation")
    if isinstance(how, str) and how not in AGGREGATION_REGISTRY:
        known = list(AGGREGATION_REGISTRY.keys())
        raise ConfigError(
            f'task "{name}": metric "{metric}": no aggregation "{how}"{nearest(how, known) or ";"} allowed: '
            f"{', '.join(known)}"
        )
    if how is None and (callable(metric) or metric not in METRIC_REGISTRY):
        raise ConfigError(f'task "{name}": metric "{metric}" has no aggregation; write aggregation: mean')


def _no_data(config: Any, error: Exception) -> str:
    path, part = config.dataset_path, f" ({config.dataset_name})" if config.dataset_name else ""
    if callable(config.custom_dataset):
        return f"its custom_dataset raises {said(error)}"
    if path is None:
        return "no dataset_path; write dataset_path: json and dataset_kwargs: {data_files: {test: FILE.jsonl}}"
    if path in _FILES or Path(path).exists():
        return f"its data cannot be read ({said(error)}); data_files are looked for from {Path.cwd()}"
    return (
        f'its dataset "{path}"{part} is not on this machine and cannot be fetched ({said(error)}); fetch it where '
        "there is a network, or make it local: a YAML with dataset_path: json and dataset_kwargs: {data_files: {test: "
        "FILE.jsonl}}"
    )
