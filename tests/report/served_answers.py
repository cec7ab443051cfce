"""Answers of a server as they are recorded, for tests of what a report makes of them."""

from __future__ import annotations

from typing import Any

from specq.core.records import Generated
from specq.core.served import ServedAnswer
from specq.report import served
from specq.report.measures import Measure

NEW = 9


def answer(*, prompt: str = "p0", arm: str = "lookup#1", rule: str | None = "greedy_draft", **told: Any) -> Generated:
    """One answer of nine tokens; `told` are fields of its ServedAnswer."""
    values: dict[str, Any] = {
        "tokens": NEW,
        "counted": "ids",
        "finish": "length",
        "prompt_tokens": 20,
        "cached_tokens": 0,
        "queue_s": 0.25,
        "prefill_s": 0.5,
        "decode_s": 2.0,
        "draft_steps": 3,
        "proposed": 6,
        "accepted": 4,
        "accepted_by_position": (3, 1),
        "event_s": tuple(0.5 + place for place in range(NEW)),
        "event_tokens": (1,) * NEW,
    }
    return Generated(
        process=0,
        arm=arm,
        prompt=prompt,
        repeat=0,
        order=0,
        prompt_tokens=20,
        new_tokens=NEW,
        finish="length",
        ttft_s=0.5,
        e2e_s=2.5,
        rule=rule,
        steps=(),
        past_stop=0,
        repeated_share=0.0,
        prompt_sha256="00",
        output_sha256="00",
        served=ServedAnswer(**(values | told)).to_json(),
    )


def measures() -> tuple[Measure, ...]:
    """What a report makes of two such answers."""
    return served.measures([answer(), answer(prompt="p1")])
