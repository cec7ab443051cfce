"""Reports with evals for tests of the page, and what a parser finds in a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

from specq.report.assemble import Report
from specq.report.evals import ArmQuality, EvalReport, Flip, Slice
from specq.report.measures import Measure
from specq.stats.scores import Paired, difference, rate

VOID = {"meta", "br", "link", "img", "input", "hr"}


def judged(
    arm: str, after: Sequence[float], *, margin: float | None = 0.05, flips: Sequence[Flip] = (), label: str = ""
) -> ArmQuality:
    """What an eval says of an arm that answered like this, where the baseline was right on every other item."""
    before = tuple(float(place % 2) for place in range(len(after)))
    clusters = tuple(map(str, range(len(after))))
    change = difference(Paired(before=before, after=tuple(after), clusters=clusters, binary=True))
    whole = Slice(tag=None, rate=rate(after, clusters, binary=True), change=change, margin=margin)
    return ArmQuality(
        arm=arm,
        label=label or arm,
        source=arm,
        how="by itself",
        slices=(whole,),
        flips=tuple(flips),
        broken=(),
        failed=0,
        cut=0,
        empty=0,
        looping=0,
        answers=len(after),
        seconds=1.0,
        faults=(),
        flags=(),
    )


def flip(item: str = "item-1", *, worse: bool = True, critical: bool = False, **texts: str) -> Flip:
    """A flip with these texts."""
    said = {"prompt": "What is 2 + 2?", "reference": "4", "before": "4", "after": "5", "why": "4 is not in it", **texts}
    scores = (1.0, 0.0) if worse else (0.0, 1.0)
    return Flip(item=item, critical=critical, score_before=scores[0], score_after=scores[1], **said)


def evaluated(
    name: str = "sums", arms: Sequence[ArmQuality] = (), *, items: int = 40, noise: bool = True
) -> EvalReport:
    """An eval on which those arms were held against the baseline."""
    scores = [float(place % 2) for place in range(items)]
    same = judged("baseline#2", scores, label="baseline#2")
    return EvalReport(
        name=name,
        metric="contains",
        output="text",
        binary=True,
        items=items,
        clusters=items,
        batch_size=8,
        baseline=rate(scores, [str(place) for place in range(items)], binary=True),
        tags={},
        arms=tuple(arms),
        noise=same if noise else None,
        noise_batch_size=4,
        probe=judged("probe#1", [0.0] * items, margin=0.05, label="probe"),
        probe_noise=0.2,
        flags=(),
        against_control=(),
    )


def with_evals(report: Report, *evals: EvalReport) -> Report:
    """A report with these evals, whose changes stand among each arm's measures."""
    arms = []
    for arm in report.arms:
        found = {
            f"quality_change.{one.name}": Measure(
                name=f"quality_change.{one.name}", unit="share", value=own.all.change.value
            )
            for one in evals
            if (own := one.arm(arm.id)) is not None and own.all is not None
        }
        arms.append(replace(arm, measures={**arm.measures, **found}))
    return replace(report, evals=evals, arms=tuple(arms))


@dataclass
class Page(HTMLParser):
    """What stands in a page: tags that are open, faults of its structure, attributes by tag, text."""

    html: str
    open: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    found: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.html)
        self.close()
        self.faults += [f"{tag} is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID and "svg" not in self.open:
            self.faults.append(f"{tag} closes itself")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"{tag} closes {self.open[-1] if self.open else 'nothing'}")
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.parts.append(data)

    @property
    def text(self) -> str:
        """All text that is shown, with single spaces."""
        return " ".join("".join(self.parts).split())

    def all(self, tag: str) -> list[Mapping[str, str]]:
        """The attributes of every such tag."""
        return [attributes for name, attributes in self.found if name == tag]

    def values(self, key: str) -> list[str]:
        """Every value of an attribute."""
        return [attributes[key] for _, attributes in self.found if key in attributes]
