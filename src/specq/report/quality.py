"""Reads the evals of a run: which answers belong to which arm, and how they compare with the baseline's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specq.core.evaluated import PROBE, EvalAnswer, EvalChunk, EvalProof
from specq.experiment.quality import split
from specq.report import guards
from specq.report.controls import controls
from specq.report.evals import ArmQuality, EvalReport, Flip, Slice
from specq.report.runfile import RunFile
from specq.stats.scores import Paired, Rate, difference, rate

Scores = Mapping[str, float]


def evals(run: RunFile) -> tuple[EvalReport, ...]:
    """Every eval of the run, in the order of its experiment."""
    return tuple(_Eval(run, name, one).report() for name, one in (run.info.get("evals") or {}).items())


def lossless(run: RunFile, reports: Sequence[EvalReport]) -> list[str]:
    """The arms that were proved to give the baseline's own answers: in every eval their scores are the baseline's."""
    arms = {one.arm for report in reports for one in report.arms}
    return [
        arm
        for arm in arms
        if all((found := report.arm(arm)) is not None and found.source == run.baselines[0] for report in reports)
    ]


@dataclass(frozen=True)
class _Eval:
    """One eval of a run as its records tell it."""

    run: RunFile
    name: str
    one: Mapping[str, Any]
    items: dict[str, Mapping[str, Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.items.update({str(item["id"]): item for item in self.one["items"]})

    @cached_property
    def answers(self) -> dict[str, dict[str, EvalAnswer]]:
        """Per arm, its answers by item; the first record counts."""
        found: dict[str, dict[str, EvalAnswer]] = {}
        for record in self.run.of(EvalAnswer):
            if record.eval == self.name and record.item in self.items:
                found.setdefault(record.arm, {}).setdefault(record.item, record)
        return found

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """Per arm, the scores of its answers by item; items without one are not in it."""
        return {
            arm: {item: float(r.score) for item, r in own.items() if r.score is not None}
            for arm, own in self.answers.items()
        }

    @property
    def first(self) -> str:
        """The id of the baseline."""
        return self.run.baselines[0]

    def report(self) -> EvalReport:
        """Everything about this eval."""
        base, scores = self.answers.get(self.first, {}), self.scores.get(self.first, {})
        twin = next((arm for arm in self.run.baselines[1:] if arm in self.answers), None)
        arms = [
            self._arm(str(arm["id"]), self._source(str(arm["id"])))
            for arm in self.run.info["arms"]
            if str(arm["id"]) not in self.run.baselines
        ]
        noise = self._arm(twin, (twin, "at another batch size")) if twin is not None else None
        probe = self._arm(PROBE, (PROBE, "perturbed")) if PROBE in self.answers else None
        return EvalReport(
            name=self.name,
            metric=str(self.one["metric"]),
            output=str(self.one["output"]),
            binary=bool(self.one["binary"]),
            items=len(self.items),
            clusters=len({item["cluster"] for item in self.items.values()}),
            batch_size=int(self.one["batch_size"]),
            baseline=self._rate(scores, list(self.items)),
            tags={tag: found for tag, ids in self._tags.items() if (found := self._rate(scores, ids)) is not None},
            arms=tuple(arms),
            noise=noise,
            noise_batch_size=self.one["twin_batch_size"],
            probe=probe,
            probe_noise=float(self.one["probe"]),
            flags=(
                *guards.eval_flags(self.name, self.one, base),
                *guards.degenerate(self.name, self.one, base, self._answered_by()),
            ),
            margins=self._margins,
            against_control=tuple(self._controls()),
            own=self._arm(self.first, (self.first, "its own answers")) if base else None,
            unmeasured=guards.unmeasured(self.run, self.one, noise, probe),
            critical=len(self._critical),
            can_break=sum(_full(scores, ident) for ident in self._critical),
        )

    def _answered_by(self) -> dict[str, dict[str, EvalAnswer]]:
        """The answers of each arm beside the baseline that has its own, by its label."""
        others = [str(arm["id"]) for arm in self.run.info["arms"] if str(arm["id"]) not in self.run.baselines]
        return {self._label(arm): self.answers[arm] for arm in others if arm in self.answers}

    def _source(self, arm: str) -> tuple[str, str]:
        """Whose answers an arm's scores come from, and how that is said; "" where it has none."""
        if arm in self.answers:
            return arm, "its own loop" if self._held(arm) else "its own answers"
        if not self._held(arm) or self.run.lossy(arm):
            return "", "not evaluated"
        plain = self.run.plain(arm)
        if self.one["output"] != "text":
            what = "a draft" if self._drafts(arm) else "how requests are answered"
            return plain, f"as {self._label(plain)}: {what} has no part in scoring"
        proof = next((r for r in self.run.of(EvalProof) if r.arm == arm), None)
        if proof is None or not proof.holds:
            return "", "not evaluated"
        return plain, f"as {self._label(plain)}: the same ids on {proof.items} of {proof.items} items in float32"

    def _unseen(self, arm: str) -> str:
        """Why this eval cannot see what an arm does to the outputs, "" where it can."""
        if arm == PROBE or self.one["output"] == "text" or not (lossy := self.run.lossy(arm)):
            return ""
        return f"it scores texts and generates none, so it does not see the {lossy}"

    def _held(self, arm: str) -> bool:
        """Whether an arm must have the outputs of another one: it drafts, keeps prefixes or answers in batches."""
        return arm not in self.run.baselines and self.run.plain(arm) != arm

    def _drafts(self, arm: str) -> bool:
        return any(str(one["id"]) == arm and one.get("draft") for one in self.run.info["arms"])

    def _label(self, arm: str) -> str:
        return self.run.labels.get(arm, arm)

    def _arm(self, arm: str, source: tuple[str, str]) -> ArmQuality:
        whose, how = source
        own, base = self.answers.get(whose, {}), self.answers.get(self.first, {})
        faults = tuple(guards.faults(self.run, self.name, self.one, arm, whose, own, base)) if own else ()
        scores, before = self.scores.get(whose, {}), self.scores.get(self.first, {})
        slices = [] if faults or not own else [s for s in self._slices(scores, before) if s is not None]
        flips = tuple(self._flips(own, base)) if not faults else ()
        seconds = [r.seconds for r in self.run.of(EvalChunk) if (r.arm, r.eval) == (arm, self.name)]
        return ArmQuality(
            arm=arm,
            label=self._label(arm),
            source=whose,
            how=how,
            unseen=self._unseen(arm),
            proved=whose == self.first != arm,
            slices=tuple(slices),
            flips=flips,
            broken=self._broken(whose) if not faults else (),
            unscored=sum(r.score is None and i in before for i, r in own.items()),
            failed=sum(r.score is None for r in own.values()),
            cut=sum(r.finish == "length" for r in own.values()),
            empty=guards.empty(own),
            looping=guards.looping(own),
            answers=len(own),
            seconds=sum(seconds) if seconds else None,
            faults=faults,
            flags=tuple(guards.arm_flags(self.run, arm, whose, own, base)) if own else (),
        )

    def _broken(self, arm: str) -> tuple[str, ...]:
        """Critical items on which the baseline has the full score and an arm's answer less, or none."""
        own, base = self.scores.get(arm, {}), self.scores.get(self.first, {})
        answered = self.answers.get(arm, {})
        return tuple(i for i in self._critical if i in answered and _full(base, i) and not _full(own, i))

    @cached_property
    def _critical(self) -> list[str]:
        return [ident for ident, item in self.items.items() if item["critical"]]

    @cached_property
    def _tags(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for ident, item in self.items.items():
            for tag in dict.fromkeys(item.get("tags", ())):
                found.setdefault(str(tag), []).append(ident)
        return found

    @cached_property
    def _margins(self) -> dict[str | None, float]:
        """The floor's margins by tag, None for all items."""
        asked = {split(key): margin for key, margin in self.run.setting("floor", "quality", default={}).items()}
        return {tag: float(margin) for (name, tag), margin in asked.items() if name == self.name}

    def _slices(self, own: Scores, base: Scores) -> Iterable[Slice | None]:
        yield self._slice(None, list(self.items), own, base, self._margins.get(None))
        for tag, ids in self._tags.items():
            yield self._slice(tag, ids, own, base, self._margins.get(tag))

    def _slice(
        self,
        tag: str | None,
        ids: Sequence[str],
        own: Scores,
        base: Scores,
        margin: float | None,
    ) -> Slice | None:
        pairs, mine = self._paired(ids, own, base), self._rate(own, ids)
        if not len(pairs.before) or mine is None:
            return None
        return Slice(tag=tag, rate=mine, change=difference(pairs), margin=margin)

    def _paired(self, ids: Iterable[str], own: Scores, base: Scores) -> Paired:
        both = [i for i in ids if i in own and i in base]
        return Paired(
            before=tuple(base[i] for i in both),
            after=tuple(own[i] for i in both),
            clusters=tuple(self._cluster[i] for i in both),
            binary=bool(self.one["binary"]),
        )

    def _rate(self, own: Scores, ids: Iterable[str]) -> Rate | None:
        there = [i for i in ids if i in own]
        if not there:
            return None
        clusters = [self._cluster[i] for i in there]
        return rate([own[i] for i in there], clusters, binary=bool(self.one["binary"]))

    @cached_property
    def _cluster(self) -> dict[str, str]:
        return {ident: str(item["cluster"]) for ident, item in self.items.items()}

    def _flips(self, own: Mapping[str, EvalAnswer], base: Mapping[str, EvalAnswer]) -> Iterable[Flip]:
        for ident, item in self.items.items():
            before, after = _scored(base, ident), _scored(own, ident)
            if before is None or after is None or before == after:
                continue
            given = item["given"]
            prompt = given.get("prompt") or str(given["messages"][-1]["content"])
            worse = own[ident] if after < before else base[ident]
            yield Flip(
                item=ident,
                critical=bool(item["critical"]),
                prompt=str(prompt),
                reference=_reference(given),
                before=base[ident].answer,
                after=own[ident].answer,
                score_before=before,
                score_after=after,
                why=worse.why,
            )

    def _controls(self) -> Iterable[str]:
        for arm, control, words in controls(self.run):
            own, other = self.scores.get(arm, {}), self.scores.get(control, {})
            pairs = self._paired(self.items, own, other)
            if len(pairs.before):
                yield words(difference(pairs), bool(self.one["binary"]))


def _scored(answers: Mapping[str, EvalAnswer], item: str) -> float | None:
    record = answers.get(item)
    return None if record is None else record.score


def _full(scores: Scores, item: str) -> bool:
    """Whether an item has the full score: 1 in every metric whose scores are shares."""
    return scores.get(item) == 1


def _reference(given: Mapping[str, Any]) -> str:
    reference, choices = given.get("reference"), given.get("choices")
    if choices and isinstance(reference, int):
        return str(choices[reference])
    if isinstance(reference, list) and all(isinstance(text, str) for text in reference):
        return " or ".join(reference)
    return (
        reference
        if isinstance(reference, str)
        else ""
        if reference is None
        else json.dumps(reference, ensure_ascii=False)
    )
