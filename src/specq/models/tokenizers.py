"""Do two models speak the same tokens, and which tokens does a prompt become?"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specq.core import hashes
from specq.core.errors import ModelError, PromptError, TokenizerMismatch
from specq.models.configs import load_config
from specq.models.quiet import quiet
from specq.models.refs import Resolved

# Templates that print today's date get this one, so that a prompt is the same tomorrow.
FIXED_DATE = datetime.datetime(2025, 1, 1)
_DATE_WORDS = ("strftime_now", "date_string")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """Two tokenizers that agree on every id.

    `tokens` counts the ids that mean something; `target_padding` and `draft_padding` are embedding
    rows beyond the last of them (None: rows not given). Templates may differ: only the target's is used.
    """

    tokens: int
    target_padding: int | None
    draft_padding: int | None
    adds_bos: bool
    target_template_sha256: str | None
    draft_template_sha256: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A prompt as the model sees it; `notes` say what the reader of a report must know about it."""

    text: str
    ids: tuple[int, ...]
    notes: tuple[str, ...] = ()


def load(resolved: Resolved) -> Any:
    """The transformers tokenizer of a model folder: local files only, no remote code.

    Raises:
        ModelError: the folder has no tokenizer that transformers can read, or a config.json that it does not accept.
    """
    from transformers import AutoTokenizer

    try:
        with quiet():
            return AutoTokenizer.from_pretrained(resolved.folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises bare Exception for a broken file
        # transformers reads the config on its way to the tokenizer, and what is wrong there is no fault of this one.
        load_config(resolved.folder)
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"{resolved.folder} has no tokenizer that transformers can read ({why[:160]}): "
            "expected tokenizer.json and tokenizer_config.json beside the weights"
        ) from error


def adds_bos(tokenizer: Any) -> bool:
    """Whether encoding plain text puts the bos token first."""
    bos = tokenizer.bos_token_id
    return bos is not None and list(tokenizer("a")["input_ids"][:1]) == [bos]


def compare(
    target: Any, draft: Any, *, target_vocab: int | None = None, draft_vocab: int | None = None
) -> Compatibility:
    """Check id by id that a draft's tokens are the target's.

    `target_vocab` and `draft_vocab` are the embedding rows of the models; rows beyond the last token
    are padding and may differ in number.

    Raises:
        TokenizerMismatch: an id means another token (the first is named), the bos token or the bos policy
            differs, or a tokenizer has ids that its model has no row for.
    """
    mine, other = _by_id(target), _by_id(draft)
    if (apart := difference(target, draft)) is not None:
        raise TokenizerMismatch(
            f"target and draft do not speak the same tokens: id {apart[0]} is {apart[1]} in the target and "
            f'{apart[2]} in the draft; allowed is a draft with the target\'s tokenizer, or method = "lookup"'
        )
    notes = []
    for name in ("bos", "eos", "pad"):
        left, right = (getattr(tokenizer, f"{name}_token_id") for tokenizer in (target, draft))
        # A draft's own eos or pad never decides anything: the target's end a generation, and the maps agree.
        if name == "bos" and left is not None and right is not None and left != right:
            raise TokenizerMismatch(
                f"target and draft have different {name} tokens: id {left} ({_shown(mine, left)}) in the target, "
                f"id {right} ({_shown(mine, right)}) in the draft; allowed is a draft of the same family and training"
            )
        elif left != right:
            notes.append(
                f"{name} token: {_shown(mine, left)} in the target, {_shown(other, right)} in the draft"
                if left is not None and right is not None
                else f"only the {'target' if right is None else 'draft'} names a {name} token"
            )
    policies = adds_bos(target), adds_bos(draft)
    if policies[0] != policies[1]:
        does, does_not = ("target", "draft") if policies[0] else ("draft", "target")
        raise TokenizerMismatch(
            f"the {does}'s tokenizer puts a bos token first and the {does_not}'s does not: "
            "allowed is one policy for both (add_bos_token in tokenizer_config.json)"
        )
    templates = [_template_sha256(tokenizer) for tokenizer in (target, draft)]
    if templates[0] != templates[1]:
        notes.append("chat templates differ: prompts are rendered with the target's")
    return Compatibility(
        tokens=len(mine),
        target_padding=_padding("target", mine, target_vocab),
        draft_padding=_padding("draft", other, draft_vocab),
        adds_bos=policies[0],
        target_template_sha256=templates[0],
        draft_template_sha256=templates[1],
        notes=tuple(notes),
    )


def difference(target: Any, other: Any) -> tuple[int, str, str] | None:
    """The first id that means another token in the other tokenizer, and what it is in either; None where all agree."""
    left, right = _by_id(target), _by_id(other)
    at = min((i for i in left.keys() | right.keys() if left.get(i) != right.get(i)), default=None)
    return None if at is None else (at, _shown(left, at), _shown(right, at))


def _by_id(tokenizer: Any) -> dict[int, str]:
    return {i: token for token, i in tokenizer.get_vocab().items()}


def _shown(tokens: Mapping[int, str], at: int) -> str:
    return repr(tokens[at]) if at in tokens else "no token"


def _padding(role: str, tokens: Mapping[int, str], rows: int | None) -> int | None:
    if rows is None:
        return None
    top = max(tokens, default=-1)
    if top >= rows:
        raise TokenizerMismatch(
            f"the {role}'s tokenizer has id {top} ({_shown(tokens, top)}) but its model has only {rows} rows: "
            "give the tokenizer that belongs to the weights"
        )
    return rows - 1 - top


def _template_sha256(tokenizer: Any) -> str | None:
    template = tokenizer.chat_template
    return hashes.of_bytes(template.encode()) if isinstance(template, str) else None


def render(tokenizer: Any, prompt: str | Sequence[Mapping[str, str]]) -> Rendered:
    """Turn messages (dicts with role and content) or raw text into the text and ids that the model sees.

    Messages go through the chat template and end where the assistant's answer begins; a model without
    a template gets their contents joined by blank lines, with a note. A bos stands first at most once.

    Raises:
        PromptError: the prompt is empty, or the template refuses the messages.
    """
    text, special, notes = text_of(tokenizer, prompt)
    return Rendered(text=text, ids=tuple(tokenizer(text, add_special_tokens=special)["input_ids"]), notes=notes)


def text_of(tokenizer: Any, prompt: str | Sequence[Mapping[str, str]]) -> tuple[str, bool, tuple[str, ...]]:
    """The text of `render`, whether its ids begin with the tokenizer's special tokens, and the notes.

    Raises:
        PromptError: as `render`.
    """
    notes: list[str] = []
    if isinstance(prompt, str):
        text, raw = prompt, True
    elif tokenizer.chat_template:
        text, raw = _templated(tokenizer, prompt, notes), False
    else:
        text, raw = "\n\n".join(message["content"] for message in prompt), True
        notes.append("the model has no chat template: messages were joined by blank lines, without roles")
    if not text.strip():
        raise PromptError("the prompt is empty: give some text or at least one message with content")
    bos = tokenizer.bos_token
    # A template writes its own special tokens; raw text gets the tokenizer's, unless it brings the bos along.
    return text, raw and not (bos and text.startswith(bos)), tuple(notes)


def _templated(tokenizer: Any, messages: Sequence[Mapping[str, str]], notes: list[str]) -> str:
    if not messages:
        raise PromptError("the prompt has no messages: give at least one with role and content")
    fixed: dict[str, Any] = {}
    if any(word in str(tokenizer.chat_template) for word in _DATE_WORDS):
        fixed = {"date_string": FIXED_DATE.strftime("%d %b %Y"), "strftime_now": FIXED_DATE.strftime}
        notes.append(
            f"the chat template prints the date: it is set to {FIXED_DATE:%Y-%m-%d} so that prompts stay equal"
        )
    if found := [s for s in tokenizer.all_special_tokens if any(s in message["content"] for message in messages)]:
        notes.append(
            f"a message contains the text of the special token {found[0]!r}, which the model reads as that token"
        )
    try:
        return tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=True, **fixed
        )
    except Exception as error:  # a template is a stranger's code and may raise anything
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PromptError(
            f"the chat template refuses the messages: {why[:160]}; mend it, or give prompts as text"
        ) from error
