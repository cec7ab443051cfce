"""Runs with an eval whose scores are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import report_runs
from report_runs import FINISHED, MACHINE, generated

from specq.core.evaluated import PROBE, EvalAnswer, EvalChunk, EvalProof
from specq.core.records import LoadedModel, Record
from specq.report import Report, build

ARMS = ("baseline#1", "baseline#2", "w#1", "lookup#1")
Change = Callable[[EvalAnswer], EvalAnswer | None]


def items(n: int, *, per_cluster: int = 1, critical: Sequence[int] = ()) -> list[dict[str, Any]]:
    return [
        {
            "id": f"i{place}",
            "tags": ["en" if place % 4 else "tr"],
            "cluster": f"c{place // per_cluster}",
            "critical": place in critical,
            "tokens": 10,
            "prompt_sha256": f"hash of i{place}",
            "given": {"id": f"i{place}", "prompt": f"question {place}", "reference": f"right {place}"},
        }
        for place in range(n)
    ]


def answer(arm: str, place: int, score: float | None, *, output: str = "text") -> EvalAnswer:
    scored = output != "text"
    return EvalAnswer(
        arm=arm,
        eval="set",
        item=f"i{place}",
        batch_size=4 if arm == "baseline#2" else 8,
        score=score,
        why="" if score else "no right text in it",
        answer=f"right {place}" if score else "wrong",
        logprobs=(-1.0 - place - (arm != "baseline#1"), -2.0) if scored else (),
        logprob_tokens=(1, 1) if scored else (),
        prompt_tokens=10,
        prompt_sha256=f"hash of i{place}",
        new_tokens=0 if scored else 5,
        finish="scored" if scored else "eos",
        output_sha256=f"{arm} {place}",
        repeated_share=0.0,
    )


def loaded(arm: str, sha256: str) -> LoadedModel:
    (model,) = (record for record in MACHINE if isinstance(record, LoadedModel))
    return replace(model, role="eval", arms=(arm,), sha256=sha256)


def report(
    folder: Path,
    *,
    n: int = 400,
    worse: int = 0,
    better: int = 0,
    probe_worse: int | None = 60,
    margin: float | None = 0.02,
    quality: Mapping[str, float] | None = None,
    output: str = "text",
    binary: bool = True,
    critical: Sequence[int] = (),
    per_cluster: int = 1,
    eval_table: Mapping[str, Any] | None = None,
    change: Change = lambda record: record,
    own_sha256: str = "cd",
    proof: EvalProof | None = None,
    overlap: Mapping[str, Sequence[str]] | None = None,
    extra: Sequence[Record] = (),
    lookup_times: float = 1.5,
    **config: Any,
) -> Report:
    """Half of the baseline's answers are right; w#1 gets the first `worse` of them wrong and `better` others right.

    w#1 is 1.3 times as fast as the baseline, lookup#1 `lookup_times`. `eval_table` is laid over what run.json says.
    """
    right = [place % 2 == 0 for place in range(n)]

    def moved(worse: int, better: int) -> list[bool]:
        down = [place for place in range(n) if right[place]][:worse]
        up = [place for place in range(n) if not right[place]][:better]
        return [(ok or place in up) and place not in down for place, ok in enumerate(right)]

    scores = {"baseline#1": right, "baseline#2": right, "w#1": moved(worse, better)}
    if probe_worse is not None:
        scores[PROBE] = moved(probe_worse, 0)
    if output != "text":
        del scores["baseline#2"]
    answers = [
        made
        for arm, all_scores in scores.items()
        for place, ok in enumerate(all_scores)
        if (made := change(answer(arm, place, float(ok), output=output))) is not None
    ]
    proved = proof or EvalProof(arm="lookup#1", items=20, equal=20, first_difference="", message="")
    about = report_runs.info(
        ARMS,
        {f"p{k}": [] for k in range(8)},
        **{"floor": {"quality": ({} if margin is None else {"set": margin}) | dict(quality or {})}, **config},
        target={"model": "toy-model"},
    )
    about["config"]["evals"] = [{"name": "set"}]
    about["config_sha256"] = report_runs.config_sha256(about["config"])
    about["arms"][2] |= {"draft": None, "target": {"model": "w-folder"}, "plain": "w#1"}
    about["arms"][3] |= {"plain": "baseline#1"}
    about["evals"] = {
        "set": {
            "output": output,
            "binary": binary,
            "metric": "contains",
            "metric_sha256": None,
            "sha256": "00",
            "batch_size": 8,
            "twin_batch_size": 4 if output == "text" else None,
            "probe": 0.2,
            "items": items(n, per_cluster=per_cluster, critical=critical),
            "overlap": dict(overlap or {}),
            **(eval_table or {}),
        }
    }
    step = {"baseline#1": 0.05, "baseline#2": 0.05, "w#1": 0.05 / 1.3, "lookup#1": 0.05 / lookup_times}
    spoken = [
        generated(arm, f"p{k}", report_runs.PLAIN, repeat=repeat, step_s=step[arm] * (1 + 0.01 * ((k + repeat) % 3)))
        for arm in ARMS
        for k in range(8)
        for repeat in range(2)
    ]
    lines: list[Record] = [
        *MACHINE,
        *spoken,
        loaded("baseline#1", "ab"),
        loaded("w#1", own_sha256),
        proved,
        *answers,
        *(EvalChunk(arm=arm, eval="set", chunk=0, items=n, new_tokens=5 * n, seconds=50.0) for arm in scores),
        *extra,
        *FINISHED,
    ]
    return build(report_runs.write_run(folder, about, lines))
