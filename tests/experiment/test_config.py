"""Experiment files: what is read, what is refused, and in which words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specq.core.errors import ConfigError
from specq.core.types import DraftSpec
from specq.experiment import config
from specq.experiment.schema import HASH_LEAVES_OUT

ROOT = Path(__file__).parents[2]
WHOLE = """
question = "Is it faster?"
[target]
model = "org/big"
[engine]
dtype = "bfloat16"
[workload]
prompts = "prompts.jsonl"
limit = 24
[levers.lookup]
kind = "draft"
method = "lookup"
[levers.small]
kind = "draft"
method = "model"
model = "org/small"
k = 3
[levers.early]
kind = "draft"
method = "early_exit"
layers = 5
rule = "block"
[floor]
ttft_s_p95 = 2.0
peak_bytes = "4 GiB"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "whole.toml"
    path.write_text(WHOLE)
    return path


def refused(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config.load(path, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_are_filled_in(file: Path) -> None:
    experiment = config.load(file)
    assert experiment.name == "whole"
    assert experiment.workload.lengths == "equal"
    assert experiment.workload.repeats == 2
    assert experiment.levers["lookup"].draft() == DraftSpec(method="lookup", k=4, rule="greedy_draft")
    assert experiment.levers["small"].draft() == DraftSpec(method="model", k=3, rule="rejection", model="org/small")
    assert experiment.levers["early"].draft() == DraftSpec(method="early_exit", k=4, rule="block", layers=5)
    assert experiment.floor.peak_bytes == 4 * 1024**3
    assert experiment.canary.drift_limit == 0.15


def test_equal_lengths_ignore_every_stop_and_natural_ones_do_not(file: Path) -> None:
    assert config.load(file).sampling().ignore_eos
    natural = config.load(file, ['workload.stop=["END"]', "workload.lengths=natural"]).sampling()
    assert not natural.ignore_eos
    assert natural.stop == ("END",)


def test_every_sampling_key_reaches_the_sampling(file: Path) -> None:
    keys = {"temperature": 0.7, "top_k": 9, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.3}
    keys |= {"min_new_tokens": 2, "max_new_tokens": 5, "seed": 11}
    sampling = config.load(file, [f"workload.{key}={value}" for key, value in keys.items()]).sampling()
    assert {key: getattr(sampling, key) for key in keys} == keys


def test_resolved_config_is_json_and_loads_again_as_an_equal_experiment(file: Path) -> None:
    experiment = config.load(file, ["workload.lengths=natural", 'workload.stop=["x"]'])
    again = config.from_resolved(json.loads(json.dumps(experiment.resolved())))
    assert again == experiment
    assert again.config_sha256 == experiment.config_sha256


@pytest.mark.parametrize(
    "override",
    [
        "target.revision=abc",
        "engine.threads=3",
        "engine.attention=eager",
        "workload.limit=23",
        "workload.seed=8",
        "workload.processes=3",
        "workload.top_p=0.9",
        "levers.small.rule=match",
        "levers.lookup.max_ngram=5",
        'arms.run=["small"]',
        "canary.drift_limit=0.2",
        "audit.seeds=99",
        "objective.minimise=e2e_s",
        "floor.ttft_s_p95=3.0",
    ],
)
def test_every_key_that_can_change_a_number_changes_the_hash(file: Path, override: str) -> None:
    assert config.load(file, [override]).config_sha256 != config.load(file).config_sha256


def test_words_for_the_reader_leave_the_hash_alone(file: Path) -> None:
    changed = config.load(file, ["question=Another?", "name=other"])
    cut = config.load(file, smoke=True)
    assert cut.config_sha256 == cut.model_copy(update={"smoke": False}).config_sha256
    assert changed.config_sha256 == config.load(file).config_sha256
    assert HASH_LEAVES_OUT == ("question", "name", "smoke")


def test_whole_number_for_a_float_has_the_same_hash(file: Path) -> None:
    whole, point = config.load(file, ["workload.temperature=1"]), config.load(file, ["workload.temperature=1.0"])
    assert whole.config_sha256 == point.config_sha256


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("levers.small.k=0", "k = 0: allowed is 1 to 64"),
        ("levers.small.k=65", "k = 65: allowed is 1 to 64"),
        ("levers.small.k=true", "k = true: allowed is a whole number, 1 to 64"),
        ("levers.small.k=4.0", "k = 4.0: allowed is a whole number"),
        ("workload.top_p=0", "top_p = 0: allowed is above 0 to 1"),
        ("workload.temperature=nan", "allowed is a number, 0 to 100"),
        ("workload.temperature=warm", 'temperature = "warm": allowed is a number'),
        ("workload.seed=-1", "seed = -1: allowed is 0 to 9223372036854775807"),
        ("workload.limit=0", "limit = 0: allowed is 1 or more"),
        ("workload.stop=END", 'stop = "END": allowed is a list'),
        ("target.revision=12", "revision = 12: allowed is text in quotes"),
        ("engine.dtype=int8", '"auto", "float32", "bfloat16", "float16"'),
        ("target=x", 'target = "x": allowed is a table'),
        ("floor.peak_bytes=4 gibs", 'peak_bytes = "4 gibs": allowed is a count of bytes or text like "4 GiB"'),
        ("floor.quality.invoices=0.02", 'no eval is called "invoices"; the evals are none: there is no [[evals]]'),
        ("name=../up", "allowed are ASCII letters"),
    ],
)
def test_wrong_value_is_told_with_what_is_allowed(file: Path, override: str, says: str) -> None:
    assert says in refused(file, override)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("workload.max_new_token=3", "[workload] max_new_token: unknown key, did you mean 'max_new_tokens'?"),
        ("workload.zzz=3", "[workload] zzz: unknown key; known keys: "),
        ("levers.zzz.k=3", 'no lever is called "zzz"; allowed: '),
        ('arms.run=["zzz"]', 'no lever is called "zzz"; allowed: '),
        ("workloads.limit=3", "workloads: unknown key, did you mean 'workload'?"),
        ("levers.small.layer=3", "[levers.small] layer: unknown key, did you mean 'layers'?"),
        ("levers.smal.k=3", "no lever is called \"smal\", did you mean 'small'?"),
        ('arms.run=["lokup"]', "no lever is called \"lokup\", did you mean 'lookup'?"),
    ],
)
def test_unknown_key_is_told_with_the_nearest_known_one(file: Path, override: str, says: str) -> None:
    assert says in refused(file, override)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        (
            'levers.p={kind="engine"}',
            '[levers.p] kind = "engine": not in this version, allowed is "draft", "quantize", "kv_cache"',
        ),
    ],
)
def test_what_this_version_cannot_do_is_refused_by_name(file: Path, override: str, says: str) -> None:
    assert says in refused(file, override)


def test_a_second_problem_is_hidden_behind_the_first(file: Path) -> None:
    said = refused(file, "levers.small.k=0", "workload.limit=0")
    assert "k = 0: allowed is 1 to 64" in said
    assert "; also " in said
    assert "limit = 0: allowed is 1 or more" in said
    many = refused(file, "levers.small.k=0", "workload.limit=0", "workload.top_p=9", "workload.seed=-1")
    assert many.endswith("; and 1 more, which show when these are mended")


def test_missing_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[target]\nmodel = "a/b"\n')
    assert "[workload] is missing: add the table" in refused(path)


def test_files_that_cannot_be_read_are_told_in_one_line(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.toml")
    assert "cannot be read" in refused(tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_text("question = \n")
    assert "not TOML" in refused(broken)
    assert "line 1" in refused(broken)
    broken.write_bytes(b'question = "\xff"')
    assert "not UTF-8" in refused(broken)


def test_paths_are_found_from_here_then_beside_the_file_then_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "experiments", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "x.toml").write_text(WHOLE)
    monkeypatch.chdir(elsewhere)
    assert config.load(folder / "x.toml").workload.prompts == "prompts.jsonl"
    (tmp_path / "prompts.jsonl").touch()
    assert config.load(folder / "x.toml").workload.prompts == str(tmp_path / "prompts.jsonl")
    (folder / "prompts.jsonl").touch()
    assert config.load(folder / "x.toml").workload.prompts == str(folder / "prompts.jsonl")
    (elsewhere / "prompts.jsonl").touch()
    assert config.load(folder / "x.toml").workload.prompts == "prompts.jsonl"


def test_paths_above_the_file_are_found_from_inside_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    (folder / "x.toml").write_text(WHOLE)
    (tmp_path / "prompts.jsonl").touch()
    (tmp_path / "org" / "small").mkdir(parents=True)
    monkeypatch.chdir(folder)
    experiment = config.load(Path("x.toml"))
    assert Path(experiment.workload.prompts).samefile(tmp_path / "prompts.jsonl")
    assert Path(experiment.levers["small"].model or "").samefile(tmp_path / "org" / "small")
    assert experiment.target.model == "org/big"


def test_smoke_is_short_but_refuses_what_the_whole_run_would_refuse(file: Path) -> None:
    small = config.load(file, ["workload.min_new_tokens=30", "workload.repeats=9"], smoke=True).workload
    assert (small.limit, small.max_new_tokens, small.min_new_tokens) == (3, 16, 16)
    assert (small.repeats, small.processes, small.memory) == (1, 1, False)
    assert config.load(file, ["workload.limit=2"], smoke=True).workload.limit == 2
    with pytest.raises(ConfigError, match="repeats = 0"):
        config.load(file, ["workload.repeats=0"], smoke=True)


def test_a_smoke_run_does_not_say_that_it_is_one(file: Path) -> None:
    assert not config.load(file).resolved()["smoke"]
    asked = config.load(file, smoke=True)
    assert asked.resolved()["smoke"]
    assert config.load(file, ["smoke=true"]) == asked, "the key cuts as the option does"


@pytest.mark.parametrize("name", ["quickstart", "pair"])
def test_shipped_experiments_load(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    experiment = config.load(Path("experiments") / f"{name}.toml")
    assert experiment.workload.prompts == "evals/chat.jsonl"
    assert experiment.workload.limit == 12


def test_config_imports_without_torch() -> None:
    modules = "config, schema, levers, overrides, explain, arms, prompts, plan"
    heavy = "{'torch', 'transformers'} & set(sys.modules)"
    code = f"import sys; from specq.experiment import {modules}; sys.exit(len({heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
