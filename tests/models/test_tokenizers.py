from __future__ import annotations

import datetime

import pytest
from model_files import TEMPLATE, WORDS, llama_folder, word_tokenizer

from specq.core import hashes
from specq.core.errors import ModelError, PromptError, TokenizerMismatch
from specq.models.refs import resolve
from specq.models.tokenizers import compare, difference, load, render

MESSAGES = [{"role": "user", "content": "hello world"}]


def test_same_tokenizer_is_compatible():
    found = compare(word_tokenizer(), word_tokenizer(), target_vocab=12, draft_vocab=12)
    assert (found.tokens, found.target_padding, found.draft_padding, found.notes) == (12, 0, 0, ())


def test_padded_vocabulary_is_not_refused():
    found = compare(word_tokenizer(), word_tokenizer(), target_vocab=20, draft_vocab=16)
    assert (found.tokens, found.target_padding, found.draft_padding) == (12, 8, 4)


def test_same_size_vocabulary_with_other_tokens_is_refused_by_first_id():
    other = list(WORDS)
    other[5], other[9] = other[9], other[5]
    with pytest.raises(TokenizerMismatch, match=r"id 5 is 'world' in the target and ']' in the draft"):
        compare(word_tokenizer(), word_tokenizer(other), target_vocab=12, draft_vocab=12)


def test_token_that_only_one_knows_is_refused_although_the_rows_agree():
    with pytest.raises(TokenizerMismatch, match="id 12 is 'c' in the target and no token in the draft"):
        compare(word_tokenizer([*WORDS, "c"]), word_tokenizer(), target_vocab=16, draft_vocab=16)
    with pytest.raises(TokenizerMismatch, match="id 12 is no token in the target and 'c' in the draft"):
        compare(word_tokenizer(), word_tokenizer([*WORDS, "c"]))


def test_tokens_that_agree_are_told_apart_by_their_bos():
    assert difference(word_tokenizer(), word_tokenizer(bos_token="user")) is None
    assert difference(word_tokenizer(), word_tokenizer([*WORDS, "c"])) == (12, "no token", "'c'")


def test_added_token_is_compared_too():
    more = word_tokenizer()
    more.add_tokens(["<think>"])
    with pytest.raises(TokenizerMismatch, match="id 12 is no token in the target and '<think>' in the draft"):
        compare(word_tokenizer(), more)


def test_bos_difference_is_refused_by_name():
    with pytest.raises(TokenizerMismatch, match=r"different bos tokens: id 1 .* id 6 \('user'\) in the draft"):
        compare(word_tokenizer(), word_tokenizer(bos_token="user"))


@pytest.mark.parametrize("name", ["eos", "pad"])
def test_eos_or_pad_that_a_base_draft_names_otherwise_is_a_note(name):
    found = compare(word_tokenizer(), word_tokenizer(**{f"{name}_token": "user"}))
    assert len(found.notes) == 1
    assert found.notes[0].startswith(f"{name} token: ")
    assert found.notes[0].endswith("'user' in the draft")


def test_special_token_that_only_one_names_is_a_note():
    found = compare(word_tokenizer(), word_tokenizer(pad_token=""))
    assert found.notes == ("only the target names a pad token",)


def test_bos_policy_difference_is_refused():
    with pytest.raises(
        TokenizerMismatch, match="the draft's tokenizer puts a bos token first and the target's does not"
    ):
        compare(word_tokenizer(), word_tokenizer(add_bos=True))
    assert compare(word_tokenizer(add_bos=True), word_tokenizer(add_bos=True)).adds_bos


def test_tokenizer_with_more_ids_than_the_model_has_rows_is_refused():
    with pytest.raises(TokenizerMismatch, match=r"the draft's tokenizer has id 11 \('b'\) but its model has only 11"):
        compare(word_tokenizer(), word_tokenizer(), target_vocab=12, draft_vocab=11)


def test_other_chat_template_is_reported_but_not_refused():
    target, draft = word_tokenizer(), word_tokenizer()
    target.chat_template = TEMPLATE
    found = compare(target, draft)
    assert found.target_template_sha256 == hashes.of_bytes(TEMPLATE.encode())
    assert found.draft_template_sha256 is None
    assert any("chat templates differ" in note for note in found.notes)


def test_folder_without_a_tokenizer_gets_one_line(tmp_path):
    resolved = resolve(str(llama_folder(tmp_path / "m")))
    for text in (None, "{", '{"version": "1.0", "model": 3}'):
        if text is not None:
            (resolved.folder / "tokenizer.json").write_text(text)
        with pytest.raises(ModelError, match="no tokenizer that transformers can read") as caught:
            load(resolved)
        assert "\n" not in str(caught.value)


def test_a_config_that_contradicts_itself_passes_for_a_missing_tokenizer(tmp_path):
    folder = llama_folder(tmp_path / "m", layer_types=["full_attention"] * 7)
    word_tokenizer().save_pretrained(folder)
    with pytest.raises(ModelError, match=r"does not accept .*config\.json \(.*number of `layer_types` \(7\)") as caught:
        load(resolve(str(folder)))
    assert "tokenizer" not in str(caught.value)


def test_saved_tokenizer_loads_with_its_template(tmp_path):
    folder = llama_folder(tmp_path / "m")
    tokenizer = word_tokenizer()
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    again = load(resolve(str(folder)))
    assert compare(tokenizer, again).notes == ()


def test_messages_end_where_the_answer_begins():
    tokenizer = word_tokenizer()
    tokenizer.chat_template = TEMPLATE
    found = render(tokenizer, MESSAGES)
    assert found.text == "[user] hello world [assistant]"
    assert found.ids == (8, 6, 9, 4, 5, 8, 7, 9)
    assert found.notes == ()


def test_template_that_writes_a_bos_does_not_get_a_second_one():
    tokenizer = word_tokenizer(add_bos=True)
    tokenizer.chat_template = "{{ bos_token }} " + TEMPLATE
    assert render(tokenizer, MESSAGES).ids.count(1) == 1


def test_raw_text_gets_the_tokenizers_bos_exactly_once():
    tokenizer = word_tokenizer(add_bos=True)
    assert render(tokenizer, "hello").ids == (1, 4)
    assert render(tokenizer, "<s> hello").ids == (1, 4)
    assert render(word_tokenizer(), "hello").ids == (4,)


def test_base_model_without_a_template_says_so():
    found = render(word_tokenizer(add_bos=True), [*MESSAGES, {"role": "user", "content": "a"}])
    assert found.text == "hello world\n\na"
    assert found.ids == (1, 4, 5, 10)
    assert "no chat template" in found.notes[0]


@pytest.mark.parametrize(
    "template",
    [
        "{% if date_string is not defined %}{% set date_string = strftime_now('%d %B') %}{% endif %}{{ date_string }}",
        "{{ strftime_now('%d %b %Y') }}",
    ],
)
def test_template_that_prints_today_gives_the_same_prompt_tomorrow(template):
    tokenizer = word_tokenizer()
    tokenizer.chat_template = template + TEMPLATE
    found = render(tokenizer, MESSAGES)
    assert str(datetime.date.today().year) not in found.text
    assert found.text.startswith("01 Jan 2025")
    assert any("prints the date" in note for note in found.notes)


def test_special_token_inside_a_message_is_said():
    tokenizer = word_tokenizer()
    tokenizer.chat_template = TEMPLATE
    found = render(tokenizer, [{"role": "user", "content": "hello </s>"}])
    assert any("'</s>'" in note for note in found.notes)


@pytest.mark.parametrize("prompt", ["", "  \n", []])
def test_empty_prompt_is_refused(prompt):
    tokenizer = word_tokenizer()
    with pytest.raises(PromptError, match=r"prompt (is empty|has no messages)"):
        render(tokenizer, prompt)
    tokenizer.chat_template = TEMPLATE
    with pytest.raises(PromptError, match=r"prompt (is empty|has no messages)"):
        render(tokenizer, prompt)


def test_refusal_of_the_template_gets_one_line():
    tokenizer = word_tokenizer()
    tokenizer.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(PromptError, match="refuses the messages: no system role"):
        render(tokenizer, MESSAGES)
