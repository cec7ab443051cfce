"""The time to evaluate a set: specq's harness and plain lm-eval (its `hf` model), taking turns over the same items.

Both get the same rendered prompts, the same batch size, greedy answers of at most so many tokens, ended by the model's
own end or by the first of the stops. Loading is in neither time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from specq.core.clock import now
from specq.core.errors import SpecqError
from specq.engines.hf import DTYPES, HFEngine
from specq.evals import harness, items, metrics
from specq.evals.items import Item
from specq.models import refs, tokenizers
from specq.models.quiet import quiet
from specq.stats.intervals import log_ratio

Answers = Callable[[Sequence[Item]], tuple[list[str], int]]


def ours(
    model: str, dtype: str, settings: harness.Settings, metric: str, options: dict[str, Any], *, whole: bool
) -> Answers:
    """specq: answers of some items and how many tokens they have; `whole` ignores the model's own end."""
    target = HFEngine(dtype=dtype).open(model)
    target.eos_ids = () if whole else target.eos_ids
    decoder, judge = target.decoder(None), metrics.make(metric, options)

    def answer(some: Sequence[Item]) -> tuple[list[str], int]:
        found = harness.evaluate(some, judge, target, decoder, target.tokenizer, settings)
        return [str(one.answer) for one in found], sum(len(one.generation.ids) for one in found if one.generation)

    return answer


def theirs(model: str, dtype: str, settings: harness.Settings) -> Answers:
    """lm-eval's own model for transformers, on its own copy of the weights."""
    from datasets import Dataset
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from transformers import AutoModelForCausalLM

    resolved = refs.resolve(model)
    tokenizer = tokenizers.load(resolved)
    weights = AutoModelForCausalLM.from_pretrained(resolved.folder, dtype=DTYPES.get(dtype, "auto"))
    eos = ends_of(model)
    weights.generation_config.eos_token_id = list(eos)
    with quiet():
        peer = HFLM(pretrained=weights, tokenizer=tokenizer, batch_size=settings.batch_size, add_bos_token=False)

    def answer(some: Sequence[Item]) -> tuple[list[str], int]:
        texts = [tokenizers.render(tokenizer, item.prompt or list(item.messages)).text for item in some]
        found: dict[int, str] = {}
        rows = Dataset.from_list([{"place": place} for place in range(len(texts))])

        def keep(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
            found[int(doc["place"])] = results[0]
            return {"score": 0.0}

        until = {"until": list(settings.stop), "max_gen_toks": settings.max_new_tokens, "do_sample": False}
        task = ConfigurableTask(
            config={
                "task": "items",
                "custom_dataset": lambda **_: {"test": rows},
                "test_split": "test",
                "doc_to_text": lambda doc: texts[doc["place"]],
                "doc_to_target": lambda doc: "",
                "process_results": keep,
                "output_type": "generate_until",
                "generation_kwargs": until,
                "num_fewshot": 0,
                "target_delimiter": "",
                "metric_list": [{"metric": "score", "aggregation": "mean", "higher_is_better": True}],
                "metadata": {"version": 1},
            }
        )
        with quiet():
            manager = TaskManager(include_defaults=False)
            simple_evaluate(model=peer, tasks=[task], task_manager=manager, bootstrap_iters=0)
        answers = [found[place] for place in range(len(texts))]
        return answers, sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in answers)

    return answer


def ends_of(model: str) -> tuple[int, ...]:
    """The ends that specq takes, so that both sides stop at the same tokens."""
    from specq.models import facts

    return facts.facts(refs.resolve(model)).eos_ids


def run(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Both sides on stretches of the set, in turns (A B, B A, ...); one pair of times a stretch."""
    given = items.load(args.items)[: args.limit]
    settings = harness.Settings(max_new_tokens=args.tokens, stop=tuple(args.stop), batch_size=args.batch_size)
    sides = {"specq": ours(args.model, args.dtype, settings, args.metric, json.loads(args.options), whole=args.whole)}
    if not args.whole:
        sides["lm-eval"] = theirs(args.model, args.dtype, settings)
    size = args.batch_size * args.batches
    pieces = [given[start : start + size] for start in range(0, len(given), size)]
    for side in sides.values():
        side(pieces[0][: args.batch_size])
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    tokens: dict[str, list[int]] = {name: [] for name in sides}
    same = 0
    for number, some in enumerate(pieces):
        answers = {}
        for name in list(sides) if number % 2 == 0 else list(sides)[::-1]:
            started = now()
            answers[name], count = sides[name](some)
            seconds[name].append(now() - started)
            tokens[name].append(count)
        told = ", ".join(f"{name} {times[-1]:.1f} s" for name, times in seconds.items())
        console.print(f"{number + 1} of {len(pieces)}: {told}")
        if not args.whole:
            same += sum(a.strip() == b.strip() for a, b in zip(answers["specq"], answers["lm-eval"], strict=True))
    table = Table("side", "seconds", "items", "tokens", "items a second")
    for name in sides:
        total = sum(seconds[name])
        table.add_row(name, f"{total:.1f}", str(len(given)), str(sum(tokens[name])), f"{len(given) / total:.2f}")
    console.print(table)
    counted = {
        "items": len(given),
        "seconds": {name: sum(times) for name, times in seconds.items()},
        "tokens": {name: sum(counts) for name, counts in tokens.items()},
        "threads": torch.get_num_threads(),
    }
    if args.whole:
        return counted
    ones = [1] * len(pieces)
    ratio = log_ratio(seconds["specq"], ones, seconds["lm-eval"], ones).pooled
    ends = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    console.print(f"specq's time over lm-eval's: {ratio.value:.2f}{ends}; the same answers: {same} of {len(given)}")
    return counted | {"ratio": ratio.value, "low": ratio.low, "high": ratio.high, "same": same}


def main() -> int:
    """Parse, run, print; the last line of stdout is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--items", type=Path, default=Path("evals/invoices.jsonl"))
    parser.add_argument("--metric", default="fields")
    parser.add_argument("--options", default='{"all": true}', help="the metric's options as JSON")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--batches", type=int, default=4, help="batches in a turn")
    parser.add_argument("--stop", nargs="*", default=[], help="texts that end an answer")
    parser.add_argument("--whole", action="store_true", help="specq alone, and each answer has all of --tokens")
    parser.add_argument("--dtype", default="bfloat16", choices=("auto", *DTYPES))
    args = parser.parse_args()
    console = Console(stderr=True)
    try:
        found = run(args, console)
    except SpecqError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
