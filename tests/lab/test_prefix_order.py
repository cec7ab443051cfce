from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import prefix_logs
import pytest
from prefix_logs import asked

from specq.core.errors import ConfigError
from specq.lab import prefix_cache, prefix_parts, prefix_tokens
from specq.lab.prefix_parts import Parts
from specq.workloads.request import Request

COLOURS = ("red", "blue", "green", "grey", "white", "black", "brown")
LONG = "".join(f"Rule {word}: keep what is {word} apart.\n" for word in COLOURS)


def parts_of(requests: Sequence[Request]) -> Parts:
    return prefix_tokens.parts_of(requests, prefix_tokens.Encoding())


def texts(parts: Parts) -> list[str]:
    return ["".join(parts.texts[number] for number in prompt) for prompt in parts.prompts]


def shares(requests: Sequence[Request]) -> tuple[float, float]:
    """The token-weighted hit rate as the prompts are, and in order of stability."""
    encoding = prefix_tokens.Encoding()
    found = []
    parts = prefix_tokens.parts_of(requests, encoding)
    for one in (parts, prefix_parts.by_stability(parts)):
        tokens = prefix_parts.encode(one.texts, encoding.ids_of_all)
        order = prefix_cache.sort([tokens.of(numbers) for numbers in one.prompts])
        cached = prefix_cache.reusable(prefix_cache.shared(order), order.lengths)
        found.append(float(cached.sum() / order.lengths.sum()))
    return found[0], found[1]


def stamped(count: int) -> list[Request]:
    return [asked(f"Question {chr(97 + n)}?", f"At 10:{10 + n}:00.\n{LONG}", ident=str(n)) for n in range(count)]


def test_a_text_loses_or_gains_characters() -> None:
    log = [*stamped(4), Request(id="p", line=1, prompt="\n\n one\n\n\ntwo \n"), asked("", "only a system")]
    made = parts_of(log)
    encoding = prefix_tokens.Encoding()
    assert texts(made) == [encoding.text(one) for one in log]
    moved = prefix_parts.by_stability(made)
    for before, after in zip(texts(made), texts(moved), strict=True):
        assert Counter(before) == Counter(after)


def test_a_stamp_at_the_top_stays_there() -> None:
    now, ordered = shares(stamped(20))
    # All but the first could share the rules, once the stamp stands behind them.
    assert now < 0.15
    assert ordered > 0.8
    first = texts(prefix_parts.by_stability(parts_of(stamped(4))))[0]
    assert first.index("Rule brown") < first.index("10:10")


def test_a_line_with_a_value_is_lost_for_the_value() -> None:
    head = "You are an agent of the harbour of the town and answer whoever asks, and it is now"
    log = [asked(f"{chr(97 + n)}?", f"{head} 2026-05-{n + 1:02d}.", ident=str(n)) for n in range(9)]
    moved = texts(prefix_parts.by_stability(parts_of(log)))
    assert all(head in one for one in moved)
    common = min(prefix_logs.slow_common(one.encode("utf-32-le"), moved[0].encode("utf-32-le")) for one in moved[1:])
    assert common > len(head)


def test_rows_of_a_table_are_cut_and_their_bars_counted_as_shared() -> None:
    rows = [["1.50", "2.25", "3.75"], ["9.10", "8.20", "7.30"], ["4.40", "5.50", "6.60"]]
    log = [asked("\n".join(f"| price | {value} |" for value in values), ident=str(n)) for n, values in enumerate(rows)]
    made = parts_of(log)
    assert prefix_parts.by_stability(made).texts == made.texts
    now, ordered = shares(log)
    assert ordered == now


def test_a_conversation_is_put_in_another_order() -> None:
    turns = [asked("Hello there", LONG).messages]
    for text in ("Thanks!", "Thanks!", "And the rest?"):
        answer = {"role": "assistant", "content": "Well.\nThanks!"}
        turns.append((*turns[-1], answer, {"role": "user", "content": text}))
    log = [Request(id=str(n), line=1, messages=messages) for n, messages in enumerate(turns)]
    moved = prefix_parts.by_stability(parts_of(log))
    for one, messages in zip(texts(moved), turns, strict=True):
        tail = "".join(f"{message['role']}\n{message['content']}\n" for message in messages[2:])
        assert one.endswith(tail)
    now, ordered = shares(log)
    assert ordered == pytest.approx(now, abs=0.02)


def test_documents_in_another_order_share_nothing_once_sorted() -> None:
    documents = [f"Document {word}: " + f"{word} " * 30 + "\n" for word in ("alpha", "beta", "gamma")]
    log = [
        asked(f"{documents[n % 3]}{documents[(n + 1) % 3]}{documents[(n + 2) % 3]}Q{chr(97 + n)}?", ident=str(n))
        for n in range(9)
    ]
    now, ordered = shares(log)
    assert ordered > now + 0.1


def test_equal_lines_in_another_order_are_equally_stable_and_stay_apart() -> None:
    log = [asked("b\na", ident="1"), asked("a\nb", ident="2")]
    moved = prefix_parts.by_stability(parts_of(log))
    assert np.array_equal(*moved.prompts)


def test_lines_are_encoded_otherwise_than_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Joining(prefix_tokens.Encoding):
        """A tokenizer whose tokens go over the end of a line: it counts the letters that follow a newline apart."""

        by_model = True  # type: ignore[assignment]

        def ids_of_all(self, texts: Sequence[str]) -> list[np.ndarray]:
            return [
                np.array(
                    [ord(letter) + 1000 * (text[at - 1 : at] == "\n") for at, letter in enumerate(text)], np.uint32
                )
                for text in texts
            ]

    log = stamped(5)
    encoding = Joining()
    parts = prefix_tokens.parts_of(log, encoding)
    tokens = prefix_parts.encode(parts.texts, encoding.ids_of_all)
    prompts, by_lines = prefix_tokens.prompts_of(log, parts, tokens, encoding)
    assert not by_lines
    assert prompts == encoding.whole([encoding.text(one) for one in log])


def test_a_unit_that_there_is_not_is_taken() -> None:
    with pytest.raises(ConfigError, match=r"unit word, did you mean 'words'\? allowed: words, characters"):
        prefix_tokens.Encoding(unit="word")


def test_the_end_of_what_may_move_is_missed_behind_blanks(tmp_path: Path) -> None:
    one = asked("  a question \n", "rules")
    assert prefix_parts.head_end("<s>rules<u>a question<a>", one) == len("<s>rules<u>a question")
    assert prefix_parts.head_end("no such text", one) == len("no such text")
