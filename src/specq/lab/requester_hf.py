"""Requests to the reference engine, with one slot that really keeps its key-value cache from request to request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specq.core.clock import now
from specq.core.errors import Unsupported
from specq.core.types import Prompt, Sampling
from specq.lab.requester import Answer

if TYPE_CHECKING:
    from specq.decoding.prefix import Slot
    from specq.engines.hf import HFTarget


class HFRequester:
    """A loaded target as a requester.

    A cached request reuses what its slot holds, as decoding.prefix says. Other requests leave the slot alone and run on
    a cache of their own, as decoding does. Models with a recurrent state have no slot: Unsupported.
    """

    kind = "hf"
    slots: int | None = None

    def __init__(self, target: HFTarget, name: str) -> None:
        self.name, self._target = name, target
        self._decoder = target.decoder(None)
        self._slot: Slot | None = None

    def prompt(self, id: str, text: str, *, special: bool = True, messages: Sequence[Mapping[str, str]] = ()) -> Prompt:
        """The text with its ids, special tokens around it as the tokenizer puts them, or none."""
        ids = self._target.tokenizer(text, add_special_tokens=special)["input_ids"]
        return Prompt(id=id, ids=tuple(ids), text=text)

    def ask(self, prompt: Prompt, max_tokens: int, *, cached: bool = False, streamed: bool = True) -> Answer:
        """One request, stamped token by token; unstreamed, by the engine's own decoding loop."""
        sampling = Sampling(max_new_tokens=max_tokens, ignore_eos=True)
        if streamed:
            return self._stamped(prompt, sampling, cached=cached)
        sent_s = now()
        (done,) = self._decoder.generate([prompt], sampling)
        return Answer(
            sent_s=sent_s,
            ttft_s=None,
            e2e_s=done.e2e_s,
            prompt_tokens=len(prompt.ids),
            cached_tokens=0,
            output_tokens=len(done.ids),
        )

    def ask_together(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Answer]:
        """A batch, whose rows share every pass; a row's stamps are its first and its last token."""
        sent_s = now()
        sampling = Sampling(max_new_tokens=max_tokens, ignore_eos=True)
        found = self._decoder.generate(prompts, sampling, batch_size=len(prompts))
        return [
            Answer(
                sent_s=sent_s,
                ttft_s=one.ttft_s,
                e2e_s=one.e2e_s,
                stamps_s=(one.ttft_s, one.e2e_s),
                stamp_tokens=(1, len(one.ids) - 1),
                prompt_tokens=len(prompt.ids),
                cached_tokens=0,
                output_tokens=len(one.ids),
            )
            for prompt, one in zip(prompts, found, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """The engine's own description of the model."""
        return self._target.describe()

    def _stamped(self, prompt: Prompt, sampling: Sampling, *, cached: bool) -> Answer:
        import torch

        from specq.decoding import loop

        request = self._decoder.request(prompt, sampling)
        sync = self._target.sync or (lambda: None)
        with torch.inference_mode():
            slot = self._kept() if cached else None
            session, reused = (self._decoder.session, 0) if slot is None else (slot.session, slot.ready(prompt.ids))
            sync()
            sent_s = now()
            if slot is None:
                session.restart()
            logits = session.forward(request.ids[reused:], last_only=True)
            request.take(loop.NOTHING, logits)
            sync()
            stamps = [now() - sent_s]
            while request.finish is None:
                loop.step(request, session, None, 0)
                sync()
                stamps.append(now() - sent_s)
        if slot is not None:
            slot.keep(request.ids)
        return Answer(
            sent_s=sent_s,
            ttft_s=stamps[0],
            e2e_s=stamps[-1],
            stamps_s=tuple(stamps),
            stamp_tokens=(1,) * len(stamps),
            prompt_tokens=len(prompt.ids),
            cached_tokens=reused,
            output_tokens=len(stamps),
        )

    def _kept(self) -> Slot:
        """The slot, made when it is first asked for."""
        from specq.decoding.prefix import Slot
        from specq.decoding.probe import keeps_prefixes

        if self._slot is None:
            if not keeps_prefixes(self._target.resolved.folder):
                raise Unsupported(f"{self.name} keeps a recurrent state, which cannot be taken back to a shared prefix")
            self._slot = Slot(self._target.session("everything"))
        return self._slot
