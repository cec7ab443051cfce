"""Answers that are judged: an item's own schema, a metric, and the id that speed and quality share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_runs import attempt, request

from specq.core.errors import ConfigError, PromptError, RunFolderError
from specq.engines.served import stub
from specq.load import rows
from specq.load.found import Found
from specq.load.quality import quality, worth
from specq.load.rows import Judged, Requested
from specq.load.running import measure_load, resume_load

SAID = "a b\u00f6 \u20ac5 \U0001f642"
"""What the stub answers with four tokens."""


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specq.load.charts.pictures", lambda found: ())
    monkeypatch.setattr("specq.run.provenance.collect", dict)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with stub.started() as (found, _):
        yield found


def items(folder: Path, **more: Any) -> Path:
    """Six items, of which the even ones are right with what the stub says."""
    file = folder / "items.jsonl"
    lines = []
    for n in range(6):
        reference = SAID if n % 2 == 0 else "other"
        lines.append({"id": f"p{n}", "prompt": f"Say {n}.", "reference": reference, "cluster": f"c{n // 2}"} | more)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def loaded(url: str, folder: Path, file: Path, **how: Any) -> Found:
    given: dict[str, Any] = {"concurrency": [2], "requests": 12, "model": "m", "out": folder / "out"}
    return measure_load(url, file, **({"body": {"stub": {"tokens": 4}}} | given | how))


def of(found: Found, kind: type[Any]) -> list[Any]:
    return [row for row in rows.read(found.run / "records.jsonl")[0] if isinstance(row, kind)]


def test_a_score_is_another_requests_or_lost_or_of_the_tail(url: str, tmp_path: Path) -> None:
    found = loaded(url, tmp_path, items(tmp_path), metric="exact_match", against=url)
    judged, steady = of(found, Judged), [row for row in of(found, Requested) if row.phase == "steady"]
    assert sorted(row.id for row in judged) == sorted(row.id for row in steady)
    assert {row.id: row.prompt for row in judged} == {row.id: row.prompt for row in steady}
    assert all(row.score == (int(row.prompt[1]) % 2 == 0) for row in judged)
    assert {(row.prompt, row.cluster) for row in judged} == {(f"p{n}", f"c{n // 2}") for n in range(6)}
    (one, _) = found.levels
    assert one.quality is not None
    assert (one.quality.metric, one.quality.answers, one.quality.failed) == ("exact_match", 12, 0)
    assert one.quality.score is not None
    assert (one.quality.score.value, one.quality.score.n, one.quality.score.clusters) == (0.5, 6, 3)
    (told,) = found.worth
    assert (told.server, told.difference.value, told.difference.n) == ("other", 0.0, 6)
    assert "## What the answers are worth" in (found.run / "report.md").read_text()


def test_an_items_own_schema_is_passed_over(url: str, tmp_path: Path) -> None:
    file = items(tmp_path, schema={"type": "object", "required": ["a"]})
    assert loaded(url, tmp_path, file).levels[0].schema == {"no JSON": 12}
    body = {"stub": {"tokens": 1, "first": 0}}
    words = tmp_path / "words.jsonl"
    words.write_text('{"id": "p", "prompt": "Say.", "schema": {"type": "string"}}\n')
    found = loaded(url, tmp_path, words, body=body, metric="json_schema")
    assert found.levels[0].schema == {"no JSON": 12}
    assert {row.score for row in of(found, Judged)} == {0.0}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"metric": "exact_mach"}, "no metric .exact_mach.* did you mean"),
        ({"metric": "choice"}, "judges log-probabilities, and servers are asked for texts"),
        ({"metric": "json_schema"}, "there is no schema"),
    ],
)
def test_a_metric_that_cannot_judge_is_found_late(url: str, tmp_path: Path, how: dict[str, str], said: str) -> None:
    with pytest.raises((ConfigError, PromptError), match=said):
        loaded(url, tmp_path, items(tmp_path), **how)
    assert not (tmp_path / "out").exists()


def test_a_metric_judges_prompts_that_have_no_reference(url: str, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": "p", "prompt": "Say."}\n')
    with pytest.raises(ConfigError, match=r"--metric exact_match judges items, and .* has none"):
        loaded(url, tmp_path, file, metric="exact_match")


def test_a_run_goes_on_with_another_reference(url: str, tmp_path: Path) -> None:
    found = loaded(url, tmp_path, items(tmp_path), metric="exact_match")
    items(tmp_path, reference="third")
    with pytest.raises(RunFolderError, match="the judging are not those of the run any more"):
        resume_load(found.run)


def judged(number: int, score: float | None, **given: Any) -> Judged:
    values: dict[str, Any] = {"point": "server@1#1", "attempt": 1, "prompt": f"p{number}", "cluster": f"p{number}"}
    values |= {"metric": "m", "why": ""}
    return Judged(id=f"server@1#1/1/r{number}", score=score, **(values | given))


def test_what_could_not_be_judged_counts_as_wrong_or_right_or_not_at_all() -> None:
    one = attempt(request(0), request(1), request(2, error="cut"))
    told = quality([type(one)(point=one.point, rows=one.rows, judged=(judged(0, 1.0), judged(1, None)))])
    assert told is not None
    assert (told.answers, told.failed) == (2, 2)
    assert told.score is not None
    assert (told.score.value, told.score.n) == (1.0, 1)
    assert quality([one]) is None


def test_a_loss_has_the_other_sign() -> None:
    one, other = attempt(), attempt(server="other")
    before = type(one)(point=one.point, rows=(), judged=tuple(judged(n, 1.0) for n in range(10)))
    after = type(one)(point=other.point, rows=(), judged=tuple(judged(n, float(n > 2)) for n in range(12)))
    told = worth([before], [after])
    assert told is not None
    assert (told.server, told.difference.n, told.difference.worse) == ("other", 10, 3)
    assert told.difference.value == pytest.approx(-0.3)
    assert told.difference.low < -0.3 < told.difference.high <= 0.1
