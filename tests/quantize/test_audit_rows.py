from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from specq.quantize.audit_rows import fold, rows
from specq.quantize.audited import CalibrationUsed, QuantAudit

Folders = Callable[[str], Path]
Audits = Callable[[str], QuantAudit]
LAYERS = 14  # seven a layer


def test_rows_hide_what_went_wrong(audits: Audits) -> None:
    used = CalibrationUsed(
        source="texts.jsonl",
        sha256="0",
        rows_given=40,
        rows_used=32,
        rows_too_short=3,
        tokens_given=20000,
        tokens_used=16384,
    )
    found = replace(
        audits("ignored"),
        calibration=used,
        fallen_back=(("model.layers.0.mlp.up_proj", "the Hessian is not positive definite"),),
        same_template=False,
        kl_mean=None,
    )
    shown = dict(rows(found))
    assert shown["quantized"] == "12 of 14 layers asked for"
    assert shown["left in floats"] == "model.layers.*.mlp.down_proj (2): ignored by the config"
    assert shown["fallen back to nearest"] == "model.layers.0.mlp.up_proj: the Hessian is not positive definite"
    assert shown["calibration"] == "texts.jsonl: 32 of 40 rows, 3 too short, 16,384 of 20,000 tokens"
    assert shown["chat template"] == "DIFFERS from the source's"
    assert shown["distance to the source"] == "not measured"
    assert shown["format"] == "pack-quantized (4 bits, groups of 32, symmetric)"
    assert [value for label, value in rows(found) if label == "note"] == list(found.notes)


def test_a_size_is_called_larger_that_is_smaller(audits: Audits) -> None:
    found = audits("w4")

    def shown(predicted: int) -> str:
        return dict(rows(replace(found, disk_bytes=100_000, predicted_bytes=predicted)))["bytes on disk"]

    assert shown(100_000) == "100,000 (as predicted)"
    assert shown(100_010) == "100,000 (100,010 predicted, less than 0.1% away)"
    assert shown(99_990) == "100,000 (99,990 predicted, less than 0.1% away)"
    assert shown(101_000) == "100,000 (101,000 predicted, -1.0%)"


def test_names_fold_where_more_than_a_number_differs() -> None:
    assert fold(["a.0.b", "a.1.b", "a.12.b", "a.0.c", "x2.b", "x3.b"]) == ["a.*.b (3)", "a.0.c", "x2.b", "x3.b"]


def test_showing_an_audit_needs_torch() -> None:
    code = (
        "import sys, specq.quantize.audit, specq.quantize.audit_rows\n"
        "print([n for n in ('torch', 'transformers', 'mlx', 'safetensors') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
