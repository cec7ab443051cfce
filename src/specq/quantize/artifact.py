"""Quantized folders: made once, whole or not at all, each with a file that says how."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import specq
from specq.core import hashes, jsonl
from specq.core.clock import now
from specq.core.errors import ConfigError, ModelError, RunFailed
from specq.core.process_memory import rss_peak_bytes
from specq.models import cache, headers, refs
from specq.models.facts import facts
from specq.models.refs import Resolved
from specq.quantize import audited, beside, prepare
from specq.quantize.audited import CalibrationUsed, QuantAudit
from specq.quantize.made import Made, OnProgress
from specq.quantize.prepare import Plan
from specq.quantize.recipes import SELF, Recipe
from specq.quantize.recipes import make as make_recipe

FILE = "specq-quantize.json"
CALIBRATION = "calibration.jsonl"
_PACKAGES = {
    "llmcompressor": ("llmcompressor", "compressed-tensors", "transformers", "torch"),
    "mlx-lm": ("mlx-lm", "mlx", "transformers"),
    "specq": ("mlx", "safetensors"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A quantized folder and how it came about.

    `source` is the name that the user wrote, `source_notes` its facts that reports repeat. `calibration` is
    None for methods that read no text; `seconds` is the time of making it and `peak_bytes` the most memory that
    the process had until then, the audit left out of both. `fallen_back` holds (layer, reason). `audit` is None
    in a folder whose audit was not asked for.
    """

    folder: Path
    recipe: Recipe
    source: str
    source_sha256: str
    source_notes: tuple[str, ...]
    calibration: CalibrationUsed | None
    versions: Mapping[str, str | None]
    seconds: float
    peak_bytes: int
    fallen_back: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    audit: QuantAudit | None

    @property
    def words(self) -> str:
        """The recipe in words, as it was carried out."""
        tied = self.audit is not None and self.audit.head == "tied"
        return self.recipe.words(tied=tied)

    def to_json(self) -> dict[str, Any]:
        """All fields but the folder as plain values; `read` reads them back."""
        values = {**asdict(self), "recipe": self.recipe.to_json(), "versions": dict(self.versions)}
        del values["folder"]
        return {**values, "audit": None if self.audit is None else self.audit.to_json()}


def read(folder: Path) -> Artifact:
    """The artifact of a folder that specq made.

    Raises:
        ModelError: the folder has no such file, a broken one, or one by another version of specq.
    """
    value = _noted(folder)
    try:
        return Artifact(
            folder=folder,
            **{
                **value,
                "recipe": make_recipe(value["recipe"]),
                "source_notes": tuple(value["source_notes"]),
                "notes": tuple(value["notes"]),
                "fallen_back": tuple((layer, why) for layer, why in value["fallen_back"]),
                "calibration": None if value["calibration"] is None else CalibrationUsed(**value["calibration"]),
                "audit": None if value["audit"] is None else audited.from_json(value["audit"]),
            },
        )
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise ModelError(
            f"{folder / FILE} was written by another version of specq: quantize the model again"
        ) from error


def _noted(folder: Path) -> dict[str, Any]:
    try:
        return headers.read_json(folder / FILE)
    except ModelError as error:
        if not (folder / FILE).is_file():
            raise
        raise ModelError(
            f"{folder / FILE} is damaged, no JSON object as specq wrote it: quantize the model again"
        ) from error


def key(recipe: Recipe, source: Resolved, calibration_sha256: str) -> str:
    """Hex sha256 over everything that can change a quantized folder.

    The source's weights, config and whatever of it is copied, the recipe, the text (`calibration_sha256`: the
    hash of its file, "self" where the model writes it, "" for none), the versions of what does the work, and
    whether it is done on a CPU.

    Raises:
        ConfigError, ModelError, Unsupported: the recipe is for folders that are quantized, and not for this one.
    """
    settled = prepare.settled(recipe, source)
    asked = {name: value for name, value in settled.to_json().items() if name != "calibration"}
    copied = [source.folder / "config.json", *beside.files(source.folder)]
    sums = {str(path.relative_to(source.folder)): hashes.of_file(path) for path in copied}
    where = _device() if recipe.facts.tool == "llmcompressor" else "any"
    parts = [asked, facts(source).weights_sha256, sums, calibration_sha256, _versions(recipe), where]
    return hashes.of_json(parts)


def make(
    source: str,
    recipe: Recipe,
    out: Path | None,
    on_progress: OnProgress,
    *,
    revision: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Artifact:
    """Quantize a model as the recipe says into `out`, or once into the cache when `out` is None; then audit it.

    What can be refused is refused before weights are loaded. Work that is interrupted leaves nothing that looks
    finished. `on_progress` is told (layers done, of how many, seconds left), `say` gets a line as each part begins.

    Raises:
        ConfigError, PromptError, ModelError, Unsupported: the recipe, the texts or the model will not do.
        RunFailed: the tool broke, or wrote tensors that are not finite. DiskFull: too little space.
    """
    resolved = refs.resolve(source, revision=revision)
    recipe = prepare.settled(recipe, resolved)
    text = prepare.text_sha256(recipe)
    final = cache.root() / "quantized" / key(recipe, resolved, text) if out is None else _fresh(out, resolved)
    if out is None and _is_whole(final):
        return read(final)
    say("checking the model and the calibration text")
    plan = prepare.plan(resolved, recipe, final)

    def build(scratch: Path) -> Path:
        _write(plan, scratch, on_progress, say)
        return scratch / "model"

    hint = cache.HINT if out is None else "point --out at"
    return read(cache.build(final, build, is_whole=_is_whole, hint=hint))


def kept(recipe: Recipe, source: Resolved) -> Path | None:
    """The folder in the cache that the recipe made of the source, or None where it is still to be made.

    Raises:
        PromptError: the recipe's text is not there.
    """
    folder = cache.root() / "quantized" / key(recipe, source, prepare.text_sha256(recipe))
    return folder if _is_whole(folder) else None


def _is_whole(folder: Path) -> bool:
    try:
        _noted(folder)
    except ModelError:
        # Written last: where it is missing or damaged, nothing vouches for the rest.
        return False
    return True


def _fresh(out: Path, source: Resolved) -> Path:
    whole = out.expanduser().absolute()
    if whole.exists():
        raise ConfigError(f"--out {out} exists already: name a folder that does not, or remove it first")
    if source.folder.resolve() in whole.resolve().parents:
        raise ConfigError(f"--out {out} lies inside the model's own folder, {source.folder}: name one beside it")
    above = next(parent for parent in whole.parents if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise ConfigError(
            f"--out {out} cannot be written ({above} is no folder that you may write): name another folder"
        )
    return whole


def _write(plan: Plan, scratch: Path, on_progress: OnProgress, say: Callable[[str], None]) -> None:
    """Make the folder scratch/model, its artifact file last."""
    recipe, source, folder = plan.recipe, plan.source, scratch / "model"
    started = now()
    calibration = plan.calibration
    if recipe.calibration == SELF:
        say(f"the model writes {recipe.samples} calibration texts")
        calibration = prepare.from_itself(plan, scratch / CALIBRATION, say)
    say(f"quantizing by {recipe.words(tied=plan.tied)}")
    rows = [list(row) for row in calibration.rows] if calibration else []
    made = _quantize(plan, rows, folder, on_progress)
    if recipe.calibration == SELF:
        (scratch / CALIBRATION).replace(folder / CALIBRATION)
    seconds, peak = now() - started, rss_peak_bytes()
    used = None if calibration is None else calibration.used
    say("auditing the result")
    audit = _audit(plan, folder, made, used)
    artifact = Artifact(
        folder=folder,
        # A path would tell others about this machine; the text's hash says which it was.
        recipe=recipe if used is None else recipe.with_calibration(used.source),
        source=source.name,
        source_sha256=facts(source).weights_sha256,
        source_notes=source.notes,
        calibration=used,
        versions=_versions(recipe),
        seconds=round(seconds, 3),
        peak_bytes=peak,
        fallen_back=made.fallen_back,
        notes=(*(() if calibration is None else calibration.notes), *made.notes),
        audit=audit,
    )
    jsonl.write_whole(folder / FILE, artifact.to_json())


def _quantize(plan: Plan, rows: list[list[int]], folder: Path, on_progress: OnProgress) -> Made:
    if plan.recipe.facts.tool == "llmcompressor":
        from specq.quantize import llmcompressor

        return llmcompressor.quantize(plan.source, plan.recipe, rows, folder, on_progress, layers=plan.layers)
    if plan.recipe.facts.tool == "mlx-lm":
        from specq.quantize import mlx

        return mlx.quantize(plan.source, plan.recipe, rows, folder, on_progress)
    from specq.quantize import mlx_bridge

    return mlx_bridge.turn_over(plan.source, plan.recipe, folder, on_progress)


def _audit(plan: Plan, folder: Path, made: Made, used: CalibrationUsed | None) -> QuantAudit:
    from specq.quantize import compare
    from specq.quantize.audit import audit_folder

    names = tuple(layer.name for layer in plan.asked)
    # Folders keep experts under names of their own, so there the audit counts what it finds.
    mixture = any(".experts." in name for name in names)
    audit = audit_folder(
        folder,
        plan.source.folder,
        fallen_back=made.fallen_back,
        calibration=used,
        asked=names if plan.recipe.facts.tool == "llmcompressor" and not mixture else None,
    )
    if audit.non_finite:
        raise RunFailed(
            f"{plan.recipe.method} wrote {len(audit.non_finite)} tensors that are not finite "
            f"(first: {audit.non_finite[0]}): nothing was kept; "
            "take more bits, other calibration text or another method"
        )
    if any(note.startswith(compare.BROKEN) for note in audit.notes):
        raise RunFailed(
            f"{plan.recipe.method} made a model that predicts NaN or infinite logits, where the source's are finite: "
            "nothing was kept; take more bits, smaller groups or another method"
        )
    return audit


def _versions(recipe: Recipe) -> dict[str, str | None]:
    """Of specq and of the packages that do the work; null where one is absent."""
    found: dict[str, str | None] = {"specq": specq.__version__}
    for name in _PACKAGES[recipe.facts.tool]:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _device() -> str:
    """Where llmcompressor works: sums over an accelerator's threads round otherwise."""
    import torch

    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return "cpu" if found is None else found.type
