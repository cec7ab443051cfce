"""What arms change about the target: the model each runs on, its kernels, and how far its outputs move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specq.core.records import LoadedModel, Note
from specq.quantize.audited import NO_KERNEL
from specq.report import distribution
from specq.report.audit_found import Audit
from specq.report.measures import Measure
from specq.report.runfile import RunFile
from specq.report.words import agreement, number

# How engines say that a dense copy of the weights takes passes of many rows over.
DENSE_COPY = ": dense from "
DRAFT = "the draft's own "
BOTH = "packed weights and a dense copy: memory of both"


def loaded(run: RunFile, arm: str) -> LoadedModel | None:
    """The target that an arm runs on, as it was loaded first; a model without arms is everybody's."""
    models = (model for model in run.of(LoadedModel) if model.role == "target")
    return next((model for model in models if not model.arms or arm in model.arms), None)


def drafted(run: RunFile, arm: str) -> LoadedModel | None:
    """The second model that an arm drafts with, as it was loaded first; None where it is the target itself."""
    return next((model for model in run.of(LoadedModel) if model.role == "draft" and arm in model.arms), None)


def no_kernel(run: RunFile, arm: str) -> str:
    """Which layers of an arm's target or draft run on no packed kernel and why, in words; "" where all have theirs."""
    return "; ".join(dict.fromkeys(_without_kernel(run, arm)))


def _without_kernel(run: RunFile, arm: str) -> Iterator[str]:
    model, draft = loaded(run, arm), f"{arm}: draft: "
    notes = list(model.notes) if model is not None and run.target(arm) is not None else []
    notes += [note.text for note in run.of(Note) if note.text.startswith(draft)]
    for note in notes:
        before, found, why = note.removeprefix(draft).partition(NO_KERNEL)
        if found:
            layers = before.strip().removesuffix(":")
            of_draft = "the draft's " if note.startswith(draft) else ""
            yield f"{why} ({of_draft}{layers})" if layers else why


def measures(run: RunFile, arm: str) -> tuple[Measure, ...]:
    """`weight_bytes` of an arm's target and draft, and of a changed target how far it is from the baseline's."""
    found, model, draft = [], loaded(run, arm), drafted(run, arm)
    if model is not None:
        target = run.target(arm) or {}
        both = target.get("prefill") == "dense" and any(DENSE_COPY in note for note in model.notes)
        note = BOTH if both else "the target's, as loaded"
        held = model.weight_bytes
        if draft is not None:
            held += draft.weight_bytes
            note += f"; {DRAFT}{draft.weight_bytes:,} bytes more"
        if (target.get("recipe") or target.get("model")) and model.bytes_per_token > 0:
            bytes_read = float(model.bytes_per_token)
            found.append(Measure(name="bytes_per_token", unit="bytes", value=bytes_read, n=1, note="of its own target"))
        found.append(Measure(name="weight_bytes", unit="bytes", value=float(held), n=1, note=note))
    return (*found, *distribution.measures(run, arm))


def changes(run: RunFile, arm: str, measures: Mapping[str, Measure], audit: Audit) -> str:
    """What an arm does to the outputs in words, by its target or by a lossy rule; "" where it must leave them alone."""
    said = []
    if run.target(arm) is not None:
        kl, agreed = measures.get("kl_mean"), measures.get("argmax_agreement")
        said.append(
            "how far is not measured"
            if kl is None or agreed is None
            else f"KL {number(kl.value, 2)} nats a token, {agreement(agreed.value)} same argmax"
        )
    if lossy := run.lossy(arm):
        of = f" to those of {audit.against}" if audit.against else ""
        found = f": {audit.count('identical')} of {len(audit.kinds)} texts identical{of}" if audit.kinds else ""
        said.append(f"{lossy}{found}")
    return f"changes the outputs ({'; '.join(said)})" if said else ""
