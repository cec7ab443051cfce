from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from specq.core import hashes, jsonl
from specq.core.errors import DiskFull, RunFailed, RunFolderError
from specq.core.records import Generated, Note, key
from specq.core.types import DraftSpec
from specq.run import catalog, folder
from specq.run.answered import past_stop, repeated_share
from specq.run.measure import warm_up_tokens
from specq.run.store import Store

INFO: dict[str, Any] = {
    "experiment": "tiny",
    "question": "Which?",
    "config": {},
    "arms": [],
    "prompts": [],
    "created": "20261130T210446Z",
}


def sample(prompt: str = "p0") -> Generated:
    return Generated(
        process=0,
        arm="baseline#1",
        prompt=prompt,
        repeat=0,
        order=0,
        prompt_tokens=3,
        new_tokens=2,
        finish="length",
        ttft_s=0.1,
        e2e_s=0.1,
        rule=None,
        steps=(),
        past_stop=0,
        repeated_share=0.0,
        prompt_sha256="00",
        output_sha256=hashes.of_ids([1, 2]),
    )


def create(out: Path) -> Store:
    return Store.create(out, INFO)


def notes(store: Store) -> list[str]:
    return [record.text for record in store.contents().records if isinstance(record, Note)]


def test_run_json_stands_before_anything_is_recorded(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        assert [path.name for path in store.run_dir.iterdir()] == ["run.json"]
        assert store.run_dir.parent == tmp_path / "tiny"


def test_the_output_is_on_disk_before_the_record_that_commits_it(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        store.append(Note(process=0, text="open"))
        jsonl_append, order = jsonl.Appender.append, []

        def spy(self: jsonl.Appender, value: dict[str, Any]) -> None:
            order.append(self.path.name)
            jsonl_append(self, value)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jsonl.Appender, "append", spy)
            store.commit(sample(), [1, 2], "text")
        assert order == ["outputs.jsonl", "records.jsonl"]
        (output,) = store.contents().outputs
        assert (key(output), output.ids) == ((0, "baseline#1", "p0", 0), (1, 2))


def test_two_writers_in_one_folder_are_refused(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        with pytest.raises(RunFolderError, match="being written by another"):
            Store.open_for_resume(store.run_dir)
        with pytest.raises(RunFolderError, match="being written by another"):
            Store.attach(store.run_dir)
    Store.open_for_resume(store.run_dir).close()


def test_a_refused_resume_lets_go_of_the_lock(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        pass
    (store.run_dir / "records.jsonl").write_text('{"kind": "Unheard"}\n', encoding="utf-8")
    (store.run_dir / "outputs.jsonl").write_text("{}\n", encoding="utf-8")
    for _ in range(2):
        with (
            pytest.raises(RunFolderError, match=r"records\.jsonl:1: unknown record kind"),
            Store.open_for_resume(store.run_dir) as again,
        ):
            again.mend()


def test_torn_lines_and_an_output_without_its_record_are_cut_aloud(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        store.commit(sample("p0"), [1, 2], "a")
        store.commit(sample("p1"), [1, 2], "b")
    records, outputs = store.run_dir / "records.jsonl", store.run_dir / "outputs.jsonl"
    records.write_bytes(records.read_bytes()[:-30])
    with outputs.open("ab") as file:
        file.write(b'{"arm":"base')
    with Store.open_for_resume(store.run_dir) as again:
        again.mend()
        assert [r.prompt for r in again.contents().records if isinstance(r, Generated)] == ["p0"]
        assert [output.prompt for output in again.contents().outputs] == ["p0"]
        said = " ".join(notes(again))
        assert "of a torn last line from records.jsonl" in said
        assert "cut 1 output without a record from outputs.jsonl" in said
        assert "cut 12 bytes of a torn last line from outputs.jsonl" in said
    assert outputs.read_bytes().endswith(b"\n")


def test_a_whole_folder_is_resumed_without_a_note(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        store.commit(sample(), [1, 2], "a")
    before = (store.run_dir / "records.jsonl").read_bytes()
    with Store.open_for_resume(store.run_dir) as again:
        again.mend()
        assert notes(again) == []
    assert (store.run_dir / "records.jsonl").read_bytes() == before


def test_done_json_counts_the_lines_so_that_a_loss_is_seen(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        store.append(Note(process=0, text="one"))
        store.append(Note(process=0, text="two"))
        store.finish()
        assert store.contents().losses == []
    records = store.run_dir / "records.jsonl"
    records.write_text(records.read_text(encoding="utf-8").splitlines(keepends=True)[0], encoding="utf-8")
    assert folder.read(store.run_dir).losses == ["records.jsonl has 1 line, 2 stood there when the run was done"]


def test_a_disk_that_is_full_at_once_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, value: Any) -> None:
        raise DiskFull("no space")

    monkeypatch.setattr(jsonl, "write_whole", full)
    with pytest.raises(DiskFull):
        create(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["forecast.json", "run.json"])
def test_a_run_is_begun_without_what_was_to_lie_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    written, write = list[str](), jsonl.write_whole

    def full(path: Path, value: Any) -> None:
        if path.name == name:
            raise jsonl.disk_error(OSError(errno.ENOSPC, "full"), path)
        written.append(path.name)
        write(path, value)

    monkeypatch.setattr(jsonl, "write_whole", full)
    with pytest.raises(DiskFull, match="free some space; no run was begun: then type the same again"):
        Store.create(tmp_path, INFO, {"forecast.json": {"a": 1}})
    # A run that can be resumed has its forecast: run.json, which makes it one, comes last.
    assert written == ([] if name == "forecast.json" else ["forecast.json"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["append", "finish"])
@pytest.mark.parametrize(
    ("number", "kind", "hint"),
    [
        (errno.ENOSPC, DiskFull, "free some space"),
        (errno.EFBIG, DiskFull, "ulimit -f unlimited"),
        (errno.EROFS, RunFolderError, "make its folder writable"),
        (errno.EIO, RunFailed, "cannot write"),
    ],
)
def test_a_file_that_cannot_be_written_any_more_says_once_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, number: int, kind: type[Exception], hint: str
) -> None:
    def full(*_: Any) -> None:
        raise jsonl.disk_error(OSError(number, "what the system says"), tmp_path)

    with create(tmp_path) as store:
        monkeypatch.setattr(jsonl.Appender, "append", full)
        monkeypatch.setattr(jsonl, "write_whole", full)
        with pytest.raises(kind, match=hint) as caught:
            store.commit(sample(), [1], "a") if what == "append" else store.finish()
    assert str(caught.value).count(f"specq run --resume {store.run_dir}") == 1


def test_a_results_folder_that_is_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    with pytest.raises(RunFolderError, match="--out DIR"):
        create(tmp_path / "out")


def test_a_folder_without_run_json_is_no_run(tmp_path: Path) -> None:
    for given in (tmp_path, tmp_path / "absent"):
        with pytest.raises(RunFolderError, match="specq ls"):
            Store.open_for_resume(given)


def test_ls_tells_done_running_and_unfinished_apart(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        assert [run.state for run in catalog.list_runs(tmp_path)] == ["running"]
    assert [run.state for run in catalog.list_runs(tmp_path)] == ["unfinished"]
    with Store.attach(store.run_dir) as again:
        again.finish()
    (found,) = catalog.list_runs(tmp_path)
    assert (found.state, found.question, found.run) == ("done", "Which?", str(store.run_dir))
    assert catalog.find_run(store.run_dir.name, tmp_path) == store.run_dir
    with pytest.raises(RunFolderError, match="no run 'nowhere'"):
        catalog.find_run("nowhere", tmp_path)


def test_ls_lists_a_run_that_cannot_be_read_and_goes_on(tmp_path: Path) -> None:
    with create(tmp_path) as store:
        pass
    broken = tmp_path / "tiny" / "broken"
    broken.mkdir()
    (broken / "run.json").write_text('{"experiment": "ti', encoding="utf-8")
    first, second = catalog.list_runs(tmp_path)
    assert (first.run, first.experiment, first.state) == (str(broken), "tiny", "unreadable")
    assert (second.run, second.state) == (str(store.run_dir), "unfinished")


def test_warm_up_covers_two_whole_blocks_of_every_draft() -> None:
    assert [warm_up_tokens(DraftSpec(method="lookup", k=k)) for k in (1, 3, 4, 16)] == [8, 8, 10, 34]
    assert warm_up_tokens(None) == 8


def test_repeated_share_counts_four_grams_that_occurred_before() -> None:
    assert repeated_share([1, 2, 3]) == 0.0
    assert repeated_share([1, 2, 3, 4, 5]) == 0.0
    assert repeated_share([7] * 8) == pytest.approx(4 / 5)
    assert repeated_share([1, 2, 3, 4, 1, 2, 3, 4]) == pytest.approx(1 / 5)


def test_past_stop_counts_what_follows_the_first_own_eos() -> None:
    assert past_stop([5, 2, 6, 2, 7], (2, 9)) == 3
    assert past_stop([5, 6, 2], (2,)) == 0
    assert past_stop([5, 6], (2,)) == 0
