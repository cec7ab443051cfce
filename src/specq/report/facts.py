"""What the run says about itself: machine, workload, ceilings, drift, memory, failures and notes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from specq.core.nouns import counted
from specq.core.records import Canary, Failed, Generated, LoadedModel, Machine, Memory, Note, WorkerDied
from specq.report.measures import Measure
from specq.report.runfile import RunFile
from specq.report.speed import Arm
from specq.report.targets import loaded
from specq.report.words import number, share

DRIFT_LIMIT = 0.15


def baseline_name(run: RunFile) -> str:
    """The baseline in words: which arms are pooled, engine, dtype, eager or compiled, packed weights, device."""
    target = _target(run)
    dtype = target.dtype if target is not None else str(run.setting("engine", "dtype", default="auto"))
    mode = "compiled" if run.setting("engine", "compile", default=False) else "eager"
    if target is not None and any(note.startswith("packed ") for note in target.notes):
        mode += ", packed weights"
    device = next((machine.device for machine in run.of(Machine)), str(run.setting("engine", "device", default="?")))
    if title := (run.info.get("provenance") or {}).get("device_name"):
        device += f": {title}"
    names = [arm for arm in run.baselines if run.generated[arm]]
    pooled = (" and ".join(names) or "not run") + (" pooled" if len(names) > 1 else "")
    kind = run.setting("engine", "kind", default="?")
    if run.served:
        mode = "a server that ran already" if run.attached else "a server started for each arm"
    return f"plain decoding ({pooled}; {kind}, {dtype}, {mode}, {device})"


def workload(run: RunFile, bases: Sequence[Arm]) -> tuple[Measure, ...]:
    """What the prompts and the machine allow, before any result.

    prompt_to_output is prompt tokens per new token. prefill_share is time to first token over
    the whole time in the baseline, and e2e_speedup_limit = 1 / prefill_share is what a decode
    lever reaches with decoding at no cost. ceiling_tokens_per_s is measured bandwidth over the
    bytes that one target pass reads.
    """
    base: list[Generated] = [g for arm in bases for g in arm.values()]
    found = [Measure(name="prompts", unit="prompts", value=float(len(run.info["prompts"])), n=len(run.info["prompts"]))]
    if base:
        n = len({g.prompt for g in base})
        prefill = sum(g.ttft_s for g in base) / sum(g.e2e_s for g in base)
        ratio = sum(g.prompt_tokens for g in base) / sum(g.new_tokens for g in base)
        found += [
            Measure(name="prompt_to_output", unit="tokens/token", value=ratio, n=n, note="prompt tokens per new token"),
            Measure(
                name="prefill_share", unit="share", value=prefill, n=n, note="of e2e_s in the baseline, no decode lever"
            ),
            Measure(
                name="e2e_speedup_limit",
                unit="ratio",
                value=1 / prefill if prefill > 0 else None,
                n=n,
                note="1 / prefill_share: decoding at no cost",
            ),
        ]
    target, bandwidth = _target(run), _bandwidth(run)
    if bandwidth is not None:
        n = sum(machine.bandwidth_bytes_per_s > 0 for machine in run.of(Machine))
        found.append(
            Measure(name="bandwidth_bytes_per_s", unit="bytes/s", value=bandwidth, n=n, note="measured; n = workers")
        )
        for tail, pick in (("min", min), ("max", max)):
            ends = [getattr(machine, f"bandwidth_{tail}_bytes_per_s") for machine in run.of(Machine)]
            if None not in ends:
                found.append(
                    Measure(
                        name=f"bandwidth_bytes_per_s.{tail}",
                        unit="bytes/s",
                        value=pick(ends),
                        n=n,
                        note="of all tries; n = workers",
                    )
                )
        if target is not None and target.bytes_per_token > 0:
            found += [
                Measure(name="bytes_per_token", unit="bytes", value=float(target.bytes_per_token), n=1),
                Measure(
                    name="ceiling_tokens_per_s",
                    unit="tokens/s",
                    value=bandwidth / target.bytes_per_token,
                    n=n,
                    note="bandwidth / bytes a target pass reads, at one token a pass",
                ),
            ]
    drifted = drift(run)
    return (*found, drifted) if drifted is not None else tuple(found)


def ceilings(run: RunFile, arm: str, measures: Mapping[str, Measure]) -> tuple[Measure, ...]:
    """ceiling_share: target passes a second over what bandwidth allows for the arm's own target.

    A pass of several rows reads the weights once, so passes are what the ceiling bounds; for
    plain decoding passes are tokens. A draft's own bytes are not counted.
    """
    target, bandwidth = loaded(run, arm), _bandwidth(run)
    rate, tokens = measures.get("decode_tokens_per_s"), measures.get("tokens_per_step")
    if target is None or bandwidth is None or target.bytes_per_token <= 0:
        return ()
    if rate is None or tokens is None or not rate.value or not tokens.value:
        return ()
    value = rate.value / tokens.value * target.bytes_per_token / bandwidth
    note = "target passes a second over bandwidth / bytes_per_token"
    return (Measure(name="ceiling_share", unit="share", value=value, n=rate.n, note=note),)


def drift(run: RunFile) -> Measure | None:
    """(max - min) / median of the canary's tpot_s over the whole run; None without two readings.

    Where arms ran in blocks, the largest of the arms that decoded it: each is held against itself.
    """
    by_arm: dict[str, list[float]] = {}
    for canary in run.of(Canary):
        by_arm.setdefault(canary.arm, []).append(canary.tpot_s)
    read = [times for times in by_arm.values() if len(times) >= 2 and statistics.median(times) > 0]
    if not read:
        return None
    value = max((max(times) - min(times)) / statistics.median(times) for times in read)
    return Measure(name="canary_drift", unit="share", value=value, n=sum(map(len, read)), note="n = canary readings")


def drift_limit(run: RunFile) -> float:
    """How far the canary may drift, as a share of its median."""
    return float(run.setting("canary", "drift_limit", default=DRIFT_LIMIT))


def drift_beyond_limit(run: RunFile) -> float | None:
    """The drift of the canary where it is beyond its limit; else None."""
    drifted = drift(run)
    return drifted.value if drifted is not None and (drifted.value or 0.0) > drift_limit(run) else None


def of_arm(run: RunFile, arm: str) -> tuple[Measure, ...]:
    """Peak memory of an arm in a process of its own, when it was measured."""
    peaks = [record for record in run.of(Memory) if record.arm == arm]
    if not peaks:
        return ()
    peak = max(peaks, key=lambda record: record.peak_bytes)
    note = f"{peak.source} peak less imports, a fresh process; n = processes"
    if peak.source == "server":
        note = "resident peak of all processes of a fresh server, its program too; n = servers"
    return (Measure(name="peak_bytes", unit="bytes", value=float(peak.peak_bytes), n=len(peaks), note=note),)


def failed(run: RunFile, arm: str) -> list[Failed]:
    """Samples of an arm that raised and have no answer since; an audit that raised is no sample."""
    found = {
        (record.process, record.prompt, record.repeat): record
        for record in run.of(Failed)
        if record.arm == arm and not record.of_audit
    }
    return [record for turn, record in found.items() if turn not in run.generated.get(arm, {})]


def shortfall(run: RunFile, arm: str) -> str | None:
    """How many samples of an arm failed, or are missing from a complete run, None for none; the notes hold why."""
    broke, asked = failed(run, arm), len(run.info["prompts"])
    asked *= int(run.setting("workload", "repeats", default=1)) * int(run.setting("workload", "processes", default=1))
    lacking = 0 if run.missing else max(asked - len(run.generated.get(arm, {})) - len(broke), 0)
    found = []
    if broke:
        found.append(f"{len(broke)} of {asked} samples failed, first on prompt {broke[0].prompt} with {broke[0].error}")
    if lacking:
        found.append(f"{lacking} of {asked} samples {'were not run' if broke else 'are not in the records'}")
    return "; ".join(found) or None


def flags(run: RunFile) -> list[str]:
    """What must be read before any number: smoke, unfinished, torn, dead workers, drift, doubled records."""
    found = []
    if run.setting("smoke", default=False):
        found.append(
            f"SMOKE RUN: {counted(len(run.info['prompts']), 'prompt')}, one turn. It shows that all works; "
            "its numbers are no findings"
        )
    if run.missing:
        found.append(f"UNFINISHED: {'; '.join(run.missing)}. To go on type: specq run --resume {run.folder}")
    found += [f"{name} ends in a torn line: {size} bytes were left out" for name, size in run.torn.items()]
    found += [
        f"a worker died (process {died.process}, {died.task}, exit {died.exit_code}): {died.message}"
        for died in run.of(WorkerDied)
    ]
    beyond = drift_beyond_limit(run)
    if beyond is not None:
        found.append(
            f"the machine drifted: the canary's time moved by {share(beyond)}, limit {share(drift_limit(run))}; "
            "run again on a quiet machine before you rely on a speed"
        )
    doubled = len(run.of(Generated)) - sum(map(len, run.generated.values()))
    if doubled:
        found.append(f"{doubled} generations are recorded twice; the first of each counts")
    return found


def notes(run: RunFile) -> tuple[str, ...]:
    """Notes of run.json, of the models and of the workers, each once; then each kind of failure."""
    listed = [str(note) for key in ("model_notes", "notes") for note in run.info.get(key) or ()]
    for model in run.of(LoadedModel):
        if new := [note for note in model.notes if note not in listed]:
            listed.append(f"{model.name}: {'; '.join(new)}")
    listed += [note.text for note in run.of(Note)]
    kinds: dict[tuple[str, str], list[Failed]] = {}
    for record in run.of(Failed):
        kinds.setdefault((record.arm, record.error), []).append(record)
    for (arm, error), group in kinds.items():
        listed.append(f"{arm} failed {len(group)} times with {error}, first on {group[0].prompt}: {group[0].message}")
    told = run.setting("workload", "lengths", default=None)
    if told == "equal":
        listed.append("lengths are equal: every stop was ignored, so speeds compare and texts run past their end")
    target, bandwidth = _target(run), _bandwidth(run)
    if target is not None and bandwidth is not None:
        listed.append(
            f"target {target.name}: {number(target.parameters / 1e6)} M parameters, {target.dtype}, "
            f"{number(target.bytes_per_token / 1e6)} MB a token; bandwidth {number(bandwidth / 1e9)} GB/s"
        )
    return tuple(dict.fromkeys(listed))


def _target(run: RunFile) -> LoadedModel | None:
    return next((model for model in run.of(LoadedModel) if model.role == "target"), None)


def _bandwidth(run: RunFile) -> float | None:
    known = [machine.bandwidth_bytes_per_s for machine in run.of(Machine)]
    known = [value for value in known if value > 0 and math.isfinite(value)]
    return statistics.median(known) if known else None
