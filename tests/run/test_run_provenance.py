from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specq.run import bandwidth, provenance
from specq.run.memory import rss_peak_bytes


def test_nothing_private_stands_in_the_provenance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "home" / "someone"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SECRET_TOKEN", "do-not-write-this")
    monkeypatch.chdir(home / "work")
    text = json.dumps(provenance.collect())
    assert "someone" not in text
    assert "do-not-write-this" not in text
    assert json.loads(text)["cores_usable"] >= 1
    assert json.loads(text)["packages"]["numpy"]


def test_home_paths_are_hidden_and_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = {"target": {"model": str(tmp_path / "m")}, "list": [f"in {tmp_path}/x", str(tmp_path)], "n": 1}
    hidden = provenance.hide_home(config)
    assert hidden == {"target": {"model": "~/m"}, "list": ["in ~/x", "~"], "n": 1}
    assert provenance.show_home(hidden)["target"]["model"] == str(tmp_path / "m")


def test_a_home_of_slash_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert provenance.hide_home("/a/b") == "/a/b"


def test_paths_are_relative_where_they_can_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert provenance.tidy(tmp_path / "evals" / "chat.jsonl") == "evals/chat.jsonl"
    assert provenance.tidy(Path("evals/chat.jsonl")) == "evals/chat.jsonl"


def test_a_command_in_a_record_says_where_this_machine_keeps_its_files() -> None:
    words = ["A=1", sys.executable, f"{provenance.SOURCE}/engines/host.py", "--model", f"{Path.home()}/m"]
    assert provenance.tidy_command(words) == ("A=1", "python", "specq/engines/host.py", "--model", "~/m")


def test_git_revision_and_dirty_flag(tmp_path: Path) -> None:
    assert provenance.git_state(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@e"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    clean = provenance.git_state(tmp_path)
    assert clean is not None
    assert (len(clean["revision"]), clean["dirty"]) == (40, False)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "run.json").write_text("", encoding="utf-8")
    assert provenance.git_state(tmp_path) == clean
    (tmp_path / "new").write_text("", encoding="utf-8")
    dirty = provenance.git_state(tmp_path)
    assert dirty is not None
    assert dirty["dirty"] is True


def test_the_tree_of_specq_and_that_of_the_current_folder_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = provenance.collect()
    assert found["git_working_folder"] is None
    assert found["git_specq"] == provenance.git_state(Path(provenance.__file__).parent)


def test_an_environment_inside_another_tree_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)
    (tmp_path / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(provenance, "SOURCE", tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@e"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    assert provenance.git_state(tmp_path) is not None
    assert provenance.own_git_state() is None


def test_what_changed_between_two_machines_is_named() -> None:
    then = {"specq": "0.1", "processor": "a", "cores_usable": 2, "load_average": [1.0], "packages": {"torch": "2.1"}}
    now = {**then, "processor": "b", "load_average": [9.0], "packages": {"torch": "2.2", "numpy": None}}
    assert provenance.changes(then, now) == ["processor: a -> b", "torch: 2.1 -> 2.2"]
    assert provenance.changes(then, then) == []


def test_bandwidth_is_the_median_try_with_its_spread_at_the_threads_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    before = torch.get_num_threads()
    threads: list[int] = []
    # Seconds of the tries: 1, 2, 3, 4 and 30.
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0, 23.0, 30.0, 34.0, 40.0, 70.0])

    def tick() -> float:
        threads.append(torch.get_num_threads())
        return next(clock)

    monkeypatch.setattr(bandwidth, "now", tick)
    found = bandwidth.measure("cpu", threads=before + 1, size_bytes=3 << 20, tries=5)
    assert found.median == 1 << 20
    assert (found.minimum, found.maximum) == ((3 << 20) / 30, 3 << 20)
    assert set(threads) == {before + 1}
    assert torch.get_num_threads() == before


def test_peak_memory_is_this_process_own_and_in_bytes() -> None:
    before = rss_peak_bytes()
    block = bytearray(64 * 2**20)
    block[::4096] = b"x" * len(block[::4096])
    assert 8 * 2**20 < before < 64 * 2**30
    assert rss_peak_bytes() >= before
