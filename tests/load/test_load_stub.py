"""Small loads on a stub server: what was sent is what is on record, whatever the server does."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_runs import prompts

from specq import cli
from specq.core.errors import ConfigError, Interrupted, RunFailed, RunFolderError, ServerGone
from specq.engines.served import stub
from specq.load import measuring, rows, words
from specq.load.found import Found
from specq.load.rows import Began, Measured, Requested
from specq.load.running import measure_load, resume_load

KEY = "sk-secret-0123456789/abc"


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Pictures take a second a run, and one test reads the page; git is asked nothing."""
    if "key" not in request.node.name:
        monkeypatch.setattr("specq.load.charts.pictures", lambda found: ())
        monkeypatch.setattr("specq.load.page.render", lambda found: "")
    monkeypatch.setattr("specq.run.provenance.collect", dict)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with stub.started() as (found, _):
        yield found


def loaded(url: str, folder: Path, *, play: dict[str, Any] | None = None, **how: Any) -> Found:
    """A load run of 6 requests a level on answers of 4 tokens."""
    given: dict[str, Any] = {"concurrency": [2], "requests": 6, "model": "m", "out": folder / "out"}
    given |= {"body": {"stub": {"tokens": 4, **(play or {})}}}
    return measure_load(url, prompts(folder), **(given | how))


def lines(found: Found, kind: type[Any] = Requested) -> list[Any]:
    return [row for row in rows.read(found.run / "records.jsonl")[0] if isinstance(row, kind)]


def test_a_request_is_lost_doubled_or_not_the_prompt_of_its_number(url: str, tmp_path: Path) -> None:
    found = loaded(url, tmp_path, concurrency=[1, 3], repeats=2)
    told = lines(found)
    assert len({row.id for row in told}) == len(told)
    assert Counter((row.point, row.phase) for row in told if row.phase != "tail") == {
        (f"server@{level}#{repeat}", phase): count
        for level in (1, 3)
        for repeat in (1, 2)
        for phase, count in (("warm", level), ("steady", 6))
    }
    first = {row.number: row.prompt for row in told if row.point == "server@1#1"}
    assert all(first.get(row.number, row.prompt) == row.prompt for row in told)
    # Each lap has each prompt once.
    assert sorted(first[n] for n in range(6)) == [f"p{n}" for n in range(6)]
    outputs = [json.loads(line) for line in (found.run / "outputs.jsonl").read_text().splitlines()]
    assert [one["id"] for one in outputs] == [row.id for row in told]
    assert {one["text"] for one in outputs} == {"a b\u00f6 \u20ac5 \U0001f642"}
    assert all(row.output_tokens == 4 and row.error is None for row in told)
    assert [one.level for one in found.levels] == [1.0, 3.0]
    assert [one.requests for one in found.levels] == [12, 12]
    assert found.done


def test_an_open_loop_or_a_trace_sends_other_requests(url: str, tmp_path: Path) -> None:
    found = loaded(url, tmp_path, concurrency=(), rate=[200.0], requests=10, warm_up=2)
    steady = [row for row in lines(found) if row.phase == "steady"]
    assert len(steady) == 10
    assert all(row.sent_at_s >= row.due_at_s for row in steady)
    log = tmp_path / "log.jsonl"
    asks = [
        {"timestamp": 10 + n / 100, "body": {"messages": [{"role": "user", "content": f"q{n}"}]}} for n in (2, 0, 1)
    ]
    log.write_text("".join(json.dumps(one) + "\n" for one in asks))
    traced = measure_load(url, log, trace=log, warm_up=0, model="m", out=tmp_path / "out", body={"stub": {"tokens": 2}})
    told = lines(traced)
    # The rows' own order of times, each with its own prompt.
    assert [row.prompt for row in told] == ["line-2", "line-3", "line-1"]
    assert [round(row.due_at_s - told[0].due_at_s, 6) for row in told] == [0.0, 0.01, 0.02]
    assert traced.levels[0].level == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        ({"fault": "status", "status": 429}, "http_429"),
        ({"fault": "status", "status": 500}, "http_5xx"),
        ({"fault": "status", "status": 503}, "http_5xx"),
        ({"fault": "hang", "after": 1}, "hung"),
        ({"fault": "torn", "after": 2}, "cut"),
        ({"fault": "malformed", "after": 1}, "malformed"),
        ({"fault": "error", "status": 500, "after": 1}, "http_5xx"),
    ],
)
def test_a_fault_ends_the_run_or_hides_in_its_rates(url: str, tmp_path: Path, play: dict[str, Any], kind: str) -> None:
    found = loaded(
        url, tmp_path, play={"times": 1, "key": f"{tmp_path}", **play}, concurrency=[1], limit_s=0.5, warm_up=0
    )
    (level,) = found.levels
    assert (level.requests, level.failed) == (6, {kind: 1})
    assert level.latency.ttft_s.n == 5
    assert level.rates.requests_per_s < level.rates.ended_per_s
    assert "1 of 6 requests failed" in (found.run / "report.md").read_text()


def test_a_reply_without_usage_is_a_failure_or_goes_unsaid(url: str, tmp_path: Path) -> None:
    found = loaded(url, tmp_path, play={"usage": False})
    assert {row.notes for row in lines(found)} == {("no_usage",)}
    assert {(row.output_tokens, row.counted, row.error) for row in lines(found)} == {(4, "events", None)}
    told = (found.run / "report.md").read_text()
    assert "the server told no count of tokens for 6 of 6 answers" in told
    assert "events/s" in words.answer(found)
    counted = loaded(url, tmp_path)
    assert [one.uncounted for one in (*found.levels, *counted.levels)] == [6, 0]
    assert "event" not in words.answer(counted)


def test_a_server_that_is_gone_is_asked_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_END_S", 0.2)
    with pytest.raises(
        ServerGone, match=r"server at http://127.0.0.1:9 does not answer any more; .*specq load --resume"
    ):
        loaded("http://127.0.0.1:9", tmp_path, requests=1000)
    (run,) = (tmp_path / "out" / "load").iterdir()
    assert not any(isinstance(row, Measured) for row in rows.read(run / "records.jsonl")[0])
    assert not (run / "done.json").exists()


def test_a_server_that_answers_nothing_well_is_asked_for_ever(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "GIVE_UP", 3)
    with pytest.raises(RunFailed, match=r"3 requests in a row failed, the last with malformed: .*specq load --resume"):
        loaded(url, tmp_path, requests=1000, play={"fault": "malformed", "after": 1})


def test_a_server_that_refuses_each_request_is_asked_for_all_levels(url: str, tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"refused each of the first 5 requests, the last with HTTP 400.*"):
        loaded(url, tmp_path, requests=1000, play={"fault": "status", "status": 400})


def test_a_server_that_answered_no_request_is_given_speeds(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asks, play = prompts(tmp_path), json.dumps({"stub": {"tokens": 4, "fault": "malformed", "after": 3}})
    typed = ["load", url, "--prompts", str(asks), "--model", "m", "--concurrency", "1,2", "--requests", "6"]
    assert cli.main([*typed, "--body", play, "--out", str(tmp_path / "out")]) == 1
    out, err = capsys.readouterr()
    assert re.search(r"server: no request succeeded \(\d+ malformed\)\.", out)
    assert "server answered no request" in err.splitlines()[-1]
    (run,) = (tmp_path / "out" / "load").iterdir()
    found = json.loads((run / "report.json").read_text())
    assert [one["rates"]["tokens_per_s"] for one in found["levels"]] == [0.0, 0.0]


def test_a_server_that_dies_and_comes_back_elsewhere_loses_or_doubles_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "GIVE_UP", 3)
    monkeypatch.setattr("specq.load.drive.PAUSE_S", 0.0)
    play = {"fault": "kill", "after": 2, "key": "r", "times": 0}
    with stub.started() as (url, process):
        done = loaded(url, tmp_path, concurrency=[1])
        # The second level's first request ends the server in the middle of a stream.
        with pytest.raises(RunFailed):
            loaded(url, tmp_path, play=play)
        process.wait(20)
    (run,) = [path for path in (tmp_path / "out" / "load").iterdir() if path != done.run]
    before = rows.read(run / "records.jsonl")[0]
    # Of two that were under way one may be reset, where its first byte had not come, and the next is not let in.
    assert {row.error for row in before if isinstance(row, Requested)} - {"reset", "refused"} == {"cut"}
    assert not any(isinstance(row, Measured) for row in before)
    body = json.loads((run / "run.json").read_text())
    body["asked"]["body"] = {"stub": {"tokens": 4}}
    (run / "run.json").write_text(json.dumps(body))
    with (run / "records.jsonl").open("a") as file:
        file.write('{"kind":"Req')
    with stub.started() as (moved, _):
        found = resume_load(run, url=moved)
        told = rows.read(run / "records.jsonl")[0]
        assert told[: len(before)] == before
        assert [row.attempt for row in told if isinstance(row, Began)] == [1, 2]
        assert (found.done, found.interrupted) == (True, sum(isinstance(row, Requested) for row in before))
        assert [one.requests for one in found.levels] == [6]
        again = resume_load(run, url=moved)
    # A run that is done asks nothing more.
    assert rows.read(run / "records.jsonl")[0] == told
    assert again.to_json() == found.to_json()


def test_ctrl_c_loses_what_was_recorded(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measuring._Run._prompt

    def stop(self: Any, number: int) -> Any:
        if number == 5:
            raise KeyboardInterrupt
        return asked(self, number)

    monkeypatch.setattr(measuring._Run, "_prompt", stop)
    with pytest.raises(Interrupted, match="to go on type: specq load --resume"):
        loaded(url, tmp_path, concurrency=[1])
    monkeypatch.undo()
    (run,) = (tmp_path / "out" / "load").iterdir()
    kept = [row for row in rows.read(run / "records.jsonl")[0] if isinstance(row, Requested)]
    assert len(kept) >= 4
    found = resume_load(run)
    assert found.interrupted == len(kept)
    assert [one.requests for one in found.levels] == [6]


def test_a_run_goes_on_with_other_prompts(url: str, tmp_path: Path) -> None:
    found = loaded(url, tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"id": "x", "prompt": "other"}\n')
    with pytest.raises(RunFolderError, match="the prompts are not those of the run any more"):
        resume_load(found.run)


def test_random_tokens_are_sent_to_a_server_that_drafts(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = prompts(tmp_path, tags=["random-tokens"])
    how: dict[str, Any] = {"model": "m", "requests": 2, "out": tmp_path / "out", "body": {"stub": {"tokens": 2}}}
    with pytest.raises(
        ConfigError, match=r"made of random tokens.* server, which is held .* not say whether it drafts:"
    ):
        measure_load(url, file, against=url, **how)
    assert not (tmp_path / "out").exists()
    assert measure_load(url, file, **how).done
    # One that does not say so is found out by what it proposed.
    numbers = measuring.Target.numbers
    monkeypatch.setattr(
        measuring.Target, "numbers", lambda self, told: dataclasses.replace(numbers(self, told), proposed=3, accepted=1)
    )
    with pytest.raises(ConfigError, match=r"made of random tokens.* and server drafts:"):
        measure_load(url, file, **(how | {"requests": 50}))
    # Two that both say that they draft nothing are asked.
    monkeypatch.undo()
    monkeypatch.setattr(measuring.Target, "speculates", False)
    assert measure_load(url, file, against=url, **how).done


def test_a_key_is_written_somewhere(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOAD_KEY", KEY)
    said: list[str] = []
    play = {"echo": True, "fault": "error", "status": 500, "after": 2, "times": 3, "key": str(tmp_path)}
    found = loaded(url, tmp_path, play=play, key_env="LOAD_KEY", on_progress=said.append)
    assert found.levels[0].failed or found.levels[0].failed_outside
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"run.json", "records.jsonl", "outputs.jsonl", "report.html"}
    text = "".join(path.read_text() for path in files) + "".join(said) + "".join(capfd.readouterr())
    assert "[LOAD_KEY]" in text
    assert all(form not in text for form in (KEY, KEY.replace("/", "\\/"), "secret"))


def test_prompts_are_warm_unless_asked_for(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []
    request = measuring.Target.request

    def note(self: Any, id: str, prompt: Any, cold: str | None) -> Any:
        seen.append(cold)
        return request(self, id, prompt, cold)

    monkeypatch.setattr(measuring.Target, "request", note)
    loaded(url, tmp_path)
    assert None not in seen
    assert len(set(seen)) == len(seen)
    seen.clear()
    loaded(url, tmp_path, warm_prefix=True)
    assert set(seen) == {None}


def test_long_prompts_are_not_sent_or_count_as_others(url: str, tmp_path: Path) -> None:
    long = tmp_path / "long.jsonl"
    long.write_text('{"id": "l1", "prompt": "long"}\n{"id": "l2", "prompt": "longer"}\n')
    found = loaded(url, tmp_path, inject=long, requests=30, play={"rate": 200.0})
    assert [row.prompt for row in lines(found) if row.phase == "inject"] == ["l1", "l2"]
    (level,) = found.levels
    assert (level.requests, level.latency.ttft_s.n) == (30, 30)
    assert level.pauses is not None
    assert level.pauses.injected == 2


def test_an_answer_is_held_against_no_schema(url: str, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "required": ["a"]}')
    assert loaded(url, tmp_path, schema=schema).levels[0].schema == {"no JSON": 6}
