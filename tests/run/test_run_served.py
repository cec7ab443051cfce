"""Whole runs on stub servers: what is started, recorded, compared and reported, and what is told as unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import served_stubs
from served_stubs import LOOKUP, VLLM

from specq.core.errors import UserError
from specq.core.records import Generated, SameText, ServedDraws, Serving
from specq.core.served import ServedAnswer
from specq.engines.served import stub
from specq.report import assemble, layout
from specq.run import folder, runner


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    served_stubs.quick(monkeypatch)


def run(experiment: Any, out: Path) -> tuple[Path, assemble.Report]:
    made = runner.run(experiment, out=out)
    return made, assemble.build(made)


@pytest.mark.usefixtures("quick")
def test_an_arm_runs_on_another_arms_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Any) -> None:
    served_stubs.install(tmp_path, monkeypatch, draft={"accepted": 2})
    experiment = served_stubs.experiment(tmp_path, VLLM, model=str(folder_of("llama")), more=LOOKUP)
    made, report = run(experiment, tmp_path / "out")
    contents = folder.read(made)
    servings = [r for r in contents.records if isinstance(r, Serving)]
    # Each block starts a server of its own, forwards and backwards.
    order = ["baseline#1", "baseline#2", "lookup#1"]
    assert [one.arms[0] for one in servings] == [*order, *order[::-1]]
    assert [one.task for one in servings][:2] == ["measure:baseline#1:0", "measure:baseline#2:0"]
    for one in servings:
        assert ("--speculative-config" in one.command) == (one.arms == ("lookup#1",))
        assert "--enforce-eager" in one.command
        assert (made / one.log).is_file()
        assert (one.server, one.settings["attention"]) == ("vllm", "unknown")
    assert len({one.log for one in servings}) == len(servings)
    assert {one.exactness for one in servings} == {"", "exact"}
    answers = [r for r in contents.records if isinstance(r, Generated)]
    assert len(answers) == 3 * 2 * 2
    assert {r.new_tokens for r in answers} == {served_stubs.NEW}
    told = ServedAnswer.of(next(r.served for r in answers if r.arm == "lookup#1" and r.served))
    assert (told.counted, told.proposed, told.accepted, told.draft_steps, told.prompt_tokens) == ("ids", 4, 2, 2, 5)
    assert len(told.event_s) == served_stubs.NEW
    arm = report.arm("lookup#1")
    assert arm.measures["draft_acceptance"].value == 0.5
    # Five tokens after the first, two of them accepted: three passes.
    assert arm.measures["tokens_per_step"].value == pytest.approx(5 / 3)
    assert arm.audit.status == "passed"
    assert arm.audit.count("identical") == 2
    said = {section.title: section for section in layout.sections(report)}
    # Nobody looked for ties, and this server does not count by place.
    assert said["Lossless audit"].columns == ("arm", "audit", "identical", "positions", "same ids")
    assert "Acceptance by place" not in said
    assert any("server was started anew for each" in flag for flag in report.flags)
    assert any("lookup is exact: " in note for note in report.notes)


@pytest.mark.usefixtures("quick")
def test_a_text_that_differs_is_called_a_tie_or_lossless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Any
) -> None:
    served_stubs.install(tmp_path, monkeypatch, draft={"first": 1})
    experiment = served_stubs.experiment(tmp_path, VLLM, model=str(folder_of("llama")), more=LOOKUP)
    made, report = run(experiment, tmp_path / "out")
    same = [r for r in folder.read(made).records if isinstance(r, SameText) and r.arm == "lookup#1"]
    assert [(r.prompt, r.unit, r.first_difference) for r in same] == [("p0", "tokens", 0), ("p1", "tokens", 0)]
    arm = report.arm("lookup#1")
    assert arm.audit.status == "differs"
    assert arm.audit.count("tie") == 0
    assert "not called lossless" in arm.audit.sentence()
    assert "the baseline differs from itself, in a server started anew, on 0 of 2" in arm.audit.sentence()
    assert arm.verdict is not None
    assert arm.verdict.kind != "keep"
    assert report.arm("baseline#2").audit.status == "passed"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("first", "status"), [(0, "passed"), (1, "failed")])
def test_draws_of_another_law_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Any, first: int, status: str
) -> None:
    served_stubs.install(tmp_path, monkeypatch, plain={"vary": 3}, draft={"vary": 3, "first": first})
    experiment = served_stubs.experiment(
        tmp_path,
        VLLM,
        model=str(folder_of("llama")),
        more=f"{LOOKUP}\n[audit]\nseeds = 60",
        temperature=1.0,
        repeats=1,
        prompts=1,
    )
    made, report = run(experiment, tmp_path / "out")
    drawn = {r.arm: r for r in folder.read(made).records if isinstance(r, ServedDraws)}
    assert set(drawn) == {"baseline#1", "baseline#2", "lookup#1"}
    assert sum(drawn["lookup#1"].counts) == drawn["lookup#1"].draws == 60
    audit = report.arm("lookup#1").audit
    assert audit.status == status
    assert audit.first_tokens[0].tv_upper > 0


@pytest.mark.usefixtures("quick")
def test_an_attached_server_needs_ids_or_a_tokenizer(tmp_path: Path) -> None:
    with stub.started(plays={"tokens": served_stubs.NEW, "rate": 500.0}, model="served") as (url, _):
        experiment = served_stubs.experiment(tmp_path, {"kind": "openai", "url": url}, model="served")
        made, report = run(experiment, tmp_path / "out")
    contents = folder.read(made)
    answers = [r for r in contents.records if isinstance(r, Generated)]
    assert [r.arm for r in answers].count("baseline#2") == 4
    assert {(r.new_tokens, r.prompt_tokens, r.has_ids) for r in answers} == {(served_stubs.NEW, 5, False)}
    assert {len(output.ids) for output in contents.outputs} == {0}
    assert {output.text for output in contents.outputs} == {"a b\u00f6 \u20ac5 \U0001f642 za"}
    (serving,) = (r for r in contents.records if isinstance(r, Serving) and r.arms == ("baseline#1",))
    assert (serving.command, serving.log, serving.settings["model"]) == ((), "", "served")
    assert serving.settings["cache_type"] == "unknown"
    assert report.arm("baseline#2").measures["speedup"].value is not None
    assert report.complete
    assert not (made / "servers").exists()


def test_a_wrong_model_name_is_found_in_the_middle_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served_stubs.quick(monkeypatch)
    with stub.started(model="served") as (url, _):
        experiment = served_stubs.experiment(tmp_path, {"kind": "openai", "url": url}, model="other")
        with pytest.raises(UserError, match='has no model "other": it has "served"'):
            runner.run(experiment, out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*/*"))


@pytest.mark.usefixtures("quick")
def test_a_batch_is_asked_one_by_one_or_a_prefix_cache_is_left_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Any
) -> None:
    served_stubs.install(tmp_path, monkeypatch)
    more = '[levers.b2]\nkind = "batch"\nsize = 2\n[levers.warm]\nkind = "prefix_cache"\n'
    experiment = served_stubs.experiment(tmp_path, VLLM, model=str(folder_of("llama")), more=more, prompts=3)
    made, report = run(experiment, tmp_path / "out")
    contents = folder.read(made)
    for one in (r for r in contents.records if isinstance(r, Serving)):
        slots = one.command[one.command.index("--max-num-seqs") + 1]
        assert slots == ("2" if one.arms == ("b2#1",) else "1")
        assert ("--enable-prefix-caching" in one.command) == (one.arms == ("warm#1",))
    answers = [r for r in contents.records if isinstance(r, Generated)]
    waves = {(r.prompt, r.repeat): (r.batch, r.batch_s) for r in answers if r.arm == "b2#1"}
    assert [waves[prompt, 0][0] for prompt in ("p0", "p1", "p2")] == [2, 2, None]
    assert waves["p0", 0] == waves["p1", 0] != waves["p0", 1]
    assert {r.batch for r in answers if r.arm != "b2#1"} == {None}
    assert {r.arm for r in contents.records if isinstance(r, SameText)} == {"baseline#2", "b2#1", "warm#1"}
    assert report.arm("b2#1").audit.status == report.arm("warm#1").audit.status == "passed"
    assert report.arm("b2#1").measures["throughput_speedup"].n == 2
