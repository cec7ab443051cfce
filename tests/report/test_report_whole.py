from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from report_runs import (
    ARMS,
    DRAFTED,
    FINISHED,
    MACHINE,
    PLAIN,
    PROMPTS,
    generated,
    info,
    noise_and_audits,
    turns,
    whole_run,
    write_run,
)
from rich.console import Console

from specq import report
from specq.core.errors import RunFolderError
from specq.core.records import Canary, Done, Failed, Generated, LoadedModel, Memory, Note, WorkerDied
from specq.report.layout import sections
from specq.report.tables import terminal


def shown(found: report.Report, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(terminal(found))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_known_speedups_and_strata(tmp_path: Path) -> None:
    arm = report.build(whole_run(tmp_path / "run")).arm("lookup#1")
    # Half of the tokens take a third of the time: 2 / (1 + 1/3) = 1.5.
    assert arm.measures["speedup"].value == pytest.approx(1.5, abs=0.02)
    by_tag = {stratum.tag: stratum for stratum in arm.strata}
    assert by_tag["extraction"].speedup.value == pytest.approx(3.0, abs=0.06)
    assert by_tag["extraction"].tokens_per_step == pytest.approx(3.0)
    assert by_tag["extraction"].draft_acceptance == pytest.approx(2 / 3)
    assert by_tag["writing"].speedup.value == pytest.approx(1.0, abs=0.03)
    assert by_tag["writing"].n == 3
    assert "baseline#1 and baseline#2 pooled; hf, bfloat16, eager, cpu" in arm.measures["speedup"].note
    assert arm.same_outputs == (12, 12)


def test_the_baseline_is_named_with_packed_weights_and_its_device(tmp_path: Path) -> None:
    about = info(ARMS, PROMPTS)
    about["provenance"]["device_name"] = "Chip 9000"
    machine, target = MACHINE
    assert isinstance(target, LoadedModel)
    packed = replace(target, notes=("packed 3 of 4 linear layers",))
    folder = write_run(tmp_path / "run", about, [machine, packed, *turns(), *noise_and_audits(), *FINISHED])
    assert report.build(folder).baseline.endswith("; hf, bfloat16, eager, packed weights, cpu: Chip 9000)")


def test_a_draft_that_never_proposed_stays_in_the_tables(tmp_path: Path) -> None:
    def idle(g: Generated) -> Generated:
        return g if g.arm != "lookup#1" else generated(g.arm, g.prompt, PLAIN, repeat=g.repeat, rule="greedy_draft")

    lines = [*MACHINE, *turns(idle), *noise_and_audits(), *FINISHED]
    found = report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), lines))
    tables = {section.title: [row[0] for row in section.rows] for section in sections(found)}
    assert tables["Draft"] == ["lookup"]
    assert tables["Acceptance by place"] == ["lookup survival", "lookup conditional_acceptance"]
    assert max(map(len, shown(found).splitlines())) <= 100


def test_limits_and_ceiling_by_hand(tmp_path: Path) -> None:
    lines = [
        generated(arm, "p", PLAIN, step_s=0.05, ttft_s=0.4, prompt_tokens=130) for arm in ("baseline#1", "baseline#2")
    ]
    found = report.build(write_run(tmp_path / "run", info(("baseline#1", "baseline#2"), {"p": []}), [*MACHINE, *lines]))
    known = {measure.name: measure.value for measure in found.workload}
    assert known["prefill_share"] == pytest.approx(0.4)
    assert known["e2e_speedup_limit"] == pytest.approx(2.5)
    assert known["prompt_to_output"] == pytest.approx(10.0)
    assert known["ceiling_tokens_per_s"] == pytest.approx(100.0)
    assert found.arm("baseline#1").measures["ceiling_share"].value == pytest.approx(0.2)


def test_the_null_and_the_limits_come_before_every_result(tmp_path: Path) -> None:
    titles = [section.title for section in sections(report.build(whole_run(tmp_path / "run")))]
    assert titles[:4] == ["No difference looks like this here (A/A)", "Limits", "What binds", "Speed"]


def test_the_null_compares_the_twin_with_the_first_baseline_alone(tmp_path: Path) -> None:
    def slow_twin(g: Generated) -> Generated:
        return generated(g.arm, g.prompt, PLAIN, repeat=g.repeat, step_s=0.08) if g.arm == "baseline#2" else g

    lines = [*MACHINE, *turns(slow_twin), *noise_and_audits(), *FINISHED]
    found = report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), lines))
    assert found.null[0].value == pytest.approx(0.05 / 0.08, rel=0.02)
    assert any("differs from itself" in flag for flag in found.flags)
    assert found.arm("lookup#1").measures["speedup"].value == pytest.approx(1.5 * 0.065 / 0.05, rel=0.02)


def test_an_unfinished_run_says_so_first(tmp_path: Path) -> None:
    lines = [*MACHINE, *turns()[:10]]
    folder = write_run(tmp_path / "run", info(ARMS, PROMPTS), lines, done=False, tail=b'{"kind":"Gener')
    found = report.build(folder)
    assert not found.complete
    assert "UNFINISHED: 10 of 36 generations are recorded" in found.flags[0]
    assert f"specq run --resume {folder}" in found.flags[0]
    assert "14 bytes" in found.flags[1]
    assert sections(found)[0].title == "Read this first"


def test_the_report_before_done_json_counts_as_complete(tmp_path: Path) -> None:
    lines = [*MACHINE, *turns(), *noise_and_audits(), *FINISHED]
    assert report.build(write_run(tmp_path / "a", info(ARMS, PROMPTS), lines, done=False)).complete
    without_audit = report.build(write_run(tmp_path / "b", info(ARMS, PROMPTS), lines[:-1], done=False))
    assert "not audited" in without_audit.flags[0]
    memory = [Done(process=0, task=f"memory:{arm}") for arm in ARMS]
    asked = info(ARMS, PROMPTS, workload={"memory": True})
    assert report.build(write_run(tmp_path / "c", asked, [*lines, *memory], done=False)).complete
    partly = report.build(write_run(tmp_path / "d", asked, [*lines, *memory[:2]], done=False))
    assert "memory is not measured for lookup#1" in partly.flags[0]


def test_done_json_alone_makes_a_run_complete(tmp_path: Path) -> None:
    assert report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), [*MACHINE, *turns()])).complete


def test_a_turn_that_a_baseline_lacks_is_left_out(tmp_path: Path) -> None:
    def drop(g: Generated) -> Generated | None:
        return None if (g.arm, g.prompt) == ("baseline#2", "w3") else g

    lines = [*MACHINE, *turns(drop), *noise_and_audits(), *FINISHED]
    found = report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), lines))
    arm = found.arm("lookup#1")
    assert arm.measures["speedup"].n == 5
    assert arm.flags == ("2 turns are left out: an arm has no answer there",)
    assert "baseline#2: 2 of 12 samples are not in the records; they are in no number" in found.flags


def test_a_run_with_nothing_yet_still_reports(tmp_path: Path) -> None:
    found = report.write(write_run(tmp_path / "run", info(ARMS, PROMPTS), [], done=False))
    assert found.arm("lookup#1").verdict is not None
    assert found.arm("lookup#1").verdict.kind == "invalid"
    assert "UNFINISHED" in shown(found)


def test_failed_samples_are_out_of_speed_and_counted(tmp_path: Path) -> None:
    def drop(g: Generated) -> Generated | None:
        if (g.prompt, g.repeat) != ("e1", 1):
            return g
        return None if g.arm == "lookup#1" else generated(g.arm, g.prompt, PLAIN, repeat=1, step_s=5.0)

    failure = Failed(process=0, arm="lookup#1", prompt="e1", repeat=1, error="NonFiniteLogits", message="NaN at 3")
    lines = [*MACHINE, *turns(drop), failure, *noise_and_audits(), *FINISHED]
    found = report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), lines))
    arm = found.arm("lookup#1")
    assert (arm.failed, arm.generations) == (1, 11)
    flags = "; ".join(found.flags)
    assert "lookup: 1 of 12 samples failed, first on prompt e1 with NonFiniteLogits; they are in no number" in flags
    assert any("NonFiniteLogits" in note for note in found.notes)
    # 11 plain turns of 12 steps against 5 of 4 and 6 of 12: the slow turn is gone from the baseline's side too.
    assert arm.measures["speedup"].value == pytest.approx(132 / 92, rel=0.02)
    assert any("1 turn is left out" in flag for flag in found.flags)


def test_an_arm_on_other_prompts_is_not_compared(tmp_path: Path) -> None:
    def other(g: Generated) -> Generated:
        return replace(g, prompt_sha256="x") if (g.arm, g.prompt) == ("lookup#1", "w1") else g

    lines = [*MACHINE, *turns(other), *noise_and_audits(), *FINISHED]
    arm = report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), lines)).arm("lookup#1")
    assert "speedup" not in arm.measures
    assert arm.verdict is not None
    assert arm.verdict.kind == "invalid"
    assert "w1" in arm.verdict.sentence


@pytest.mark.parametrize("culprit", ["lookup#1", "baseline#1"])
def test_a_violation_makes_the_arm_invalid(tmp_path: Path, culprit: str) -> None:
    def overcount(g: Generated) -> Generated:
        return replace(g, new_tokens=g.new_tokens + 1) if g.arm == culprit else g

    lines = [*MACHINE, *turns(overcount), *noise_and_audits(), *FINISHED]
    verdict = report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), lines)).arm("lookup#1").verdict
    assert verdict is not None
    assert verdict.kind == "invalid"
    assert "do not add up" in verdict.sentence


def test_drift_dead_workers_and_doubles_are_flagged(tmp_path: Path) -> None:
    more = [
        *(Canary(process=0, at_s=float(i), tpot_s=tpot) for i, tpot in enumerate((0.05, 0.05, 0.06))),
        WorkerDied(process=0, task="memory:lookup#1", exit_code=-9, message="killed"),
        Note(process=0, text="cut 12 bytes"),
        turns()[0],
        Memory(arm="lookup#1", peak_bytes=2**30, source="rss", prompt="e1", new_tokens=8),
    ]
    found = report.build(whole_run(tmp_path / "run", more=more))
    said = "\n".join(found.flags)
    assert "moved by 20 %, limit 15 %" in said
    assert "exit -9" in said
    assert "recorded twice" in said
    assert "cut 12 bytes" in found.notes
    assert found.notes[0] == "weights were quantized before: Q4_1"
    assert found.arm("lookup#1").measures["peak_bytes"].value == 2**30
    calm = report.build(whole_run(tmp_path / "calm", more=more[:2]))
    assert calm.flags == ()


HOSTILE = "[red]x[/red] \x1b[2Jboo | `a` <script>alert(1)</script> ![i](http://e.vil/x)\nnext \u202eevil"


def test_hostile_text_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    failure = Failed(process=0, arm="lookup#1", prompt=HOSTILE, repeat=0, error="E", message=HOSTILE)
    folder = whole_run(tmp_path / "run", more=[failure])
    about = json.loads((folder / "run.json").read_text())
    about["question"] = HOSTILE
    about["prompts"][0]["tags"] = [HOSTILE]
    (folder / "run.json").write_text(json.dumps(about))
    found = report.write(folder)
    page = (folder / "report.md").read_text()
    for text in (shown(found), page):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\\x1b" in text
    # In the question, in the stratum's cell and twice in the note; what failed is named in four more.
    assert shown(found, 900).count("[red]x[/red]") == 8
    assert "<script" not in page
    assert not re.search(r"(?<!\\)\]\(", page)
    assert all(line.count("|") - line.count("\\|") in (0, 7) for line in page.splitlines() if "boo" in line)


def test_the_terminal_fits_a_hundred_columns_without_cutting(tmp_path: Path) -> None:
    found = report.build(whole_run(tmp_path / "run"))
    text = shown(found)
    assert max(map(len, text.splitlines())) <= 100
    assert "\u2026" not in text
    flat = " ".join(text.split())
    assert re.search(r"faster on extraction \(3\.00, 2\.\d\d to 3\.\d\d, n = 3\), even on writing \(1\.00, ", flat)


def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="specq ls") as error:
        report.build(tmp_path)
    assert "\n" not in str(error.value)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunFolderError, match="lacks"):
        report.build(tmp_path)
    folder = whole_run(tmp_path / "run")
    text = (folder / "records.jsonl").read_text()
    (folder / "records.jsonl").write_text("garbage\n" + text)
    with pytest.raises(RunFolderError, match=r"records\.jsonl:1"):
        report.build(folder)


def test_opened_run_as_objects_and_frames(tmp_path: Path) -> None:
    run = report.open_run(whole_run(tmp_path / "run"))
    assert len(run.generations) == 36
    lookup = run.generations[run.generations.arm == "lookup#1"]
    assert lookup.steps.sum() == 2 * (3 * len(DRAFTED) + 3 * 12)
    assert len(run.steps) == run.generations.steps.sum()
    assert run.steps.emitted.sum() == (run.generations.new_tokens - 1).sum()
    frame = run.measures_frame
    value = frame[(frame.arm == "lookup#1") & (frame.name == "speedup")].value.item()
    assert value == run.report.arm("lookup#1").measures["speedup"].value
    assert run.info["question"] == "Which draft?"
    assert run.outputs[0]["text"] == "hello"
    assert len(run.records) > 36
    assert {measure.name for measure in run.measures["lookup#1"]} >= {"speedup", "tokens_per_step", "survival[3]"}


def test_frames_of_an_empty_run_have_their_columns(tmp_path: Path) -> None:
    run = report.open_run(write_run(tmp_path / "run", info(ARMS, PROMPTS), [], done=False))
    assert "ttft_s" in run.generations.columns
    assert "verify_s" in run.steps.columns


def test_a_laptop_without_torch_reads_results() -> None:
    code = (
        "import sys\n"
        "import specq.report, specq.report.tables, specq.report.markdown, specq.stats.counts\n"
        "heavy = {'torch', 'transformers', 'pandas', 'scipy.stats'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
