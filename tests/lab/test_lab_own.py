"""The user's own prompts: read, counted and asked as their requests are, through the model's chat template."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

import specq
from specq.lab import asked, prompt_cache
from specq.lab import rows as records
from specq.models import light_tokenizer, refs, tokenizers
from specq.run.folder import RECORDS
from specq.workloads import counting

TEMPLATE = (
    "{% for message in messages %}begin {{ message.role }} {{ message.content }} end {% endfor %}"
    "{% if add_generation_prompt %}begin assistant {% endif %}"
)
SAID = ("to be or not to be", "that is the question", "to be")


@pytest.fixture
def model(folder_of: Callable[..., Path], tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(folder_of("llama"), folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "own.jsonl"
    lines = [{"id": str(at), "messages": [{"role": "user", "content": said}]} for at, said in enumerate(SAID)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def true_ids(model: Path) -> list[int]:
    """How many ids an experiment's prompts have."""
    tokenizer = tokenizers.load(refs.resolve(str(model)))
    return [len(tokenizers.render(tokenizer, [{"role": "user", "content": said}]).ids) for said in SAID]


def test_own_prompts_are_asked_or_counted_without_the_chat_template(model: Path, prompts: Path, tmp_path: Path) -> None:
    true = true_ids(model)
    found, run = specq.measure_requests(
        str(model),
        parts=("halves", "cache"),
        lengths=(10, 14, 18, 22, 26, 30),
        new_tokens=4,
        repeats=2,
        text="builtin:text",
        prompts=prompts,
        out=tmp_path / "results",
    )
    assert found.deliverable is not None
    assert found.deliverable.own.prompt_tokens == statistics.median(true)
    rows = [row for row in records.read(run / RECORDS)[0] if isinstance(row, records.Row)]
    own = records.of(rows, prompt_cache.PART, prompt_cache.OWN)
    assert [row.prompt_tokens for row in own] == [row.length for row in own] == true
    # A template's head is what prompts share.
    assert own[1].shared_tokens is not None
    assert own[1].shared_tokens >= len("begin user ")


def test_words_pass_for_what_a_chat_server_reads(prompts: Path) -> None:
    request = {"prompts": prompts, "prompt_tokens": None, "output_tokens": None, "cached_share": None}
    found = asked.own(counting.counter(), measured_output=4, **request)  # type: ignore[arg-type]
    assert found.prompts[0].messages == ({"role": "user", "content": SAID[0]},)
    (note,) = found.notes
    assert "without its chat template: give --model MODEL (3 of 3 prompts)" in note


def test_a_text_gets_a_template_or_loses_its_special_tokens(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text(json.dumps({"id": "0", "prompt": SAID[0]}) + "\n")
    light = light_tokenizer.load(str(model))
    counter = counting.Counter(unit="tokens of it", spans=light.spans)
    request = {"prompts": file, "prompt_tokens": None, "output_tokens": None, "cached_share": None}
    found = asked.own(counter, tokenizer=light, measured_output=4, **request)  # type: ignore[arg-type]
    true = tokenizers.render(tokenizers.load(refs.resolve(str(model))), SAID[0])
    assert (found.prompts[0].text, found.given["prompt"]) == (SAID[0], len(true.ids))
    assert found.notes == ()
