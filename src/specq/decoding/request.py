"""One request on its way: the tokens so far, where it ends, and its record of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specq.core.types import Finish, Generation, OnStep, Prompt, Rule, Sampling, Step
from specq.decoding import rules
from specq.decoding.drafters import Proposal
from specq.decoding.sampling import Streams, Warper, draw

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STOP_MARGIN = 8


@dataclass(slots=True)
class Request:
    """The mutable state of one request; the loops feed it logits and read what to do next."""

    prompt: Prompt
    sampling: Sampling
    eos_ids: tuple[int, ...]
    tokenizer: PreTrainedTokenizerBase
    rule: Rule
    threshold: float | None = None
    want_logprobs: bool = False
    on_step: OnStep | None = None
    ids: list[int] = field(init=False)
    warper: Warper = field(init=False)
    streams: Streams = field(init=False)
    finish: Finish | None = None
    ttft_s: float = 0.0
    e2e_s: float = 0.0
    steps: list[Step] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    cache_share: float | None = None
    cached_tokens: int | None = None
    batch: int | None = None
    batch_s: float | None = None

    def __post_init__(self) -> None:
        rules.check_threshold(self.rule, self.threshold)
        self.ids = list(self.prompt.ids)
        self.warper = Warper(self.sampling, prompt_tokens=len(self.ids), eos_ids=self.eos_ids)
        self.streams = Streams(self.sampling.seed)

    @property
    def new_ids(self) -> list[int]:
        """What was generated so far."""
        return self.ids[len(self.prompt.ids) :]

    def reach(self, k: int) -> int:
        """How many tokens a step may propose so that it cannot emit more than is left."""
        return min(k, self.sampling.max_new_tokens - (len(self.ids) - len(self.prompt.ids)) - 1)

    def take(self, proposal: Proposal, logits: Tensor) -> tuple[int, int]:
        """Verify a proposal of n tokens with the target's logits [n + 1, V] and emit what stands.

        An empty proposal is a plain draw: a plain step, or token 1 from the prefill.

        Returns:
            accepted and emitted; an end inside the block cuts both.
        """
        n = len(proposal.ids)
        text = [*self.ids, *proposal.ids]
        accepted, token = self._verify(proposal, text, logits)
        emitted = self._emit([*proposal.ids[:accepted], token])
        if self.want_logprobs:
            self._keep_logprobs(text, logits, len(text) - n, emitted)
        return min(accepted, emitted), emitted

    def _verify(self, proposal: Proposal, text: Sequence[int], logits: Tensor) -> tuple[int, int]:
        n = len(proposal.ids)
        if self.warper.greedy and self.threshold is not None:
            return self._verify_lossy(self.threshold, proposal, text, logits)
        if self.warper.greedy:
            best = self.warper.argmax(text, logits).cpu()
            found = rules.greedy(best[None], torch.tensor([proposal.ids], dtype=torch.long), torch.tensor([n]))
            return int(found.accepted), int(found.token)
        p = self.warper.probs(text, logits)
        if n == 0:
            u = torch.tensor([self.streams.token.random()], dtype=torch.float64)
            return 0, int(draw(p, u))
        result = rules.verify(
            self.rule,
            p[None],
            None if proposal.q is None else proposal.q[None].to(p.device),
            torch.tensor([proposal.ids], device=p.device),
            torch.tensor([n], device=p.device),
            torch.from_numpy(self.streams.accept.random((1, n + 1))).to(p.device),
            torch.from_numpy(self.streams.token.random(1)).to(p.device),
            self.threshold,
        )
        return int(result.accepted), int(result.token)

    def _verify_lossy(
        self, threshold: float, proposal: Proposal, text: Sequence[int], logits: Tensor
    ) -> tuple[int, int]:
        """As `_verify` at temperature 0 under lossy_threshold, on the law of penalised logits at temperature 1."""
        scores = self.warper.scores(text, logits)
        n, x = torch.tensor([len(proposal.ids)]), torch.tensor([proposal.ids], dtype=torch.long)
        p, best = scores.softmax(dim=-1).cpu(), scores.argmax(dim=-1).cpu()
        found = rules.lossy_threshold_greedy(p[None], best[None], x, n, threshold)
        return int(found.accepted), int(found.token)

    def _emit(self, tokens: Sequence[int]) -> int:
        """Append tokens until one of them ends the request; return how many were appended."""
        for count, token in enumerate(tokens, start=1):
            self.ids.append(token)
            if token in self.eos_ids and not self.sampling.ignore_eos:
                self.finish = "eos"
            elif self.sampling.stop and self._stopped():
                self.finish = "stop"
            elif len(self.ids) - len(self.prompt.ids) >= self.sampling.max_new_tokens:
                self.finish = "length"
            if self.finish is not None:
                return count
        return len(tokens)

    def _stopped(self) -> bool:
        # A stop string may straddle tokens, blocks and half a UTF-8 sequence. A token has a byte at least, so
        # this many of the last hold it, and a few more what a tokenizer trims at the start.
        most = max(len(stop.encode()) for stop in self.sampling.stop) + STOP_MARGIN
        text = str(self.tokenizer.decode(self.new_ids[-most:]))
        return any(stop in text for stop in self.sampling.stop)

    def _keep_logprobs(self, text: Sequence[int], logits: Tensor, at: int, emitted: int) -> None:
        if self.warper.greedy:
            logp = self.warper.scores(text, logits).log_softmax(dim=-1)
        else:
            logp = self.warper.probs(text, logits).log()
        for row in range(emitted):
            self.logprobs.append(float(logp[row, self.ids[at + row]]))

    def record(self, step: Step) -> None:
        """Keep a step and tell whoever listens."""
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)

    def generation(self) -> Generation:
        """The finished request as plain data."""
        assert self.finish is not None
        return Generation(
            prompt_id=self.prompt.id,
            ids=tuple(self.new_ids),
            text=str(self.tokenizer.decode(self.new_ids, skip_special_tokens=True)),
            finish=self.finish,
            ttft_s=self.ttft_s,
            e2e_s=self.e2e_s,
            steps=tuple(self.steps),
            logprobs=tuple(self.logprobs) if self.want_logprobs else None,
            cache_share=self.cache_share,
            cached_tokens=self.cached_tokens,
            batch=self.batch,
            batch_s=self.batch_s,
        )
