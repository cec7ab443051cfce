"""Files of log-probabilities: what is read of a row, and lines that cannot be true."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replayed_texts import GREEDY, PROMPT, V, laws, line, text, write, written

from specq.core.errors import PromptError
from specq.forecast import imported

GOOD = line("a", laws(1), written(laws(1), 3, GREEDY), 2)


def entry(logprob: Any, rank: Any = None) -> dict[str, Any]:
    return {"logprob": logprob} | ({} if rank is None else {"rank": rank})


def one(tmp_path: Path, row: dict[str, Any], token: int = 7) -> imported.Position:
    """The last position of a text, with this row."""
    ids = [1, 2, token]
    value = {"id": "a", "ids": ids, "prompt_tokens": 1, "prompt_logprobs": [None, {"2": entry(-1.0, 1)}, row]}
    return text(tmp_path, "x", value).positions[-1]


@pytest.mark.parametrize("top", [0, 1, 4, V])
@pytest.mark.parametrize("rank", [True, False])
def test_the_likeliest_are_told_from_a_token_that_stands_apart(tmp_path: Path, top: int, rank: bool) -> None:
    if not (top or rank):
        with pytest.raises(PromptError, match="nothing tells"):
            text(tmp_path, "x", line("a", laws(1), GOOD["ids"], 0, rank=False))
        return
    rng = np.random.default_rng(5)
    law, ids = laws(1), [int(rng.integers(V)) for _ in range(len(laws(1)))]
    found = text(tmp_path, "x", line("a", law, ids, top, rank=rank)).positions
    for at, position in enumerate(found, start=PROMPT):
        order = np.sort(law[at])[::-1]
        assert position.own == law[at, ids[at]]
        # What is called the likeliest n is just that, whatever the row did not say.
        assert position.head == pytest.approx(order[: len(position.head)])
        assert len(position.head) >= top - (not rank)
        assert position.inside == (position.own >= order[len(position.head) - 1] if position.head else False)
        assert position.hit == ((1.0, 1.0) if position.own == order[0] else (0.0, 0.0))


def test_a_tie_for_the_likeliest_token_is_called_a_hit_for_sure(tmp_path: Path) -> None:
    tied = {"7": entry(-1.0, 1), "8": entry(-1.0, 2), "9": entry(-3.0, 3)}
    assert one(tmp_path, tied).hit == (0.0, 1.0)
    # An engine may count equals as likelier, or as one place.
    assert one(tmp_path, {"7": entry(-1.0, 2), "8": entry(-1.0, 2)}).hit == (0.0, 1.0)
    assert one(tmp_path, {"7": entry(-1.0, 1), "8": entry(-1.0, 1)}).hit == (0.0, 1.0)


def test_what_stands_for_the_logarithm_of_nothing_is_read_as_a_small_probability(tmp_path: Path) -> None:
    assert one(tmp_path, {"7": entry(-9999.0, 40), "8": entry(-0.1, 1)}).own == -math.inf
    assert one(tmp_path, {"7": entry(-800.0, 40), "8": entry(-0.1, 1)}).own == -800.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": None}, "id is None: allowed is a string"),
        ({"ids": "abc"}, "ids must be a list"),
        ({"ids": [1, True, 3, 4, 5, 6]}, "ids must be a list"),
        ({"prompt_tokens": 0}, "prompt_tokens = 0: allowed is a whole number from 1 on"),
        ({"prompt_tokens": 26}, "an answer has 2 tokens or more"),
        ({"prompt_tokens": 27}, "an answer has 2 tokens or more"),
        ({"prompt_logprobs": [None]}, "as long as ids"),
        ({"prompt_logprobs": [None] * 27}, "token 3: is None: allowed is an object"),
        ({"prompt_logprobs": [{"5": 1}] * 27}, "token 3: is .* allowed is an object"),
    ],
)
def test_lines_that_are_none_pass_or_are_not_named(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(PromptError, match=r"x\.jsonl:1: .*" + says):
        text(tmp_path, "x", {**GOOD, **change})


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"7": entry(0.5)}, "logprob 0.5 is not 0 or less"),
        ({"7": entry(float("nan"))}, "logprob nan is not 0 or less"),
        ({"7": entry(True)}, "allowed are token ids and numbers"),
        ({"x": entry(-1)}, "allowed are token ids and numbers"),
        ({"8": entry(-1, 1)}, "its own id 7 has no logprob"),
        ({"7": entry(-1), "07": entry(-1)}, "id 7 stands there twice"),
        ({"7": entry(-1)}, "nothing tells whether it is the likeliest"),
        ({"7": entry(-1, 0)}, "rank 0: allowed is a whole number"),
        ({"7": entry(-1, "1")}, "rank '1': allowed"),
        ({"7": entry(-0.1, 1), "8": entry(-0.1, 2)}, "sum to 1.810: allowed is at most 1"),
        # The likeliest has rank 2, and the other way round.
        ({"7": entry(-0.5, 2), "8": entry(-2.0, 1)}, "id 7 has the rank 2"),
        ({"7": entry(-2.0, 1), "8": entry(-0.5, 2)}, "id 7 has the rank 1"),
        # The own token stands above one of the likeliest, so none may be missing between them.
        ({"7": entry(-1.0, 3), "8": entry(-0.8, 1), "9": entry(-4.0, 2)}, "id 7 has the rank 3"),
        ({"7": entry(-4.0, 3), "8": entry(-0.8, 2), "9": entry(-0.9, 3)}, "rank"),
        # A hundred tokens of more than a tenth each do not exist.
        ({"7": entry(-2.3, 100), "8": entry(-1.0, 1)}, "id 7 has the rank 100"),
        ({"7": entry(-40.0, 1), "8": entry(-41.0, 2)}, "less than one of"),
    ],
)
def test_rows_of_no_law_are_believed(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    with pytest.raises(PromptError, match=r"x\.jsonl:1: token 2: .*" + says):
        one(tmp_path, row)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r"f\.jsonl: no texts"),
        ("\n{", r"f\.jsonl:2: not a JSON line"),
        ("[" * 100_000, r"f\.jsonl:1: not a JSON line"),
        ("[]", r"f\.jsonl:1: lacks all keys"),
        ('{"id": 1}', r"f\.jsonl:1: lacks ids, prompt_tokens, prompt_logprobs"),
    ],
)
def test_broken_files_end_in_a_traceback(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(PromptError, match=says):
        imported.load(file)
    with pytest.raises(PromptError, match=r"none\.jsonl: cannot be read"):
        imported.load(tmp_path / "none.jsonl")


def test_a_text_that_stands_twice_counts_twice(tmp_path: Path) -> None:
    file = write(tmp_path / "f.jsonl", [GOOD, GOOD])
    with pytest.raises(PromptError, match=r'f\.jsonl:2: id "a" stands in .*f\.jsonl:1 too'):
        imported.load(file)
    assert json.loads(file.read_text().split("\n")[0])["id"] == "a"
