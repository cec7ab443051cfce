"""Forecasts beside the run of report_runs, whose lookup takes 1.5 tokens a step at the plain step's own seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from report_runs import ARMS, PROMPTS, info, whole_run

from specq.report.forecast_file import FILE, SCHEMA
from specq.report.forecast_gaps import draft_sha256

ARM = {"method": "lookup", "k": 3}


def cell(draft: str = "lookup", k: int = 3, rule: str = "greedy_draft", **changes: Any) -> dict[str, Any]:
    """A cell of 2 tokens a step in 1.25 plain steps."""
    made = {
        "draft": draft,
        "k": k,
        "rule": rule,
        "tokens_per_step": 2.0,
        "speedup": 1.6,
        "low": 1.4,
        "high": 1.8,
        "tokens_per_s": 32.0,
        "p_faster": 1.0,
        "slower_prompts": 0.1,
        "regret": 0.0,
        "draft_s": 0.01,
        "verify_s": 0.04,
        "rest_s": 0.0125,
    }
    return {**made, **changes}


def ran(arm: str = "lookup#1", draft: str = "lookup", k: int = 3, **changes: Any) -> dict[str, Any]:
    """The arm that is the cell, and its step of 1.25 plain ones."""
    made = {
        "arm": arm,
        "draft": draft,
        "k": k,
        "rule": "greedy_draft",
        "draft_sha256": draft_sha256(ARM),
        "draft_share": 0.2,
        "verify_share": 0.8,
        "rest_share": 0.25,
    }
    return {**made, **changes}


def point(k: int = 3, **changes: Any) -> dict[str, Any]:
    """A point of the lookup's cost curve."""
    made = {
        "draft": "lookup",
        "k": k,
        "context": 20,
        "draft_s": 0.01,
        "verify_s": 0.04,
        "rest_s": 0.0125,
        "plain_s": 0.05,
        "spread": 0.02,
        "ceiling": 3.2,
        "break_even": 1.25,
    }
    return {**made, **changes}


def forecast(about: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """forecast.json of a run."""
    made = {
        "schema": SCHEMA,
        "specq": "0.1.0",
        "created": "20260101T000000Z",
        "config_sha256": (about or info(ARMS, PROMPTS))["config_sha256"],
        "target": "toy-model",
        "prompts": 6,
        "plain_tokens_per_s": 20.0,
        "more_prompts": None,
        "seconds": {"curves": 5.0, "texts": 4.0, "reading": 1.0},
        "cells": [cell(), cell(k=1, tokens_per_step=1.3, speedup=1.2, low=1.1, high=1.3), cell("self8", speedup=0.9)],
        "points": [point(1, ceiling=1.8), point()],
        "hopeless": {"self8": "verifying 4 tokens takes 5 plain steps"},
        "strata": [
            {
                **{"draft": "lookup", "k": 3, "rule": "greedy_draft", "by": "tag", "name": "writing", "n": 3},
                **{"tokens_per_step": 1.0, "speedup": 0.8, "low": None, "high": None, "p_faster": 0.0},
            }
        ],
        "said": ["lookup is faster over all prompts, but may be slower on tag writing."],
        "arms": [ran()],
        "grid": [],
    }
    return {**made, **changes}


def forecast_run(folder: Path, text: str | None = None, **changes: Any) -> Path:
    """A finished run with a forecast beside it, or with this text in its place."""
    whole_run(folder)
    (folder / FILE).write_text(json.dumps(forecast(**changes)) if text is None else text, encoding="utf-8")
    return folder
