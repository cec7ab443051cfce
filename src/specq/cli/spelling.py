"""Mistakes in the words of who typed options: experiments speak of keys and levers, which nobody gave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from specq.core.errors import UserError

_VALUE = r'(?:"([^"]*)"|([^\s:;,)]+))'


@contextmanager
def typed(keys: Mapping[str, str], words: Mapping[str, str]) -> Iterator[None]:
    """Whatever mistake the block finds is told by options and drafts as they were typed.

    Args:
        keys: the experiment's key of each option.
        words: the DRAFT that each lever was made from, by the lever's name.
    """
    try:
        yield
    except UserError as error:
        told = respelled(str(error), keys, words)
        if told == str(error):
            raise
        raise type(error)(told) from error


def respelled(said: str, keys: Mapping[str, str], words: Mapping[str, str]) -> str:
    """A message about keys and levers of an experiment, about options and drafts."""
    # Longer names first: a lever's name may begin as another's.
    for name in sorted(words, key=len, reverse=True):
        said = _of_draft(said, name, words[name])
    for option, key in keys.items():
        said = _of_option(said, option, key)
    return said


def _of_option(said: str, option: str, key: str) -> str:
    table, name = (re.escape(part) for part in key.split("."))
    named = rf"(?:--set )?(?:\b{table}\.{name}\b|\[{table}\] {name}\b)"
    said = re.sub(rf"{named} ?= ?{_VALUE}", lambda found: f"{option} {found[1] or found[2]}", said)
    return re.sub(named, option, said)


def _of_draft(said: str, name: str, word: str) -> str:
    lever = rf"levers\.{re.escape(name)}"
    # The word itself says how it drafts and with how many layers or bits.
    said = re.sub(rf"(?<!\S){re.escape(name)}#1: (?:(?:method|layers|bits) = [^:]+: )?", f"{word}: ", said)
    said = re.sub(rf"--set {lever}\.layers=(\d+)", lambda found: re.sub(r":\d+", f":{found[1]}", word, count=1), said)
    said = re.sub(rf"change {lever} in the experiment", f"give a DRAFT of that kind in the place of {word}", said)
    said = re.sub(rf"take {lever}\.(?:lookup_first|stop_below) out", "take it out", said)
    said = re.sub(rf"(?:{lever}\.)?stop_below = ", "+stop:", said)
    for key, option in (("lookup_first = true", "+lookup"), ('method = "lookup"', "lookup")):
        said = said.replace(key, option)
    said = said.replace("take the bits out", f"take {word} out")
    said = re.sub(r'engine kind "(\w+)"', r"--engine \1", said)
    return re.sub(rf"\b{lever}\b", word, said)
