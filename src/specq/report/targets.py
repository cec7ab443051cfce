"""What arms change about the target: the model each runs on, its kernels, and how far its outputs move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specq.core.records import Divergence, LoadedModel, Note
from specq.quantize.audited import NO_KERNEL
from specq.report.measures import Measure, from_interval
from specq.report.runfile import RunFile
from specq.report.words import agreement, number
from specq.stats.intervals import pooled_ratio

# How engines say that a dense copy of the weights takes passes of many rows over.
DENSE_COPY = ": dense from "
BOTH = "packed weights and a dense copy: memory of both"


def loaded(run: RunFile, arm: str) -> LoadedModel | None:
    """The target that an arm runs on, as it was loaded first; a model without arms is everybody's."""
    models = (model for model in run.of(LoadedModel) if model.role == "target")
    return next((model for model in models if not model.arms or arm in model.arms), None)


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
    """`weight_bytes` of an arm's target, and of a changed target how far it is from the baseline's."""
    found, model = [], loaded(run, arm)
    if model is not None:
        target = run.target(arm) or {}
        both = target.get("prefill") == "dense" and any(DENSE_COPY in note for note in model.notes)
        note = BOTH if both else "the target's, as loaded"
        if (target.get("recipe") or target.get("model")) and model.bytes_per_token > 0:
            bytes_read = float(model.bytes_per_token)
            found.append(Measure(name="bytes_per_token", unit="bytes", value=bytes_read, n=1, note="of its own target"))
        found.append(Measure(name="weight_bytes", unit="bytes", value=float(model.weight_bytes), n=1, note=note))
    return (*found, *divergence(run, arm))


def divergence(run: RunFile, arm: str) -> tuple[Measure, ...]:
    """`kl_mean`, `kl_worst` and `argmax_agreement` of a changed target along the baseline's answers.

    KL of the baseline's next-token law against the arm's, in nats, pooled over positions. A draft leaves its
    plain arm's law as it is, so an arm with one has that arm's.
    """
    plain = run.plain(arm)
    if run.target(arm) is None:
        return ()
    records = {r.prompt: r for r in run.of(Divergence) if r.arm == plain and r.positions > 0}.values()
    if not records:
        return ()
    positions = [float(r.positions) for r in records]
    total = sum(r.positions for r in records)
    whose = "" if plain == arm else f", of {run.labels.get(plain, plain)}, whose outputs these are"
    note = f"{total} positions of the baseline's answers{whose}"
    kl = pooled_ratio([[max(r.kl_sum, 0.0) for r in records]], [positions])
    agreed = pooled_ratio([[float(r.agreed) for r in records]], [positions])
    worst = max(r.kl_worst for r in records)
    return (
        from_interval("kl_mean", "nats/token", kl, note),
        Measure(name="kl_worst", unit="nats", value=worst, n=total, note=f"n = {note}"),
        from_interval("argmax_agreement", "share", agreed, note, top=1.0),
    )


def changes(measures: Mapping[str, Measure]) -> str:
    """What a changed target does to the outputs, from the measures of its arm."""
    kl, agreed = measures.get("kl_mean"), measures.get("argmax_agreement")
    if kl is None or agreed is None:
        return "changes the outputs (how far is not measured)"
    said = f"KL {number(kl.value, 2)} nats a token, {agreement(agreed.value)} same argmax"
    return f"changes the outputs ({said})"
