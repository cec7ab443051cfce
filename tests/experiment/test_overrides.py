"""--set: any key of an experiment from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from specq.core.errors import ConfigError
from specq.experiment import config

SMALL = """
[target]
model = "org/big"
[workload]
prompts = "prompts.jsonl"
limit = 24
[levers.small]
kind = "draft"
method = "model"
model = "org/small"
k = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def refused(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config.load(path, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_error_of_an_override_names_the_override(file: Path) -> None:
    assert "--set levers.small.k" in refused(file, "levers.small.k=0")
    file.write_text(SMALL.replace("k = 3", "k = 0"))
    assert "--set" not in refused(file)


@pytest.mark.parametrize("override", ["workload", "=3", "workload..limit=3", ".=3"])
def test_override_without_key_or_value_is_refused(file: Path, override: str) -> None:
    assert "allowed is key=value" in refused(file, override)


def test_half_an_array_is_not_taken_for_a_bare_word(file: Path) -> None:
    assert "the value is not TOML" in refused(file, 'workload.stop=["END"')


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "{a=" * 5000 + "1" + "}" * 5000, ".".join("a" * 5000) + " = 1"]
)
def test_a_deeply_nested_file_is_a_bug_of_ours(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(text)
    assert refused(path).endswith("deep.toml: nested too deeply; allowed are the tables that an experiment has")


def test_a_deeply_nested_value_is_a_bug_of_ours(file: Path) -> None:
    said = refused(file, "workload.stop=" + "[" * 5000)
    assert said.endswith("...: nested too deeply; allowed are lists of plain values")
    assert len(said) < 200


def test_override_into_something_that_is_no_table_is_refused(file: Path) -> None:
    assert "workload.limit is no table" in refused(file, "workload.limit.x=3")


def test_override_takes_bare_words_and_the_last_one_wins(file: Path) -> None:
    experiment = config.load(file, ["target.model=builtin:one", "target.model=builtin:two", "workload.limit=5"])
    assert experiment.target.model == "builtin:two"
    assert experiment.workload.limit == 5


def test_override_adds_a_lever_when_it_says_what_it_is(file: Path) -> None:
    experiment = config.load(file, ["levers.far.k=8", "levers.far.kind=draft", "levers.far.method=lookup"])
    assert experiment.levers["far"].k == 8


def test_value_with_a_newline_cannot_set_a_second_key(file: Path) -> None:
    experiment = config.load(file, ["question=1\nname = 'other'"])
    assert experiment.name == "small"
