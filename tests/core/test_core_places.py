"""A place for results that cannot take them is told as the user's mistake, before any work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specq
from specq import cli
from specq.core import places
from specq.core.errors import ConfigError


def test_a_folder_that_need_not_exist_yet_is_refused(tmp_path: Path) -> None:
    assert places.check_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert places.check_folder(str(tmp_path)) == tmp_path


def test_a_file_a_broken_link_and_what_lies_below_a_file_pass_for_folders(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("x")
    link.symlink_to(tmp_path / "gone")
    for out, says in ((file, "it is no folder"), (link, "it is no folder"), (file / "a" / "b", f"{file} is no folder")):
        with pytest.raises(ConfigError, match=rf"^--out {out}: {says}; name a folder"):
            places.check_folder(out)


def test_a_folder_that_may_not_be_written_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places.os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="may not be written"):
        places.check_folder(tmp_path)


STARTS: dict[str, Callable[[Path, Path], Any]] = {
    "load": lambda out, file: specq.measure_load("http://127.0.0.1:9", file, out=out),
    "lab": lambda out, _: specq.measure_requests("http://127.0.0.1:9", out=out),
    "import": lambda out, file: specq.import_metrics(file, out=out),
    "distill": lambda out, _: specq.distill_model("builtin:smollm2-135m", "1", out),
}


@pytest.mark.parametrize("name", STARTS)
def test_an_out_that_is_a_file_is_found_after_the_work(tmp_path: Path, name: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": "a", "prompt": "b"}\n')
    with pytest.raises(ConfigError, match=r"--out .*prompts\.jsonl"):
        STARTS[name](file, file)


@pytest.mark.parametrize(
    "words", [["run", "FILE.toml"], ["drafts", "FILE.toml"], ["drafts", "builtin:smollm2-135m", "lookup"]], ids=" ".join
)
def test_a_command_whose_out_is_a_file_ends_with_1_or_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    from specq.forecast import study
    from specq.run import inputs

    prompts, experiment = tmp_path / "p.jsonl", tmp_path / "FILE.toml"
    prompts.write_text('{"id": "a", "prompt": "b"}\n')
    experiment.write_text(
        'question = "?"\n[target]\nmodel = "builtin:smollm2-135m"\n[workload]\nprompts = "p.jsonl"\n'
        '[levers.lookup]\nkind = "draft"\nmethod = "lookup"\n'
    )
    monkeypatch.setattr(study, "study", lambda *_, **__: pytest.fail("it was studied"))
    monkeypatch.setattr(inputs, "make_plan", lambda *_, **__: pytest.fail("it was planned"))
    monkeypatch.chdir(tmp_path)
    more = [] if "FILE.toml" in words else ["--prompts", str(prompts)]
    assert cli.main([*words, *more, "--out", str(prompts)]) == 2
    assert "is no folder; name a folder" in " ".join(capsys.readouterr().err.split())
