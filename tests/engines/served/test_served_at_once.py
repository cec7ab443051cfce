"""Several prompts at once on one server: each gets its own answer, in their order, whatever breaks off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import RequestFailed, ServerGone
from specq.core.types import Prompt, Sampling, TargetSpec
from specq.engines.served import client, control, stub
from specq.engines.served.answers import ServedDecoder
from specq.engines.served.faults import Retry
from specq.engines.served.kinds.base import Served
from specq.engines.served.session import Session, Where

PROMPTS = [Prompt(id=f"p{n}", ids=(), text=f"number {n}") for n in range(9)]
# The stub begins an answer at the place that the seed says.
SEEDS = [3, 1, 4, 1, 0, 2, 2, 3, 4]


@contextmanager
def decoder(said: list[str], monkeypatch: pytest.MonkeyPatch, **play: Any) -> Iterator[tuple[ServedDecoder, Any]]:
    monkeypatch.setattr(client, "Retry", lambda: Retry(tries=1))
    plays = {"tokens": 4, "vary": 5, "rate": 40.0, **play}
    with stub.started(plays=plays, model="m") as (url, process):
        served = Served(weights="m", target=TargetSpec(), draft=None, draft_weights=None, name="m")
        with Session.open("openai", served, Where(url=url)) as session:
            yield ServedDecoder(session, eos_ids=(), told=said.append), process


def texts(asks: ServedDecoder, at_once: int) -> list[str]:
    sampling = [replace(Sampling(max_new_tokens=4), seed=seed) for seed in SEEDS]
    found = asks.generate(PROMPTS, sampling, batch_size=at_once)
    assert [one.prompt_id for one in found] == [prompt.id for prompt in PROMPTS]
    return [one.text for one in found]


def most(asks: ServedDecoder) -> int:
    answers, _ = control.ask(asks.session.url, (stub.OF_ITSELF,))
    return int(answers[stub.OF_ITSELF]["most_at_once"])


def test_answers_at_once_are_mixed_up_or_come_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with decoder([], monkeypatch) as (asks, _):
        alone = texts(asks, 1)
        assert most(asks) == 1
        assert texts(asks, 4) == alone
        assert 2 <= most(asks) <= 4
    assert len(set(alone)) == 5


def test_an_answer_that_breaks_off_among_others_is_lost_or_takes_them_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with decoder([], monkeypatch) as (asks, _):
        alone = texts(asks, 1)
    said: list[str] = []
    cut = {"fault": "cut", "after": 2, "spared": 2, "times": 3}
    with decoder(said, monkeypatch, **cut) as (asks, _):
        assert texts(asks, 4) == alone
    assert len(said) == 3
    assert all("broke off" in text for text in said)


def test_one_that_is_always_answered_wrongly_or_a_server_that_is_gone_is_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = {"fault": "malformed", "after": 1, "spared": 3, "times": 1}
    with decoder([], monkeypatch, **bad) as (asks, _), pytest.raises(RequestFailed, match="malformed"):
        texts(asks, 4)
    with decoder([], monkeypatch) as (asks, process):
        process.kill()
        process.wait()
        with pytest.raises(ServerGone, match="does not answer any more"):
            texts(asks, 4)
