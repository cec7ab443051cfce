from __future__ import annotations

import errno
import gc
import json
from pathlib import Path
from typing import Any

import pytest

from specq.core import jsonl, lines, typed
from specq.core.errors import DiskFull, Interrupted, RunFailed, RunFolderError
from specq.core.records import Canary, Failed, Generated, Machine, Memory, Note, StepRow, failed_arms, to_json
from specq.core.types import Step

STEP = Step(context=3, proposed=2, accepted=1, emitted=2, draft_s=0.1, verify_s=0.2, sample_s=0.3, rest_s=0.4)
ANSWER = Generated(
    process=0,
    arm="lookup#1",
    prompt="p0",
    repeat=0,
    order=0,
    prompt_tokens=3,
    new_tokens=3,
    finish="length",
    ttft_s=0.1,
    e2e_s=1.1,
    rule=None,
    steps=(StepRow.of(STEP),),
    past_stop=0,
    repeated_share=0.0,
    prompt_sha256="00",
    output_sha256="00",
)


def failed(arm: str, error: str = "ValueError") -> Failed:
    return Failed(process=0, arm=arm, prompt="p0", repeat=0, error=error, message="no")


def test_a_record_that_is_read_equals_the_one_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    machine = Machine(process=0, bandwidth_bytes_per_s=2.0, threads=1, device="cpu", imports_bytes=1)
    appender = jsonl.Appender(path)
    for record in (ANSWER, machine):
        appender.append(to_json(record))
    appender.close()
    found, torn = lines.read(path)
    assert (found, torn) == ([(1, ANSWER), (2, machine)], 0)
    answer = found[0][1]
    assert isinstance(answer, Generated)
    assert answer.steps[0].step() == STEP
    assert list(to_json(ANSWER)["steps"][0]) == [3, 2, 1, 2, 0.1, 0.2, 0.3, 0.4]


def test_a_machine_of_an_older_run_has_no_spread_and_is_still_read() -> None:
    old = {"kind": "Machine", "process": 0, "bandwidth_bytes_per_s": 2e9, "threads": 1, "device": "cpu"}
    found = lines.from_json({**old, "imports_bytes": 5})
    assert isinstance(found, Machine)
    assert found.bandwidth_min_bytes_per_s is None


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda line: line.replace("{", "[", 1), "not a JSON line"),
        (lambda line: "[1]", "expected a JSON object, found list"),
        (lambda line: "[" * 100_000, "not a JSON line"),
        (lambda line: line.replace('"Generated"', '"Foo"'), "unknown record kind 'Foo'"),
        (lambda line: line.replace('"e2e_s":1.1', '"e2e_s":NaN'), "NaN is no JSON number"),
        (lambda line: line.replace('"e2e_s":1.1', '"e2e_s":-Infinity'), "-Infinity is no JSON number"),
        (
            lambda line: line.replace('"e2e_s":1.1', '"e2e_s":1e400'),
            "Generated.e2e_s is inf, allowed is a finite number",
        ),
        (lambda line: line.replace('"e2e_s":1.1', '"e2e_s":"x"'), "Generated.e2e_s is 'x', allowed is a finite number"),
        (lambda line: line.replace('"e2e_s":1.1', '"e2e_s":true'), "Generated.e2e_s is True"),
        (lambda line: line.replace('"new_tokens":3', '"new_tokens":3.5'), "allowed is a whole number"),
        (lambda line: line.replace('"new_tokens":3', f'"new_tokens":{10**30}'), "allowed is a whole number"),
        (lambda line: line.replace('"arm":"lookup#1"', '"arm":["x"]'), "Generated.arm is ['x'], allowed is a text"),
        (lambda line: line.replace('"rule":null', '"rule":7'), "allowed is a text or null"),
        (lambda line: line.replace("[[3,", "[[1e400,"), "Generated.steps is [[inf, 2, 1, 2"),
        (lambda line: line.replace("[[3,", "[["), "allowed is a list, each item a list of a whole number,"),
        (lambda line: line.replace('"steps":[', '"steps":[4,'), "Generated.steps is [4, [3,"),
        (lambda line: line.replace('"arm":"lookup#1",', ""), "Generated is incomplete"),
        (lambda line: line.replace("{", '{"more":1,', 1), "unknown fields ['more']"),
    ],
)
def test_a_damaged_line_is_refused_by_file_and_line_with_what_to_do(tmp_path: Path, edit: Any, says: str) -> None:
    path = tmp_path / "records.jsonl"
    good = json.dumps(to_json(ANSWER), separators=(",", ":"))
    bad = edit(good)
    assert bad != good
    path.write_text(f"{good}\n{bad}\n{good}\n", encoding="utf-8")
    with pytest.raises(RunFolderError) as caught:
        lines.read(path)
    said = str(caught.value)
    assert said.startswith(f"{path}:2: ")
    assert says in said
    assert said.endswith("put the line back as specq wrote it, or take the line out and lose what it says")
    assert "\n" not in said
    assert caught.value.exit_code == 2


def test_bytes_that_are_no_text_are_refused_and_a_torn_last_line_is_not(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    good = json.dumps(to_json(ANSWER)).encode()
    path.write_bytes(good + b"\n" + good[:40])
    assert lines.read(path) == ([(1, ANSWER)], 40)
    path.write_bytes(good + b'\n{"kind":"\xff"}\n')
    with pytest.raises(RunFolderError, match=r"records\.jsonl:2: not a JSON line"):
        lines.read(path)


def test_a_damaged_output_is_refused_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "outputs.jsonl"
    good = {"arm": "lookup#1", "prompt": "p0", "repeat": 0, "process": 0, "ids": [1, 2], "text": "hi"}
    path.write_text(json.dumps(good) + "\n" + json.dumps({**good, "ids": [1, "2"]}) + "\n", encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"outputs\.jsonl:2: Output\.ids is \[1, '2'\]"):
        lines.read_outputs(path)
    path.write_text('{"arm": "lookup#1"}\n', encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"outputs\.jsonl:1: Output is incomplete"):
        lines.read_outputs(path)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").mkdir()
    with pytest.raises(RunFolderError, match="cannot be read"):
        lines.read(tmp_path / "records.jsonl")


def test_an_int_is_a_float_and_a_list_of_another_length_is_no_row() -> None:
    assert typed.fits(1, float)
    assert not typed.fits(1.0, int)
    assert typed.fits((1, 0.5), tuple[int, float])
    assert not typed.fits((1,), tuple[int, float])
    assert typed.fits((), tuple[int, ...])
    assert typed.in_words(int | None) == "a whole number or null"


def test_a_type_is_not_read_again_for_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(f"{json.dumps(to_json(ANSWER))}\n" * 20, encoding="utf-8")
    lines.read(path)
    asked = []
    monkeypatch.setattr(typed, "get_origin", asked.append)
    assert len(lines.read(path)[0]) == 20
    assert asked == []


@pytest.mark.parametrize("on", [True, False])
def test_the_garbage_collector_rests_while_lines_are_read_and_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: bool
) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(f"{json.dumps(to_json(ANSWER))}\n[1]\n", encoding="utf-8")
    seen = []
    original = lines.from_json

    def watching(value: Any) -> Any:
        seen.append(gc.isenabled())
        return original(value)

    monkeypatch.setattr(lines, "from_json", watching)
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(RunFolderError):
            lines.read(path)
        assert gc.isenabled() is on
    finally:
        gc.enable()
    assert seen == [False]


def test_the_objects_of_a_file_are_not_all_held_before_the_first_is_used(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"a": 1}\n\n[2]\n{"torn')
    found, torn = jsonl.scan(path)
    assert torn == 6
    assert next(found) == (1, {"a": 1})
    with pytest.raises(RunFolderError, match=r"records\.jsonl:3: expected a JSON object, found list"):
        next(found)


def test_an_arm_that_answered_once_is_not_among_those_that_failed() -> None:
    records = [failed("a#1", "OSError"), failed("a#1"), failed("lookup#1"), ANSWER, failed("b#1", "audit Audited: X")]
    assert failed_arms(records) == {"a#1": records[0]}


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EFBIG, DiskFull),
        (errno.EACCES, RunFolderError),
        (errno.EROFS, RunFolderError),
        (errno.EIO, RunFailed),
    ],
)
def test_a_write_that_fails_names_the_file_and_leaves_no_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    path = tmp_path / "report.json"
    path.write_text("old", encoding="utf-8")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(number, "what the system says")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(kind, match=r"report\.json"):
        jsonl.write_whole(path, {})
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]
    # Where even the scratch file cannot be removed, the first error is still the one that is told.
    monkeypatch.setattr(Path, "unlink", full)
    with pytest.raises(kind, match=r"report\.json"):
        jsonl.write_whole(path, {})
    assert path.read_text(encoding="utf-8") == "old"


def test_an_interruption_exits_with_its_signal() -> None:
    assert [Interrupted("stopped", number).exit_code for number in (1, 2, 15)] == [129, 130, 143]
    assert Interrupted("stopped").exit_code == 130


def test_every_kind_of_record_can_be_checked() -> None:
    for record in (Canary(process=0, at_s=1, tpot_s=0.1), Note(process=0, text="x")):
        assert lines.from_json(json.loads(json.dumps(to_json(record)))) == record
    with pytest.raises(RunFolderError, match=r"Memory\.peak_bytes"):
        lines.from_json(
            {**to_json(Memory(arm="a", peak_bytes=1, source="rss", prompt="p", new_tokens=1)), "peak_bytes": None}
        )
