"""What makes a comparison of scores void, and what is to be read with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specq.core.evaluated import PROBE, EvalAnswer
from specq.core.nouns import counted
from specq.core.records import EvalProof, LoadedModel
from specq.quantize.recipes import SELF
from specq.report import controls
from specq.report.evals import ArmQuality, EvalReport
from specq.report.runfile import RunFile
from specq.report.words import moved

# From this share of repeated 4-grams on an answer counts as one that loops.
LOOPS = 0.5
# Fewer answers may all be the same by chance.
ALIKE_FROM = 5
NOISE, PROBED, OVERLAP = "noise floor", "sensitivity probe", "calibration overlap"
Answers = Mapping[str, EvalAnswer]
Guards = dict[str, str]


def flags(reports: Sequence[EvalReport]) -> list[str]:
    """What must be read before any score."""
    found: list[str] = []
    for report in reports:
        found += report.flags
        noise = report.noise.all.change if report.noise is not None and report.noise.all is not None else None
        if noise is not None and not noise.low <= 0 <= noise.high:
            found.append(
                f"{report.name}: the baseline differs from itself at batch size {report.noise_batch_size}: "
                f"{moved(noise.value, noise.low, noise.high, report.binary)}"
            )
        if report.caught is False:
            found.append(
                f"{report.name}: it did not notice weights perturbed by {100 * report.probe_noise:.0f} %, so that no "
                "loss is found says little"
            )
        found += _once(report)
    return found


def _once(report: EvalReport) -> Iterator[str]:
    """What is said of the arms of an eval, of its noise floor and of its probe: each thing once, with all it is of."""
    found: dict[str, list[str]] = {}
    named = [("the baseline", report.own), *((one.label, one) for one in report.arms)]
    for who, one in named:
        # What an arm takes over is told of the arm that it comes from.
        for flag in one.flags if one is not None and one.source in ("", one.arm) else ():
            found.setdefault(flag, []).append(who)
    of_arms = set(found)
    for twin, what in ((report.noise, "the noise floor"), (report.probe, "the probe")):
        for flag in () if twin is None else (*twin.faults, *(twin.flags if twin.all is None else ())):
            found.setdefault(flag, []).append(what)
    for flag, whose in found.items():
        listed, says = ", ".join(whose), "says" if len(whose) == 1 else "say"
        yield f"{listed} {f'on {report.name}' if flag in of_arms else f'of {report.name} {says} nothing'}: {flag}"


def faults(
    run: RunFile, name: str, one: Mapping[str, Any], arm: str, whose: str, own: Answers, base: Answers
) -> Iterator[str]:
    """What makes an arm's comparison with the baseline void, whatever it says.

    `one` is the eval `name` as run.json has it, `whose` the arm that made the answers `own`.
    """
    items = {str(item["id"]): item for item in one["items"]}
    asked = [r for r in own.values() if r.finish != "failed"]
    reading = run.reading(whose).get("evals", {}).get(name) if whose != PROBE else None
    # The prompts of a task of lm-eval are known from what the baseline was asked, where both read it alike.
    wanted_ids = {
        # "" where the baseline itself failed: then there is nothing to hold against.
        i: str(item["prompt_sha256"]) or (base[i].prompt_sha256 if i in base else "")
        for i, item in items.items()
    }
    if reading is not None:
        wanted_ids = {i: str((reading.get(i) or {}).get("prompt_sha256") or "") for i in items}
    if other := [r.item for r in asked if wanted_ids[r.item] and r.prompt_sha256 != wanted_ids[r.item]]:
        those = "those that its own model was to read" if reading is not None else "the baseline's"
        yield f"{name}: {counted(len(other), 'prompt is', 'prompts are')} not {those}, token by token, first {other[0]}"
    if not run.missing and len(own) < len(items):
        lacking = [i for i in items if i not in own]
        yield f"{name}: {len(lacking)} of {len(items)} items have no answer, first {lacking[0]}"
    wanted = one["twin_batch_size"] if whose in run.baselines[1:] else one["batch_size"]
    if sizes := sorted({r.batch_size for r in own.values()} - {wanted}):
        yield f"{name}: answered {sizes[0]} prompts at a time, the baseline {wanted}: rounding differs"
    yield from _on_its_own_weights(run, name, one, arm, whose, own, base)


def _on_its_own_weights(
    run: RunFile, name: str, one: Mapping[str, Any], arm: str, whose: str, own: Answers, base: Answers
) -> Iterator[str]:
    """Whether an arm on other weights gives the baseline's log-probabilities, or loaded the baseline's file."""
    if arm != PROBE and not run.other_weights(whose):
        return
    both = [i for i in own if i in base and own[i].logprobs]
    if one["output"] != "text" and both and all(own[i].logprobs == base[i].logprobs for i in both):
        yield (
            f"{name}: every log-probability is the baseline's to the last bit: it ran on the baseline's weights, not "
            "on its own"
        )
    loaded = {model.arms: model.sha256 for model in run.of(LoadedModel) if model.role == "eval"}
    mine, theirs = loaded.get((whose,)), loaded.get((run.baselines[0],))
    if mine is not None and mine == theirs:
        yield f"{name}: it was evaluated on the baseline's weights (sha256 {mine[:12]}), not on its own"


def arm_flags(run: RunFile, arm: str, whose: str, own: Answers, base: Answers) -> Iterator[str]:
    """What is to be read with an arm's scores."""
    proof = next((r for r in run.of(EvalProof) if r.arm == arm and not r.holds), None)
    if proof is not None:
        why = proof.message or f"first other on {proof.first_difference}, where an exact rule gives all of them"
        yield f"{proof.equal} of {proof.items} answers have its target's ids in float32 ({why})"
    if failed := [r for r in own.values() if r.score is None]:
        yield f"{len(failed)} of {len(own)} items have no score, first {failed[0].item}: {failed[0].why}"
    changed = arm == PROBE or run.target(whose) is not None
    generated = [i for i, r in own.items() if r.new_tokens and i in base]
    if changed and generated and all(own[i].output_sha256 == base[i].output_sha256 for i in generated):
        yield f"all {len(generated)} answers are the baseline's, token by token, though its target is another one"
    for what, count, before in (
        ("are empty", empty(own), empty(base)),
        ("repeat themselves", looping(own), looping(base)),
    ):
        # Of most answers `degenerate` tells, of all arms together.
        if count > before and not _most(count, len(own)):
            yield f"{count} of {len(own)} answers {what}; of the baseline's {before} do"


def unmeasured(run: RunFile, one: Mapping[str, Any], noise: ArmQuality | None, probe: ArmQuality | None) -> Guards:
    """Guards of an eval, `one` as run.json has it, that were not measured, each with why; empty where all were."""
    found: dict[str, str] = {}
    if one["output"] != "text":
        found[NOISE] = "texts are scored prompt by prompt in every arm, so there is no batch to change"
    elif one["twin_batch_size"] is None:
        engine = run.setting("engine", "kind", default="")
        why = one.get("one_by_one") or f"the engine {engine} answers one prompt at a time"
        found[NOISE] = f"{why}, so there is no other batch size to compare"
    elif why := _says_nothing(noise):
        found[NOISE] = why
    if not float(one["probe"]):
        found[PROBED] = one.get("unprobed") or (
            "a smoke run makes none" if run.setting("smoke", default=False) else "probe = 0 in its table"
        )
    elif len(run.info["arms"]) <= len(run.baselines):
        found[PROBED] = "no arm stands beside the baseline"
    elif why := _says_nothing(probe):
        found[PROBED] = why
    if "overlap" not in one:
        found[OVERLAP] = "run.json does not say"
        return found
    for arm in run.info["arms"]:
        name, target = str(arm["id"]), run.target(str(arm["id"])) or {}
        if target.get("source"):
            found[f"{OVERLAP} of {run.labels[name]}"] = "what another model was trained on is not known"
        elif target.get("model"):
            found[f"{OVERLAP} of {run.labels[name]}"] = "what its weights were calibrated on, if anything, is not known"
        elif (controls.recipe(run, name) or {}).get("calibration") == SELF:
            found[f"{OVERLAP} of {run.labels[name]}"] = "it was calibrated on texts that the model wrote itself"
    return found


def _says_nothing(twin: ArmQuality | None) -> str:
    if twin is None or not twin.answers:
        return "it has no answers"
    if twin.all is not None:
        return ""
    return next(iter((*twin.faults, *twin.flags)), "no item has a score in both")


def eval_flags(name: str, one: Mapping[str, Any], base: Answers) -> Iterator[str]:
    """What is to be read with all scores of an eval."""
    if not base:
        yield f"{name}: the baseline has no answers"
    scores = [r.score for r in base.values() if r.score is not None]
    if one["binary"] and scores and not any(scores):
        yield f"{name}: the baseline has none of {counted(len(scores), 'item')} right, so that no loss can show there"
    yield from _unprotected(name, one, base)
    for recipe, items in (one.get("overlap") or {}).items():
        yield (
            f"{name}: {len(items)} of {len(one['items'])} items share text with what {recipe} was calibrated on, "
            f"first {items[0]}: its scores there are no evidence"
        )
    for recipe, count in (one.get("overlap_left_out") or {}).items():
        yield (
            f"{name}: {count} runs of words that most items share stand in what {recipe} was calibrated on; they tell "
            "nothing about an item and are left out of the look for overlaps"
        )


def _unprotected(name: str, one: Mapping[str, Any], base: Answers) -> Iterator[str]:
    """Critical items that no arm can break, for the baseline has not got their full score itself."""
    answered = [str(item["id"]) for item in one["items"] if item["critical"] and str(item["id"]) in base]
    bare = [ident for ident in answered if base[ident].score != 1]
    if not bare:
        return
    if not all(0 <= r.score <= 1 for r in base.values() if r.score is not None):
        why = f"the metric {one['metric']} has no full score of 1 to fall from; give them a tag, and a margin on it"
    else:
        them = "it" if len(bare) == 1 else "them"
        why = (
            f"the baseline has {them} wrong" if one["binary"] else f"the baseline has not the full score (1) on {them}"
        )
        if lost := sum(base[ident].score is None for ident in bare):
            why += f", or no score there ({lost})"
    protect = "protects" if len(bare) == 1 else "protect"
    many = counted(len(answered), "critical item")
    yield f"{name}: {len(bare)} of {many} {protect} nothing: {why}; first {bare[0]}"


def degenerate(name: str, one: Mapping[str, Any], base: Answers, arms: Mapping[str, Answers]) -> Iterator[str]:
    """What is to be read where most generated answers of the baseline, or of an arm by its label, are none."""
    told = {who: said for who, own in (("the baseline", base), *arms.items()) if (said := _degenerate(one, own))}
    why = "the baseline's are answers, so that is what the lever does"
    if "the baseline" in told:
        why = "their scores say little of quality on your task: look at the prompts, the stop texts and max_new_tokens"
    for what in dict.fromkeys(what for what, _ in told.values()):
        who = ", ".join(f"{who} ({count})" for who, (same, count) in told.items() if same == what)
        yield f"{name}: most answers {what}: {who}; {why}"


def _degenerate(one: Mapping[str, Any], own: Answers) -> tuple[str, str] | None:
    """What most answers are instead of answers, and how many of how many; None where most are answers."""
    made = [r for r in own.values() if r.finish not in ("scored", "failed")]
    nothing = [r for r in made if not r.answer.strip()]
    loops = [r for r in made if r.answer.strip() and r.repeated_share >= LOOPS]
    for what, which in (
        ("are empty", nothing),
        ("repeat themselves", loops),
        ("are empty or repeat themselves", [*nothing, *loops]),
    ):
        if _most(len(which), len(made)):
            return what, f"{len(which)} of {len(made)}"
    right = {json.dumps(item["given"].get("reference"), sort_keys=True) for item in one["items"]}
    if len(made) >= ALIKE_FROM and len(right) > 1 and len({r.answer.strip() for r in made}) == 1:
        return "are one and the same text, whatever is right", f"all {len(made)}"
    return None


def _most(count: int, of: int) -> bool:
    return 2 * count > of


def empty(answers: Answers) -> int:
    """How many generated answers hold nothing but blanks."""
    return sum(r.finish not in ("scored", "failed") and not r.answer.strip() for r in answers.values())


def looping(answers: Answers) -> int:
    """How many answers repeat themselves."""
    return sum(r.repeated_share >= LOOPS for r in answers.values())
