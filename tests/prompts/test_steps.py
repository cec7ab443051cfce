"""What each step deletes and leaves."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from specq.prompts.transform import transform
from specq.prompts.types import Result, Steps

QUESTION = "Question: How is the flat heated?"
FILLER = "The garden lies behind the house and is shared by all who live there."


def cleaned(body: str) -> Result:
    return transform(f"{body}\n\n{QUESTION}", Steps())


def reasons(found: Result) -> list[str]:
    return [one.reason for one in found.deletions]


@pytest.mark.parametrize(
    ("body", "reason", "gone", "left"),
    [
        (f"{FILLER}\n\nOther words.\n\n{FILLER}", "repeat", "", FILLER),
        (f"{FILLER}\n\nOther words.\n\n{FILLER.upper()}", "near repeat", FILLER.upper(), FILLER),
        ("Home | Products | Pricing | Support\n\nWords stay.", "navigation", "Pricing", "Words stay."),
        ("Words stay.\n\nKind regards,\nAnn Smith\nAcme Homes", "signature", "Ann Smith", "Words stay."),
        ("Words stay.\n\nKind regards,\nThe board", "signature", "The board", "Words stay."),
        ("Words stay.\n\nThis e-mail is confidential.", "legal footer", "confidential", "Words stay."),
        ("All is well.\n\nOn Monday Ann Smith wrote:\n> All\n> is well.", "mail chain", "wrote", "All is well."),
        ('{"city": "Leeds", "note": null, "zip": "LS1"}', "empty field", "null", "Leeds"),
        ('{\n    "city": "Leeds",\n    "zip": "LS1"\n}', "JSON whitespace", "    ", "Leeds"),
        ("<p>Words stay.</p>\n<span class='x'></span>", "empty tag", "span", "Words stay."),
        (f"Picture: data:image/png;base64,{'iVBORw0K' * 30}", "base64", "iVBORw0K", "image/png"),
    ],
)
def test_clean_drops_this(body: str, reason: str, gone: str, left: str) -> None:
    found = cleaned(body)
    text = found.messages[0]["content"]
    assert reason in reasons(found)
    assert left in text
    assert not gone or gone not in text
    assert text.count(FILLER) < 2
    assert found.after.characters < found.before.characters


def test_an_original_message_that_stands_above_stays_or_takes_what_follows_with_it() -> None:
    body = f"{FILLER} All is well.\n\nYes.\n\n-----Original Message-----\nFrom: Ann\nSubject: flat\n\n{FILLER}"
    found = transform([{"role": "user", "content": body}, {"role": "user", "content": QUESTION}], Steps())
    assert "mail chain" in reasons(found)
    assert found.messages[0]["content"].rstrip().endswith("Yes.")
    # What follows may be the question.
    assert QUESTION in cleaned(body).messages[0]["content"]


@pytest.mark.parametrize(
    "body",
    [
        f"```\n{FILLER}\n\n{FILLER}\n```",
        "yes\n\nno\n\nyes",
        "Contact the support about pricing.",
        "| rope | EUR 3.50 |\n| rope | EUR 3.50 |",
        '{"$schema":"x","properties":null}',
        "Thanks to all, the house is warm.",
        "Products | Services | Support\nropes | repairs | by mail",
        "| Products | Services | Support |\n|---|---|---|\n| ropes | repairs | by mail |",
        "Products\tServices\tSupport\nropes\trepairs\tby mail",
        "ropes | repairs | by mail\nHelp | News | Blog",
        "Our pages have these names:\nHome | News | Blog",
        "Home | Leeds | York | Blog",
        "Rated\n\nBest\nOak table\nPine chair\n\nWorst\nGlass lamp",
        "Best,\n- oak table\n- pine chair",
        "Thanks\nOak Table",
        "Words stay.\n\nRegards\n\nSecond Letter",
        "One part.\n--\nthe other part",
        "Sum up this mail.\n\n-----Original Message-----\nFrom: Ann\n\nThe boiler is in the cellar.\n\nBirds sing.",
        "Words stay.\n\nOn Monday Ann Smith wrote:\n> The boiler is in the cellar.",
    ],
)
def test_clean_leaves_this(body: str) -> None:
    assert cleaned(body).messages[0]["content"].startswith(body)
    assert not {"repeat", "near repeat", "signature", "navigation"} & set(reasons(cleaned(body)))


def test_a_line_after_a_signature_stays() -> None:
    text = cleaned("Words stay.\n\nKind regards,\nAnn Smith\nBring the spare keys along").messages[0]["content"]
    assert "Ann Smith" not in text
    assert "Bring the spare keys along" in text


@pytest.mark.parametrize(
    "line", ["worker lost its connection", "ERROR: worker lost its connection", "The disk is full."]
)
def test_how_often_a_line_of_a_log_stands_is_lost(line: str) -> None:
    found = cleaned(f"start of the log\n{line}\n{line}\n{line}\nend of the log")
    assert found.messages[0]["content"].startswith(f"start of the log\n{line} (3 times)\nend of the log")
    assert [(one.reason, one.text, one.put) for one in found.deletions] == [
        ("repeat", f"\n{line}\n{line}", " (3 times)")
    ]
    assert list(transform(list(found.messages), Steps()).messages) == list(found.messages)


@pytest.mark.parametrize(
    "line", ["worker lost its connection", "ERROR: worker lost its connection now", "The disk is full."]
)
def test_how_often_a_line_between_blank_lines_stands_is_lost(line: str) -> None:
    found = cleaned(f"start of the log\n\n{line}\n\n{line}\n\n{line}\n\nend of the log")
    assert found.messages[0]["content"].startswith(f"start of the log\n\n{line} (3 times)\n\nend of the log")
    assert list(transform(list(found.messages), Steps()).messages) == list(found.messages)


def test_equal_rows_of_a_table_are_taken_for_one() -> None:
    body = "host | state\nalpha one | up\nalpha one | up\nbeta two | down"
    assert cleaned(body).messages[0]["content"].startswith(body)


@pytest.mark.parametrize("words", ["The key hangs on the hook {}.", "The fee for the north gate is {} units."])
def test_a_repeat_that_differs_in_a_number_is_no_repeat(words: str) -> None:
    assert reasons(cleaned(f"{words.format(12)}\n\n{words.format(13)}")) == []


def test_what_an_assistant_said_again_stays() -> None:
    one = {"role": "assistant", "content": f"{FILLER}\n\nFirst."}
    messages = [{"role": "user", "content": "Go on."}, one, {"role": "user", "content": "And on?"}]
    again = [*messages, {**one, "content": f"{FILLER}\n\nSecond."}, {"role": "user", "content": "And now?"}]
    assert list(transform(again, Steps()).messages) == again


def test_json_tables_hold_what_they_replace() -> None:
    rows = [{"name": f"n{i}", "size": i, "colour": "red"} for i in range(6)]
    table = json.loads(cleaned(json.dumps(rows)).messages[0]["content"].split("\n\n")[0])
    assert [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]] == rows


def call(ident: str, city: str) -> dict[str, object]:
    asked = {"id": ident, "function": {"name": "rent", "arguments": json.dumps({"city": city})}}
    return {"role": "assistant", "content": None, "tool_calls": [asked]}


def test_only_the_last_output_of_a_call_stays() -> None:
    messages = [
        {"role": "user", "content": "Look up the weather."},
        call("a", "Leeds"),
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
        call("b", "York"),
        {"role": "tool", "tool_call_id": "b", "content": "fog"},
        call("c", "Leeds"),
        {"role": "tool", "tool_call_id": "c", "content": "sun"},
        {"role": "user", "content": "How is it there?"},
    ]
    found = transform(messages, Steps())
    assert [m.get("content") for m in found.messages if m["role"] == "tool"] == ["fog", "sun"]
    assert reasons(found) == ["stale tool output"]
    messages[2]["content"] = "rain, and a fee of EUR 7"
    kept = transform(messages, Steps())
    assert len(kept.messages) == len(messages)
    assert "amount EUR 7" in kept.kept[0].because


def test_select_keeps_what_the_question_needs_within_its_budget() -> None:
    heat = "The heating runs on gas and was made new some years ago."
    body = "\n\n".join(
        [*[f"{FILLER} Row {n}." for n in "abcdef"], heat, *[f"Birds sing there, row {n}." for n in "gh"]]
    )
    found = transform(f"{body}\n\nQuestion: How does the heating run?", Steps(clean=False, select=30))
    text = found.messages[0]["content"]
    assert heat in text
    assert "Question" in text
    assert found.after.tokens <= 30
    assert set(reasons(found)) == {"less relevant"}


def test_a_share_is_of_the_tokens_before() -> None:
    body = "\n\n".join(f"Birds of kind {n} sing there in the morning." for n in "abcdefghijklmnop")
    found = transform(f"{body}\n\n{QUESTION}", Steps(select=0.5))
    assert 0.35 * found.before.tokens < found.after.tokens <= 0.5 * found.before.tokens


def test_the_order_stays_and_speakers_take_turns() -> None:
    messages = [
        {"role": "user", "content": "Tell me of birds."},
        {"role": "assistant", "content": f"{FILLER} Birds sing."},
        {"role": "user", "content": "Tell me of trees."},
        {"role": "assistant", "content": "Trees are old. They stand there."},
        {"role": "user", "content": "How old are the trees?"},
    ]
    found = transform(messages, Steps(select=14))
    roles = [m["role"] for m in found.messages]
    assert roles[0] == roles[-1] == "user"
    assert all(one != two for one, two in pairwise(roles))
    assert "Trees are old." in str(found.messages)


def test_an_earlier_call_saves_a_later_one_no_time() -> None:
    from specq.prompts import blocks, protected

    transform(FILLER, Steps())
    once = (blocks.blocks.cache_info(), protected._of_group.cache_info())
    transform(FILLER, Steps())
    assert (blocks.blocks.cache_info(), protected._of_group.cache_info()) == once
    assert min(one.misses for one in once) > 0
