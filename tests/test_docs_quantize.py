from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from doc_pages import chapters, page, rows
from specq.quantize import audit_rows, recipes
from specq.quantize.audited import CalibrationUsed, QuantAudit


def test_every_method_is_in_the_doc_with_what_it_takes_and_no_other() -> None:
    told = {row[0].strip("`"): row for row in rows(chapters(page("docs/quantize.md"))["Methods"])}
    assert told.keys() == recipes.METHODS.keys()
    for name, facts in recipes.METHODS.items():
        _, tool, bits, groups, symmetric, text, _ = told[name]
        assert tool == facts.tool
        assert [int(word) for word in re.findall(r"\d+", bits)] == list(facts.bits), name
        assert groups == ("any" if facts.groups is None else ", ".join(map(str, facts.groups))), name
        assert symmetric == ", ".join(str(one).lower() for one in facts.symmetric), name
        assert text == ("yes" if facts.calibrates else "no"), name


def test_every_key_of_a_recipe_is_in_the_doc_with_its_default_and_no_other() -> None:
    told = rows(chapters(page("docs/quantize.md"))["Recipe keys"])
    # What nobody gave is no key that could be given.
    fields = [field for field in dataclasses.fields(recipes.Recipe) if field.name != "untold"]
    assert [row[0].strip("`") for row in told] == [field.name for field in fields]
    by_method = dict.fromkeys(("bits", "group_size", "symmetric", "mix"), "by method") | {"method": "required"}
    for (_, given, _), field in zip(told, fields, strict=True):
        plain = "none" if field.default is None else json.dumps(field.default, default=str)
        assert given.strip("`") == by_method.get(field.name, plain), field.name


def test_every_row_of_an_audit_is_in_the_doc_and_no_other() -> None:
    fields = {field.name: None for field in dataclasses.fields(QuantAudit)}
    used = CalibrationUsed(**{**dict.fromkeys((f.name for f in dataclasses.fields(CalibrationUsed)), 1), "source": "a"})  # type: ignore[arg-type]
    pairs: Any = (("a", "why"),)
    numbers: Any = dict.fromkeys(("asked", "bits_per_weight", "disk_bytes", "memory_bytes", "positions"), 1)
    made: Any = {**fields, **numbers, "format": "f", "quantized": ("a",), "skipped": pairs, "fallen_back": pairs}
    whole = QuantAudit(**{**made, "kernel": "k", "non_finite": (), "notes": ("n",), "calibration": used})
    told = [row[0].strip("`") for row in rows(chapters(page("docs/quantize.md"))["The audit"])]
    assert told == [label for label, _ in audit_rows.rows(whole)]
