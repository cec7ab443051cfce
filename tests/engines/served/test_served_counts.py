"""Tokens and times of an answer, where events carry several tokens, none, or half a letter."""

from __future__ import annotations

from typing import Any

import pytest
from served_runs import answer, chat, streamed

from specq.engines.served.stub_events import CHAT, LLAMA, OLLAMA, PATHS, SGLANG, TEXT, text_of


def usage(tokens: int) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens}}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("per_event", [1, 3])
def test_an_answer_of_some_api_is_read_wrong(path: str, ids: bool, per_event: int) -> None:
    ids = ids and path != OLLAMA
    found = streamed(path, tokens=8, ids=ids, per_event=per_event)
    assert (found.error, found.said, found.notes) == (None, "", ())
    assert found.text == text_of(0, 8)
    assert (found.tokens, found.counted) == (8, "ids" if ids else "usage")
    assert found.token_ids == (tuple(range(8)) if ids else None)
    told = ids or path in (LLAMA, SGLANG)
    assert found.event_tokens == ((1,) * 8 if per_event == 1 else (3, 3, 2) if told else (1, 1, 1))
    assert found.finish == ("limit" if path == LLAMA else "length")
    assert len(found.event_s) == len(found.event_tokens)
    assert found.sent_s is not None
    assert found.first_byte_s is not None
    stamps = (found.asked_s, found.sent_s, found.first_byte_s, *found.event_s, found.end_s)
    assert list(stamps) == sorted(stamps)


def test_a_chunk_of_several_tokens_is_counted_as_one() -> None:
    three = [chat("a b c", token_ids=[1, 2, 3]), chat("d", token_ids=[4]), chat("", finish="stop", token_ids=[5])]
    found = answer([chat(), *three, usage(5)])
    assert (found.event_tokens, found.tokens, found.counted) == ((3, 1, 1), 5, "ids")
    assert (found.first_token_s, found.last_token_s, found.tpot_s, found.ttft_s, found.e2e_s) == (2, 4, 0.5, 2, 4)
    found = answer([chat("a b c", usage=3), chat("d", usage=4), chat("", finish="stop", usage=5)])
    assert (found.event_tokens, found.tokens, found.counted) == ((3, 1, 1), 5, "usage")
    assert found.tpot_s == pytest.approx(2 / 4)
    # The server tells the count of the whole answer alone: it counts, and the events are what they are.
    found = answer([chat("a b c"), chat("d e"), usage(5)])
    assert (found.event_tokens, found.tokens, found.counted, found.tpot_s) == ((1, 1), 5, "usage", 0.25)


def test_a_count_in_the_last_event_is_put_on_its_time() -> None:
    found = answer([chat("a b"), chat("c d"), chat("e", finish="length", usage=5)])
    assert (found.event_tokens, found.tokens, found.counted) == ((1, 1, 1), 5, "usage")


def test_the_token_that_ends_an_answer_is_left_out_of_its_time() -> None:
    found = answer([chat("a"), chat("b"), chat("", finish="stop"), usage(3)])
    assert (found.event_tokens, found.last_token_s, found.tpot_s) == ((1, 1, 1), 3.0, 1.0)
    # An answer that its budget ended has no such token, even where its events had several each.
    found = answer([chat("a b"), chat("c d"), chat("", finish="length"), usage(4)])
    assert (found.event_tokens, found.last_token_s, found.tpot_s) == ((1, 1), 2.0, 1 / 3)


def test_a_token_whose_letter_is_not_whole_is_not_counted() -> None:
    held = [
        {"content": "a", "stop": False, "tokens": [1], "tokens_predicted": 1},
        {"content": "\U0001f642", "stop": False, "tokens": [4], "tokens_predicted": 4},
        {"content": "", "stop": True, "stop_type": "eos", "tokens": [], "tokens_predicted": 4},
    ]
    found = answer(held, done=False)
    assert (found.event_tokens, found.tokens, found.counted, found.token_ids) == ((1, 3), 4, "usage", (1, 4))
    found = answer([chat("", token_ids=[1]), chat("\u20ac", token_ids=[2]), chat(finish="stop"), usage(2)])
    assert (found.first_token_s, found.tokens, found.counted) == (1.0, 2, "ids")


def test_half_a_character_that_a_server_escaped_cannot_be_written() -> None:
    found = answer([chat("a\ud83d"), chat("\ude42b"), chat("\ud83d", finish="stop"), usage(3)])
    assert found.text == "a\U0001f642b\ufffd"
    found.text.encode()


def test_text_that_sglang_repeats_is_doubled_or_text_that_it_does_not_is_lost() -> None:
    def told(text: str, ids: list[int], total: int, end: bool = False) -> dict[str, Any]:
        reason = {"type": "stop"} if end else None
        return {"text": text, "output_ids": ids, "meta_info": {"completion_tokens": total, "finish_reason": reason}}

    again = [told("a", [1], 1), told("ab", [1, 2], 2), told("abc", [1, 2, 3], 3, end=True)]
    alone = [told("a", [1], 1), told("b", [2], 2), told("c", [3], 3, end=True)]
    mixed = [told("a", [1], 1), told("ab", [2], 2), told("abc", [3], 3, end=True)]
    for events in (again, alone, mixed):
        found = answer(events)
        assert (found.text, found.token_ids, found.counted) == ("abc", (1, 2, 3), "ids")
        assert (found.event_tokens, found.finish) == ((1, 1, 1), "stop")


@pytest.mark.parametrize("path", [CHAT, TEXT, OLLAMA])
def test_a_reply_without_usage_is_lost_or_its_count_is_not_doubted(path: str) -> None:
    found = streamed(path, tokens=5, usage=False)
    assert (found.error, found.tokens, found.counted, found.notes) == (None, 5, "events", ("no_usage",))
    assert found.usage is None
    assert streamed(path, tokens=5, usage=False, ids=True).notes == (("no_usage",) if path == OLLAMA else ())


def test_reasoning_is_no_token_or_part_of_the_answer() -> None:
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}
    found = answer([chat(), thought, chat("a"), chat(finish="length"), usage(2)])
    assert (found.text, found.reasoning, found.first_token_s, found.event_tokens) == ("a", "hm", 2.0, (1, 1))


def test_an_answer_that_is_not_streamed_is_not_read() -> None:
    found = streamed(CHAT, stream=False, tokens=4)
    assert (found.error, found.text, found.tokens, found.counted) == (None, text_of(0, 4), 4, "usage")
    assert found.first_token_s == found.last_token_s == found.end_s


def test_times_are_told_of_an_answer_without_tokens() -> None:
    found = answer([chat(finish="stop"), usage(0)])
    assert (found.error, found.tokens, found.ttft_s, found.tpot_s, found.e2e_s) == (None, 0, None, None, None)
    assert answer([chat("a", finish="length"), usage(1)]).tpot_s is None
