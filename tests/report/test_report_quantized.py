from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from quantized_runs import (
    AUDIT,
    LABEL,
    MODEL,
    NOTES,
    Change,
    built,
    each,
    made,
    quantized_run,
    table,
    verdict,
)
from rich.console import Console

from specq import report
from specq.core.records import (
    Note,
    QuantizedModel,
)
from specq.quantize.audited import QuantAudit
from specq.report.tables import terminal


@pytest.mark.parametrize("where", ["target", "draft"])
def test_a_speed_without_a_kernel_passes_for_what_its_bits_promise(tmp_path: Path, where: str) -> None:
    why = "3 bits, the kernels take 4 and 8"
    note = f"12 layers: no kernel here: {why}"
    of_draft = Note(process=0, text=f"lookup#1: draft: {note}")
    notes: tuple[str, ...] = (note,)
    arm, layers = "w4#1", "12 layers"
    if where == "draft":
        notes, arm, layers = (NOTES, "lookup#1", "the draft's 12 layers")
    found = built(tmp_path / "run", lambda lines: [*lines, *([of_draft] if where == "draft" else [])], notes=notes)
    label = found.arm(arm).label
    assert f"{label}: no kernel here: {why} ({layers})" in found.flags
    assert f"no kernel here: {why} ({layers})" in verdict(found, arm).sentence
    speed = table(found, "Speed")
    assert f"* {label}: no kernel here: {why} ({layers})." in speed.lines
    for title in ("Speed", "Speedup over prompts", "Latency", "By tag"):
        marked = {row[0].split(" *")[0] for row in table(found, title).rows if " *" in row[0]}
        assert marked == ({"w4", "lookup + w4"} if where == "target" else {"lookup"}), title
    assert "*" not in "".join(row[0] for row in table(built(tmp_path / "sound"), "Speed").rows)


def test_the_ceiling_of_a_quantized_arm_is_the_baseline_s(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    # 32 passes a second of 400 that 50 MB a pass allow; the cache arm reads the baseline's 200 MB.
    assert found.arm("w4#1").measures["ceiling_share"].value == pytest.approx(32 / 400, rel=0.01)
    assert found.arm("q8#1").measures["ceiling_share"].value == pytest.approx(16 / 100, rel=0.01)
    assert found.arm("lookup+w4#1").measures["ceiling_share"].value == pytest.approx(16 / 400, rel=0.01)
    assert "w4 reads 50.0 MB a pass: at most 400 passes a second." in table(found, "Limits").lines


def test_the_memory_of_a_dense_copy_is_hidden(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    cost = table(found, "Cost and care")
    held = {row[0]: row[cost.columns.index("weights held")] for row in cost.rows}
    assert held["baseline#1"] == "191 MiB"
    assert held["w4"] == held["lookup + w4"] == "238 MiB (both)"
    assert any("so memory of both" in line for line in cost.lines)
    assert "memory of both" in found.arm("w4#1").measures["weight_bytes"].note
    packed = table(built(tmp_path / "packed", notes=NOTES[:1]), "Cost and care")
    assert not any("both" in cell for row in packed.rows for cell in row)


def test_what_engines_say_of_kernels_and_dense_copies_is_not_understood_any_more() -> None:
    replace_ = pytest.importorskip("specq.quantize.replace")
    kernels = pytest.importorskip("specq.quantize.kernels")
    from specq.report import targets

    kinds = {"a": "int4pack", "b": f"{kernels.NO_KERNEL}3 bits"}
    said = replace_.Quantized(
        model=None, format="f", kernels=kinds, dense_from={"int4pack 8 x 8": 4}, bytes_held=1
    ).notes
    assert sum(targets.NO_KERNEL in note for note in said) == 1
    assert sum(targets.DENSE_COPY in note for note in said) == 1


def test_a_slower_prefill_is_not_measured(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    prefill = found.arm("lookup+w4#1").measures["prefill_speedup"]
    assert (prefill.value, prefill.n) == (pytest.approx(0.8), 6)
    assert "prefill_speedup" not in found.arm("lookup#1").measures
    speed = table(found, "Speed")
    column = speed.columns.index("prefill")
    assert [row[column] for row in speed.rows] == ["-", "-", "-", "0.80x", "0.80x", "1.00x"]


def test_the_share_read_from_a_quantized_cache_is_not_shown(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    share = found.arm("q8#1").measures["quantized_cache_share"]
    assert (share.value, share.n) == (pytest.approx(0.75), 6)
    assert "quantized_cache_share" not in found.arm("w4#1").measures
    changed = table(found, "Changed outputs")
    assert [row[-1] for row in changed.rows] == ["-", "-", "75 %"]
    run = report.open_run(tmp_path / "run")
    assert set(run.generations.cache_share.dropna()) == {0.75}


def test_a_quantized_model_by_its_audit(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    weights = table(found, "Quantized weights")
    (row,) = weights.rows
    assert dict(zip(weights.columns, row, strict=True)) == {
        "weights": "gptq 4-bit, groups of 64, symmetric",
        "arms": "w4, lookup + w4",
        "layers": "208 of 210",
        "fell back": "1",
        "in floats": "2",
        "bits/weight": "6.73",
        "on disk": "108 MiB",
        "source": "257 MiB",
        "embeddings, head": "kept, tied",
        "KL mean": "0.568",
        "KL worst": "4.45",
        "same argmax": "61 %",
        "calibration tokens": "16,384 of 18,002",
        "kernel": "int4pack",
    }
    lines = "\n".join(weights.lines)
    assert "left in floats: model.layers.*.mlp.gate_proj (2), embeddings kept, head tied." in lines
    assert "rounded to nearest after all: model.layers.7.mlp.up_proj (the Hessian is not positive definite)" in lines
    assert "2 of 34 calibration texts were too short" in lines
    assert (
        "weights lie on a 4-bit grid, blocks of 32: where the grids agree, the cost looks smaller than it is" in lines
    )
    assert "quantized weights of w4, lookup + w4: both ran in float32 through transformers" in found.notes
    assert found.quantized[0].audit == AUDIT


def with_more(*more: QuantizedModel) -> Change:
    return lambda lines: [*more, *lines]


def test_arms_that_left_other_parts_in_floats_are_compared_as_if_alike(tmp_path: Path) -> None:
    head_too = replace(AUDIT, head="quantized", skipped=())
    others = [made(f"r{i} of {MODEL}", audit=AUDIT, method="rtn", calibration=None) for i in range(2)]
    found = built(tmp_path / "run", with_more(*others, made("odd of " + MODEL, audit=head_too)))
    odd = [one for one in found.quantized if one.unlike]
    assert [one.label for one in odd] == [f"odd of {MODEL}"]
    assert any(
        "not like for like with the other quantized weights" in flag and "- head tied" in flag for flag in found.flags
    )
    weights = table(found, "Quantized weights")
    assert [row[-1] for row in weights.rows] == ["yes", "yes", "no", "yes"]
    alike = built(tmp_path / "alike", with_more(*others))
    assert not any("like for like" in flag for flag in alike.flags)


@pytest.mark.parametrize(
    ("audit", "says"),
    [
        (
            replace(AUDIT, non_finite=("model.layers.3.mlp.up_proj.weight_scale",)),
            "NaN or infinite values in model.layers.3",
        ),
        (replace(AUDIT, same_template=False), "the chat template of the quantized folder is not the source's"),
    ],
)
def test_a_broken_folder_is_not_flagged(tmp_path: Path, audit: QuantAudit, says: str) -> None:
    found = built(tmp_path / "run", each(QuantizedModel, lambda r: replace(r, audit=audit.to_json())))
    assert any(flag.startswith(f"w4, lookup + w4: {says}") for flag in found.flags)


def test_a_model_without_a_readable_audit_breaks_the_report(tmp_path: Path) -> None:
    other = each(QuantizedModel, lambda r: replace(r, audit={"bits": 4}, recipe={"method": "later"}))
    found = built(tmp_path / "other", other)
    assert any("by another version of specq" in line for line in table(found, "Quantized weights").lines)
    assert table(found, "Quantized weights").rows[0][0] == "later"
    none = built(tmp_path / "none", each(QuantizedModel, lambda r: replace(r, audit=None)))
    assert "w4, lookup + w4: it was not audited." in table(none, "Quantized weights").lines


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_report_with_quantized_arms_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(terminal(built(tmp_path / "run")))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "Quantized weights" in text


def test_the_json_tells_what_an_arm_changes(tmp_path: Path) -> None:
    folder = quantized_run(tmp_path / "run")
    report.write(folder)
    stored = json.loads((folder / "report.json").read_text())
    arms = {arm["id"]: arm for arm in stored["arms"]}
    assert arms["lookup#1"]["target"] is None
    assert arms["w4#1"]["target"]["recipe"] == LABEL.split(" of ")[0]
    assert arms["q8#1"]["target"]["kv_cache"] == "q8"
    assert stored["quantized"][0]["audit"]["bits"] == 4
    page = (folder / "report.md").read_text()
    assert page.index("## Quantized weights") < page.index("## Changed outputs") < page.index("## Lossless audit")
