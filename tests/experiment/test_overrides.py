"""--set: any key of an experiment from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from specq.core.errors import ConfigError
from specq.experiment import config
from specq.experiment.overrides import LISTS
from specq.experiment.schema import Experiment

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


EVALS = """
[[evals]]
name = "first"
items = "a.jsonl"
metric = "contains"
[[evals]]
name = "second"
items = "b.jsonl"
metric = "contains"
"""
WHOLE = """set it whole: --set 'evals=[{name="mine", items="my-items.jsonl", metric="contains"}]'"""


def test_a_place_in_a_list_cannot_be_set(file: Path) -> None:
    file.write_text(SMALL + EVALS)
    told = ["evals.1.limit=5", 'evals.0.stop=["a", "b"]', "evals.0.stop.1=END"]
    first, second = config.load(file, told).evals
    assert (first.limit, first.stop, second.limit) == (None, ("a", "END"), 5)
    whole = config.load(file, ['evals.0={name="new", items="c.jsonl", metric="contains"}']).evals
    assert [one.name for one in whole] == ["new", "second"]
    # An error there names the override that made it.
    assert refused(file, "evals.1.limit=0").endswith("--set evals.1.limit: [evals.1] limit = 0: allowed is 1 or more")


@pytest.mark.parametrize("place", ["2", "-1", "first", "00", "", "9" * 5000])
def test_no_place_of_a_list_is_a_bug_of_ours(file: Path, place: str) -> None:
    file.write_text(SMALL + EVALS)
    said = refused(file, f"evals.{place}.limit=5")
    if place:
        assert 'evals is a list, allowed is evals.0 ("first"), evals.1 ("second")' in said
        assert WHOLE in said
    else:
        assert "allowed is key=value" in said


def test_a_list_that_is_not_there_is_made_a_table(file: Path) -> None:
    assert refused(file, "evals.0.limit=5").endswith(f"evals.0.limit: the experiment has no evals; {WHOLE}")
    assert "workload.stop; set it whole: --set 'workload.stop=" in refused(file, "workload.stop.0=x")


@pytest.mark.parametrize("given", ["mine.jsonl", "3", '{name="mine"}', "[{name=mine, items=a.jsonl}]"])
def test_how_a_list_is_typed_is_not_told(file: Path, given: str) -> None:
    said = refused(file, f"evals={given}")
    assert said.endswith("""--set 'evals=[{name="mine", items="my-items.jsonl", metric="contains"}]'""")
    file.write_text(f'evals = "mine.jsonl"\n{SMALL}')
    assert "--set" not in (said := refused(file))
    assert 'evals = "mine.jsonl": allowed is a list such as [{name="mine"' in said


@pytest.mark.parametrize("key", [".".join(path) for path in LISTS])
def test_what_is_told_to_type_is_refused(file: Path, key: str) -> None:
    # Stop texts need answers that may end, and only servers take options.
    where = ["workload.lengths=natural", *(['engine={kind="vllm"}'] if key == "engine.args" else [])]
    assert config.load(file, [*where, f"{key}={LISTS[tuple(key.split('.'))]}"])


def test_a_list_of_the_experiment_has_no_example() -> None:
    schema = Experiment.model_json_schema()
    tables = {(): schema, **{(key,): schema["$defs"].get(key.capitalize(), {}) for key in schema["properties"]}}
    lists = {
        (*path, key)
        for path, table in tables.items()
        for key, value in table.get("properties", {}).items()
        if value.get("type") == "array"
    }
    assert lists == set(LISTS)
