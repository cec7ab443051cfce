"""Forecast against life: every (draft, k) forecast from one text a prompt, then each of them run, taking turns.

The peer here is the measurement itself: what `specq drafts` says of 16 cells without running them is held against
running them all. Live cells take turns with plain decoding, prompt by prompt, in an order that walks a Latin square.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from specq import api
from specq.core.clock import now
from specq.core.errors import SpecqError
from specq.core.hashes import seed_of
from specq.core.types import EXACT_RULES, DraftSpec, Generation, Step, TargetSpec
from specq.engines.base import LoadedTarget
from specq.forecast import replay, written
from specq.forecast.predict import Cell
from specq.forecast.study import Study
from specq.run import engines

DRAFTS = ("lookup", "early_exit:25", "self:8", "self:4")
KS = (1, 2, 4, 8)


@dataclass(slots=True, kw_only=True)
class Live:
    """What one cell did: its texts, and the seconds that whole calls took."""

    generations: list[Generation] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def steps(self) -> list[int]:
        """Decode steps of each text."""
        return [len(one.steps) for one in self.generations]

    @property
    def tokens_per_step(self) -> float:
        """Tokens after each text's first, over all steps."""
        return sum(len(one.ids) - 1 for one in self.generations) / max(1, sum(self.steps))

    @property
    def tpot_s(self) -> float:
        """Seconds of a token after the first, pooled over texts."""
        return sum(one.e2e_s - one.ttft_s for one in self.generations) / sum(
            len(one.ids) - 1 for one in self.generations
        )


def run_live(target: LoadedTarget, study: Study, cells: list[Cell]) -> dict[Cell | None, Live]:
    """Every cell and plain decoding (None) on every prompt, one prompt after the other, warmed up first."""
    sampling = study.experiment.sampling()
    decoders = {None: target.decoder(None)} | {cell: target.decoder(spec(study, cell)) for cell in cells}
    found: dict[Cell | None, Live] = {key: Live() for key in decoders}
    short = replace(sampling, max_new_tokens=min(12, sampling.max_new_tokens), min_new_tokens=0)
    for decoder in decoders.values():
        decoder.generate(study.plan.prompts[:1], short)
    keys = list(decoders)
    for place, prompt in enumerate(study.plan.prompts):
        start = place * 5 % len(keys)
        order = keys[start:] + keys[:start]
        for key in order if place % 2 == 0 else order[::-1]:
            # Draws of its own: texts that share them would be fewer than they seem.
            own = replace(sampling, seed=seed_of(sampling.seed, "live", str(key), prompt.id))
            begun = now()
            found[key].generations += decoders[key].generate([prompt], own)
            found[key].wall_s += now() - begun
        print(f"prompt {place + 1} of {len(study.plan.prompts)}", file=sys.stderr)
    return found


def spec(study: Study, cell: Cell) -> DraftSpec:
    """The draft of a cell."""
    return replace(study.drafts[cell.draft], k=cell.k, rule=cell.rule)


def own_text(target: LoadedTarget, study: Study, cell: Cell, live: Live) -> tuple[np.ndarray, np.ndarray]:
    """Expected steps and their variance on the texts that the cell itself wrote, [texts] each."""
    draft = {cell.draft: spec(study, cell)}
    texts = written.read(target, draft, study.plan.prompts, live.generations, study.experiment.sampling(), most=cell.k)[
        cell.draft
    ]
    expected = replay.steps(texts, cell.k)
    at = (slice(None), EXACT_RULES.index(cell.rule), cell.k - 1)
    return expected.mean[at], expected.variance[at]


def rows(target: LoadedTarget, study: Study, live: dict[Cell | None, Live]) -> Iterator[dict[str, Any]]:
    """A row a cell: own text, fresh text and speed, forecast beside life."""
    plain = live[None].tpot_s
    for cell, one in live.items():
        if cell is None:
            continue
        mean, variance = own_text(target, study, cell, one)
        steps, sd = np.array(one.steps, dtype=float), float(np.sqrt(variance.sum()))
        off = float(steps.sum() - mean.sum())
        forecast = study.ranking.of(cell)
        yield {
            "draft": cell.draft,
            "k": cell.k,
            "rule": cell.rule,
            "live_steps": int(steps.sum()),
            "expected_steps": float(mean.sum()),
            "z": off / sd if sd > 0 else (0.0 if abs(off) < 1e-9 else None),
            "worst_prompt": float(np.abs(steps - mean).max()),
            "equal_prompts": int((np.abs(steps - mean) < 1e-9).sum()),
            "tokens_per_step": [forecast.tokens_per_step, one.tokens_per_step],
            "speedup": [forecast.speedup, plain / one.tpot_s],
            "interval": [forecast.low, forecast.high],
            "parts": parts(study, cell, one, live[None]),
            "wall_s": one.wall_s,
        }


def parts(study: Study, cell: Cell, one: Live, plain: Live) -> dict[str, list[float]]:
    """Drafting, the target's pass and the rest of a step, in plain steps: as the curve has them, and lived (means)."""
    curve, k = study.curves[cell.draft], cell.k
    expected = {name: float(seconds[k]) / curve.plain.step_s for name, seconds in curve.parts(k).items()}
    steps = [step for text in one.generations for step in text.steps if step.proposed == k]
    unit = np.mean([seconds_of(step) for text in plain.generations for step in text.steps])
    lived = (
        np.mean([(s.draft_s, s.verify_s, s.sample_s + s.rest_s) for s in steps], axis=0) / unit if steps else [0.0] * 3
    )
    return {
        name: [expected[name], float(value)] for name, value in zip(("draft", "verify", "rest"), lived, strict=True)
    }


def seconds_of(step: Step) -> float:
    """The whole step."""
    return step.draft_s + step.verify_s + step.sample_s + step.rest_s


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Forecast, run, compare."""
    asked = api.ask_drafts(
        args.model,
        args.drafts,
        args.prompts,
        engine={"dtype": args.dtype},
        workload={
            "limit": args.limit,
            "max_new_tokens": args.tokens,
            "temperature": args.temperature,
            "lengths": "equal",
        },
    )
    study = api.study_drafts(asked, most=max(args.k), say=lambda text: print(text, file=sys.stderr))
    spent = study.spent
    cells = [Cell(draft=name, k=k, rule=draft.rule) for name, draft in study.drafts.items() for k in args.k]
    with engines.Targets(engines.make_engine(asked), asked) as targets:
        target = targets.of(TargetSpec())
        live = run_live(target, study, cells)
        table = list(rows(target, study, live))
    ranked = sorted(table, key=lambda row: -row["speedup"][1])
    best = max(table, key=lambda row: row["speedup"][0])
    return {
        "model": args.model,
        "dtype": args.dtype,
        "prompts": len(study.plan.prompts),
        "tokens": args.tokens,
        "temperature": args.temperature,
        "cells": table,
        "place_of_the_forecast_best": 1 + ranked.index(best),
        "forecast_s": spent.curves_s + spent.texts_s + spent.reading_s,
        "forecast_parts_s": [spent.curves_s, spent.texts_s, spent.reading_s],
        "live_s": sum(row["wall_s"] for row in table),
        "plain_wall_s": live[None].wall_s,
    }


def main() -> None:
    """Measure, print a table, what it comes to, and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--drafts", nargs="+", default=list(DRAFTS))
    parser.add_argument("--k", nargs="+", type=int, default=list(KS))
    parser.add_argument("--prompts", type=Path, default=Path("evals/chat.jsonl"))
    parser.add_argument("--limit", type=int, default=24, help="prompts")
    parser.add_argument("--tokens", type=int, default=64, help="of an answer")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--dtype", default="auto")
    args = parser.parse_args()
    found = measure(args)
    title = f"{args.model}, {found['prompts']} prompts x {args.tokens} tokens, temperature {args.temperature:g}"
    heads = ("draft", "k", "rule", "steps live", "expected", "z", "tokens/step forecast", "live", "speed-up", "live")
    table = Table(*heads, title=title)
    for row in found["cells"]:
        z = "-" if row["z"] is None else f"{row['z']:+.2f}"
        shown = [f"{value:.3f}" for value in (*row["tokens_per_step"], *row["speedup"])]
        counts = (str(row["live_steps"]), f"{row['expected_steps']:.1f}", z)
        table.add_row(row["draft"], str(row["k"]), row["rule"], *counts, *shown)
    Console(width=120).print(table)
    fresh = [abs(row["tokens_per_step"][0] / row["tokens_per_step"][1] - 1) for row in found["cells"]]
    speed = [abs(row["speedup"][0] / row["speedup"][1] - 1) for row in found["cells"]]
    worst = max(row["worst_prompt"] for row in found["cells"])
    equal = sum(row["equal_prompts"] for row in found["cells"])
    print(f"own text: |z| at most {max(abs(row['z'] or 0) for row in found['cells']):.2f}; ", end="")
    print(f"{equal} of {found['prompts'] * len(fresh)} texts equal, the worst {worst:.2f} steps off")
    print(f"fresh text: tokens per step off by {100 * max(fresh):.1f} % at most")
    print(
        f"speed-up: within 10 % in {sum(one <= 0.1 for one in speed)} of {len(speed)}, worst {100 * max(speed):.1f} %"
    )
    print(f"the forecast's best is number {found['place_of_the_forecast_best']} in life")
    print(f"forecast {found['forecast_s']:.1f} s, life {found['live_s']:.1f} s: ", end="")
    print(f"{found['live_s'] / found['forecast_s']:.1f} times")
    print(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except SpecqError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
