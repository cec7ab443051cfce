from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from quantized_runs import (
    ARMS,
    built,
    each,
    quantized_run,
    table,
    verdict,
)
from report_runs import generated

from specq import api, report
from specq.core.records import (
    Audited,
    Divergence,
    Failed,
    GapNoise,
    Generated,
    Memory,
    Record,
    Sampled,
)


def test_a_changed_target_is_called_lossless_or_not_audited(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    assert {arm: found.arm(arm).audit.status for arm in ARMS[1:]} == {
        "baseline#2": "passed",
        "lookup#1": "passed",
        "w4#1": "changed",
        "lookup+w4#1": "changed",
        "q8#1": "changed",
    }
    assert found.arm("w4#1").same_outputs == (0, 12)
    said = json.dumps(found.to_json()["arms"][3])
    assert "audited" not in said
    assert "audit passed" not in said
    assert found.flags == ()
    api.check_gate(found)


def test_the_distance_to_the_baseline_by_hand(tmp_path: Path) -> None:
    measures = built(tmp_path / "run").arm("w4#1").measures
    # Six prompts of 10 to 15 positions, with 3 to 8 nats and 8 agreements on each.
    kl, worst, agreed = (measures[name] for name in ("kl_mean", "kl_worst", "argmax_agreement"))
    assert (kl.value, kl.n, kl.unit) == (pytest.approx(33 / 75), 6, "nats/token")
    assert (worst.value, worst.n) == (7.0, 75)
    assert (agreed.value, agreed.n) == (pytest.approx(48 / 75), 6)
    for measure in (kl, agreed):
        assert (measure.low or 0) < (measure.value or 0) < (measure.high or 0)


def test_a_draft_on_a_changed_target_hides_whose_outputs_it_has(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    both, w4 = found.arm("lookup+w4#1"), found.arm("w4#1")
    assert both.audit.sentence() == "outputs are those of w4: 6 of 6 texts identical"
    assert both.measures["kl_mean"].value == w4.measures["kl_mean"].value
    assert "of w4, whose outputs these are" in both.measures["kl_mean"].note
    assert (both.plain, both.target, found.arm("lookup#1").target) == ("w4#1", w4.target, None)
    assert found.arm("lookup#1").audit.sentence() == "audit passed (6 of 6 texts identical)"
    assert "kl_mean" not in found.arm("lookup#1").measures
    lossless = table(found, "Lossless audit")
    against = lossless.columns.index("against")
    assert [row[against] for row in lossless.rows] == ["-", "-", "-", "w4", "-"]


@pytest.mark.parametrize(
    ("arm", "gap", "status"),
    # Ties end at 0.2 logits on the baseline and at 1.0 on w4.
    [
        ("lookup#1", 0.15, "passed"),
        ("lookup#1", 0.6, "failed"),
        ("lookup+w4#1", 0.6, "changed"),
        ("lookup+w4#1", 1.2, "failed"),
    ],
)
def test_a_draft_is_held_to_the_noise_of_another_target(tmp_path: Path, arm: str, gap: float, status: str) -> None:
    def parted(record: Audited) -> Record:
        return replace(record, first_difference=3, gaps=((3, gap),)) if record.prompt == "w2" else record

    found = built(tmp_path / "run", each(Audited, parted, arm))
    audit = found.arm(arm).audit
    assert audit.status == status
    if status == "failed":
        assert verdict(found, arm).kind == "invalid"
        against = " against w4" if "w4" in arm else ""
        assert f"the audit{against} failed: 1 of 6 prompts diverged" in verdict(found, arm).sentence
    else:
        assert audit.count("tie") == 1


def test_a_draft_on_a_changed_target_is_held_to_the_lengths_of_the_baseline(tmp_path: Path) -> None:
    def shorter(g: Generated) -> Generated:
        if g.prompt != "w1":
            return g
        return generated(g.arm, "w1", [(0, 0, 1)] * 9, repeat=g.repeat, output="of w4", ttft_s=g.ttft_s)

    plain_is_shorter = built(tmp_path / "a", each(Generated, shorter, "w4#1"))
    assert plain_is_shorter.arm("lookup+w4#1").audit.status == "failed"
    assert "the texts agree but one is longer" in plain_is_shorter.arm("lookup+w4#1").audit.sentence()
    base_is_shorter = built(tmp_path / "b", each(Generated, shorter, "baseline#1"))
    assert base_is_shorter.arm("lookup+w4#1").audit.status == "changed"
    assert base_is_shorter.arm("lookup#1").audit.status == "failed"


def broke(kind: str, arm: str) -> Failed:
    return Failed(process=0, arm=arm, prompt="w2", repeat=0, error=f"audit {kind}: RuntimeError", message="boom")


@pytest.mark.parametrize(("plain", "lost"), [("w4#1", "lookup+w4#1"), ("baseline#1", "lookup#1")])
def test_broken_noise_of_one_target_voids_the_audits_of_another(tmp_path: Path, plain: str, lost: str) -> None:
    def without(lines: list[Record]) -> list[Record]:
        gone = [r for r in lines if isinstance(r, GapNoise) and (r.arm, r.prompt) == (plain, "w2")]
        return [*(line for line in lines if line not in gone), broke("GapNoise", plain)]

    found = built(tmp_path / "run", without)
    statuses = {arm: found.arm(arm).audit.status for arm in ("lookup#1", "lookup+w4#1")}
    assert statuses.pop(lost) == "missing"
    assert set(statuses.values()) <= {"passed", "changed"}


def test_a_distance_that_broke_is_said_and_the_arm_stays_changed(tmp_path: Path) -> None:
    def without(lines: list[Record]) -> list[Record]:
        return [*each(Divergence, lambda _: None, "w4#1")(lines), broke("Divergence", "w4#1")]

    found = built(tmp_path / "run", without)
    assert found.arm("w4#1").audit.status == "changed"
    assert "changes the outputs (how far is not measured)" in verdict(found, "w4#1").sentence
    assert "the audit broke 1 times, first on prompt w2: Divergence: RuntimeError: boom" in (
        verdict(found, "w4#1").sentence
    )
    made_good = built(tmp_path / "good", lambda lines: [*lines, broke("Divergence", "w4#1")])
    assert "boom" not in verdict(made_good, "w4#1").sentence


def sampled(arm: str, outside: int) -> list[Record]:
    return [
        Sampled(
            arm=arm,
            prompt=f"w{i}",
            repeat=0,
            positions=64,
            outside=outside,
            surprise=0.0,
            surprise_variance=25.0,
            steps=40,
            steps_mean=40.0,
            steps_variance=4.0,
        )
        for i in (1, 2, 3)
    ]


def test_sampled_text_on_a_changed_target_is_held_to_the_baseline_s_rounding(tmp_path: Path) -> None:
    def scored(w4: int, baseline: int) -> report.Report:
        more = [*sampled("w4#1", w4), *sampled("lookup+w4#1", 9), *sampled("baseline#1", baseline)]
        return built(tmp_path / f"{w4}-{baseline}", lambda lines: [*lines, *more], workload={"temperature": 1.0})

    sound = scored(9, 0)
    assert sound.arm("lookup+w4#1").audit.status == "changed"
    assert sound.arm("lookup+w4#1").audit.sentence() == (
        "outputs are those of w4: no departure from the target's law seen: surprise z = +0.0, steps z = +0.0"
    )
    assert sound.arm("w4#1").audit.status == "changed"
    unsound = scored(0, 9).arm("lookup+w4#1").audit
    assert unsound.status == "failed"
    assert "of w4's 0 of 192" in unsound.sentence()


def test_a_faster_arm_that_changes_outputs_is_kept_or_recommended(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    w4 = verdict(found, "w4#1")
    assert w4.kind == "undecided"
    assert w4.sentence.startswith(
        "w4 is 1.60 times as fast as plain decoding (1.59 to 1.61), but it changes the outputs "
        "(KL 0.44 nats a token, 64 % same argmax) and its quality on your task is not measured; "
    )
    assert "prefill 0.8x (0.80 to 0.80)" in w4.sentence
    assert w4.sentence.endswith("measured in 1 process, a firm verdict takes 3.")
    assert w4.reasons[0] == "its quality on your task is not measured"
    assert found.recommendation.startswith("Serve with lookup: speedup 1.50")
    assert "after Holm over 4 arms" in found.recommendation
    assert (
        "lookup + w4 would be faster still (speedup 2.40, 2.39 to 2.41), but it changes the outputs (KL 0.44 nats a "
        "token, 64 % same argmax): measure its quality on your task first." in found.recommendation
    )
    assert w4.p_not_faster is not None


def test_staying_with_plain_decoding_forgets_the_faster_arm_that_changes_outputs(tmp_path: Path) -> None:
    arms = ("baseline#1", "baseline#2", "w4#1", "q8#1")
    found = built(tmp_path / "run", arms=arms)
    assert found.recommendation.startswith(
        "Stay with plain decoding (w4 is faster but changes the outputs; q8 is slower). w4 would be faster "
        "(speedup 1.60, 1.59 to 1.61), but it changes the outputs"
    )
    needs = "for w4 a measurement of what it costs in quality on your task (a table [[evals]]); for q8 nothing, for it"
    assert f"What would change this: {needs} is decided; try " in found.recommendation


def test_a_slower_changed_arm_is_rejected_and_not_praised(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    q8 = verdict(found, "q8#1")
    assert q8.kind == "reject"
    assert q8.sentence.startswith("q8 is slower: 0.80 times as fast as plain decoding (0.80 to 0.80); it changes ")
    assert "but it changes" not in q8.sentence


def test_a_changed_arm_over_the_floor_is_rejected_and_not_said_to_be_faster_still(tmp_path: Path) -> None:
    peaks = [Memory(arm=arm, peak_bytes=n << 30, source="rss", prompt="e1", new_tokens=8) for arm, n in OVER.items()]
    found = built(tmp_path / "run", lambda lines: [*lines, *peaks], floor={"peak_bytes": 2 << 30})
    assert {verdict(found, arm).kind for arm in ("w4#1", "lookup+w4#1")} == {"reject"}
    assert "faster still" not in found.recommendation


OVER = {"lookup#1": 1, "w4#1": 3, "lookup+w4#1": 3, "q8#1": 1}


def test_an_unclear_changed_arm_asks_for_more_prompts(tmp_path: Path) -> None:
    def uneven(g: Generated) -> Generated:
        return generated(g.arm, g.prompt, [(0, 0, 1)] * 12, step_s=0.03 if g.prompt == "e1" else 0.052, repeat=g.repeat)

    w4 = verdict(built(tmp_path / "run", each(Generated, uneven, "w4#1")), "w4#1")
    assert w4.kind == "undecided"
    assert w4.sentence.startswith("w4 is not clearly faster or slower: ")
    assert "more prompts at this spread would settle it" in w4.sentence
    assert w4.reasons[-2:][0] == "its quality on your task is not measured"


def test_an_audit_of_a_compiled_baseline_is_not_shown(tmp_path: Path) -> None:
    own = [Audited(arm="baseline#1", prompt=p, positions=13, first_difference=None, gaps=()) for p in ("e1", "w2")]
    wrong = replace(own[1], first_difference=2, gaps=((2, 4.0),))

    def rows(found: report.Report) -> dict[str, str]:
        return {row[0]: row[1] for row in table(found, "Lossless audit").rows}

    sound = built(tmp_path / "a", lambda lines: [*lines, *own], engine={"compile": True})
    assert rows(sound)["baseline#1"] == "passed"
    assert not any(flag.startswith("baseline#1: the audit") for flag in sound.flags)
    failed = built(tmp_path / "b", lambda lines: [*lines, own[0], wrong], engine={"compile": True})
    assert rows(failed)["baseline#1"] == "failed"
    assert any(flag.startswith("baseline#1: the audit failed: 1 of 2 prompts diverged") for flag in failed.flags)
    assert "baseline#1" not in rows(built(tmp_path / "c"))


def test_a_compiled_changed_target_that_departs_from_its_own_eager_path_is_valid(tmp_path: Path) -> None:
    wrong = Audited(arm="w4#1", prompt="e1", positions=13, first_difference=2, gaps=((2, 4.0),))
    found = built(tmp_path / "run", lambda lines: [*lines, wrong], engine={"compile": True})
    assert verdict(found, "w4#1").kind == "invalid"
    assert "the audit failed: 1 of 1 prompts diverged" in verdict(found, "w4#1").sentence


def test_a_smoke_run_judges_a_changed_arm(tmp_path: Path) -> None:
    folder = quantized_run(tmp_path / "run")
    about = json.loads((folder / "run.json").read_text())
    about["config"]["smoke"] = True
    (folder / "run.json").write_text(json.dumps(about))
    found = report.build(folder)
    assert verdict(found, "w4#1").kind == "undecided"
    assert "times as fast" not in verdict(found, "w4#1").sentence
    assert "faster still" not in found.recommendation
