"""Imported log-probabilities: exact where they can be, bounds that hold where they cannot, and files that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specq.core.errors import PromptError
from specq.core.types import EXACT_RULES, Sampling
from specq.decoding.sampling import warp
from specq.forecast import imported, replay
from specq.forecast.replay import Traced

V, PROMPT, T = 30, 3, 24


def laws(seed: int) -> np.ndarray:
    """Log-probabilities [PROMPT + T, V] of a model that is sure of some tokens and unsure of others."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(PROMPT + T, V)) * rng.uniform(0.5, 4, size=(PROMPT + T, 1))
    found: np.ndarray = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return found


def written(law: np.ndarray, seed: int, temperature: float) -> list[int]:
    rng = np.random.default_rng(seed)
    if temperature == 0:
        return [int(row.argmax()) for row in law]
    tempered = np.exp(law / temperature)
    return [int(rng.choice(V, p=row / row.sum())) for row in tempered]


def row(law: np.ndarray, token: int, top: int, *, rank: bool = True) -> dict[str, Any]:
    order = np.argsort(-law, kind="stable").tolist()
    kept = dict.fromkeys([*order[:top], token])
    return {str(id): {"logprob": float(law[id])} | ({"rank": order.index(id) + 1} if rank else {}) for id in kept}


def line(id: str, law: np.ndarray, ids: list[int], top: int, *, rank: bool = True) -> dict[str, Any]:
    rows = [None, *(row(law[at], ids[at], top, rank=rank) for at in range(1, len(ids)))]
    return {"id": id, "ids": ids, "prompt_tokens": PROMPT, "prompt_logprobs": rows}


def text(tmp_path: Path, name: str, **value: Any) -> imported.Text:
    file = tmp_path / f"{name}.jsonl"
    file.write_text(json.dumps(value) + "\n", encoding="utf-8")
    return next(iter(imported.load(file).values()))


def true(law: np.ndarray, ids: list[int], sampling: Sampling) -> np.ndarray:
    scores = torch.tensor(law[PROMPT:], dtype=torch.float32)
    found: np.ndarray = warp(scores, sampling).numpy()[np.arange(T), ids[PROMPT:]]
    return found


def pairs(tmp_path: Path, temperature: float, top: int, *, rank: bool = True, **cut: Any) -> tuple[Any, Traced, Any]:
    target, draft = laws(1), laws(1) * 0.8 + laws(2) * 0.2
    draft -= np.log(np.exp(draft).sum(axis=1, keepdims=True))
    ids = written(target, 3, temperature)
    sampling = Sampling(temperature=temperature or 1.0, **cut)
    between = imported.pair(
        text(tmp_path, "t", **line("a", target, ids, top, rank=rank)),
        text(tmp_path, "d", **line("a", draft, ids, top, rank=rank)),
        temperature=temperature,
        **cut,
    )
    hit = (draft[PROMPT:].argmax(axis=1) == np.array(ids[PROMPT:])).astype(float)
    p, q = true(target, ids, sampling), true(draft, ids, sampling)
    if temperature == 0:
        p, q = np.ones(T), hit
    return between, Traced(p=np.maximum(p, 1e-30), q=q, hit=hit), ids


@pytest.mark.parametrize(("temperature", "top"), [(1.0, 0), (1.0, 3), (0.0, 1)])
def test_raw_values_are_exact_at_temperature_one_and_at_zero(tmp_path: Path, temperature: float, top: int) -> None:
    between, exact, _ = pairs(tmp_path, temperature, top)
    assert between.exact
    found, twin = replay.steps([between.fewest], 6).mean, replay.steps([exact], 6).mean
    assert found == pytest.approx(twin, rel=1e-4)


@pytest.mark.parametrize(
    ("top", "rank"), [(1, True), (4, True), (12, True), (V, True), (4, False), (12, False), (V, False)]
)
@pytest.mark.parametrize(
    ("temperature", "cut"),
    [(0.7, {}), (1.6, {}), (0.7, {"top_k": 5}), (1.0, {"top_p": 0.9}), (0.6, {"top_p": 0.8}), (1.3, {"top_k": 8})],
)
def test_what_is_not_known_lies_between_the_two_ends(
    tmp_path: Path, temperature: float, cut: dict[str, Any], top: int, rank: bool
) -> None:
    between, exact, _ = pairs(tmp_path, temperature, top, rank=rank, **cut)
    outside = exact.p <= 1e-30
    for low, high, value in (
        (between.fewest.p, between.most.p, exact.p),
        (between.most.q, between.fewest.q, exact.q),
    ):
        assert (low[~outside] <= value[~outside] * (1 + 1e-4) + 1e-9).all()
        assert (high[~outside] >= value[~outside] * (1 - 1e-4) - 1e-9).all()
    if not outside.any():
        least, most, twin = (replay.steps([one], 6).mean for one in (between.fewest, between.most, exact))
        assert (least <= twin + 1e-3).all()
        assert (twin <= most + 1e-3).all()


def test_the_ends_meet_where_the_whole_law_is_in_the_file(tmp_path: Path) -> None:
    between, exact, _ = pairs(tmp_path, 0.7, V)
    assert between.fewest.p == pytest.approx(between.most.p)
    assert between.fewest.p == pytest.approx(exact.p, rel=1e-4)


def test_more_of_the_likeliest_tokens_bring_the_ends_together(tmp_path: Path) -> None:
    gaps = []
    for top in (1, 5, 15):
        between, _, _ = pairs(tmp_path, 0.7, top)
        at = (0, EXACT_RULES.index("rejection"), 3)
        gaps.append(replay.steps([between.most], 4).mean[at] - replay.steps([between.fewest], 4).mean[at])
    assert gaps[0] > gaps[1] > gaps[2] >= 0


GOOD = line("a", laws(1), written(laws(1), 3, 1.0), 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ids": [1, 2]}, "prompt_tokens = 3"),
        ({"ids": "abc"}, "ids must be a list"),
        ({"prompt_tokens": 0}, "prompt_tokens = 0: allowed is 1 to 26"),
        ({"prompt_logprobs": [None]}, "as long as ids"),
        ({"prompt_logprobs": [None] * 27}, "token 3: must be an object"),
        ({"prompt_logprobs": [{"5": {"logprob": 0.5}}] * 27}, "above 0"),
        ({"prompt_logprobs": [{"5": {"logprob": float("nan")}}] * 27}, "above 0"),
        ({"prompt_logprobs": [{"x": {"logprob": -1}}] * 27}, "allowed are token ids"),
        ({"prompt_logprobs": [{"29999": {"logprob": -1}}] * 27}, "has no logprob"),
    ],
)
def test_files_that_are_none_name_the_line_and_what_is_allowed(tmp_path: Path, change: Any, says: str) -> None:
    with pytest.raises(PromptError, match=r"x\.jsonl:1.*" + says):
        text(tmp_path, "x", **{**GOOD, **change})


def test_probabilities_that_sum_to_more_than_one_are_refused(tmp_path: Path) -> None:
    rows = [{str(one): {"logprob": -0.1}, "9999": {"logprob": -0.1}} for one in GOOD["ids"]]
    with pytest.raises(PromptError, match=r"sum to 1\.81"):
        text(tmp_path, "x", **{**GOOD, "prompt_logprobs": rows})


def test_a_draft_with_other_tokens_is_refused(tmp_path: Path) -> None:
    other = dict(GOOD, ids=[*GOOD["ids"][:-1], 7 if GOOD["ids"][-1] != 7 else 8])
    other["prompt_logprobs"] = [{str(one): {"logprob": -1.0, "rank": 2}} for one in other["ids"]]
    with pytest.raises(PromptError, match="another tokenizer"):
        imported.pair(text(tmp_path, "t", **GOOD), text(tmp_path, "d", **other), temperature=1.0)


def test_a_text_that_the_target_did_not_write_is_refused_at_temperature_zero(tmp_path: Path) -> None:
    given = text(tmp_path, "t", **line("a", laws(1), written(laws(2), 3, 0), 2))
    with pytest.raises(PromptError, match="did not write"):
        imported.pair(given, given, temperature=0.0)


def test_a_token_of_which_nothing_tells_whether_it_is_the_likeliest_is_refused(tmp_path: Path) -> None:
    given = text(tmp_path, "t", **line("a", laws(1), written(laws(1), 3, 1.0), 0, rank=False))
    with pytest.raises(PromptError, match="prompt_logprobs of 1 or more"):
        imported.pair(given, given, temperature=1.0)


@pytest.mark.parametrize(("content", "says"), [("", "no texts"), ("{", "not a JSON line"), ("[]", "lacks all keys")])
def test_broken_files_end_in_one_line(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(PromptError, match=says):
        imported.load(file)
    file.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD) + "\n", encoding="utf-8")
    with pytest.raises(PromptError, match="earlier line"):
        imported.load(file)
    with pytest.raises(PromptError, match="cannot be read"):
        imported.load(tmp_path / "none.jsonl")
