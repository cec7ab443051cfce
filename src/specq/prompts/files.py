"""Files of prompts with fewer tokens: JSON lines in, the same lines with other messages out, and a log of deletions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specq.core import jsonl, text_lines
from specq.core.errors import ConfigError, PromptError
from specq.prompts.transform import transform
from specq.prompts.types import WORDS, Count, Result, Steps, count_words

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """The prompts of a file after the transform.

    `lines` are those of the file with other messages; `results` holds by id what was done to each. `tags` are the ids
    of the prompts that carry each tag. `written` and `log` are the files that were written, None where none were.
    """

    file: Path
    steps: Steps
    lines: tuple[dict[str, Any], ...]
    results: dict[str, Result]
    tags: dict[str, tuple[str, ...]]
    counted_in: str
    written: Path | None = None
    log: Path | None = None

    @property
    def before(self) -> int:
        """Tokens of all prompts before the transform."""
        return sum(one.before.tokens for one in self.results.values())

    @property
    def after(self) -> int:
        """Tokens of all prompts after it."""
        return sum(one.after.tokens for one in self.results.values())

    @property
    def seconds(self) -> float:
        """What the transform took, over all prompts."""
        return sum(one.seconds for one in self.results.values())

    @property
    def protected(self) -> int:
        """Protected fields of all prompts, each counted once a prompt; none of them is lost."""
        return sum(len(one.protected_before) for one in self.results.values())

    def reasons(self) -> dict[str, tuple[int, int, int]]:
        """By step and reason: how many deletions, how many tokens went, and how many deletions were refused."""
        made, tokens, refused = Counter[str](), Counter[str](), Counter[str]()
        for one in self.results.values():
            for gone in one.deletions:
                made[f"{gone.step}: {gone.reason}"] += 1
                tokens[f"{gone.step}: {gone.reason}"] += gone.tokens
            refused.update(f"{kept.step}: {kept.reason}" for kept in one.kept)
        return {name: (made[name], tokens[name], refused[name]) for name in dict.fromkeys([*made, *refused])}

    def to_json(self) -> dict[str, Any]:
        """Plain values without the prompts and the texts that went."""
        return {
            "file": str(self.file),
            "steps": asdict(self.steps),
            "counted_in": self.counted_in,
            "prompts": len(self.results),
            "tokens_before": self.before,
            "tokens_after": self.after,
            "seconds": self.seconds,
            "protected": self.protected,
            "lost": sum(len(one.lost) for one in self.results.values()),
            "reasons": {
                name: {"deletions": made, "tokens": tokens, "refused": refused}
                for name, (made, tokens, refused) in self.reasons().items()
            },
            "tags": {tag: dict(zip(("before", "after"), self.of(ids), strict=True)) for tag, ids in self.tags.items()},
            "notes": {name: list(one.notes) for name, one in self.results.items() if one.notes},
            "written": None if self.written is None else str(self.written),
            "log": None if self.log is None else str(self.log),
        }

    def of(self, ids: Sequence[str]) -> tuple[int, int]:
        """Tokens of some prompts before and after."""
        some = [self.results[name] for name in ids]
        return sum(one.before.tokens for one in some), sum(one.after.tokens for one in some)


def shorten_prompts(
    file: Path | str,
    *,
    clean: bool = False,
    select: float | int | None = None,
    tokenizer: str | None = None,
    out: Path | str | None = None,
    log: Path | str | None = None,
) -> Shortened:
    """Shorten the prompts of a file: `clean`, then `select` to a share or a number of tokens.

    The file holds JSON lines with an `id` and `messages` or a `prompt`; other keys are carried along, so prompts files
    and evaluation sets both do. With `out` the lines are written there, and what was deleted and why to `log` (by
    default beside `out`, ending in .deletions.jsonl); nothing is written over. Without `tokenizer` (a model) tokens
    are words between spaces.

    Raises:
        ConfigError: neither step, a wrong budget, or a file that is there already.
        PromptError: the file cannot be read or a line is wrong. ModelError: no such model.
    """
    steps, file = Steps(clean=clean, select=select), Path(file)
    target, beside = _targets(out, log)
    count, counted_in = counter(tokenizer)
    lines: list[dict[str, Any]] = []
    results: dict[str, Result] = {}
    tags: dict[str, list[str]] = {}
    for where, line in _lines(file):
        name = str(line["id"])
        if name in results:
            raise PromptError(f'{where}: id "{name}" stands twice; ids are unique')
        asked = line["prompt"] if "prompt" in line else line["messages"]
        found = results[name] = transform(asked, steps, count=count, counted_in=counted_in)
        lines.append({**line, **put(asked, found)})
        for tag in line.get("tags") or ():
            tags.setdefault(str(tag), []).append(name)
    if not lines:
        raise PromptError(f"{file}: no prompts in it; write one JSON object a line with id and messages or prompt")
    if target is not None and beside is not None:
        jsonl.write_lines_whole(target, lines)
        jsonl.write_lines_whole(beside, ({"id": name, **one.log()} for name, one in results.items()))
    return Shortened(
        file=file,
        steps=steps,
        lines=tuple(lines),
        results=results,
        tags={tag: tuple(ids) for tag, ids in tags.items()},
        counted_in=counted_in,
        written=target,
        log=beside,
    )


def put(asked: str | Sequence[Any], found: Result) -> dict[str, Any]:
    """What stands in the place of a prompt, by its key: a text for a text, messages for messages."""
    if isinstance(asked, str):
        return {"prompt": found.messages[0]["content"]}
    return {"messages": list(found.messages)}


def counter(tokenizer: str | None) -> tuple[Count, str]:
    """What counts the tokens of a text, and what they are."""
    if tokenizer is None:
        return count_words, WORDS
    from specq.models import light_tokenizer

    loaded = light_tokenizer.load(tokenizer)
    return lambda text: len(loaded.ids(text)), f"tokens of {tokenizer}"


def read_select(text: str) -> float | int:
    """A budget as it is typed: 0.5 is a share, 800 a number of tokens.

    Raises:
        ConfigError: it is neither.
    """
    try:
        return int(text) if text.strip().isdecimal() else float(text)
    except ValueError as error:
        raise ConfigError(
            f"--select {text}: allowed is a share above 0 and below 1, such as 0.5, or a number of tokens, such as 800"
        ) from error


def _targets(out: Path | str | None, log: Path | str | None) -> tuple[Path | None, Path | None]:
    if out is None:
        if log is not None:
            raise ConfigError(f"log {log} without out: the log goes with the prompts that are written; give both")
        return None, None
    target = Path(out)
    beside = target.with_suffix(".deletions.jsonl") if log is None else Path(log)
    for path in (target, beside):
        if path.exists():
            raise ConfigError(f"{path} is there already; nothing is written over: name another, or move it away")
    return target, beside


def _lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        text = text_lines.read(file)
    except (OSError, ValueError) as error:
        raise PromptError(f"{file}: cannot be read ({error}); give a JSONL file of prompts") from error
    for number, told in text_lines.numbered(text):
        where = f"{file}:{number}"
        try:
            line = json.loads(told)
        except (ValueError, RecursionError) as error:
            raise PromptError(f"{where}: not a JSON line ({error}); write one JSON object a line") from error
        if not isinstance(line, dict) or not isinstance(line.get("id"), str | int):
            raise PromptError(f"{where}: no object with an id; write id, and messages or prompt")
        if ("messages" in line) == ("prompt" in line):
            raise PromptError(f"{where}: allowed is one of messages and prompt")
        if not (_is_text(line["prompt"]) if "prompt" in line else _are_messages(line["messages"])):
            raise PromptError(
                f"{where}: allowed is a prompt that is a text, or messages of a role ({', '.join(_ROLES)}) and a "
                "content that is a text, or null beside tool_calls"
            )
        yield where, line


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and _is_whole(value)


def _is_whole(value: str) -> bool:
    """Whether a text has no half of a surrogate pair, which is no text."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("role") not in _ROLES:
        return False
    content = value.get("content")
    return (isinstance(content, str) and _is_whole(content)) or (content is None and bool(value.get("tool_calls")))
