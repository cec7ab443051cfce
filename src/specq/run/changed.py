"""Which inputs of a run are not what they were when it began, each by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from specq.core.nouns import counted
from specq.evals import functions
from specq.run.folder import differences

Info = Mapping[str, Any]


def inputs(then: Info, now: Info) -> list[str]:
    """A few words for each input that changed, from run.json and what it would be now; empty where none did."""
    # As it comes back from JSON, so that a tuple equals its list.
    now = json.loads(json.dumps(now))
    return [
        *(*_models(then, now), *_prompts(then, now), *_readings(then, now)),
        *(*_evals(then, now), *_quantized(then, now)),
    ]


def _models(then: Info, now: Info) -> Iterator[str]:
    old, new = then.get("models") or {}, now["models"]
    for name in dict.fromkeys([*old, *new]):
        if not (name in new and isinstance(old.get(name), dict)):
            yield f"the model {name}, which {'the run did not begin with' if name in new else 'is not asked for now'}"
        elif old[name].get("weights_sha256") != new[name].get("weights_sha256"):
            where = f" in {new[name]['folder']}" if new[name].get("folder") else ""
            yield f"the weights of {name}{where}"


def _prompts(then: Info, now: Info) -> Iterator[str]:
    file = f"{then['config']['workload']['prompts']} (workload.prompts)"
    old, new = ({one["id"]: one for one in info["prompts"]} for info in (then, now))
    written = [name for name in dict.fromkeys([*old, *new]) if _asked(old.get(name)) != _asked(new.get(name))]
    if written:
        yield f"{file}: {_differ(len(written), 'prompt')}, first {written[0]}"
    elif list(old) != list(new):
        yield f"{file}: the order of its prompts"
    yield from _rendered(then, now, old, new, written, "prompt", "")


def _asked(prompt: Info | None) -> Any:
    """What the file says of a prompt, without what a tokenizer and a template make of it."""
    return prompt and (prompt["messages"] or prompt["text"], prompt.get("tags"))


def _rendered(then: Info, now: Info, old: Info, new: Info, written: list[str], noun: str, of: str) -> Iterator[str]:
    """Prompts that say the same and are other tokens."""
    same = [name for name in old if name in new and name not in written and old[name] != new[name]]
    if same:
        target = str(then["config"]["target"]["model"])
        what = "chat template" if _template(then) != _template(now) else "tokenizer"
        differ = _differ(len(same), noun, of)
        yield f"the {what} of {target}, or run.json was edited: {differ} in tokens alone, first {same[0]}"


def _readings(then: Info, now: Info) -> Iterator[str]:
    """Models in the target's place that read prompts or items as other tokens than when the run began."""
    old, new = (info.get("readings") or {} for info in (then, now))
    for source in dict.fromkeys([*old, *new]):
        if old.get(source) != new.get(source):
            yield f"how {source} reads prompts and items: its tokenizer or chat template, or run.json was edited"


def _template(info: Info) -> Any:
    models = (info.get("models") or {}).items()
    return next((one.get("template_sha256") for name, one in models if name.startswith("target ")), None)


def _evals(then: Info, now: Info) -> Iterator[str]:
    old, new = then.get("evals") or {}, now["evals"]
    tables = {str(table["name"]): table for table in then["config"].get("evals") or ()}
    for name in dict.fromkeys([*old, *new]):
        if name in old and name in new and name in tables:
            yield from _eval(then, now, tables[name], old[name], new[name])
        else:
            yield f'the eval "{name}", which {"the run did not begin with" if name in new else "is not asked for now"}'


def _eval(then: Info, now: Info, table: Info, old: Info, new: Info) -> Iterator[str]:
    name, task = f'eval "{table["name"]}"', table.get("task")
    if old["metric_sha256"] != new["metric_sha256"]:
        metric = str(old["metric"])
        yield (
            f"the YAML or the code of the task {task} of {name}"
            if task
            else f"{functions.file_of(metric)}, the file of the metric {metric} of {name}"
        )
    elif old["metric"] != new["metric"]:
        yield f"the metric of {name}: {old['metric']} -> {new['metric']}"
    items, others = ({str(item["id"]): item for item in one["items"]} for one in (old, new))
    written = [
        item
        for item in dict.fromkeys([*items, *others])
        if (items.get(item) or {}).get("given") != (others.get(item) or {}).get("given")
    ]
    whose = f"the documents of the task {task}" if task else f"{table.get('items')}, the items"
    if written:
        yield f"{whose} of {name}: {_differ(len(written), 'item')}, first {written[0]}"
    elif list(items) != list(others):
        yield f"{whose} of {name}: their order"
    elif task and old["sha256"] != new["sha256"]:
        yield f"{whose} of {name}"
    yield from _rendered(then, now, items, others, written, "item", f" of {name}")
    for key in ("batch_size", "twin_batch_size"):
        if old[key] != new[key]:
            yield f"{key} of {name}: {old[key]} -> {new[key]}, as this version of specq asks the engine"


def _quantized(then: Info, now: Info) -> Iterator[str]:
    # Runs of older versions recorded no keys, or not what they were made from.
    old, new = then.get("quantized", now["quantized"]), now["quantized"]
    for label in dict.fromkeys([*old, *new]):
        if old.get(label) != new.get(label):
            parts = [(info.get("quantized_from") or {}).get(label) for info in (then, now)]
            yield from _made(label, *parts)


def _made(label: str, old: Info | None, new: Info | None) -> Iterator[str]:
    if not old or not new:
        yield f"the recipe, the calibration text or the quantizer that makes {label}"
        return
    settings = differences(old["settings"], new["settings"])
    if settings:
        yield f"the recipe {old['recipe']} ({', '.join(settings)})"
    if old["text_sha256"] != new["text_sha256"]:
        yield f"{old['settings'].get('calibration')}, the calibration text of the recipe {old['recipe']}"
    if old == new:
        yield f"the quantizer's version, or the config or the tokenizer of the model, behind {label}"


def _differ(count: int, noun: str, of: str = "") -> str:
    return f"{counted(count, noun)}{of} {'differs' if count == 1 else 'differ'}"
