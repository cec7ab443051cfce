"""Tasks of lm-eval are found, read and refused before any weights are loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import task_sets
import yaml

from specq.core.errors import ConfigError, Unsupported
from specq.evals import task_files
from specq.evals.tasks import load_task

pytestmark = pytest.mark.usefixtures("own_cache")
MEAN = {"aggregation": "mean", "higher_is_better": True}


def load(folder: Path, settings: dict[str, Any], *, code: str = "", how: dict[str, Any] | None = None, **more: Any):
    return load_task(str(task_sets.write(folder, settings, code=code, **more)), **(how or {}))


def test_a_task_says_something_else_of_itself_than_its_yaml(tmp_path):
    task = load(tmp_path, task_sets.GENERATE, how={"limit": 3, "num_fewshot": 2, "fewshot_seed": 7})
    told = task.describe()
    assert json.loads(json.dumps(told)) == told
    assert (told["task"], told["output_type"], told["items"]) == ("own", "generate_until", 3)
    assert (told["metric"], told["filter"], told["binary"], told["negated"]) == ("exact_match", "none", True, False)
    assert (told["num_fewshot"], told["fewshot_seed"], told["chat_template"]) == (2, 7, False)
    assert (told["max_new_tokens"], told["stop"], told["dataset"]) == (12, ["e"], "json")
    assert (told["code"], told["notes"]) == ({}, [])
    assert load(tmp_path, task_sets.CHOICE, how={"limit": 99}).items == len(task_sets.ROWS)


def test_two_tasks_with_other_words_or_documents_have_one_hash(tmp_path):
    first = load(tmp_path, task_sets.GENERATE)
    assert load(tmp_path, task_sets.GENERATE, doc_to_text="{{q}}").config_sha256 != first.config_sha256
    path = task_sets.write(tmp_path, task_sets.GENERATE)
    rows = (tmp_path / "test.jsonl").read_text()
    (tmp_path / "test.jsonl").write_text(rows.replace("blue", "grey"))
    other = load_task(str(path))
    assert other.config_sha256 == first.config_sha256
    assert other.docs_sha256 != first.docs_sha256


def test_a_name_of_lm_eval_is_not_known():
    """Against lm-eval's own index, which takes long: of one folder of its tasks."""
    from lm_eval.tasks import TaskManager

    known = task_files.listed()
    folder = known["arc_easy"].parents[1]
    assert folder.name == "tasks"
    for name in ("arc", "aclue", "scrolls", "mmlu"):
        part = TaskManager(include_defaults=False, include_path=folder / name)
        assert part.task_index
        for entry in part.task_index.values():
            assert entry.yaml_path is None or known[entry.name] == entry.yaml_path


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("arc_eazy", ConfigError, r'no task "arc_eazy", did you mean arc_easy, .*\? allowed is'),
        ("nowhere.yaml", ConfigError, r'task "nowhere.yaml": no such file as nowhere.yaml'),
        ("aclue", ConfigError, r'task "aclue" is a group of 15: aclue_\w+, .* and 10 more; name one task'),
        ("squadv2", Unsupported, r'task "squadv2" is a Python class'),
        ("humaneval", Unsupported, r"runs code that the model wrote"),
    ],
)
def test_a_name_that_cannot_be_evaluated_is_loaded(name, error, says):
    with pytest.raises(error, match=says) as raised:
        load_task(name)
    assert "\n" not in str(raised.value)


def test_a_data_set_that_must_be_fetched_is_a_traceback_without_a_network(monkeypatch):
    import datasets

    def gone(**_: Any) -> None:
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", gone)
    with pytest.raises(ConfigError) as raised:
        load_task("arc_easy")
    assert re.fullmatch(
        r'task "arc_easy": its dataset "allenai/ai2_arc" \(ARC-Easy\) is not on this machine and cannot be fetched '
        r"\(ConnectionError: Couldn't reach the Hub\); fetch it .* dataset_path: json and dataset_kwargs: .*jsonl\}\}",
        str(raised.value),
    )


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"doc_to_txt": "q"}, "unknown key \"doc_to_txt\", did you mean 'doc_to_text'?"),
        ({"output_type": "generate"}, "output_type \"generate\", did you mean 'generate_until'?"),
        ({"task": None}, "no key task in the YAML; write task: NAME"),
        ({"metric_list": [{"metric": "exact_mach"}]}, "no metric \"exact_mach\", did you mean 'exact_match'?"),
        ({"metric_list": [{"metric": "exact_match", "aggregation": "men"}]}, "did you mean 'mean'?"),
        ({"metric_list": ["exact_match"]}, "metric_list holds 'exact_match'; write - metric: NAME"),
        ({"metric_list": [{"metric": "bleu"}]}, 'metric "bleu" is made of all documents together'),
        ({"metric_list": [{"metric": "bleu", **MEAN}]}, 'metric "bleu" is no number for one document of a'),
        ({"metric_list": [{"metric": "acc"}]}, 'metric "acc" is no number for one document of a generate_until task'),
        ({"dataset_path": None}, "no dataset_path; write dataset_path: json"),
        ({"dataset_kwargs": {"data_files": {"test": "gone.jsonl"}}}, "its data cannot be read (FileNotFoundError: "),
        ({"test_split": "dev"}, "cannot be built (KeyError"),
        ({"doc_to_text": "{{q"}, "cannot be built (TemplateSyntaxError"),
        ({"process_docs": "FUNCTION:none"}, "has no function 'none'"),
        ({"doc_to_text": "FUNCTION:fails"}, "cannot be built (ZeroDivisionError: division by zero)"),
        ({"repeats": 3}, "asks each document 3 times"),
        ({"unsafe_code": True}, "runs code that the model wrote"),
        ({"doc_to_image": "q"}, "shows pictures or sound"),
        ({"generation_kwargs": {"do_sample": True, "temperature": 0.7}}, "generation_kwargs ask for sampling or beams"),
        ({"generation_kwargs": {"num_beams": 4}}, "generation_kwargs ask for sampling or beams"),
        ({"generation_kwargs": {"penalty": 4}}, "generation_kwargs penalty: allowed are"),
    ],
)  # fmt: skip
def test_a_wrong_yaml_is_found_by_the_first_answer_or_in_many_lines(tmp_path, more, says):
    code = "def fails(doc):\n    return 1 / 0\n"
    with pytest.raises((ConfigError, Unsupported)) as raised:
        load(tmp_path, task_sets.GENERATE, code=code, **more)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["task: [", "- task", "task: !!python/name:os.system", "include: gone.yaml"])
def test_a_file_that_is_no_task_is_a_traceback(tmp_path, text):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"bad\.yaml: cannot be read as a task .*; mend its YAML") as raised:
        load_task("bad.yaml", folder=tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "how", "says"),
    [
        ("choice", {"metric": "acc_nrm"}, "no metric \"acc_nrm\", did you mean 'acc_norm'? allowed: acc, acc_norm"),
        ("choice", {"metric": "acc,strict"}, 'no filter "strict"; allowed: none'),
        ("choice", {"limit": 0}, "limit = 0: allowed is 1 or more"),
        ("choice", {"num_fewshot": -1}, "num_fewshot = -1: allowed is 0 or more"),
        ("choice", {"num_fewshot": 6}, "6 examples are asked, 5 documents are there to draw from"),
    ],
)
def test_a_setting_that_cannot_be_is_taken(tmp_path, settings, how, says):
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, task_sets.KINDS[settings], how=how)
    assert says in str(raised.value)


def test_examples_asked_of_a_task_without_any_are_left_out_in_silence(tmp_path):
    with pytest.raises(ConfigError, match="has num_fewshot: 0 in its YAML, asked are 2"):
        load(tmp_path, task_sets.CHOICE, num_fewshot=0, how={"num_fewshot": 2})
    assert load(tmp_path, task_sets.CHOICE, num_fewshot=3, how={"num_fewshot": 2}).num_fewshot == 2
    assert load(tmp_path, task_sets.CHOICE, num_fewshot=3).num_fewshot == 3


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, False),
        ({"training_split": None}, True),
        ({"training_split": None, "fewshot_split": "test"}, False),
        ({"training_split": None, "test_split": None, "validation_split": "test", "fewshot_split": "test"}, True),
    ],
)
def test_a_document_may_be_its_own_example_without_a_word(tmp_path, more, told):
    notes = load(tmp_path, task_sets.GENERATE, how={"num_fewshot": 2}, **more).notes
    assert any("one may be its own example" in note for note in notes) is told
    assert load(tmp_path, task_sets.GENERATE, **more).notes == ()


def test_a_metric_of_all_documents_is_replaced_in_silence(tmp_path):
    metrics = [{"metric": name} for name in ("f1", "mcc", "brier_score", "acc")] + [{"metric": "likelihood", **MEAN}]
    task = load(tmp_path, task_sets.CHOICE, metric_list=metrics)
    assert task.reading.metric == "acc"
    assert task.notes == (
        'metric "f1" is made of all documents together: one document has no value of it: acc is taken',
    )
    for name in ("f1", "mcc", "brier_score", "likelihood"):
        with pytest.raises(ConfigError, match=rf'metric "{name}" is .*; allowed: acc$'):
            load(tmp_path, task_sets.CHOICE, metric_list=metrics, how={"metric": name})


@pytest.mark.parametrize(
    ("settings", "metric", "what", "binary"),
    [
        ("rolling", "word_perplexity", "log-probability a word, nats", False),
        ("rolling", "byte_perplexity", "log-probability a byte, nats", False),
        ("rolling", "bits_per_byte", "log-probability a byte, bits", False),
        ("likelihood", "perplexity", "log-probability, nats", False),
        ("likelihood", "acc", "", True),
    ],
)
def test_a_score_is_not_named_or_lower_where_it_is_better(tmp_path, settings, metric, what, binary):
    reading = load(tmp_path, task_sets.KINDS[settings], how={"metric": metric}).reading
    assert (reading.what, reading.binary, reading.negated) == (what, binary, False)
    whole = settings == "rolling"
    low, high = (reading.score({metric: (-one, 4) if whole else -one}).value for one in (2.0, 1.0))
    if not binary:
        assert low < high < 0


def test_a_metric_of_errors_counts_them_as_good(tmp_path):
    code = "def errors(predictions, references):\n    return 0.5 if predictions[0] else 1.0\n"
    metric = [{"metric": "FUNCTION:errors", "aggregation": "mean"}]
    with pytest.raises(ConfigError, match='metric "errors" does not say whether higher is better'):
        load(tmp_path, task_sets.GENERATE, code=code, metric_list=metric)
    metric[0]["higher_is_better"] = False
    task = load(tmp_path, task_sets.GENERATE, code=code, metric_list=metric)
    assert task.reading.negated
    assert task.reading.score({"errors": 0.5}).value == -0.5
    assert task.notes == ("the task runs Python code: own_code.py", "errors is lower when better: its sign is turned")
    assert list(task.code) == ["own_code.py"]


@pytest.mark.parametrize("value", [float("nan"), None, [1], "1", (1, 2)])
def test_a_value_that_is_no_number_is_right_or_wrong(tmp_path, value):
    score = load(tmp_path, task_sets.GENERATE).reading.score({"exact_match": value})
    assert score.failed
    assert "exact_match is " in score.why


def test_a_task_that_begins_the_answer_goes_through_a_template_that_ends_it(tmp_path):
    more = {"gen_prefix": "answer"}
    assert load(tmp_path, task_sets.GENERATE, **more).chat_template is False
    with pytest.raises(Unsupported, match=r"begins the answer itself \(gen_prefix\): allowed without chat_template"):
        load(tmp_path, task_sets.GENERATE, how={"chat_template": True}, **more)


def test_what_a_greedy_task_says_of_sampling_is_refused(tmp_path):
    """As dozens of lm-eval's own do."""
    kwargs = {"until": "e", "do_sample": False, "temperature": 1, "top_p": 0.9, "max_new_tokens": 5}
    told = load(tmp_path, task_sets.GENERATE, generation_kwargs=kwargs).describe()
    assert (told["max_new_tokens"], told["stop"]) == (5, ["e"])


def test_an_included_file_is_not_in_the_hash(tmp_path):
    path = task_sets.write(tmp_path, task_sets.GENERATE)
    (tmp_path / "more.yaml").write_text(yaml.safe_dump({"include": "own.yaml", "doc_to_text": "q"}))
    first = load_task(str(path)).config_sha256
    other = load_task("more.yaml", folder=tmp_path).config_sha256
    assert first != other
    path.write_text(path.read_text().replace("max_gen_toks: 12", "max_gen_toks: 11"))
    assert load_task("more.yaml", folder=tmp_path).config_sha256 != other
