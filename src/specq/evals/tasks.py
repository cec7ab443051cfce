"""lm-eval's own tasks, by name or by YAML file: what one asks and measures, known before any weights are loaded."""

from __future__ import annotations

import inspect
import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, Unsupported
from specq.core.types import Sampling
from specq.evals import task_files, task_metrics
from specq.evals.task_metrics import Reading

# lm-eval's own, so that examples are those of its published numbers.
FEWSHOT_SEED = 1234


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of lm-eval, ready to be asked.

    `items` counts the documents that are evaluated, the first of the task's. `sampling` is how answers are made, None
    where texts are scored. `num_fewshot` examples stand before each document, drawn with `fewshot_seed`.
    `config_sha256`, `docs_sha256` and `code` (hashes of Python files of the user's own, by name) say what was asked;
    `notes` what a reader must know. `built` is lm-eval's object.
    """

    name: str
    file: Path
    output_type: str
    items: int
    reading: Reading
    num_fewshot: int
    fewshot_seed: int
    chat_template: bool
    sampling: Sampling | None
    dataset: str
    config_sha256: str
    docs_sha256: str
    code: dict[str, str]
    notes: tuple[str, ...]
    built: Any = field(repr=False)

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of its items, in their order."""
        return tuple(f"{self.name} {place}" for place in range(self.items))

    def shown(self) -> list[tuple[str, str]]:
        """Of each document what is asked, without examples, and what is right; "" where that cannot be had."""
        from specq.evals.task_build import undisturbed
        from specq.evals.task_harness import right

        with undisturbed():
            docs = list(itertools.islice(self.built.eval_docs, self.items))
            return [(_words(self.built.doc_to_text, doc), _words(partial(right, self.built), doc)) for doc in docs]

    def describe(self) -> dict[str, Any]:
        """What a plan and a record hold of it: plain JSON values."""
        return {
            "task": self.name,
            "file": str(self.file),
            "output_type": self.output_type,
            "items": self.items,
            "metric": self.reading.metric,
            "filter": self.reading.filter,
            "score": self.reading.what,
            "binary": self.reading.binary,
            "negated": self.reading.negated,
            "num_fewshot": self.num_fewshot,
            "fewshot_seed": self.fewshot_seed,
            "chat_template": self.chat_template,
            "max_new_tokens": None if self.sampling is None else self.sampling.max_new_tokens,
            "stop": [] if self.sampling is None else list(self.sampling.stop),
            "dataset": self.dataset,
            "config_sha256": self.config_sha256,
            "docs_sha256": self.docs_sha256,
            "code": self.code,
            "notes": list(self.notes),
        }


def load_task(
    name: str,
    *,
    metric: str | None = None,
    num_fewshot: int | None = None,
    fewshot_seed: int = FEWSHOT_SEED,
    limit: int | None = None,
    chat_template: bool = False,
    folder: Path = Path(),
) -> Task:
    """A task by its name in lm-eval ("arc_easy") or by its YAML file, which is looked for from `folder`.

    `metric` is a name, or "name,filter"; None: the task's first that a single document has a value of. `num_fewshot`
    None is the task's own. `limit` takes the first documents. The code of `!function` tags is run: it is the user's.

    Raises:
        ConfigError: no such file, task, metric or filter; a group; settings, code or data that cannot be read.
        Unsupported: what no evaluation here can do: see task_build.need_possible, and gen_prefix under a chat template.
    """
    for key, value, least in (("limit", limit, 1), ("num_fewshot", num_fewshot, 0)):
        if value is not None and value < least:
            raise ConfigError(f"{key} = {value}: allowed is {least} or more")
    path = task_files.find(name, folder)
    plain = task_files.read(path)
    task_files.need_one_task(name, plain)
    from specq.evals import adapter, task_build

    task_build.need_possible(name, plain)
    settings = task_files.read(path, run_code=True)
    built = task_build.build(name, settings)
    config = built.config
    if chat_template and config.gen_prefix:
        raise Unsupported(f'task "{name}" begins the answer itself (gen_prefix): allowed without chat_template')
    shots = _shots(name, config.num_fewshot, num_fewshot)
    built.set_config("num_fewshot", shots)
    with task_build.undisturbed():
        reading, passed = task_metrics.choose(name, built, metric)
    items = min(len(built.eval_docs), limit or len(built.eval_docs))
    code = _code(settings, path.resolve().parent)
    notes = (
        f"the task runs Python code: {', '.join(code)}" if code else None,
        passed,
        f"{reading.metric} is lower when better: its sign is turned" if reading.negated else None,
        _examples(name, built, shots) if shots else None,
    )
    return Task(
        name=str(config.task),
        file=path,
        output_type=built.OUTPUT_TYPE,
        items=items,
        reading=reading,
        num_fewshot=shots,
        fewshot_seed=fewshot_seed,
        chat_template=chat_template,
        sampling=adapter.sampling_of(config.generation_kwargs) if built.OUTPUT_TYPE == "generate_until" else None,
        dataset=" ".join(str(one) for one in (config.dataset_path, config.dataset_name) if one),
        config_sha256=_hash(plain, path.resolve().parent),
        docs_sha256=_hash(list(itertools.islice(built.eval_docs, items))),
        code=code,
        notes=tuple(filter(None, notes)),
        built=built,
    )


def _words(made: Callable[[Any], Any], doc: Any) -> str:
    try:
        return str(made(doc))
    except (Exception, SystemExit):  # noqa: BLE001 - for readers alone; what a task cannot write fails where it is asked
        return ""


def _shots(name: str, own: int | None, asked: int | None) -> int:
    if asked and own == 0:
        raise ConfigError(
            f'task "{name}" has num_fewshot: 0 in its YAML, asked are {asked}: leave num_fewshot out, or write a YAML '
            "that includes this one with another number"
        )
    return (own or 0) if asked is None else asked


def _examples(name: str, built: Any, shots: int) -> str | None:
    """Whether documents may be their own examples, where there are enough to draw from."""
    config, drawn = built.config, built.fewshot_cfg
    there = len(built.sampler.df) if hasattr(built, "sampler") else 0
    evaluated = config.test_split or config.validation_split
    pool = drawn.split or (None if drawn.samples else config.training_split or config.validation_split or evaluated)
    # lm-eval leaves the document out only where the file names the test split for both.
    apart = pool != evaluated or drawn.split == config.test_split
    if shots + (pool == evaluated and apart) > there:
        raise ConfigError(f'task "{name}": {shots} examples are asked, {there} documents are there to draw from')
    return None if apart else "examples are drawn from the evaluated documents: one may be its own example"


def _code(value: Any, folder: Path) -> dict[str, str]:
    """The Python files outside of lm-eval that a task's functions stand in, as seen from its folder, with hashes."""
    import lm_eval

    package = Path(lm_eval.__file__).parent
    files = {Path(found) for one in _functions(value) if (found := inspect.getsourcefile(inspect.unwrap(one)))}
    own = sorted(path for path in files if not path.is_relative_to(package))
    return {os.path.relpath(path, folder): hashes.of_file(path) for path in own}


def _functions(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _functions(one)
    elif inspect.isfunction(value) or inspect.isclass(value):
        yield value


def _hash(value: Any, folder: Path | None = None) -> str:
    """Of JSON values and what stands for others; the folder, which differs from machine to machine, is left out."""
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    return hashes.of_bytes((text if folder is None else text.replace(str(folder), ".")).encode())
