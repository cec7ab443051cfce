"""A commented experiment to start from: the lines that a person would write first, with values that fit the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from specq.core import jsonl
from specq.core.errors import ConfigError, UserError, nearest
from specq.core.types import CACHE_BLOCK
from specq.evals import describe, margins, metrics
from specq.evals import items as item_files
from specq.models import facts, refs
from specq.models.facts import Facts
from specq.stats.intervals import TAIL_FROM

Question = Literal["quantize", "draft", "levers"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
# Groups that the packed 4-bit kernels take, the usual one first.
GROUPS = (64, 32, 128)
# What an example without items asks for, in shares.
_MARGIN = 0.05
_ASKS = {
    "quantize": "Should I quantize {model}, and how far?",
    "draft": "Which draft makes {model} faster on my prompts?",
    "levers": "What does each lever cost and give on {model}: fewer bits, a smaller cache, a draft?",
}


def starter(
    question: str, target: str, *, prompts: Path | None = None, evals: Path | None = None, out: Path
) -> dict[Path, str]:
    """The experiment file `out` and what stands beside it, recipes and prompts, as texts by path; nothing is written.

    Without `prompts` the prompts of `evals` are what speed is measured on, without what is right for them.

    Raises:
        ConfigError: no such question, neither prompts nor evals, or a file that is there already.
        ModelError: no such model. PromptError: the evals are broken, or no metric fits them.
    """
    if question not in QUESTIONS:
        raise ConfigError(f'init "{question}"{nearest(question, QUESTIONS) or ";"} allowed: {", ".join(QUESTIONS)}')
    if prompts is None and evals is None:
        raise ConfigError("init: give --prompts FILE (JSONL with id and messages or prompt), --evals FILE, or both")
    found = facts.facts(refs.resolve(target))
    stem = out.with_suffix("")
    folder = refs.resolve(target).folder
    group = _group(found.hidden, folder)
    recipes = {} if question == "draft" else _recipes(stem, group, question == "quantize")
    asked = (
        {} if prompts is not None or evals is None else {stem.with_name(f"{stem.name}-prompts.jsonl"): _asked(evals)}
    )
    parts = [
        _head(question, target),
        _workload(prompts if prompts is not None else next(iter(asked)), own=prompts is not None),
        _levers(question, stem, list(recipes), found, group),
        _quality(evals, changes=question != "draft"),
    ]
    files = {out: "\n".join(parts), **recipes, **asked}
    if there := [path for path in files if path.exists()]:
        raise ConfigError(f"{there[0]} is there already: give another name with --out FILE, or take it away")
    return files


def write(question: str, target: str, prompts: Path | None, evals: Path | None, *, out: Path) -> tuple[Path, ...]:
    """Write `starter`'s files, the experiment first, then read them back and ask everything that `specq plan` asks.

    What the plan refuses stays where it was written, for it is the user's to change.

    Raises:
        ConfigError, ModelError, PromptError: as `starter`; RunFolderError: the folder cannot be written.
        UserError: a run of what was written would be refused, and why.
    """
    from specq.experiment import config, plan
    from specq.experiment import prompts as prompt_files

    if prompts is not None:
        prompt_files.load(prompts, None)
    files = starter(question, target, prompts=prompts, evals=evals, out=out)
    for path, text in files.items():
        jsonl.write_text_whole(path, text)
    try:
        plan.make(config.load(out)).check()
    except UserError as error:
        raise type(error)(
            f"{out} is written, and a run of it would be refused: {error}; change it, then type: specq plan {out}"
        ) from error
    return tuple(files)


def _head(question: str, target: str) -> str:
    asked = _ASKS[question].format(model=target)
    return f"""question = {_toml(asked)}

[target]
model = {_toml(target)}

[engine]
dtype = "auto"            # the dtype that the weights are stored in
"""


def _asked(evals: Path) -> str:
    """The prompts of an evaluation set as a prompts file, which knows nothing of what is right."""
    lines = []
    for item in item_files.load(evals):
        prompt = {"prompt": item.prompt} if item.prompt else {"messages": [dict(one) for one in item.messages]}
        lines.append({"id": item.id, **prompt, "tags": list(item.tags)})
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def _workload(prompts: Path, *, own: bool) -> str:
    about = "" if own else "  # those of the eval; your own say more: JSONL with id and messages or prompt"
    return f"""[workload]                # what speed is measured on
prompts = {_toml(str(prompts))}{about}
limit = 24                # 20 or more of each kind of prompt make an interval that helps
max_new_tokens = 64
repeats = 2               # balanced turns
# processes = 3           # three fresh processes make a firm verdict on speed
seed = 7
"""


def _levers(question: str, stem: Path, recipes: Sequence[Path], model: Facts, group: int | None) -> str:
    lines = []
    for path in recipes:
        name = path.stem.removeprefix(f"{stem.name}-")
        lines.append(f'[levers.{name}]\nkind = "quantize"\nrecipe = {_toml(str(path))}\n')
    if question == "levers" and model.head_dim % CACHE_BLOCK == 0:
        lines.append('[levers.cache8]            # keys and values in 8 bits\nkind = "kv_cache"\ntype = "q8"\n')
    if question != "quantize":
        lines.append(
            "[levers.lookup]            # proposes what followed the same words earlier in the text: costs nothing\n"
            'kind = "draft"\nmethod = "lookup"\nk = 4\n'
        )
    if question == "draft":
        deep = min(model.layers - 1, max(1, round(0.8 * model.layers)))
        bits = "bits = 8" if group is None else f"bits = 4\ngroup_size = {min(group, 32)}"
        name = "self8" if group is None else "self4"
        lines += [
            f"[levers.{name}]             # the model itself in fewer bits, made in memory: lossless\n"
            f'kind = "draft"\nmethod = "model"\nmodel = "self"\n{bits}\nk = 4\n',
            f"[levers.exit{deep}]            # the first {deep} of its {model.layers} layers\n"
            f'kind = "draft"\nmethod = "early_exit"\nlayers = {deep}\nk = 2\n',
            "# [levers.small]           # a smaller model with the same tokens\n"
            '# kind = "draft"\n# method = "model"\n# model = "./a-smaller-model"\n# k = 4\n',
        ]
    first = next((path.stem.removeprefix(f"{stem.name}-") for path in recipes), None)
    pair = f', "{first} + lookup"' if question == "levers" and first else ""
    about = '[arms]                     # "each" runs every lever alone, "a + b" two of them together'
    lines.append(f'{about}\nrun = ["each"{pair}]\n')
    return "\n".join(lines)


def _quality(evals: Path | None, *, changes: bool) -> str:
    ceilings = (
        f"# ttft_s_p95 = 2.0        # needs {TAIL_FROM['p95']} answers: prompts x repeats x processes\n"
        '# peak_bytes = "4 GiB"     # needs workload.memory, which is on\n'
    )
    if evals is None:
        why = (
            "levers that change the outputs cannot be kept without an eval" if changes else "drafts are audited anyway"
        )
        return f"""[objective]
minimise = "tpot_s"       # or "e2e_s", "device_s_per_answer", "price_per_correct_answer"

[floor]                   # what you will not give up; {why}
# quality = {{ mine = {_MARGIN} }}  # {describe.points(_MARGIN)} take {describe.least_items(_MARGIN)} items or more
{ceilings}
# [[evals]]               # what quality is measured on
# name = "mine"
# items = "my-items.jsonl"
# metric = "contains"     # specq evals check FILE says which metrics fit
"""
    items = item_files.load(evals)
    described = describe.describe(evals, items)
    if (metric := described.proposed) is None:
        raise ConfigError(f"{evals}: no built-in metric fits all items; see: specq evals check {evals}")
    pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in metric.options.items())
    options = f"options = {{ {pairs} }} # {metric.about}\n" if pairs else ""
    made = metrics.make(metric.name, metric.options)
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in evals.stem).strip("-_") or "evals"
    proposed = margins.proposed(name, described.clusters, binary=made.binary, items=described.items)
    floor = f"{'' if proposed.margin else '# '}{proposed.line}  # {proposed.about}"
    return f"""[objective]
minimise = "tpot_s"       # or "e2e_s", "device_s_per_answer", "price_per_correct_answer"

[floor]                   # what you will not give up
{floor}
{ceilings}
[[evals]]                 # what quality is measured on
name = "{name}"
items = {_toml(str(evals))}
metric = "{metric.name}"
{options}max_new_tokens = 48
# stop = ["\\n"]
"""


def _group(hidden: int, folder: Path) -> int | None:
    """The first usual group that divides the columns of every linear layer."""
    from specq.quantize import contents

    columns = {layer.columns for layer in contents.read(folder).of("linear")} or {hidden}
    return next((group for group in GROUPS if all(count % group == 0 for count in columns)), None)


def _recipes(stem: Path, group: int | None, calibrated: bool) -> dict[Path, str]:
    """Recipes by path; at 4 bits none where no group divides the model."""
    texts = {"w8": 'method = "rtn"            # round to nearest, 8 bits, one scale a row\nbits = 8\ngroup_size = 0\n'}
    if group is not None:
        grid = f"bits = 4\ngroup_size = {group}\n"
        own = 'calibration = "self"      # the model writes its own texts; a file of yours is better\n'
        texts["rtn4"] = f'method = "rtn"            # round to nearest: the control of every other method\n{grid}'
        if calibrated:
            texts["gptq4"] = f'method = "gptq"\n{grid}{own}samples = 64\ntokens = 512\nseed = 0\n'
    return {
        stem.with_name(f"{stem.name}-{name}.toml"): texts[name] for name in ("rtn4", "gptq4", "w8") if name in texts
    }


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
