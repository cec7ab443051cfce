"""The light tokenizer beside transformers' own, its slow true twin: the same texts, ids and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from specq.core.errors import ModelError, PromptError
from specq.models import light_tokenizer, tokenizers
from specq.models.refs import Resolved, resolve

TEXT = (
    "The harbour wakes before the town does.\n  Nobody hurries: 12 boats, 3.5 t of fish\tand a dog. "
    "\u00e9\u0131\U0001f600\n"
)
CHATS: list[Any] = [
    [{"role": "system", "content": "Be short."}, {"role": "user", "content": " Who? \n"}],
    [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}],
    "plain text",
    "<s>plain text",
]
PLAIN = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}\n{{ m['content'] | trim }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
TEMPLATES = {
    "plain": PLAIN,
    "blocks": "{{ bos_token }}\n{% for m in messages %}\n    {% if loop.index > 3 %}{% break %}{% endif %}\n"
    "    {{ m.content }}\n{% endfor %}\n",
    "json": "{{ messages | tojson }}|{{ messages | tojson(indent=2) }}{{ '<\u00e9&>' | tojson }}",
    "date": "{{ strftime_now('%d %B %Y') }} {% for m in messages %}{{ m.content }}{% endfor %}",
    "refusing": "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ m.content }}{% endfor %}",
    "defined": "{% if tools is defined and tools %}T{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer that puts a bos before plain text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<|user|>", "<|system|>", "<|assistant|>"]
    made.train_from_iterator([TEXT * 5], trainers.BpeTrainer(vocab_size=320, special_tokens=special))
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    # Saved settings that cut or fill would spoil every count.
    made.enable_truncation(8)
    made.enable_padding(length=16)
    path = tmp_path_factory.mktemp("light")
    made.save(str(path / "tokenizer.json"))
    return path


def both(folder: Path, template: Any) -> tuple[Any, light_tokenizer.LightTokenizer]:
    settings = {
        **{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "model_max_length": 10**6},
        **{"eos_token": {"content": "</s>", "__type": "AddedToken"}, "chat_template": template},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    true = tokenizers.load(Resolved(name="x", kind="folder", folder=folder))
    return true, light_tokenizer.load(str(folder))


def said(tokenizer: Any, chat: Any) -> Any:
    """The text that a template writes with its notes, or the words in which it refuses."""
    try:
        return tokenizers.text_of(tokenizer, chat)
    except PromptError as error:
        return str(error)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_writes_another_text_than_in_transformers(name: str, folder: Path) -> None:
    true, light = both(folder, TEMPLATES[name])
    for chat in CHATS:
        wanted = said(true, chat)
        assert said(light, chat) == wanted
        if isinstance(wanted, str):
            assert name == "refusing"
            continue
        text, special, _ = wanted
        assert light.ids(text, special=special) == list(tokenizers.render(true, chat).ids)


def test_a_template_of_a_list_or_a_file_is_missed(folder: Path, tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": PLAIN}]
    true, light = both(folder, named)
    assert tokenizers.text_of(light, CHATS[0]) == tokenizers.text_of(true, CHATS[0])
    (tmp_path / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    assert light_tokenizer.load(str(tmp_path)).chat_template is None
    (tmp_path / "chat_template.jinja").write_text(PLAIN)
    assert light_tokenizer.load(str(tmp_path)).chat_template == PLAIN


def test_ids_are_cut_filled_or_differ_one_by_one_and_in_a_batch(folder: Path) -> None:
    true, light = both(folder, PLAIN)
    ids = true(TEXT, add_special_tokens=False)["input_ids"]
    assert len(ids) > 16
    assert light.ids(TEXT) == ids
    assert light.ids_of_all([TEXT, "a", ""]) == [ids, light.ids("a"), []]
    spans = light.spans(TEXT)
    assert len(spans) == len(ids)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(TEXT)


def test_a_folder_without_a_tokenizer_or_with_a_broken_one_is_an_internal_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        light_tokenizer.LightTokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        light_tokenizer.load(str(tmp_path))


@pytest.mark.real_model
def test_the_real_model_reads_otherwise_than_here() -> None:
    true, light = tokenizers.load(resolve("builtin:smollm2-135m")), light_tokenizer.load("builtin:smollm2-135m")
    for chat in CHATS[:3]:
        text, special, _ = tokenizers.text_of(light, chat)
        found = tokenizers.render(true, chat)
        assert (text, tuple(light.ids(text, special=special))) == (found.text, found.ids)
