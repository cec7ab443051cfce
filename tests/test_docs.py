from __future__ import annotations

import dataclasses
import inspect
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import specq
from doc_pages import ROOT, blocks, chapters, code, page, rows
from specq import api, cli, report
from specq.cli.stdout import UNREAD
from specq.core import errors, records
from specq.core.records import Canary, Memory
from specq.experiment import config, schema
from specq.experiment.levers import Lever
from specq.models import cache
from specq.report import forecast_file, transforms
from specq.report.measures import of_arm
from specq.run import runner

sys.path.insert(0, str(Path(__file__).parent / "report"))
sys.path.insert(0, str(Path(__file__).parent / "run"))
import eval_runs
import quantized_runs
import report_runs
import run_fakes
import served_answers

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
TABLES: dict[str, type[BaseModel]] = {
    "Top level": schema.Experiment,
    "[target]": schema.Target,
    "[engine]": schema.Engine,
    "[workload]": schema.Workload,
    "[levers.NAME]": Lever,
    "[arms]": schema.Arms,
    "[canary]": schema.Canary,
    "[audit]": schema.Audit,
    "[objective]": schema.Objective,
    "[floor]": schema.Floor,
    "[price]": schema.Price,
    "[[evals]]": schema.Eval,
}
# A default that another key decides is written in words.
BY_WORDS = {("Top level", "name"): "the file's name"}
BY_WORDS |= {("[levers.NAME]", key): "by method" for key in ("rule", "match", "max_ngram", "min_ngram")}
BY_WORDS |= {("[levers.NAME]", key): "by kind" for key in ("k", "prefill", "clean")}
BY_WORDS |= {("[levers.NAME]", key): "by bits" for key in ("group_size", "head")}


def default(title: str, key: str, field: FieldInfo) -> str:
    if (title, key) in BY_WORDS:
        return BY_WORDS[title, key]
    if field.is_required():
        return "required"
    value = field.default if field.default is not PydanticUndefined else field.default_factory()  # type: ignore[misc,call-arg]
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "all defaults"
    if key in ("levers", "evals"):
        return f"no {key}"
    return json.dumps(value)


def words_allowed(annotation: Any) -> set[str]:
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return {json.dumps(word) for word in get_args(annotation)} if get_origin(annotation) is Literal else set()


def test_every_key_of_the_schema_is_in_the_doc_with_its_default_and_no_other() -> None:
    told = {title: rows(text) for title, text in chapters(page("docs/experiments.md")).items()}
    told = {title: found for title, found in told.items() if found}
    assert told.keys() == TABLES.keys()
    for title, table in TABLES.items():
        assert [row[0].strip("`") for row in told[title]] == list(table.model_fields), title
        for cell, given, allowed, _ in told[title]:
            key = cell.strip("`")
            field = table.model_fields[key]
            assert given.strip("`") == default(title, key, field), f"{title} {key}"
            if words := words_allowed(field.annotation):
                assert set(code(allowed) or allowed.split(", ")) == words, f"{title} {key}"
            for limit in (getattr(one, name, None) for one in field.metadata for name in ("ge", "gt", "le", "lt")):
                assert limit is None or re.search(rf"\b{limit}\b", allowed), f"{title} {key}: {limit}"


def test_defaults_that_another_key_decides_are_those_of_the_doc() -> None:
    lookup = Lever.model_validate({"kind": "draft", "method": "lookup"})
    assert (lookup.rule, lookup.match, lookup.max_ngram, lookup.min_ngram) == ("greedy_draft", "ngram", 3, 1)
    exits = Lever.model_validate({"kind": "draft", "method": "early_exit", "layers": 1})
    assert (exits.rule, exits.match, exits.max_ngram) == ("rejection", None, None)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_experiments_in_the_docs_load(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for number, (_, body) in enumerate(blocks(path.read_text(encoding="utf-8"), "toml")):
        file = tmp_path / f"example-{number}.toml"
        file.write_text(body, encoding="utf-8")
        assert "workload" in tomllib.loads(body)
        loaded = config.load(file)
        assert Path(loaded.workload.prompts).is_file()


def commands(app: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in app.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_every_command_and_option_is_in_the_doc_and_no_other() -> None:
    told = {title: text for title, text in chapters(page("docs/cli.md")).items() if title.startswith("specq ")}
    real = dict(commands(typer.main.get_command(cli.app), "specq"))
    assert {re.sub(r"( \[?[A-Z]+(\.\.\.)?\]?)+$", "", title) for title in told} == real.keys()
    for title, text in told.items():
        command = real[re.sub(r"( \[?[A-Z]+(\.\.\.)?\]?)+$", "", title)]
        options = {param.opts[0] for param in command.params if param.param_type_name == "option"} - {"--help"}
        assert {row[0].strip("`").split()[0] for row in rows(text)} == options, title
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        shown = re.findall(r"\[?[A-Z]{3,}(?:\.\.\.)?\]?", title)
        assert [param.required for param in arguments] == [not word.endswith("]") for word in shown], title


def test_every_exported_function_is_in_the_doc_with_its_signature() -> None:
    told = chapters(page("docs/python.md"))
    for name in specq.__all__:
        signature = inspect.signature(getattr(api, name))
        shown = [
            param.replace(
                annotation=param.empty,
                default=str(param.default) if isinstance(param.default, Path) else param.default,
            )
            for param in signature.parameters.values()
        ]
        bare = str(signature.replace(parameters=shown, return_annotation=signature.empty)).replace("'", '"')
        assert f"`{name}{bare}`" in told[name]
        assert "```python" in told[name]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the project's experiments and one finished run."""
    for name in ("experiments", "evals", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    report_runs.whole_run(tmp_path / "results" / "toy" / "20260101T000000Z-0a1b2c")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", [path for path in PAGES if "```python" in path.read_text()], ids=lambda p: p.name)
def test_python_examples_that_need_no_model_run(path: Path, project: Path) -> None:
    names: dict[str, Any] = {}
    for number, (words, body) in enumerate(blocks(path.read_text(encoding="utf-8"), "python")):
        compiled = compile(body, f"{path.name} example {number}", "exec")
        assert words in ("", " needs-model")
        if not words:
            exec(compiled, names)


@pytest.mark.real_model
def test_python_examples_that_need_a_model_run(
    project: Path, folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = project.glob("results/toy/*")
    signature = inspect.signature(api.run_experiment)

    def ran(*args: Any, **kwargs: Any) -> Path:
        given = signature.bind(*args, **kwargs).arguments
        given["on_progress"](runner.Progress(done=1, total=2, phase="measure"))
        return run

    # A whole run takes a minute and has tests of its own.
    monkeypatch.setattr(api, "run_experiment", ran)
    # So has an audit; and what is made here does not stay in the user's cache.
    tiny = folder_of("llama", hidden_size=64, intermediate_size=96)
    (project / "cache").mkdir()
    (project / "cache" / "builtin").symlink_to(cache.root() / "builtin")
    monkeypatch.setenv("SPECQ_CACHE", str(project / "cache"))
    names: dict[str, Any] = {}
    for number, (_, body) in enumerate(blocks(page("docs/python.md"), "python")):
        if "quantize_model(" in body:
            assert '"builtin:smollm2-135m"' in body
            body = body.replace("builtin:smollm2-135m", str(tiny))
        exec(compile(body, f"python.md example {number}", "exec"), names)
    assert names["together"]


def test_every_record_and_field_is_in_the_doc_and_no_other() -> None:
    told = {row[0].strip("`"): code(row[1]) for row in rows(chapters(page("docs/results.md"))["records.jsonl"])}
    assert told == {name: [f.name for f in dataclasses.fields(kind)] for name, kind in records.KINDS.items()}


def test_every_key_of_run_json_is_in_the_doc_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_fakes.patch_parent(monkeypatch.setattr)
    experiment = run_fakes.write_experiment(tmp_path)
    plan: Any = run_fakes.fake_plan(experiment)
    told = [row[0].strip("`") for row in rows(chapters(page("docs/results.md"))["run.json"])]
    assert told == list(runner.run_info(experiment, plan))


def test_every_measure_is_in_the_doc_and_no_other(tmp_path: Path) -> None:
    more = [Memory(arm="lookup#1", peak_bytes=10**8, source="rss", prompt="e1", new_tokens=13)]
    canaries = [Canary(process=0, at_s=at, tpot_s=0.05) for at in (0.0, 1.0)]
    made = report.build(report_runs.whole_run(tmp_path / "run", more=[*more, *canaries]))
    changed = report.build(quantized_runs.quantized_run(tmp_path / "quantized"))
    price = {"per_hour": 1.0, "input_price": 1.0, "output_price": 4.0, "currency": "the currency"}
    scored = eval_runs.report(tmp_path / "evals", price=price)
    arms = (*made.arms, *changed.arms, *scored.arms)
    measures = [*made.workload, *(m for arm in arms for m in arm.measures.values()), *served_answers.measures()]
    shorter = report_runs.generated("w#1", "e1", [(0, 0, 1)], prompt_tokens_before=90, transform_s=0.01)
    measures += [*transforms.measures([shorter]), *of_arm([dataclasses.replace(shorter, cached_tokens=10)])]
    # A percentile or quantile stands beside its head.
    real = {
        re.sub(r"\[\d+\]", "[j]", re.sub(r"\[process \d+\]", "[process p]", m.name)).split(".")[0] for m in measures
    }
    told = chapters(page("docs/measures.md"))
    listed = [
        name for title, text in told.items() if title != "Verdicts" for row in rows(text) for name in code(row[0])
    ]
    assert set(listed) == real
    units = {m.name: m.unit for m in measures}
    for text in told.values():
        for row in rows(text):
            assert all(units.get(name, row[1]) == row[1] for name in code(row[0])), row[0]
    assert [row[0].strip("`") for row in rows(told["Verdicts"])] == ["keep", "reject", "undecided", "invalid"]


def test_every_error_is_in_the_doc_with_its_exit_code_and_no_other() -> None:
    found = inspect.getmembers(errors, lambda it: inspect.isclass(it) and issubclass(it, errors.SpecqError))
    real = {name: str(kind.exit_code) for name, kind in found}
    chapter = chapters(page("docs/errors.md"))
    assert {row[0].strip("`"): row[1] for row in rows(chapter["Classes"])} == real
    assert set(re.findall(r"^\| (\d+) \|", chapter["Exit codes"], flags=re.M)) == {"0", str(UNREAD), *real.values()}


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


def test_the_readme_has_two_setup_commands_and_one_quickstart() -> None:
    text = page("README.md")
    (setup,) = blocks(chapters(text)["Set up"], "")
    assert [line.split("#")[0].strip() for line in setup[1].splitlines()] == ["make demo", "make test"]
    for command in ("demo", "test"):
        assert re.search(rf"^{command}:", page("Makefile"), flags=re.M)
    begin, end = "<!-- quickstart:begin -->", "<!-- quickstart:end -->"
    assert text.count(begin) == text.count(end) == 1
    assert len(blocks(text.split(begin)[1].split(end)[0], "text")) == 1
    assert len(text.splitlines()) < 240


def test_every_key_of_forecast_json_is_in_the_doc_and_no_other() -> None:
    told = [row[0].strip("`") for row in rows(chapters(page("docs/results.md"))["forecast.json"])]
    assert told == [one.name for one in dataclasses.fields(forecast_file.Forecasts)]
