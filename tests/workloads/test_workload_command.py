from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import workload_files as files

import specq
from doc_pages import chapters, page, rows
from specq import cli
from specq.core.errors import ConfigError, PromptError
from specq.experiment import prompts
from specq.workloads import formats


def log(tmp_path: Path) -> Path:
    asked = [
        {"timestamp": f"2026-05-01T10:00:{n:02d}Z", "body": files.body(f"{n} a@example.com", metadata={"app": "x"})}
        for n in range(4)
    ]
    hostile = {"tags": ["\x1b[31mred"], **files.body("w")}
    return files.lines(tmp_path / "a.jsonl", *asked, {**files.body("t"), "tools": [{"n": 1}]}, hostile, "{broken")


def test_the_page_lacks_a_format() -> None:
    told = chapters(page("docs/workloads.md"))
    assert [row[0].strip("`") for row in rows(told["Formats"])] == list(formats.FORMATS)


def test_the_table_hides_a_count_or_obeys_a_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    path, out = log(tmp_path), tmp_path / "new" / "p.jsonl"
    assert cli.main(["workload", str(path), "--tag", "metadata.app", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"rows +7, 1 of them dropped\n", shown)
    assert re.search(r"prompts +6\n", shown)
    assert re.search(r"tags +x 4, \\x1b\[31mred 1\n", shown)
    assert re.search(r"personal data and keys +email 4 \(1 different\); names and addresses", shown)
    assert re.search(r"arrivals +1.00 a second; at most 4 in a minute\n", shown)
    assert "dropped: no whole JSON (Expecting property name enclosed in double quotes): 1 row, line 7" in shown
    assert "not written: tool definitions, which specq's own format does not have: 1 prompt" in shown
    assert "2 rows without a time under timestamp" in shown
    assert "\x1b" not in shown
    written = prompts.load(out)
    assert [(item.id, item.tags) for item in written][:2] == [("line-1", ("x",)), ("line-2", ("x",))]
    assert written[0].messages == ({"role": "user", "content": "0 [EMAIL_1]"},)
    assert len(written) == 5


def test_what_is_written_is_read_as_another_workload(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    first = specq.read_workload(log(tmp_path), out=out)
    again = specq.read_workload(out)
    kept = [one for one in first.requests if not one.foreign]
    assert again.read.format == "specq"
    assert [(one.id, one.messages, one.tags) for one in again.requests] == [
        (one.id, one.messages, one.tags) for one in kept
    ]


def test_json_is_no_single_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["workload", str(log(tmp_path)), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["rows"], found["prompts"], found["personal_data"]) == ("openai", 7, 6, "replaced")
    assert found["scrubbed"] == {"email": 4}
    assert found["dropped"][0]["lines"] == [7]
    assert found["arrivals"]["rate"]["per_s"] == 1
    assert found["lengths"]["characters"]["p95"] is None
    assert cli.main(["workload", str(log(tmp_path)), "--json", "--keep-personal-data"]) == 0
    assert json.loads(capsys.readouterr().out)["personal_data"] == "kept"


def test_a_file_is_written_over_or_for_nothing(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    out.write_text("mine")
    with pytest.raises(ConfigError, match="is there already; nothing is written over"):
        specq.read_workload(log(tmp_path), out=out)
    assert out.read_text() == "mine"
    trace = tmp_path / "t.csv"
    trace.write_text("timestamp\n1.5\n2.5\n")
    with pytest.raises(PromptError, match=r"was not written, .*a time and lengths, but no text \(2\)"):
        specq.read_workload(trace, out=tmp_path / "t.jsonl")
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["FILE", "--count", "2"], "--count belongs to --tokens"),
        (["FILE", "--tokens", "5", "--limit", "2"], "--limit is for rows"),
        (["FILE", "--tokens", "5,x"], "allowed are whole numbers with commas between them: --tokens 128,512"),
        (["FILE", "--turns", "last"], "turns last: allowed are first and each"),
        (["FILE", "--limit", "0"], "limit 0: allowed is 1 or more"),
        (["FILE", "--phone-region", "TURKEY"], "phone region TURKEY"),
        (["TEXT"], "plain text, no rows; to make prompts of it, say how long: --tokens 512"),
    ],
)
def test_a_mistake_is_more_than_a_line_or_no_exit_code(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("Once upon a time there was a harbour.\n")
    where = {"FILE": str(log(tmp_path)), "TEXT": str(tmp_path / "a.txt")}
    assert cli.main(["workload", *(where.get(word, word) for word in words)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert told in said.err


def test_prompts_of_a_text_are_not_those_that_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "p.jsonl"
    words = ["workload", "builtin:text", "--tokens", "8,30", "--count", "3", "--out", str(out), "--json"]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["lengths"]["words"]["maximum"] == 30
    assert [item.tags for item in prompts.load(out)] == [("8-words",)] * 3 + [("30-words",)] * 3


def test_the_command_loads_torch() -> None:
    code = (
        "import sys, specq.cli\nspecq.cli.main(['workload', 'evals/chat.jsonl', '--json'])\n"
        "print([name for name in ('torch', 'transformers', 'scipy', 'pandas') if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.splitlines()[-1] == "[]"
