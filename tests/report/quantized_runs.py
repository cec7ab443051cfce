"""Makes run folders with quantized arms whose numbers are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from report_runs import DRAFTED, FINISHED, MACHINE, PLAIN, PROMPTS, generated, info, write_run

from specq import report
from specq.core.records import Audited, Divergence, GapNoise, Generated, LoadedModel, QuantizedModel, Record
from specq.quantize import recipes
from specq.quantize.audited import CalibrationUsed, QuantAudit
from specq.report.layout import sections
from specq.report.section import Section
from specq.report.verdict import Verdict

ARMS = ("baseline#1", "baseline#2", "lookup#1", "w4#1", "lookup+w4#1", "q8#1")
MODEL, RECIPE = "builtin:toy", "configs/quantize/w4.toml"
LABEL = f"{RECIPE} of {MODEL}"
PLAIN_TARGET = {"recipe": None, "model": None, "prefill": "dense", "kv_cache": None}
TARGETS = {"w4": {**PLAIN_TARGET, "recipe": RECIPE}, "q8": {**PLAIN_TARGET, "kv_cache": "q8"}}
# Speed-ups of one-token steps; a drafted arm emits three tokens a step of twice the time.
SPEEDS = {"w4": 1.6, "q8": 0.8}
NOTES = ("210 layers: int4pack", "int4pack 576 x 576: dense from 8 rows on (measured)")
AUDIT = QuantAudit(
    format="pack-quantized",
    bits=4,
    group_size=64,
    symmetric=True,
    asked=210,
    quantized=tuple(f"model.layers.{i}.mlp.up_proj" for i in range(208)),
    skipped=(("model.layers.0.mlp.gate_proj", "does not divide"), ("model.layers.1.mlp.gate_proj", "does not divide")),
    fallen_back=(("model.layers.7.mlp.up_proj", "the Hessian is not positive definite"),),
    bits_per_weight=6.73,
    bits_per_quantized_weight=4.25,
    disk_bytes=108 * 2**20,
    predicted_bytes=108 * 2**20,
    memory_bytes=108 * 2**20,
    embeddings="kept",
    head="tied",
    non_finite=(),
    kl_mean=0.568,
    kl_worst=4.45,
    argmax_agreement=0.612,
    positions=384,
    same_tokenizer=True,
    same_special_ids=True,
    same_template=True,
    calibration=CalibrationUsed(
        source="texts.jsonl",
        sha256="ab",
        rows_given=34,
        rows_used=32,
        rows_too_short=2,
        tokens_given=18002,
        tokens_used=16384,
    ),
    source_grid="weights lie on a 4-bit grid, blocks of 32",
    kernel="int4pack",
    notes=("both ran in float32 through transformers",),
)


Change = Callable[[list[Record]], Sequence[Record]]


def quantized_info(arms: Sequence[str] = ARMS, **config: Any) -> dict[str, Any]:
    """run.json whose arms say what they change and what they are held against."""
    about = info(arms, PROMPTS, **{"target": {"model": MODEL}, **config})
    for arm in about["arms"]:
        names = [] if arm["id"].startswith("baseline") else arm["id"].split("#")[0].split("+")
        plain = [name for name in names if name in TARGETS]
        arm["levers"] = names
        arm["draft"] = {"method": "lookup", "k": 3} if "lookup" in names else None
        arm["target"] = TARGETS[plain[0]] if plain else PLAIN_TARGET
        arm["plain"] = f"{'+'.join(plain) or 'baseline'}#1"
    about["models"] = {f"target {MODEL}": {"name": MODEL, "weight_bytes": 257 * 2**20}}
    return about


def quantized_turns(arms: Sequence[str] = ARMS) -> list[Generated]:
    """Twelve tokens after the first everywhere; w4 prefills at 0.8 times the speed, and answers otherwise."""
    found = []
    for repeat in (0, 1):
        for i, prompt in enumerate(PROMPTS):
            for a, arm in enumerate(arms):
                names = arm.split("#")[0].split("+")
                wobble = 1 + 0.004 * ((i * 7 + a * 5 + repeat * 3) % 6 - 2.5)
                speed = next((SPEEDS[name] for name in names if name in SPEEDS), 1.0)
                drafted = "lookup" in names
                step_s = 0.05 * wobble / speed * (2 if drafted else 1)
                made = generated(arm, prompt, DRAFTED if drafted else PLAIN, repeat=repeat, step_s=step_s)
                if "w4" in names:
                    late = 0.1 / 0.8
                    made = replace(made, output_sha256="of w4", ttft_s=late, e2e_s=made.e2e_s - 0.1 + late)
                found.append(replace(made, cache_share=0.75) if "q8" in names else made)
    return found


def loaded(notes: Sequence[str] = NOTES) -> list[Record]:
    """The baseline's target, which the cache arm shares, and w4's, which reads a quarter of the bytes."""
    machine, target = MACHINE
    assert isinstance(target, LoadedModel)
    shared = replace(target, arms=("baseline#1", "baseline#2", "lookup#1", "q8#1"))
    w4 = replace(target, name=LABEL, weight_bytes=25 * 10**7, bytes_per_token=5 * 10**7, notes=tuple(notes))
    return [machine, shared, replace(w4, arms=("w4#1", "lookup+w4#1"))]


def made(label: str = LABEL, *, audit: QuantAudit | None = AUDIT, **recipe: Any) -> QuantizedModel:
    """A quantized model that was made for the run."""
    given = {"method": "gptq", "calibration": "texts.jsonl", **recipe}
    return QuantizedModel(
        process=0,
        label=label,
        folder="~/.cache/specq/quantized/ab",
        key="ab",
        seconds=60.0,
        peak_bytes=10**9,
        recipe=recipes.make(given).to_json(),
        audit=None if audit is None else audit.to_json(),
        notes=(),
    )


def divergence(arm: str, prompt: str, i: int) -> Divergence:
    """10 + i positions after 100 + 20 i tokens: one of 2 + i nats, the others share 1; the last 8 agree.

    The baseline gives every token of the text 0.9, the arm 0.8 less a hundredth of i.
    """
    n = 10 + i
    return Divergence(
        arm=arm,
        prompt=prompt,
        positions=n,
        kl_sum=3.0 + i,
        kl_worst=2.0 + i,
        agreed=8,
        prompt_tokens=100 + 20 * i,
        kl=(2.0 + i, *[1 / (n - 1)] * (n - 1)),
        base_logprobs=(math.log(0.9),) * n,
        logprobs=(math.log(0.8 - i / 100),) * n,
        differ=tuple(range(n - 8)),
    )


def audits() -> list[Record]:
    """Gaps move by 0.1 logits on the baseline and by 0.5 on w4; every draft's text is its plain arm's."""
    found: list[Record] = []
    for i, prompt in enumerate(PROMPTS):
        found.append(GapNoise(prompt=prompt, rows=4, positions=100, ties=1, moves=(0.02, 0.1)))
        found.append(GapNoise(prompt=prompt, rows=4, positions=50, ties=2, moves=(0.1, 0.5), arm="w4#1"))
        found += [
            Audited(arm=arm, prompt=prompt, positions=13, first_difference=None, gaps=())
            for arm in ("baseline#2", "lookup#1", "lookup+w4#1")
        ]
        found.append(divergence("w4#1", prompt, i))
        found.append(Divergence(arm="q8#1", prompt=prompt, positions=10, kl_sum=0.01, kl_worst=0.004, agreed=10))
    return found


def quantized_run(
    folder: Path,
    change: Change = lambda lines: lines,
    *,
    notes: Sequence[str] = NOTES,
    arms: Sequence[str] = ARMS,
    **config: Any,
) -> Path:
    """A finished, audited run of ARMS; `change` sees all its records."""
    lines = [made(), *loaded(notes), *quantized_turns(arms), *audits(), *FINISHED]
    return write_run(folder, quantized_info(arms, **config), change(lines))


def built(folder: Path, change: Change = lambda lines: lines, **config: Any) -> report.Report:
    """The report of a run of ARMS."""
    return report.build(quantized_run(folder, change, **config))


def verdict(found: report.Report, arm: str) -> Verdict:
    """The verdict on an arm, which has one."""
    given = found.arm(arm).verdict
    assert given is not None
    return given


def table(found: report.Report, title: str) -> Section:
    """The section of that title."""
    return next(section for section in sections(found) if section.title == title)


def each(kind: type[Record], change: Callable[[Any], Record | None], arm: str | None = None) -> Change:
    """Change the records of one kind, of one arm where it is given; None takes a record out."""

    def changed(lines: list[Record]) -> list[Record]:
        hit = [isinstance(line, kind) and arm in (None, getattr(line, "arm", None)) for line in lines]
        new = [change(line) if mine else line for line, mine in zip(lines, hit, strict=True)]
        return [line for line in new if line is not None]

    return changed
