"""What the audit of one arm found, as data and in one clause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specq.report.first_tokens import FirstTokenTest

BASELINE = "the baseline"
Status = Literal["passed", "failed", "missing", "changed", "lossy", "differs", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the audit of one arm found; fields of the other temperature are None or empty.

    `kinds` maps a prompt to identical, tie or diverged, and, under a lossy rule, to lossy: other tokens stand
    there that its threshold allows. `rule_limit` is the largest gap in logits that it allows, `gap_limit` the
    largest that passes for a tie. `ties` and `positions` are the arm's, `noise_ties` and `noise_positions` the
    plain arm's against itself; `more_ties_p` compares them. `seen_above` is the share of faulty prompts that
    would have shown up in 95 of 100 audits of this size. `against` names the plain arm of a changed target whose
    outputs the arm must have; "" stands for the baseline, or for an arm that is such a plain arm itself.

    Of a server, which gives no logits, a text that is another one "differs", and so does its arm: neither a tie nor a
    divergence can be told, and `of_texts` says so. "unknown": nothing is known of how it verifies, whatever its texts
    are.
    """

    status: Status
    against: str = ""
    reasons: tuple[str, ...] = ()
    of_texts: bool = False
    prompts: int = 0
    positions: int = 0
    kinds: tuple[tuple[str, str], ...] = ()
    ties: int = 0
    noise_ties: int = 0
    noise_positions: int = 0
    gap_limit: float | None = None
    rule_limit: float | None = None
    largest_gap: float | None = None
    more_ties_p: float | None = None
    surprise_z: float | None = None
    steps_z: float | None = None
    first_tokens: tuple[FirstTokenTest, ...] = ()
    seen_above: float | None = None

    def count(self, kind: str) -> int:
        """Prompts that came out identical, tie, lossy or diverged."""
        return sum(found == kind for _, found in self.kinds)

    def sentence(self) -> str:
        """The outcome in one clause."""
        because = f" ({'; '.join(self.reasons)})" if self.reasons else ""
        against = f" against {self.against}" if self.against else ""
        if self.status == "failed":
            return f"the audit{against} failed: " + "; ".join(self.reasons)
        if self.status == "missing":
            return f"outputs were not audited{against}{because}"
        if self.status == "changed" and not self.against:
            return f"its target is changed, so its outputs are not held to the baseline's{because}"
        if self.status == "differs":
            because = "; ".join(self.reasons)
            return f"not called lossless{against}: {because}; a server gives no scores that could tell a rounding tie"
        if self.status == "unknown":
            return f"whether it keeps the target's law is unknown ({self._found()})"
        if self.status == "lossy":
            return f"its rule is lossy, and it kept to it ({self._kept()})"
        return (
            f"outputs are those of {self.against}: {self._found()}"
            if self.against
            else f"audit passed ({self._found()})"
        )

    def _kept(self) -> str:
        """What a lossy rule did to the outputs, and how far it went."""
        if not self.kinds:
            return "the text is made of tokens that the target allows; above temperature 0 its law is not tested"
        of = f" those of {self.against}" if self.against else " the baseline's"
        return (
            f"{self.count('identical')} of {len(self.kinds)} texts are{of}, no token lies more than "
            f"{self.largest_gap or 0:.3g} logits below the target's best, and the threshold allows "
            f"{self.rule_limit or 0:.3g} and what rounding moves"
        )

    def _found(self) -> str:
        if self.kinds:
            ties = self.count("tie")
            same = f"{self.count('identical')} of {len(self.kinds)} texts identical"
            differ = f", {ties} differ{'s' if ties == 1 else ''} from a rounding tie on" if ties else ""
            return f"{same}{differ}"
        z = (("surprise", self.surprise_z), ("steps", self.steps_z))
        parts = [f"{name} z = {value:+.1f}" for name, value in z if value is not None]
        if self.first_tokens:
            only = ""
            if all(test.plain_only for test in self.first_tokens):
                only = ", of plain sampling only, for the draft proposed nothing there"
            parts.append(f"first tokens within {max(test.tv_upper for test in self.first_tokens):.2f} of it{only}")
        return f"no departure from the target's law seen: {', '.join(parts)}"
