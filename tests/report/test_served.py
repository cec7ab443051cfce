"""What a report makes of a server's counts, and of texts and draws that differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import served_answers
from served_answers import answer

from specq.core.records import ServedDraws
from specq.report import invariants, layout_draft, served
from specq.report.measures import of_arm


def values(**told: object) -> dict[str, float | None]:
    return {m.name: m.value for m in served.measures([answer(**told), answer(prompt="p1", **told)])}


def test_counts_of_a_server_are_pooled_wrong() -> None:
    found = values()
    # Eight tokens after the first, four of them accepted, so four passes; six were proposed.
    assert (found["tokens_per_step"], found["draft_acceptance"]) == (2.0, pytest.approx(4 / 6))
    assert found["target_rows_per_token"] == pytest.approx((6 + 4) / 8)
    assert found["draft_tokens_per_token"] == 6 / 8
    assert (found["survival[1]"], found["survival[2]"]) == (1.0, pytest.approx(1 / 3))
    assert (found["server_queue_s"], found["server_prefill_s"], found["server_decode_s"]) == (0.25, 0.5, 2.0)
    assert (found["cached_prompt_share"], found["asked_again"]) == (0.0, 0.0)


def test_what_a_server_does_not_count_is_made_up() -> None:
    nothing = {"draft_steps": None, "proposed": None, "accepted": None, "accepted_by_position": None}
    found = served.measures([answer(**nothing, queue_s=None)])
    known = {m.name: m for m in found}
    assert known["draft_acceptance"].value is known["tokens_per_step"].value is None
    assert known["draft_acceptance"].note.startswith("unknown")
    assert not any(name.startswith("survival") or name == "server_queue_s" for name in known)
    assert "tokens_per_step" not in {m.name for m in of_arm([answer()])}


def test_an_answer_without_a_proposal_hides_how_far_the_others_were_accepted() -> None:
    idle = {"draft_steps": 0, "proposed": 0, "accepted": 0, "accepted_by_position": (0, 0)}
    found = {m.name: m.value for m in served.measures([answer(), answer(prompt="p1", **idle)])}
    assert (found["survival[1]"], found["survival[2]"]) == (1.0, pytest.approx(1 / 3))
    assert not any(name.startswith("survival") for name in values(**idle))


def test_a_table_of_dashes_stands_for_what_a_server_does_not_count() -> None:
    nothing = {"draft_steps": None, "proposed": None, "accepted": None, "accepted_by_position": None}
    known = {m.name: m for m in served.measures([answer(**nothing)])}
    arm: Any = SimpleNamespace(label="lookup", draft={"rule": "greedy_draft"}, served=True, measures=known)
    assert layout_draft.positions([arm]).rows == ()
    assert layout_draft.positions([arm]).lines == ()
    assert "lookup: unknown: the server does not count proposals." in layout_draft.draft([arm]).lines
    told: Any = SimpleNamespace(
        label="other", draft=None, served=True, measures={m.name: m for m in served_answers.measures()}
    )
    assert [row[0] for row in layout_draft.positions([arm, told]).rows] == ["other survival"]


def test_an_engine_of_ones_own_has_measures_of_a_server() -> None:
    assert served.measures([]) == ()


def test_counts_that_contradict_each_other_pass() -> None:
    assert invariants.violations([answer()]) == ()
    assert "accepted more than was proposed" in invariants.violations([answer(accepted=7)])[0]
    assert "more accepted tokens" in invariants.violations([answer(accepted=10, proposed=20)])[0]
    late = tuple(reversed(range(served_answers.NEW)))
    assert "events that came before" in invariants.violations([answer(event_s=late)])[0]


def drawn(counts: dict[str, int], *, arm: str = "lookup#1", unit: str = "tokens") -> ServedDraws:
    return ServedDraws(
        arm=arm,
        prompt="p0",
        tokens=2,
        draws=sum(counts.values()),
        unit=unit,
        outcomes=tuple(counts),
        counts=tuple(counts.values()),
    )


def test_draws_of_one_law_are_told_apart_and_those_of_two_are_not() -> None:
    plain = drawn({"1 2": 50, "1 3": 50}, arm="baseline#1")
    alike = served.draws_test(drawn({"1 2": 46, "1 3": 54}), plain)
    assert alike.p > 0.05
    assert alike.tv == pytest.approx(0.04)
    # 0.04 + sqrt(ln 20 (1/100 + 1/100) / 2).
    assert alike.tv_upper == pytest.approx(0.04 + 0.17308, abs=1e-4)
    # The first token is the same, and only the second, which a draft proposes, is of another law.
    assert served.draws_test(drawn({"1 2": 90, "1 3": 10}), plain).p < 1e-6


def test_texts_with_blanks_are_cut_as_tokens_are() -> None:
    plain = drawn({"a b": 50, "a c": 50}, arm="baseline#1", unit="characters")
    assert served.draws_test(drawn({"a b": 95, "a d": 5}, unit="characters"), plain).p < 1e-6
