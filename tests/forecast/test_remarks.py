"""What is known of drafts before anything is generated: whose chat template they were made for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from specq.core.types import DraftSpec, TargetSpec
from specq.forecast import remarks, study
from specq.forecast.study import On


def model(name: str, template: str | None) -> Any:
    return SimpleNamespace(resolved=SimpleNamespace(name=name), facts=SimpleNamespace(template_sha256=template))


@pytest.mark.parametrize(
    ("target", "draft", "says"),
    [("a", "a", "same"), ("a", "b", "other"), ("a", None, "none"), (None, "b", "other"), (None, None, "none")],
)
def test_a_drafts_template_is_held_against_the_targets(target: str | None, draft: str | None, says: str) -> None:
    drafts = {
        "d": DraftSpec(method="model", model="small", k=1),
        "self": DraftSpec(method="model", model="self", bits=8, k=1),
        "copy": DraftSpec(method="lookup", k=1),
        "early": DraftSpec(method="early_exit", layers=2, k=1),
    }
    found = dict(remarks.templates(drafts, "big", [model("big", target), model("small", draft)]))
    assert found == {"d": says, "self": "none" if target is None else "same"}


@pytest.mark.parametrize(
    ("target", "schemes", "is_so"),
    [
        (TargetSpec(), {}, False),
        (TargetSpec(), {"layer": "w4"}, True),
        (TargetSpec(source="other"), {"layer": "w4"}, False),
        (TargetSpec(recipe="r.toml"), {}, True),
        (TargetSpec(model="./w4"), {}, True),
    ],
)
def test_a_target_is_quantized_by_a_lever_or_in_its_own_folder(
    target: TargetSpec, schemes: dict[str, str], is_so: bool
) -> None:
    own = SimpleNamespace(role="target", name="big", weights=SimpleNamespace(schemes=schemes))
    plan: Any = SimpleNamespace(experiment=SimpleNamespace(target=SimpleNamespace(model="big")), models=[own])
    assert study._quantized(On(plan=plan, target=target, drafts={})) is is_so
