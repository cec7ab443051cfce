"""The time to quantize a model: `specq quantize` and a plain script around llmcompressor's `oneshot`, taking turns.

Both load the model, read the same rows of text, quantize with the same settings and write a folder. specq's
time holds its checks before and its audit after, which a plain script has not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from specq import api
from specq.core.clock import now
from specq.core.errors import PromptError, SpecqError
from specq.models import refs, tokenizers
from specq.models.quiet import quiet
from specq.quantize import calibration

METHODS = ("rtn", "gptq", "awq")


def rows_of(file: Path, tokenizer: Any, count: int, tokens: int) -> list[list[int]]:
    """`count` rows of `tokens` tokens each, from the file's texts one after the other."""
    ids: list[int] = []
    for number, text in enumerate(calibration.read(file), start=1):
        ids += calibration.encode(tokenizer, text, where=f"{file}: text {number}")
    if len(ids) < count * tokens:
        raise PromptError(f"{file}: {len(ids)} tokens, and {count} rows of {tokens} are asked; lower --samples")
    return [ids[i * tokens : (i + 1) * tokens] for i in range(count)]


def plain(folder: Path, method: str, bits: int, group_size: int, rows: Sequence[Sequence[int]], out: Path) -> None:
    """What a user's own script does, by llmcompressor's examples."""
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.pipelines.cache import IntermediatesCache
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not torch.accelerator.is_available():
        # Else AWQ dies here and there is nothing to hold against.
        IntermediatesCache.pin_memory = lambda self, *more, **named: None
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group", "group_size": group_size}
    how: dict[str, Any] = {
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }
    recipe = {
        "rtn": lambda: [QuantizationModifier(**how)],
        "gptq": lambda: [GPTQModifier(**how)],
        "awq": lambda: [AWQModifier(), QuantizationModifier(**how)],
    }[method]()
    data = Dataset.from_list([{"input_ids": list(row), "attention_mask": [1] * len(row)} for row in rows])
    oneshot(
        model=model,
        processor=tokenizer,
        recipe=recipe,
        dataset=None if method == "rtn" else data,
        num_calibration_samples=len(rows),
        max_seq_length=max(map(len, rows)),
        shuffle_calibration_samples=False,
        output_dir=str(out),
    )


def ours(model: str, method: str, bits: int, group_size: int, text: Path, rows: int, tokens: int, out: Path) -> None:
    """`specq quantize` with the same settings; `text` holds the rows as texts."""
    given: dict[str, Any] = {"method": method, "bits": bits, "group_size": group_size}
    if method != "rtn":
        given |= {"calibration": str(text), "samples": rows, "tokens": tokens}
    made = api.quantize_model(model, api.load_recipe(None, **given), out)
    used = made.calibration
    if used is not None and used.tokens_used != rows * tokens:
        raise PromptError(f"specq read {used.tokens_used} tokens, and {rows} rows of {tokens} are asked: other rows")


def measure(args: argparse.Namespace, work: Path) -> dict[str, dict[str, list[float]]]:
    """Seconds of every call: [method][arm]; the order turns round from one repeat to the next."""
    resolved = refs.resolve(args.model)
    tokenizer = tokenizers.load(resolved)
    rows = rows_of(args.calibration, tokenizer, args.samples, args.tokens)
    text = work / "rows.jsonl"
    # A few tokens more than a row: a text that is cut anew may have fewer tokens than its part had.
    longer = [tokenizer.decode(row + row[:16]) for row in rows]
    text.write_text("".join(json.dumps({"text": part}) + "\n" for part in longer), encoding="utf-8")
    # Neither side's clock holds the imports of its libraries.
    warm = work / "warm"
    with quiet():
        plain(resolved.folder, "rtn", args.bits, args.group_size, rows, warm / "plain")
    ours(args.model, "rtn", args.bits, args.group_size, text, args.samples, args.tokens, warm / "specq")
    shutil.rmtree(warm)
    found: dict[str, dict[str, list[float]]] = {method: {"plain": [], "specq": []} for method in args.methods}
    for method in args.methods:
        for repeat in range(args.repeats):
            order = ("plain", "specq") if repeat % 2 == 0 else ("specq", "plain")
            for name in order:
                out = work / f"{method}-{name}-{repeat}"
                start = now()
                if name == "plain":
                    with quiet():
                        plain(resolved.folder, method, args.bits, args.group_size, rows, out)
                else:
                    ours(args.model, method, args.bits, args.group_size, text, args.samples, args.tokens, out)
                found[method][name].append(now() - start)
                print(f"{method}: {name} took {found[method][name][-1]:.1f} s", file=sys.stderr)
    return found


def main() -> None:
    """Measure, print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--methods", nargs="+", default=["gptq", "awq"], choices=METHODS)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=64)
    parser.add_argument("--calibration", type=Path, default=Path("evals/calibration.jsonl"))
    parser.add_argument("--samples", type=int, default=32, help="rows of text")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of a row")
    parser.add_argument("--repeats", type=int, default=2, help="an even number keeps the order balanced")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, Path(folder))
    title = f"{args.model}, {args.samples} x {args.tokens} tokens, {torch.get_num_threads()} threads: seconds"
    table = Table("method", "plain oneshot", "specq quantize", "times oneshot", title=title)
    for method, times in found.items():
        medians = {name: statistics.median(each) for name, each in times.items()}
        cells = [f"{medians[name]:.1f} ({min(times[name]):.1f} to {max(times[name]):.1f})" for name in times]
        table.add_row(method, *cells, f"{medians['specq'] / medians['plain']:.2f}")
    Console(width=110).print(table)
    print(json.dumps({"model": args.model, "samples": args.samples, "tokens": args.tokens, "seconds": found}))


if __name__ == "__main__":
    try:
        main()
    except SpecqError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
