"""What audits found about an arm's answers: counts, gaps and sums, never a rate."""

from __future__ import annotations

from dataclasses import dataclass

from specq.core.errors import RunFolderError


@dataclass(frozen=True, slots=True, kw_only=True)
class GapNoise:
    """An arm without a draft against itself: its own text in one-row and in block passes.

    `arm` is the baseline, or the plain arm of a changed target that others draft for. `moves` are
    absolute changes of the gap between the two best logits; `ties` counts the positions whose argmax
    changed.
    """

    prompt: str
    rows: int
    positions: int
    ties: int
    moves: tuple[float, ...]
    arm: str = "baseline#1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """An arm's own text scored on its plain target's path (the baseline's, most often) at temperature 0.

    `gaps` lists, for each position where that target would have said another token, the
    position and how far the arm's token lies below the target's own, in logits.
    """

    arm: str
    prompt: str
    positions: int
    first_difference: int | None
    gaps: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """An arm's own text scored above temperature 0.

    Sums over positions of -log p(y) - H(p) and of its variance; the steps taken, and their
    mean and variance given the text from the accepted-length law (None under a lossy rule, which has
    no such law). `outside` counts tokens that
    truncation (top-k, top-p, min-p) leaves no probability when the text is scored; they are in no
    sum. Rounding puts some there at the edge of what is kept, and a wrong cache many.
    """

    arm: str
    prompt: str
    repeat: int
    positions: int
    outside: int
    surprise: float
    surprise_variance: float
    steps: int
    steps_mean: float | None
    steps_variance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Counts of one early token over repeated seeds against its exact law at a fixed prompt.

    `cells` are the most likely tokens, the rest pooled last (id -1); `expected` are their
    exact probabilities under the target. `proposed` counts the draws in which the draft proposed
    something (None: not recorded); the others test plain sampling.
    """

    arm: str
    prompt: str
    draws: int
    cells: tuple[int, ...]
    counts: tuple[int, ...]
    expected: tuple[float, ...]
    proposed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A changed target against the baseline's, both read along the baseline's answer to a prompt.

    `kl_sum` and `kl_worst` are in nats, of the baseline's next-token law against the arm's, before any
    warping; `agreed` counts the positions where both name the same likeliest token, `differ` lists the
    others. `kl` has the nats of each position, to four significant digits; `base_logprobs` and `logprobs`
    the log-probability of the text's own token under the baseline and under the arm, to six. Position t
    is read after `prompt_tokens` + t tokens. None where an older version kept the sums alone.
    """

    arm: str
    prompt: str
    positions: int
    kl_sum: float
    kl_worst: float
    agreed: int
    prompt_tokens: int | None = None
    kl: tuple[float, ...] | None = None
    base_logprobs: tuple[float, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    differ: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        kept = (self.prompt_tokens, self.kl, self.base_logprobs, self.logprobs, self.differ)
        if all(one is None for one in kept):
            return
        sizes = [len(each or ()) for each in (self.kl, self.base_logprobs, self.logprobs)]
        sizes.append(self.agreed + len(self.differ or ()))
        if any(one is None for one in kept) or any(size != self.positions for size in sizes):
            raise RunFolderError(
                f"Divergence of {self.arm} on {self.prompt} has {sizes[0]} kl, {sizes[1]} base_logprobs, {sizes[2]} "
                f"logprobs and {sizes[3]} agreed and differ: allowed are {self.positions} of each with prompt_tokens, "
                "as positions says, or none of them: put the line back as specq wrote it"
            )
