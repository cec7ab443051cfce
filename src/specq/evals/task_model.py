"""lm-eval's model interface for lm-eval's own tasks: texts are cut apart as lm-eval itself cuts them."""

from __future__ import annotations

from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from specq.core.types import Prompt
from specq.engines.base import Decoder, LoadedTarget
from specq.evals.adapter import Asked, EngineLM, place_name, place_of


class TaskLM(EngineLM):
    """One arm as a task of lm-eval sees it; numbers are those of lm-eval's own model on the same weights.

    `window` is how many tokens of a whole text one pass may take; None: all of them.
    """

    def __init__(
        self, target: LoadedTarget, decoder: Decoder, tokenizer: Any, *, batch_size: int, window: int | None
    ) -> None:
        super().__init__(target, decoder, tokenizer, batch_size=batch_size)
        self.window = window

    @property
    def prefix_token_id(self) -> int:
        """What stands before a text that nothing stands before: bos, or eos where there is none."""
        bos = self.tokenizer.bos_token_id
        return self.eot_token_id if bos is None else int(bos)

    def _with_context(self, context: str, continuation: str) -> tuple[str, str]:
        return context, continuation

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Ids of the context and of what follows. All blanks at the end of a context belong to what follows."""
        bare = context.rstrip()
        text = context[len(bare) :] + continuation
        if not bare:
            return [self.prefix_token_id], self._bare_ids(text)
        # A template writes its own special tokens.
        special = False if context in self.templated else None
        head, whole = (self.tok_encode(one, add_special_tokens=special) for one in (bare, bare + text))
        # Where both share a token nothing would be left to score.
        return head, whole[len(head) :] or self.tok_encode(text, add_special_tokens=False)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log-probability of whole texts, in windows that share no token; each token is scored once."""
        return [self._whole(request) for request in requests]

    def _whole(self, request: Instance) -> float:
        ids, first = self._bare_ids(request.args[0]), self.prefix_token_id
        prompt = Prompt(id=place_name(request), ids=(first,))
        self.asked[place_of(request)] = Asked(prompt=prompt, continuation_tokens=len(ids))
        windows = get_rolling_token_windows(ids, first, self.window or max(1, len(ids)), 1)
        pairs = map(make_disjoint_window, windows)
        return sum(float(scores.logprobs.sum()) for head, tail in pairs for scores in self.target.score(head, [tail]))

    def _bare_ids(self, text: str) -> list[int]:
        """Ids of a text that a bos stands before already, so that there are not two."""
        ids = self.tok_encode(text, add_special_tokens=False)
        return ids[1:] if ids[:1] == [self.prefix_token_id] and len(ids) > 1 else ids
