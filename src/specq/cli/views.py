"""Tables for the terminal, from plain values. Foreign text is shown, never obeyed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from specq.cli.served_views import served
from specq.core.nouns import counted
from specq.quantize import audit_rows
from specq.quantize.audited import NO_KERNEL, QuantAudit
from specq.report.tables import Grid, Paragraph
from specq.report.words import NOTHING, number, size
from specq.run.catalog import RunSummary

if TYPE_CHECKING:
    from specq.quantize.artifact import Artifact

# A whole hash is wider than a narrow terminal leaves room for; --json has it.
SHOWN_OF_HASH = 16


def plan(made: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Specq plan: models, arms with bytes and ceilings, notes; why arms are refused is the command's error."""
    yield text(f"{made['name']}: {made['question']}")
    tokens = [prompt["tokens"] for prompt in made["prompts"]]
    if tokens:
        least = f"{min(tokens)} to " if min(tokens) < max(tokens) else ""
        span = f"{least}{counted(max(tokens), 'token')}"
        yield text(f"{counted(len(tokens), 'prompt')} of {span}, up to {counted(made['max_new_tokens'], 'new token')}")
    yield from table(
        ("model", "role", "dtype", "parameters", "weights", "read a token", "cache a token", "kernel"),
        (
            (m["name"], m["role"], m["dtype"], f"{m['parameters'] / 1e6:.0f} M", *_sizes(m), _kernel(m))
            for m in made["models"]
        ),
        prose=("kernel",),
    )
    for model in made["models"]:
        if without := [kernel for kernel in model["kernels"] if NO_KERNEL in kernel]:
            yield text(f"{model['name']}: {'; '.join(without)}; held and read dense, in {model['dtype']}")
    yield from table(
        ("arm", "target", "draft", "weights", "cache", "read a step", "ceiling, tokens/s"),
        (
            (
                f"{a['id']} *" if a["no_kernel"] else a["id"],
                _target(a["target"]),
                _draft(a["draft"]),
                *_reach(a),
            )
            for a in made["arms"]
        ),
        prose=("target", "draft"),
    )
    if any(a["no_kernel"] for a in made["arms"]):
        yield text("* quantized layers without a packed kernel here: they run as slowly as floats, and weigh as much.")
    if (bandwidth := made["bandwidth_bytes_per_s"]) is not None:
        yield text(
            f"Ceilings: the bandwidth measured now, {bandwidth / 1e9:.1f} GB/s, over the weights that a step reads, "
            "with every proposal accepted."
        )
    for one in made["evals"]:
        at_once = f", {one['batch_size']} at a time" if one["output"] == "text" else ""
        among = f" in {counted(one['clusters'], 'cluster')}" if one["clusters"] < one["items"] else ""
        longest = one["max_new_tokens"]
        new = "" if longest is None else f", answers of up to {counted(longest, 'new token')}"
        asked = f"{counted(one['items'], 'item')}{among}, {counted(one['prompt_tokens'], 'prompt token')} in all{new}"
        yield text(f"Eval {one['name']}: {asked}, metric {one['metric']}{at_once}, every arm")
    yield from served(made["served"])
    free = f", free: {size(made['available_bytes'])}" if made["available_bytes"] is not None else ""
    parts = [("answering evals", made["evals_bytes"]), ("proving drafts in float32", made["proofs_bytes"])]
    told = "".join(f", {what}: {size(count)}" for what, count in parts if count)
    yield text(f"Memory for weights and caches: {size(made['needed_bytes'])}{told}{free}")
    yield from (text(f"note: {note}") for note in made["notes"])


def _sizes(model: Mapping[str, Any]) -> tuple[str, str, str]:
    return size(model["weight_bytes"]), size(model["bytes_per_token"]), f"{model['cache_bytes_per_token']} B"


def _kernel(model: Mapping[str, Any]) -> str:
    """The kernels of a model's quantized layers; why there is none stands below the table."""
    found = (kernel.partition(" layers: ")[2] or kernel for kernel in model["kernels"])
    short = (NO_KERNEL.strip(": ") if kernel.startswith(NO_KERNEL) else kernel for kernel in found)
    return ", ".join(dict.fromkeys(short)) or NOTHING


def _reach(arm: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What an arm holds and reads, and its ceiling; of one that is refused, that it is."""
    if arm["refused"]:
        return "refused", NOTHING, NOTHING, NOTHING
    held, cache, read = size(arm["model_bytes"]), size(arm["cache_bytes"]), size(arm["bytes_per_step"])
    return held, cache, read, number(arm["ceiling_tokens_per_s"])


def _target(target: Mapping[str, Any]) -> str:
    """What an arm changes about the target and how it is asked: model, weights, cache, prompts, or nothing."""
    weights, source = target["recipe"] or target["model"], target["source"]
    of = f" of {source}" if source else ""
    parts = [f"{weights}{of}, prefill {target['prefill']}"] if weights else [source] if source else []
    parts += [f"cache {target['kv_cache']}"] if target["kv_cache"] else []
    parts += ["prompts cleaned"] if target["clean"] else []
    parts += [f"prompts selected to {target['select']}"] if target["select"] is not None else []
    parts += ["prefix cache"] if target["prefix_cache"] else []
    parts += [f"{target['batch']} at once"] if target["batch"] > 1 else []
    return "; ".join(parts) or NOTHING


def _draft(draft: Mapping[str, Any] | None) -> str:
    if draft is None:
        return NOTHING
    own = {"model": draft["model"], "early_exit": counted(draft["layers"] or 0, "layer")}.get(draft["method"])
    how = draft["recipe"] or (f"{draft['bits']} bits" if draft["bits"] else None)
    words = [f"{draft['method']}{f' {own}' if own else ''}", *([how] if how else [])]
    threshold = f" {draft['threshold']}" if draft["threshold"] is not None else ""
    return ", ".join([*words, f"k = {draft['k']}", f"{draft['rule']}{threshold}"])


def quantized(made: Artifact) -> Iterator[RenderableType]:
    """Specq quantize: the recipe, the audit, and what it took."""
    yield text(f"{made.words}, of {made.source}")
    if made.audit is not None:
        yield from audit(made.audit)
    yield from (text(f"note: {note}") for note in (*made.source_notes, *made.notes))
    yield text(f"Made in {made.seconds:.1f} s with at most {size(made.peak_bytes)} of memory, the audit left out")
    yield text(f"Folder: {made.folder}")


def audit(found: QuantAudit) -> Iterator[RenderableType]:
    """Specq audit: one row a finding."""
    yield from table(("audit", "finding"), audit_rows.rows(found), prose=("finding",))


def runs(found: Sequence[RunSummary], out: Path) -> Iterator[RenderableType]:
    """Specq ls: one row a run."""
    if not found:
        yield text(f"no runs under {out}; to make one type: specq run experiments/quickstart.toml")
        return
    yield from table(
        ("run", "experiment", "state", "created (UTC)", "question"),
        ((Path(one.run).name, one.experiment, _state(one), _when(one.created), one.question) for one in found),
        prose=("question",),
    )
    told: dict[tuple[str, ...], list[str]] = {}
    for one in found:
        if one.stale:
            told.setdefault(one.stale, []).append(Path(one.run).name)
    for reasons, names in told.items():
        yield text(f"stale: {', '.join(names)}: changed since: {'; '.join(reasons)}")


def _state(one: RunSummary) -> str:
    return f"{one.state}, stale" if one.stale else one.state


def _when(stamp: str) -> str:
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]} {stamp[9:11]}:{stamp[11:13]}" if len(stamp) == 16 else stamp


def doctor(facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Specq doctor: the machine, then what runs and what does not."""
    cores = f"{facts['cores_usable']} usable of {facts['cores_logical']} ({facts['cores_physical']} physical)"
    yield text(f"specq {facts['specq']}, Python {facts['python']}, {facts['os']}")
    yield text(f"{facts['processor']}, cores: {cores}, load {facts['load_average'][0]:.1f}")
    yield text(f"memory: {size(facts['memory_available_bytes'])} free of {size(facts['memory_bytes'])}")
    yield from table(("package", "version"), ((k, v or "not installed") for k, v in facts["packages"].items()))
    yield from table(
        ("device", "runs", "name or reason", "read, GB/s", "dtypes"),
        (_device_row(name, device) for name, device in facts["devices"].items()),
        prose=("name or reason", "dtypes"),
    )
    yield from table(
        ("engine", "runs", "why not"),
        ((name, _yes(e["runs"]), e["why"] or "") for name, e in facts["engines"].items()),
        prose=("why not",),
    )
    yield from tools(facts["quantization"])
    free = facts["disk_free_bytes"]
    yield text(f"cache: {facts['cache']}, {size(free['cache'])} free on its disk; {size(free['here'])} free here")
    for name, there in facts["models"].items():
        yield text(f"{name}: {'fetched' if there else 'not fetched; type specq models fetch'}")


def tools(known: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What quantizes, and what runs packed weights."""
    yield from table(
        ("quantization", "version", "methods or reason"),
        ((k, t["version"] or NOTHING, t["why"] or ", ".join(t["methods"])) for k, t in known["tools"].items()),
        prose=("methods or reason",),
    )
    yield from table(
        ("packed kernel", "device", "runs", "why not"),
        (
            (kernel, device, _yes(answer == "yes"), "" if answer == "yes" else answer)
            for kernel, devices in known["kernels"].items()
            for device, answer in devices.items()
        ),
        prose=("why not",),
    )


def _device_row(name: str, device: Mapping[str, Any]) -> tuple[str, ...]:
    if not device["runs"]:
        return (name, "no", device["why"], NOTHING, NOTHING)
    able = [dtype for dtype, answer in device["dtypes"].items() if answer == "yes"]
    return (name, "yes", device["name"], f"{device['bandwidth_bytes_per_s'] / 1e9:.1f}", ", ".join(able))


def models(found: Iterable[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Specq models ls: one row a built-in model."""
    yield from table(
        ("model", "title", "licence", "context", "fetched"),
        ((m["name"], m["title"], m["licence"], str(m["context"]), _yes(m["fetched"])) for m in found),
        prose=("title",),
    )


def facts(known: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Specq models facts: one row a fact."""
    yield from table(
        ("fact", "value"), ((name, _value(name, value)) for name, value in known.items()), prose=("value",)
    )


def _value(name: str, value: Any) -> str:
    if name.endswith("sha256") and value:
        return f"{value[:SHOWN_OF_HASH]}..."
    if name == "layer_kinds":
        return ", ".join(f"{list(value).count(kind)} {kind}" for kind in dict.fromkeys(value))
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return NOTHING if value is None else str(value)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def text(words: str) -> Paragraph:
    """A paragraph of visible text."""
    return Paragraph(text=words)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, prose: Sequence[str] = ()
) -> Iterator[RenderableType]:
    """The table with an empty line before and after it; columns named in `prose` may fold at spaces."""
    listed = tuple(map(tuple, rows))
    yield from ("", Grid(columns=tuple(columns), rows=listed, prose=[columns.index(name) for name in prose]), "")
