"""What goes into a transform of a prompt, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from specq.core.errors import ConfigError

Message = Mapping[str, Any]
"""`role` and `content` (a text, or None beside tool calls); other keys are carried along."""
Count = Callable[[str], int]
Step = Literal["clean", "select"]
Reason = Literal[
    "stale tool output",
    "base64",
    "empty tag",
    "JSON table",
    "empty field",
    "JSON whitespace",
    "navigation",
    "mail chain",
    "signature",
    "legal footer",
    "repeated message",
    "repeat",
    "near repeat",
    "less relevant",
]
Kind = Literal["amount", "currency", "date", "rate", "threshold", "obligation", "exception", "source", "version"]
WORDS = "words between spaces (an estimate, no model's tokens)"


def count_words(text: str) -> int:
    """How many words stand between spaces: an estimate, where no tokenizer is given."""
    return len(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Which steps are taken: `clean`, then `select` down to a budget (None: not taken).

    `select` is a number of tokens of the content, or a share (above 0, below 1) of those before the transform.
    """

    clean: bool = True
    select: float | int | None = None

    def __post_init__(self) -> None:
        if self.select is not None:
            check_select(self.select)
        elif not self.clean:
            raise ConfigError("neither clean nor select: nothing would be done; give one of the two, or both")

    @property
    def words(self) -> str:
        """The steps as reports name them."""
        found = ["clean"] if self.clean else []
        if self.select is not None:
            found.append(
                f"select {self.select:g}" if isinstance(self.select, float) else f"select {self.select} tokens"
            )
        return ", ".join(found)

    def budget(self, tokens: int) -> int | None:
        """How many of `tokens` may be left; None: any."""
        return int(self.select * tokens) if isinstance(self.select, float) else self.select


def check_select(select: float | int) -> None:
    """Do nothing where `select` is a share or a number of tokens.

    Raises:
        ConfigError: it is neither.
    """
    is_share = isinstance(select, float) and 0 < select < 1
    is_number = isinstance(select, int) and not isinstance(select, bool) and select >= 1
    if not (is_share or is_number):
        raise ConfigError(
            f"select = {select}: allowed is a share of the tokens above 0 and below 1, such as 0.6, or a whole number "
            "of tokens from 1 on; leave it out to keep all"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A field that may not be lost: its kind, and its words as they are compared."""

    kind: Kind
    value: str

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What was deleted: from the character `start` to `end` of message `message`, as it was before the transform.

    `text` is what went and `put` what stands in its place: empty but for JSON tables, which hold what they replace, and
    for base64, which leaves its name. `characters` are those that went less those that were put; `tokens` likewise,
    each text counted by itself.
    """

    step: Step
    reason: Reason
    message: int
    start: int
    end: int
    characters: int
    tokens: int
    text: str
    put: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a step would have deleted, and `because` of what it stays: protected fields, or a rule of the transform."""

    step: Step
    reason: Reason
    message: int
    start: int
    end: int
    characters: int
    tokens: int
    text: str
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A prompt's messages, characters and tokens of content; a template's own tokens are not among them."""

    messages: int
    characters: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A transformed prompt, with all that was done to it.

    `protected_before` and `protected_after` hold each field once, in the order of the text. `counted_in` names the
    tokens. `seconds` is what the transform took, so that it can be charged to an arm.
    """

    messages: tuple[dict[str, Any], ...]
    deletions: tuple[Deletion, ...]
    kept: tuple[Kept, ...]
    protected_before: tuple[Protected, ...]
    protected_after: tuple[Protected, ...]
    before: Size
    after: Size
    counted_in: str
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def lost(self) -> tuple[Protected, ...]:
        """Protected fields that are gone; a transform that works as it should has none."""
        after = set(self.protected_after)
        return tuple(one for one in self.protected_before if one not in after)

    def log(self) -> dict[str, Any]:
        """All but the messages, as JSON values."""
        return {
            "before": asdict(self.before),
            "after": asdict(self.after),
            "counted_in": self.counted_in,
            "seconds": self.seconds,
            "deletions": [asdict(one) for one in self.deletions],
            "kept": [{**asdict(one), "because": list(one.because)} for one in self.kept],
            "protected_before": [asdict(one) for one in self.protected_before],
            "protected_after": [asdict(one) for one in self.protected_after],
            "notes": list(self.notes),
        }


def content_of(message: Message) -> str:
    """The text of a message; empty where it has none, as beside tool calls."""
    content = message.get("content")
    return content if isinstance(content, str) else ""


def size(messages: Sequence[Message], count: Count) -> Size:
    """How large the content of messages is."""
    texts = [content_of(message) for message in messages]
    return Size(messages=len(texts), characters=sum(map(len, texts)), tokens=sum(map(count, texts)))
