"""Metrics by name: unknown names, options and values are refused, and so are sets that they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from eval_items import write

from specq.core.errors import ConfigError, PromptError
from specq.evals import items, metrics


def refused(name: str, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        metrics.make(name, options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", metrics.NAMES)
def test_a_metric_has_no_defaults_or_takes_any_option(name: str) -> None:
    metric = metrics.make(name)
    assert metric.options == metrics.options_of(name)
    assert metric.name == name
    assert metrics.make(name, metric.options).options == metric.options
    assert f'metric "{name}": unknown option "zzz"; its options: ' in refused(name, zzz=1)


def test_a_metric_judges_or_scales_as_another() -> None:
    made = {name: metrics.make(name) for name in metrics.NAMES}
    assert {name for name, metric in made.items() if not metric.binary} == {
        *("token_f1", "rouge_l", "fields", "loglikelihood")
    }
    assert {name: metric.output for name, metric in made.items() if metric.output != "text"} == {
        "choice": "choice",
        "loglikelihood": "loglikelihood",
    }
    assert metrics.make("fields", {"all": True}).binary


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("exact_mtach", {}, "no metric \"exact_mtach\", did you mean 'exact_match'? allowed: exact_match, contains"),
        ("zzz", {}, 'no metric "zzz"; allowed: '),
        (
            "exact_match",
            {"ignore_cas": True},
            "unknown option \"ignore_cas\", did you mean 'ignore_case'? its options: ",
        ),
        ("exact_match", {"ignore_case": 1}, "ignore_case = 1: input should be a valid boolean"),
        ("exact_match", {"ignore_case": "yes"}, "ignore_case = 'yes': "),
        ("exact_match", {"language": "tur"}, "language = 'tur', did you mean 'tr'? allowed: en, de, tr"),
        ("exact_match", {"unicode": "NFD"}, "allowed: none, NFC, NFKC"),
        ("number_match", {"relative": -0.1}, "relative = -0.1: input should be greater than or equal to 0"),
        ("number_match", {"absolute": float("nan")}, "absolute = nan: input should be a finite number"),
        ("number_match", {"which": "second"}, "allowed: first, last, any"),
        ("number_match", {"decimal": ";"}, "allowed: ., ,, auto"),
        ("fields", {"types": {"x": "numbr"}}, "types = 'numbr': input should be 'number', 'date', 'text' or 'exact'"),
        ("evidence", {"least_words": 0}, "least_words = 0: input should be greater than or equal to 1"),
        ("choice", {"normalise": "bytes"}, "allowed: none, characters, tokens"),
    ],
)
def test_a_wrong_name_option_or_value_passes(name: str, options: dict[str, Any], says: str) -> None:
    assert says in refused(name, **options)


def test_a_metric_that_does_not_fit_a_set_passes(tmp_path: Path) -> None:
    lines = [{"id": i, "prompt": f"Q{i}", "reference": "x" if i % 2 else i} for i in range(20)]
    path = write(tmp_path, *lines)
    found = items.load(path)
    metric = metrics.make("exact_match")
    assert list(metrics.misfits(metric, found)) == [str(i) for i in range(0, 20, 2)]
    with pytest.raises(PromptError) as caught:
        metrics.check(metric, found, path)
    message = str(caught.value)
    assert 'set.jsonl:1: metric "exact_match" does not fit item "0": the reference is a number' in message
    assert "nor does it fit 2, 4, 6, 8, 10 and 4 more" in message
    assert message.endswith("no built-in metric fits all items")
    path = write(tmp_path, {"id": "a", "prompt": "Q", "reference": 4})
    with pytest.raises(PromptError, match=r"metrics that fit all items: number_match$"):
        metrics.check(metric, items.load(path), path)
    metrics.check(metrics.make("number_match"), items.load(path), path)
