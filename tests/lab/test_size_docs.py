from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from doc_pages import chapters, code, page, rows
from specq.lab import machines
from specq.lab.size import TABLE
from specq.lab.size_families import FAMILIES
from specq.lab.size_shape import KV_ALIASES, KV_TYPES
from specq.lab.size_weights import NOMINAL


def test_the_page_names_other_types_models_or_keys() -> None:
    told = chapters(page("docs/size.md"))
    cache = rows(told["The cache"])
    assert [row[0].strip("`") for row in cache] == list(KV_TYPES)
    assert {alias: row[0].strip("`") for row in cache for alias in code(row[1])} == KV_ALIASES
    assert ", ".join(f"{tokens:,}" for tokens in TABLE[:2]) in told["The cache"]
    weights = told["The weights"]
    assert ", ".join(f"`{name}`" for name in NOMINAL) in weights
    assert ", ".join(FAMILIES) in weights.splitlines()
    assert [row[0].strip("`[]") for row in rows(told["Machines"])] == [*machines.KEYS]
    assert all(dtype in told["Machines"] for dtype in machines.DTYPES)
