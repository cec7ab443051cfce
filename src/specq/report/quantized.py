"""The quantized models of a run: what their audits say was really done, and which are not like for like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specq.core.errors import ConfigError, ModelError
from specq.core.records import QuantizedModel
from specq.quantize import audited, recipes
from specq.quantize.audit_rows import fold, like_for_like
from specq.quantize.audited import QuantAudit
from specq.report.runfile import RunFile
from specq.run.artifacts import label

NAMES_SHOWN = 3
LAYERS_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedWeights:
    """One model that a recipe quantized.

    `targets` and `drafts` are the labels of the arms that run on it and that draft with it. `source_bytes` are
    the bytes of the source's weights in the run's dtype, None where the run does not say. `audit` is None where
    there is none that can be read, and `unread` says why. `unlike` lists the parts, folded over layers, in which
    what it left in floats differs from what most others of its source left: "+" more, "-" less.
    """

    label: str
    words: str
    targets: tuple[str, ...]
    drafts: tuple[str, ...]
    source: str
    source_bytes: int | None
    seconds: float
    peak_bytes: int
    recipe: Mapping[str, Any]
    audit: QuantAudit | None
    unread: str
    unlike: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def who(self) -> str:
        """The arms by which a reader knows it; its recipe where no arm uses it."""
        drafts = [f"the draft of {_some(self.drafts)}"] if self.drafts else []
        return " and ".join([*([_some(self.targets)] if self.targets else []), *drafts]) or self.words

    @property
    def left(self) -> list[str]:
        """What it left in floats, folded over layers."""
        return fold(self.audit.left_unquantized) if self.audit is not None else []


def quantized(run: RunFile) -> tuple[QuantizedWeights, ...]:
    """Every quantized model of the run, in the order in which they were made."""
    records = {record.label: record for record in run.of(QuantizedModel)}
    uses = _uses(run)
    read = {name: _audit(record) for name, record in records.items()}
    sources = {name: uses.get(name, _Use(source="")).source for name in records}
    unlike: dict[str, tuple[str, ...]] = {}
    for source in dict.fromkeys(sources.values()):
        audits = {name: found for name, (found, _) in read.items() if found is not None and sources[name] == source}
        unlike |= like_for_like(audits)
    return tuple(
        QuantizedWeights(
            label=name,
            words=_words(record.recipe, read[name][0]),
            targets=uses[name].targets if name in uses else (),
            drafts=uses[name].drafts if name in uses else (),
            source=sources[name],
            source_bytes=_source_bytes(run, sources[name]),
            seconds=record.seconds,
            peak_bytes=record.peak_bytes,
            recipe=record.recipe,
            audit=read[name][0],
            unread=read[name][1],
            unlike=unlike.get(name, ()),
            notes=record.notes,
        )
        for name, record in records.items()
    )


def flags(weights: tuple[QuantizedWeights, ...]) -> list[str]:
    """What must be read before any number of an arm that runs on them."""
    found = []
    for one in weights:
        if one.unlike:
            parts = listed(one.unlike)
            found.append(f"{one.who}: not like for like with the other quantized weights, left in floats: {parts}")
        if one.audit is not None:
            found += [f"{one.who}: {fault}" for fault in _faults(one.audit)]
    return found


def notes(weights: tuple[QuantizedWeights, ...]) -> list[str]:
    """What was noted when they were made and audited, each text once with the arms that it is about."""
    about: dict[str, list[str]] = {}
    for one in weights:
        for text in dict.fromkeys([*one.notes, *(one.audit.notes if one.audit is not None else ())]):
            about.setdefault(text, []).append(one.who)
    return [f"quantized weights of {', '.join(who)}: {text}" for text, who in about.items()]


def listed(names: tuple[str, ...] | list[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = [f"and {len(names) - LAYERS_SHOWN} more"] if len(names) > LAYERS_SHOWN else []
    return ", ".join([*names[:LAYERS_SHOWN], *more])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    source: str
    targets: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()


def _uses(run: RunFile) -> dict[str, _Use]:
    """Which arms use each quantized model, by its label."""
    model = str(run.setting("target", "model", default=""))
    found: dict[str, tuple[str, list[str], list[str]]] = {}
    for arm in run.info["arms"]:
        name = run.labels[str(arm["id"])]
        target, draft = arm.get("target") or {}, arm.get("draft") or {}
        if recipe := target.get("recipe"):
            source = str(target.get("source") or model)
            found.setdefault(label(source, str(recipe)), (source, [], []))[1].append(name)
        if recipe := draft.get("recipe"):
            source = model if draft.get("model") in (None, "self") else str(draft["model"])
            found.setdefault(label(source, str(recipe)), (source, [], []))[2].append(name)
    return {
        key: _Use(source=source, targets=tuple(targets), drafts=tuple(drafts))
        for key, (source, targets, drafts) in found.items()
    }


def _audit(record: QuantizedModel) -> tuple[QuantAudit | None, str]:
    """The audit of a record, or why there is none."""
    if record.audit is None:
        return None, "it was not audited"
    try:
        return audited.from_json(record.audit), ""
    except ModelError as error:
        return None, str(error)


def _words(recipe: Mapping[str, Any], audit: QuantAudit | None) -> str:
    try:
        return recipes.make(recipe).words(tied=audit is not None and audit.head == "tied")
    except ConfigError:
        # Another version of specq knew other recipes; its name for the method is still true.
        return str(recipe.get("method"))


def _source_bytes(run: RunFile, source: str) -> int | None:
    models = (run.info.get("models") or {}).values()
    # Dense copies and the like are no part of what was quantized.
    held = (
        m["weight_bytes"] - m.get("copy_bytes", 0) for m in models if m.get("name") == source and "weight_bytes" in m
    )
    return next(map(int, held), None)


def _faults(audit: QuantAudit) -> Iterator[str]:
    if audit.non_finite:
        yield f"NaN or infinite values in {listed(fold(audit.non_finite))}"
    for what, same in (
        ("tokenizer", audit.same_tokenizer),
        ("special ids", audit.same_special_ids),
        ("chat template", audit.same_template),
    ):
        if same is False:
            yield f"the {what} of the quantized folder is not the source's"


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
