"""Tasks of lm-eval as YAML files beside JSON lines: no network is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from tokenizers.processors import TemplateProcessing

import tiny_models
from specq.evals.task_harness import evaluate_task

ROWS = [
    {"q": "what is two and two?", "a": "four", "wrong": "a very long answer", "gold": 0, "text": "one two three four."},
    {"q": "the sky is", "a": "blue", "wrong": "red", "gold": 1, "text": "the sky is blue, and so is the sea."},
    {"q": "stones roll", "a": "down", "wrong": "up up up", "gold": 0, "text": "stones roll down the hill."},
    {"q": "a b a b a", "a": "b", "wrong": "a", "gold": 1, "text": "a b a b a b"},
    {"q": "x", "a": "y", "wrong": "z z", "gold": 0, "text": "x"},
]
SHOTS = [{**row, "q": f"{row['q']} {n}"} for n, row in enumerate(ROWS)]
GENERATE: dict[str, Any] = {
    "output_type": "generate_until",
    "doc_to_text": "{{q}}:",
    "doc_to_target": "a",
    "generation_kwargs": {"until": ["e"], "max_gen_toks": 12, "do_sample": False},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}
CHOICE: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "q",
    "doc_to_choice": "{{[a, wrong]}}",
    "doc_to_target": "gold",
    "metric_list": [{"metric": name} for name in ("acc", "acc_norm")],
}
LIKELIHOOD: dict[str, Any] = {
    "output_type": "loglikelihood",
    "doc_to_text": "q",
    "doc_to_target": " {{a}}",
    "metric_list": [{"metric": "perplexity"}, {"metric": "acc"}],
}
ROLLING: dict[str, Any] = {
    "output_type": "loglikelihood_rolling",
    "doc_to_text": "",
    "doc_to_target": "text",
    "metric_list": [{"metric": name} for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")],
}
KINDS = {"generate": GENERATE, "choice": CHOICE, "likelihood": LIKELIHOOD, "rolling": ROLLING}


def write(folder: Path, settings: dict[str, Any], *, code: str = "", **changes: Any) -> Path:
    """A task in a folder of its own; a change to None takes a key out, and FUNCTION:NAME is a function of `code`."""
    for name, rows in (("test", ROWS), ("train", SHOTS)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {name: str(folder / f"{name}.jsonl") for name in ("test", "train")}
    whole = {
        "task": "own",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": files},
        "test_split": "test",
        "training_split": "train",
        **settings,
        **changes,
    }
    text = yaml.safe_dump({key: value for key, value in whole.items() if value is not None}, sort_keys=False)
    (folder / "own_code.py").write_text(code)
    path = folder / "own.yaml"
    path.write_text(text.replace("FUNCTION:", "!function own_code."))
    return path


def run(task: Any, target: Any, draft: Any = None, **more: Any) -> Any:
    return evaluate_task(task, target, target.decoder(draft), target.tokenizer, **more)


def with_bos() -> Any:
    """The tiny tokenizer, putting a bos before each text as most do."""
    made = tiny_models.tokenizer()
    inner = made.backend_tokenizer
    inner.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made
