"""lm-eval's model interface over any of specq's engines: the same rendering, the same loop, the same counts.

lm-eval hands over texts. What was rendered here (a chat template, a bos) comes back with the ids it was rendered to,
so no text is tokenised twice in two ways and no bos is doubled. Nothing is truncated: a prompt that does not fit is
refused before the first answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM

from specq.core.errors import Unsupported
from specq.core.types import Generation, Prompt, Sampling
from specq.engines.base import Decoder, LoadedTarget
from specq.models.tokenizers import render

# lm-eval's own default where a task does not say how long an answer may be.
MAX_NEW_TOKENS = 256
# What lm-eval takes for the number of new tokens, the first that is given.
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
# Greedy answers are the same whatever these are.
_OF_SAMPLING = ("top_p", "top_k", "min_p")
Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as the model saw it: the prompt's ids and what it generated, or how many tokens were scored."""

    prompt: Prompt
    generation: Generation | None = None
    continuation_tokens: int = 0


class EngineLM(TemplateLM):
    """One arm as lm-eval sees it.

    `asked` maps (task, document, request) to what the model saw and said, `templated` a template's texts to their ids.
    """

    def __init__(self, target: LoadedTarget, decoder: Decoder, tokenizer: Any, *, batch_size: int = 8) -> None:
        super().__init__()
        self.target, self.decoder, self.tokenizer = target, decoder, tokenizer
        self.batch_size = batch_size
        self.asked: dict[Place, Asked] = {}
        self.templated: dict[str, tuple[int, ...]] = {}

    @property
    def eot_token_id(self) -> int:
        """The token that stands for the end of a text."""
        if self.tokenizer.eos_token_id is None:
            raise Unsupported("the tokenizer has no eos token: this task needs one")
        return int(self.tokenizer.eos_token_id)

    @property
    def tokenizer_name(self) -> str:
        """What lm-eval would key its caches by; none is ever used here."""
        return str(self.tokenizer.name_or_path)

    def show(self, prompt: str | Sequence[dict[str, str]]) -> str:
        """The text that messages are rendered to, remembered with its ids; a text is shown as it stands.

        Raises:
            PromptError: it is empty, or the chat template refuses it.
        """
        rendered = render(self.tokenizer, prompt)
        if not isinstance(prompt, str):
            self.templated[rendered.text] = rendered.ids
        return rendered.text

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """What lm-eval calls for tasks of its own."""
        if not add_generation_prompt:
            raise Unsupported("this task begins the answer itself (gen_prefix): not in this version")
        return self.show(chat_history)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Ids of a text as specq renders it, or as it was rendered before."""
        if add_special_tokens is not None:
            return list(self.tokenizer(string, add_special_tokens=add_special_tokens)["input_ids"])
        return list(self.templated.get(string) or render(self.tokenizer, string).ids)

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Ids of the context as it is asked, and of what follows.

        A blank at the end of a plain context belongs to the first word after it; a template ends where it ends.
        """
        if context not in self.templated and (bare := context.rstrip(" ")):
            context, continuation = bare, context[len(bare) :] + continuation
        head = self.tok_encode(context)
        special = head != self.tok_encode(context, add_special_tokens=False)
        whole = self.tok_encode(context + continuation, add_special_tokens=special)
        if whole[: len(head)] == head and len(whole) > len(head):
            return head, whole[len(head) :]
        # The end of the context and the beginning of the rest would share a token: keep them apart.
        return head, self.tok_encode(continuation, add_special_tokens=False)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Greedy answers, `batch_size` at a time, the longest prompts first."""
        groups: dict[Sampling, list[tuple[Instance, Prompt]]] = {}
        for request in requests:
            text, settings = request.args
            prompt = Prompt(id=place_name(request), ids=tuple(self.tok_encode(text)), text=text)
            groups.setdefault(sampling_of(settings), []).append((request, prompt))
        texts: dict[Place, str] = {}
        for sampling, group in groups.items():
            group.sort(key=lambda pair: -len(pair[1].ids))
            prompts = [prompt for _, prompt in group]
            answers = self.decoder.generate(prompts, sampling, batch_size=self.batch_size)
            for (request, prompt), answer in zip(group, answers, strict=True):
                self.asked[place_of(request)] = Asked(prompt=prompt, generation=answer)
                texts[place_of(request)] = _cut(answer.text, sampling.stop)
        return [texts[place_of(request)] for request in requests]

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Summed log-probability of each continuation, and whether it is the likeliest token by token."""
        pairs = [self._encode_pair(*self._with_context(*request.args)) for request in requests]
        for request, (head, tail) in zip(requests, pairs, strict=True):
            prompt = Prompt(id=place_name(request), ids=tuple(head), text=request.args[0])
            self.asked[place_of(request)] = Asked(prompt=prompt, continuation_tokens=len(tail))
        return self._loglikelihood_tokens(
            [(request.args, *pair) for request, pair in zip(requests, pairs, strict=True)]
        )

    def _with_context(self, context: str, continuation: str) -> tuple[str, str]:
        return context or str(self.tokenizer.bos_token or self.tokenizer.eos_token), continuation

    def _loglikelihood_tokens(
        self, requests: list[tuple[Any, list[int], list[int]]], **_: Any
    ) -> list[tuple[float, bool]]:
        """Continuations of one prompt share its pass."""
        of_prompt: dict[tuple[int, ...], list[int]] = {}
        for place, request in enumerate(requests):
            of_prompt.setdefault(tuple(request[1]), []).append(place)
        found: dict[int, tuple[float, bool]] = {}
        for ids, places in of_prompt.items():
            for place, scores in zip(places, self.target.score(ids, [requests[i][2] for i in places]), strict=True):
                likeliest = bool((scores.argmax == requests[place][2]).all())
                found[place] = (float(scores.logprobs.sum()), likeliest)
        return [found[place] for place in range(len(requests))]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """No user's set asks for this."""
        raise Unsupported("only tasks of lm-eval score whole texts by a rolling window")


def place_of(request: Instance) -> Place:
    """Task, document and request."""
    return str(request.task_name), int(request.doc_id or 0), request.idx


def place_name(request: Instance) -> str:
    """The name of a request's item."""
    return f"{request.task_name} {request.doc_id}"


def _cut(text: str, stop: Sequence[str]) -> str:
    """An answer up to the first of its stop strings, which the engine leaves in."""
    return text[: min((text.index(one) for one in stop if one in text), default=len(text))]


def sampling_of(asked: dict[str, Any]) -> Sampling:
    """A task's generation settings. What is not greedy is refused: one draw an item is no measurement."""
    known = {"until", "do_sample", "temperature", "num_beams", *_LENGTHS, *_OF_SAMPLING}
    if surplus := sorted(set(asked) - known):
        raise Unsupported(f"generation_kwargs {', '.join(surplus)}: allowed are {', '.join(sorted(known))}")
    # A temperature beside do_sample: false says nothing.
    if asked.get("do_sample", float(asked.get("temperature") or 0) > 0) or asked.get("num_beams", 1) != 1:
        raise Unsupported("generation_kwargs ask for sampling or beams: evaluations are greedy in this version")
    until = asked.get("until") or ()
    stop = (until,) if isinstance(until, str) else tuple(until)
    length = next((asked[key] for key in _LENGTHS if asked.get(key) is not None), MAX_NEW_TOKENS)
    return Sampling(max_new_tokens=int(length), stop=tuple(filter(None, stop)))
