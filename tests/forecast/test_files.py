"""Drafts ranked from files: the tokens per step of the slow twin, seconds as they were given, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import specq
from specq import cli
from specq.core.errors import ConfigError, PromptError
from specq.core.types import EXACT_RULES
from specq.decoding import law
from specq.forecast import imported
from specq.forecast.files import Seconds

IDS = list(range(10, 34))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A file of texts whose tokens have these probabilities and ranks."""

    def made(name: str, probabilities: list[np.ndarray], ids: list[int] = IDS) -> Path:
        file = tmp_path / f"{name}.jsonl"
        rows = []
        for number, some in enumerate(probabilities):
            logprobs = [
                {str(token): {"logprob": float(np.log(p)), "rank": 1 if p > 0.5 else 2}}
                for token, p in zip(ids, some, strict=True)
            ]
            rows.append({"id": str(number), "ids": ids, "prompt_tokens": 4, "prompt_logprobs": [None, *logprobs[1:]]})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return file

    return made


def probabilities(seed: int, texts: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.1, 0.95, len(IDS)) for _ in range(texts)]


def test_tokens_per_step_are_those_of_the_recursion_one_by_one(write: Callable[..., Path]) -> None:
    p, q = probabilities(1), probabilities(2)
    found = specq.replay_files(write("t", p), {"d": write("d", q)}, temperature=1.0, most=4)
    assert len(found) == 4 * len(EXACT_RULES)
    for one in found:
        steps = sum(
            law.steps(one.cell.rule, a[4:], b[4:], (b[4:] > 0.5).astype(float), one.cell.k)[0]
            for a, b in zip(p, q, strict=True)
        )
        assert one.tokens_per_step.least == pytest.approx(3 * (len(IDS) - 5) / steps)
        assert one.tokens_per_step.least == one.tokens_per_step.most
        assert one.speedup is None


def test_speed_ups_follow_from_the_seconds_that_were_given(write: Callable[..., Path]) -> None:
    p = probabilities(1)
    seconds = Seconds(plain=0.02, draft={"d": 0.002}, verify={5: 0.03})
    found = specq.replay_files(write("t", p), {"d": write("d", p)}, temperature=1.0, most=4, seconds=seconds)
    # The draft is the target: under rejection all is accepted, 19 tokens in steps of 5, 5, 5 and 4.
    one = next(one for one in found if (one.cell.k, one.cell.rule) == (4, "rejection"))
    assert one.speedup is not None
    last = 0.003 * 2 + 0.02 + 0.01 * 3 / 4
    assert one.speedup.least == pytest.approx(19 * 0.02 / (3 * (0.008 + 0.03) + last), rel=0.01)


@pytest.mark.parametrize("draft", [{}, {"d": 0.1, "e": 0.1}])
def test_seconds_of_other_drafts_than_the_files_are_refused(
    write: Callable[..., Path], draft: dict[str, float]
) -> None:
    file = write("t", probabilities(1))
    with pytest.raises(ConfigError, match="--draft-s NAME=SECONDS for each"):
        specq.replay_files(file, {"d": file}, temperature=1.0, seconds=Seconds(plain=1.0, draft=draft, verify={}))


def test_a_draft_that_was_not_asked_about_all_texts_is_refused(write: Callable[..., Path]) -> None:
    with pytest.raises(PromptError, match=r'lacks 1 of the texts of .*first: "2"'):
        specq.replay_files(write("t", probabilities(1)), {"d": write("d", probabilities(2, 2))}, temperature=1.0)


def test_the_command_prints_bounds_where_files_do_not_fix_the_law(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    target, draft = write("t", probabilities(1)), write("d", probabilities(2))
    words = ["replay", "--target", str(target), "--draft", f"d={draft}", "--k", "2"]
    assert cli.main([*words, "--temperature", "1"]) == 0
    shown = capsys.readouterr().out
    assert "rejection" in shown
    assert " to " not in shown.split("tokens/step")[1].split("rejection")[1].split("  ")[2]
    assert "do not fix it" not in shown
    assert cli.main([*words, "--temperature", "0.7", "--plain-s", "0.02", "--draft-s", "d=0.001", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert all(
        one["tokens_per_step"]["least"] < one["tokens_per_step"]["most"] for one in cells if one["rule"] == "match"
    )
    assert cells == sorted(cells, key=lambda one: -one["speedup"]["least"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--draft", "d"], "allowed is NAME=VALUE"),
        (["--draft", "d=t", "--draft", "d=u"], "--draft d is given twice"),
        (["--draft", "d=none.jsonl"], "none.jsonl: cannot be read"),
        (["--draft", "d=t", "--draft-s", "d=0.1"], "need --plain-s"),
        (["--draft", "d=t", "--plain-s", "0"], "--plain-s 0.0: allowed are seconds above 0"),
        (["--draft", "d=t", "--plain-s", "1", "--draft-s", "d=x"], "--draft-s d=x: allowed are seconds"),
        (["--draft", "d=t", "--plain-s", "1", "--verify-s", "1=2"], "2 tokens or more"),
        (["--draft", "d=t", "--top-p", "0"], "--top-p 0.0"),
    ],
)
def test_words_that_do_not_fit_end_in_one_line(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert cli.main(["replay", "--target", str(write("t", probabilities(1))), "--temperature", "1", *words]) == 2
    assert says in capsys.readouterr().err


def test_every_text_is_read_with_its_own_id(write: Callable[..., Path]) -> None:
    assert list(imported.load(write("t", probabilities(1)))) == ["0", "1", "2"]
