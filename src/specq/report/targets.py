"""What arms change about the target: the model each runs on, its kernels, and how far its outputs move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specq.core.records import LoadedModel, Note
from specq.quantize.audited import NO_KERNEL
from specq.report import distribution, transforms
from specq.report.audit_found import Audit
from specq.report.measures import Measure
from specq.report.runfile import RunFile
from specq.report.words import agreement, number, size
from specq.run.artifacts import label
from specq.run.provenance import hide_home

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


def model_name(run: RunFile, arm: str) -> str:
    """The model in the target's place on an arm, and by what it is quantized; "" where the target's weights stand."""
    if not (source := run.source(arm)):
        return ""
    recipe = (run.target(arm) or {}).get("recipe")
    return label(source, str(recipe)) if recipe else str(hide_home(source))


def stand_ins(run: RunFile) -> Iterator[str]:
    """A line for each plain arm on another model than the experiment's: which, how large it is, how it reads."""
    base = loaded(run, next(iter(run.baselines), ""))
    for arm, name in run.labels.items():
        model = loaded(run, arm)
        if not run.source(arm) or run.plain(arm) != arm:
            continue
        sizes = ""
        if model is not None and base is not None:
            sizes = (
                f", {number(model.parameters / 1e6)} M parameters in {size(float(model.weight_bytes))} against "
                f"{number(base.parameters / 1e6)} M in {size(float(base.weight_bytes))}"
            )
        yield f"{name} is another model, {model_name(run, arm)}, in the place of {_target_name(run)}{sizes}."
        if other := run.other_tokens(arm):
            yield (
                f"{name}: its tokens are not the baseline's ({other}). A token is another piece of text there, so its "
                "speed is that of whole answers, and its rates of tokens compare with those of its own arms alone."
            )


def _target_name(run: RunFile) -> str:
    return str(run.setting("target", "model", default="the target"))


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
    if model is not None and model.weight_bytes > 0:
        target, name = run.target(arm) or {}, model_name(run, arm)
        both = target.get("prefill") == "dense" and any(DENSE_COPY in note for note in model.notes)
        note = BOTH if both else f"of {name}, as loaded" if name else "the target's, as loaded"
        held = model.weight_bytes
        if draft is not None:
            held += draft.weight_bytes
            note += f"; {DRAFT}{draft.weight_bytes:,} bytes more"
        if run.other_weights(arm) and model.bytes_per_token > 0:
            bytes_read = float(model.bytes_per_token)
            found.append(Measure(name="bytes_per_token", unit="bytes", value=bytes_read, n=1, note="of its own target"))
        found.append(Measure(name="weight_bytes", unit="bytes", value=float(held), n=1, note=note))
    return (*found, *distribution.measures(run, arm))


def changes(run: RunFile, arm: str, measures: Mapping[str, Measure], audit: Audit) -> str:
    """What an arm does to the outputs in words, by its target or by a lossy rule; "" where it must leave them alone."""
    said = []
    if run.target(arm) is not None:
        kl, agreed = measures.get("kl_mean"), measures.get("argmax_agreement")
        said += [f"another model, {name}"] if (name := model_name(run, arm)) else []
        said += [words] if (words := transforms.change(run, arm)) else []
        said.append(
            "how far is not measured"
            if kl is None or agreed is None
            else f"KL {number(kl.value, 2)} nats a token, {agreement(agreed.value)} same argmax"
        )
    if audit.status == "differs":
        said.append(f"{audit.count('differs')} of {len(audit.kinds)} texts differ, and why cannot be told")
    if audit.status == "unknown":
        said.append("how its server verifies is unknown")
    if lossy := run.lossy(arm):
        of = f" to those of {audit.against}" if audit.against else ""
        found = f": {audit.count('identical')} of {len(audit.kinds)} texts identical{of}" if audit.kinds else ""
        said.append(f"{lossy}{found}")
    return f"changes the outputs ({'; '.join(said)})" if said else ""
