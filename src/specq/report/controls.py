"""Calibrated quantizing held against rounding to nearest at the same bits: what the calibration was worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from specq.core.records import QuantizedModel
from specq.report.runfile import RunFile
from specq.report.words import moved
from specq.run.artifacts import label
from specq.stats.scores import Difference

ROUNDED = {"gptq": "rtn", "awq": "rtn", "mlx-gptq": "mlx-rtn", "mlx-awq": "mlx-rtn"}
_ALIKE = ("bits", "group_size", "head", "embeddings")
Words = Callable[[Difference, bool], str]


def controls(run: RunFile) -> Iterator[tuple[str, str, Words]]:
    """Each arm of a calibrated method with the arm that rounds to as many bits, and how their difference is said."""
    recipes = {arm: found for arm in _plain(run) if (found := recipe(run, arm)) is not None}
    for arm, made_by in recipes.items():
        if made_by.get("method") not in ROUNDED:
            continue
        control = _control(run, arm, recipes)
        if control is not None:
            yield arm, control, partial(_said, run.labels[arm], run.labels[control])


def _control(run: RunFile, of: str, recipes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The arm that rounds the same model to as many bits; None where there is none."""
    recipe = recipes[of]
    alike = [
        arm
        for arm, other in recipes.items()
        if run.source(arm) == run.source(of)
        and other.get("method") == ROUNDED[str(recipe["method"])]
        and all(other.get(key) == recipe.get(key) for key in _ALIKE)
    ]
    # Of several the one with the same grid, where there is one.
    same = [arm for arm in alike if recipes[arm].get("symmetric") == recipe.get("symmetric")]
    return next(iter([*same, *alike]), None)


def _plain(run: RunFile) -> list[str]:
    """Arms that change the weights and nothing else."""
    found = []
    for arm in run.info["arms"]:
        target = run.target(str(arm["id"])) or {}
        if target.get("recipe") and not target.get("kv_cache") and not arm.get("draft"):
            found.append(str(arm["id"]))
    return found


def recipe(run: RunFile, arm: str) -> Mapping[str, Any] | None:
    """The recipe by which an arm's own weights were quantized in the run; None where they were not."""
    target = run.target(arm) or {}
    source = str(target.get("source") or run.setting("target", "model", default=""))
    name = label(source, str(target.get("recipe")))
    return next((record.recipe for record in run.of(QuantizedModel) if record.label == name), None)


def _said(arm: str, control: str, found: Difference, binary: bool) -> str:
    """Given the arm's score less the control's."""
    apart = moved(found.value, found.low, found.high, binary)
    against = f"{arm} against {control}, which rounds to as many bits without calibration: {apart}"
    if found.high < 0:
        return f"{against}. The calibrated method did worse: its calibration did harm here."
    if found.low > 0:
        return f"{against}. The calibration paid."
    return f"{against}. No difference is shown: the calibration did not show its worth on these items."
