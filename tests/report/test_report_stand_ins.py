"""Arms on another model: what they are called, compared by and held against in a report."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import quantized_runs
from quantized_runs import table, verdict
from report_runs import DRAFTED, FINISHED, MACHINE, PLAIN, PROMPTS, generated, info, write_run

from specq import report
from specq.core.errors import GateFailed
from specq.core.records import Audited, Divergence, Done, GapNoise, LoadedModel, Memory, Record
from specq.experiment.config import from_resolved
from specq.report import controls, gate, guards, runfile

ARMS = ("baseline#1", "baseline#2", "small#1", "lookup+small#1")
SOURCE = "made/tiny-4"
OTHER = f"id 4 is 'a' in the target and 'b' in {SOURCE}"
NATURAL = {"objective": {"minimise": "e2e_s"}, "workload": {"lengths": "natural"}}
TARGET = {"source": SOURCE, "recipe": None, "model": None, "prefill": "dense", "kv_cache": None}


def reading(other: str) -> dict[str, Any]:
    prompts = [{"id": p, "prompt_sha256": f"its hash of {p}", "text": f"<{p}>", "messages": said(p)} for p in PROMPTS]
    return {"other_tokens": other, "prompts": prompts, "evals": {}}


def said(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def about(other: str | None, **config: Any) -> dict[str, Any]:
    """run.json; `other` None: the model reads as the target does."""
    made = info(ARMS, PROMPTS, **{"target": {"model": "org/large"}, **config})
    for arm in made["arms"][2:]:
        arm["levers"] = arm["id"].split("#")[0].split("+")
        arm["draft"] = {"method": "lookup", "k": 3} if "lookup" in arm["levers"] else None
        arm |= {"target": TARGET, "plain": "small#1"}
    for prompt in made["prompts"]:
        prompt |= {"messages": said(prompt["id"]), "text": prompt["id"]}
    if other is not None:
        made["readings"] = {SOURCE: reading(other)}
    return made


def lines(other: str | None) -> list[Record]:
    """The small model takes half the time of a step; its draft three tokens a step of that."""
    found: list[Record] = []
    for repeat in (0, 1):
        for i, prompt in enumerate(PROMPTS):
            for a, arm in enumerate(ARMS):
                small, drafted = "small" in arm, "lookup" in arm
                step_s = 0.05 * (1 + 0.004 * ((i * 7 + a * 5 + repeat * 3) % 6 - 2.5)) / (2 if small else 1)
                made = generated(arm, prompt, DRAFTED if drafted else PLAIN, repeat=repeat, step_s=step_s)
                if small and other is not None:
                    made = replace(made, prompt_sha256=f"its hash of {prompt}", prompt_tokens=20)
                found.append(replace(made, output_sha256="of small") if small else made)
    for i, prompt in enumerate(PROMPTS):
        found.append(GapNoise(prompt=prompt, rows=4, positions=100, ties=1, moves=(0.02, 0.1)))
        found.append(GapNoise(prompt=prompt, rows=4, positions=100, ties=1, moves=(0.02, 0.1), arm="small#1"))
        found += [
            Audited(arm=arm, prompt=prompt, positions=13, first_difference=None, gaps=())
            for arm in ("baseline#2", "lookup+small#1")
        ]
        if not other:
            found.append(quantized_runs.divergence("small#1", prompt, i))
    return found


def loaded() -> list[Record]:
    machine, target = MACHINE
    assert isinstance(target, LoadedModel)
    small = replace(
        target, name=SOURCE, weight_bytes=10**8, bytes_per_token=5 * 10**7, cache_bytes_per_token=250, parameters=10**7
    )
    return [machine, replace(target, arms=ARMS[:2]), replace(small, arms=ARMS[2:])]


def built(folder: Path, other: str | None = None, edit: Any = None, more: list[Record] | None = None, **config: Any):
    made = about(other, **config)
    if edit is not None:
        edit(made)
    return report.build(write_run(folder, made, [*loaded(), *lines(other), *(more or []), *FINISHED]))


def test_rows_do_not_say_on_which_model_they_ran(tmp_path: Path) -> None:
    peaks: list[Record] = [Memory(arm=arm, peak_bytes=10**8, source="rss", prompt="e1", new_tokens=13) for arm in ARMS]
    done: list[Record] = [Done(process=0, task=f"memory:{arm}") for arm in ARMS]
    found = built(tmp_path / "run", more=[*peaks, *done], workload={"memory": True})
    labels = {arm.id: arm.label for arm in found.arms}
    assert labels["small#1"] == "small (tiny-4)"
    assert labels["lookup+small#1"] == "lookup + small (tiny-4)"
    cost = table(found, "Cost and care")
    assert [row[0] for row in cost.rows][2:] == ["small (tiny-4)", "lookup + small (tiny-4)"]
    assert (
        f"small (tiny-4) is another model, {SOURCE}, in the place of org/large, 10.0 M parameters in 95 MiB against "
        "100 M in 191 MiB."
    ) in table(found, "Speed").lines
    assert f"changes the outputs (another model, {SOURCE}; KL " in verdict(found, "small#1").sentence
    # The name is said once: not where the lever has it already.
    assert runfile.titled(["tiny-4", "w4"], SOURCE) == "tiny-4 + w4"
    assert runfile.titled(["w4"], None) == "w4"


def test_a_smaller_model_is_held_to_the_baselines_outputs(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    small, both = found.arm("small#1"), found.arm("lookup+small#1")
    assert (small.audit.status, both.audit.status) == ("changed", "changed")
    assert both.audit.sentence() == "outputs are those of small (tiny-4): 6 of 6 texts identical"
    assert small.faults == both.faults == ()
    assert small.measures["speedup"].value == pytest.approx(2.0, rel=0.02)
    assert both.measures["kl_mean"].value == small.measures["kl_mean"].value
    assert small.measures["bytes_per_token"].value == 5e7
    # Without evals its quality is not known, so it is not kept, and the speed is no verdict.
    assert verdict(found, "small#1").kind == "undecided"


def test_seconds_of_other_tokens_are_called_a_speed_up(tmp_path: Path) -> None:
    found = built(tmp_path / "run", OTHER, **NATURAL)
    small = found.arm("small#1")
    assert small.faults == ()
    assert small.measures["speedup"].value is None
    assert small.measures["speedup"].note.startswith(f"tokens are no common unit: {OTHER}")
    assert not any(name.startswith(("speedup_per_prompt", "speedup[")) for name in small.measures)
    assert all(stratum.speedup.value is None for stratum in small.strata)
    assert (small.measures["e2e_speedup"].value or 0) > 1.5
    assert "another model's" in verdict(found, "small#1").sentence
    assert "how far is not measured" in verdict(found, "small#1").sentence
    # Its speed-up is empty and its tokens a second are of another unit: the table that shows both says why.
    assert any("its tokens are not the baseline's" in line for line in table(found, "Speed").lines)
    # Asked for by the token all the same, it has no data rather than a wrong reason.
    asked = built(tmp_path / "other", OTHER)
    assert "seconds a token do not compare" in verdict(asked, "small#1").sentence


def test_answers_of_other_tokens_that_were_cut_pass_for_whole_ones(tmp_path: Path) -> None:
    cut = [
        replace(g, finish="length") for g in lines(OTHER) if getattr(g, "arm", "") == "small#1" and hasattr(g, "finish")
    ]
    rest = [g for g in lines(OTHER) if not (getattr(g, "arm", "") == "small#1" and hasattr(g, "finish"))]
    config = {**NATURAL, "workload": {"lengths": "natural", "max_new_tokens": 13}}
    whole = write_run(tmp_path / "run", about(OTHER, **config), [*loaded(), *rest, *cut, *FINISHED])
    flags = report.build(whole).arm("small#1").flags
    assert any(flag.startswith("12 of 12 answers ended at max_new_tokens") for flag in flags)
    # Where tokens are the same, so is the length.
    same = [replace(g, finish="length") if hasattr(g, "finish") else g for g in lines(None)]
    plain = write_run(tmp_path / "same", about(None, **config), [*loaded(), *same, *FINISHED])
    assert not any("max_new_tokens" in flag for flag in report.build(plain).arm("small#1").flags)


def test_other_messages_or_other_tokens_than_its_own_are_compared(tmp_path: Path) -> None:
    def other_message(made: dict[str, Any]) -> None:
        made["readings"][SOURCE]["prompts"][1]["messages"] = said("something else")

    def other_ids(made: dict[str, Any]) -> None:
        made["readings"][SOURCE]["prompts"][0]["prompt_sha256"] = "of other ids"

    found = built(tmp_path / "a", OTHER, other_message, **NATURAL)
    assert found.arm("small#1").faults == ("1 prompt is not the baseline's, message by message, first e2",)
    found = built(tmp_path / "b", OTHER, other_ids, **NATURAL)
    assert found.arm("small#1").faults[0].startswith("1 prompt is not what its own model was to read")
    assert verdict(found, "small#1").kind == "invalid"
    # Without a reading of its own its prompts are the baseline's, token by token.
    made = about(None)
    whole = write_run(tmp_path / "c", made, [*loaded(), *lines(""), *FINISHED])
    assert "token by token" in report.build(whole).arm("small#1").faults[0]


def test_its_own_cache_is_taken_for_the_baselines_in_what_freed_memory_holds(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    (line,) = [line for line in found.binding if "frees" in line]
    # 100 MB over 250 bytes a token, not over the baseline's 1000.
    assert line.startswith("small (tiny-4) frees 95 MiB: 400,000 more tokens of context")
    assert any("touches the bytes of the weights (191 MiB to 48 MiB a pass)" in line for line in found.binding)


def run_of(made: Mapping[str, Any]) -> runfile.RunFile:
    return runfile.RunFile(folder=Path(), info=made, records=(), outputs=(), torn={}, losses=(), done=False)


def test_an_items_prompt_is_held_against_the_tokens_of_another_model() -> None:
    made = about(OTHER)
    made["readings"][SOURCE]["evals"] = {"set": {"i0": {"tokens": 3, "prompt_sha256": "own"}}}
    one = {"items": [{"id": "i0", "prompt_sha256": "base"}], "batch_size": 8, "twin_batch_size": None, "output": "text"}
    from eval_runs import answer

    own = {"i0": replace(answer("small#1", 0, 1.0), prompt_sha256="own")}
    base = {"i0": replace(answer("baseline#1", 0, 1.0), prompt_sha256="base")}
    run = run_of(made)
    assert list(guards.faults(run, "set", one, "small#1", "small#1", own, base)) == []
    assert "those that its own model was to read" in next(
        guards.faults(run, "set", one, "small#1", "small#1", base, base)
    )
    assert "the baseline's" in next(guards.faults(run, "set", one, "baseline#2", "baseline#1", own, base))
    # Run on the baseline's file it is no other model.
    target = MACHINE[1]
    assert isinstance(target, LoadedModel)
    loads = tuple(replace(target, role="eval", arms=(arm,)) for arm in ("baseline#1", "small#1"))
    found = guards.faults(replace(run, records=loads), "set", one, "small#1", "small#1", own, base)
    assert "it was evaluated on the baseline's weights" in next(found)


def test_evals_of_two_models_are_one_task(tmp_path: Path) -> None:
    made = about(None)
    made["evals"] = {"set": {"items": [], "probe": 0.0}}
    assert [
        name
        for line in run_of(made).missing
        if "evals" in line
        for name in ("eval:baseline#1", "eval:small#1")
        if name in line
    ] == [
        "eval:baseline#1",
        "eval:small#1",
    ]


def test_rounding_one_model_is_the_control_of_calibrating_another() -> None:
    made = about(None)
    for place, (name, source) in enumerate((("r", None), ("g", SOURCE), ("rs", SOURCE)), start=4):
        target = {**TARGET, "source": source, "recipe": f"{name}.toml"}
        made["arms"].append({"id": f"{name}#{place}", "levers": [name], "replica": 1, "draft": None, "target": target})
    methods = {"r": "rtn", "g": "gptq", "rs": "rtn"}
    models = {"r": "org/large", "g": SOURCE, "rs": SOURCE}
    records = [
        replace(quantized_runs.made(f"{name}.toml of {models[name]}"), recipe={"method": method, "bits": 4})
        for name, method in methods.items()
    ]
    run = replace(run_of(made), records=tuple(records))
    assert [(arm, control) for arm, control, _ in controls.controls(run)] == [("g#5", "rs#6")]


def test_an_arm_is_not_found_by_its_levers_at_the_gate(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    for name in ("small", "small (tiny-4)", "small#1"):
        with pytest.raises(GateFailed, match="the gate failed: undecided: small"):
            gate.check(found, name)
    levers = {"small": {"kind": "model", "model": SOURCE}, "lookup": {"kind": "draft", "method": "lookup"}}
    values = {"name": "x", "target": {"model": "m"}, "workload": {"prompts": "p"}, "levers": levers}
    names = gate.names_of(from_resolved({**values, "arms": {"run": ["small + lookup"]}}))
    # Its plain arm runs too.
    assert {"small", "small (tiny-4)", "small#1", "lookup + small", "lookup + small (tiny-4)"} <= set(names)


def test_a_divergence_that_was_not_made_is_missed_of_the_same_tokens_too(tmp_path: Path) -> None:
    same = copy.deepcopy(lines(None))
    without = [line for line in same if not isinstance(line, Divergence)]
    found = report.build(write_run(tmp_path / "run", about(None), [*loaded(), *without, *FINISHED]))
    assert "how far is not measured" in verdict(found, "small#1").sentence
