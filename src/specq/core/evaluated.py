"""What evals recorded: one line an answer with its score, and what it took."""

from __future__ import annotations

from dataclasses import dataclass

# The arm that stands for the baseline with perturbed weights.
PROBE = "probe#1"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalAnswer:
    """One item of an eval on one arm.

    `score` is None where no score could be made; `why` says in a few words why an answer is not right. `answer` is
    the generated text up to its stop, or the text of the likeliest choice; `logprobs` are those of the texts that
    were scored, in their order, None where one is not finite; `logprob_tokens` counts the tokens of each.
    `batch_size` prompts were decoded at a time. `finish` is "scored" where nothing was generated, "failed" where the
    arm raised.
    """

    arm: str
    eval: str
    item: str
    batch_size: int
    score: float | None
    why: str
    answer: str
    logprobs: tuple[float | None, ...]
    logprob_tokens: tuple[int, ...]
    prompt_tokens: int
    prompt_sha256: str
    new_tokens: int
    finish: str
    output_sha256: str
    repeated_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalChunk:
    """A stretch of an eval's items that one arm answered together, in `seconds`; loading is not in them."""

    arm: str
    eval: str
    chunk: int
    items: int
    new_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalProof:
    """An arm with a draft against its target without one, in float32: how many of `items` answers are the same ids.

    `first_difference` names the first that is not, as eval/item; `message` says what broke where nothing came out.
    """

    arm: str
    items: int
    equal: int
    first_difference: str
    message: str

    @property
    def holds(self) -> bool:
        """Whether all of them were the same."""
        return self.items > 0 and self.equal == self.items
