"""A lookup replayed from a file's ids alone is the lookup that the loop runs, and shares a row of all rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from replayed_texts import GREEDY, PROMPT, laws, line, text, write, written

from specq import cli
from specq.core.types import Match, Sampling
from specq.forecast import copied, files, pairing, replay
from specq.forecast.files_check import Seconds

WARM = Sampling(temperature=1.0)
IDS = [5, 6, 7, 5, 6, 7, 5, 9, 6, 7, 5, 9]


def target(tmp_path: Path, ids: list[int]) -> Path:
    law = np.full((len(ids), 30), np.log(1 / 30))
    return write(tmp_path / "target.jsonl", [line("a", law, ids, 30)])


@pytest.mark.parametrize("how", ["ngram", "suffix"])
def test_what_is_copied_along_a_file_is_what_the_loops_lookup_proposes(tmp_path: Path, how: Match) -> None:
    from specq.core.types import DraftSpec
    from specq.decoding import audit
    from specq.engines.hf_decoder import lookup

    own = text(tmp_path, "t", line("a", np.full((len(IDS), 30), np.log(1 / 30)), IDS, 30))
    found = copied.along(own, how, 4)
    drafter = lookup(DraftSpec(method="lookup", k=4, match=how))
    proposed, matched = audit.lookup_copies(drafter, None, IDS[:PROMPT], IDS[PROMPT:], 4)  # type: ignore[arg-type]
    assert (found.proposed.tolist(), found.matched.tolist()) == (proposed.tolist(), matched.tolist())
    assert found.matched.max() > 1


def test_a_lookup_stands_beside_files_and_takes_no_seconds_a_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    path = target(tmp_path, IDS)
    found = files.rank(
        path, {"l": Path("lookup")}, temperature=1.0, most=2, seconds=Seconds(plain=0.02, draft={}, verify={3: 0.02})
    )
    # Steps start at tokens 1, 4, 5 (of 9): 5 | 6 7 5 | 9 ..., with what stands before each.
    assert {one.tokens_per_step.least == one.tokens_per_step.greatest for one in found.cells} == {True}
    assert {round(one.tokens_per_step.least, 9) for one in found.cells if one.cell.k == 2} == {
        round(next(one.speedup.least for one in found.cells if one.cell.k == 2 and one.speedup), 9)
    }
    assert (found.lookups, found.counts["l"].bounded) == (("l",), 0)
    words = ["replay", "--target", str(path), "--draft", "l=lookup", "--temperature", "1", "--k", "1"]
    assert cli.main(words) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines() if row.split()[:1] == ["l"]]
    assert [row[1] for row in rows[1:]] == ["all"]


def test_a_token_outside_of_the_law_is_copied_and_refused(tmp_path: Path) -> None:
    """The target chose it, by a rounding of its own, so it takes what proposes it."""
    law = laws(3, 8)
    ids = written(law, 4, GREEDY)
    own = text(tmp_path, "t", line("a", law, [*ids[:-8], *[ids[-8]] * 8], 30))
    reach = pairing.law(own, GREEDY)
    outside = [at for at, one in enumerate(reach) if one.member == "out"]
    found = copied.along(own, "ngram", 8)
    assert outside
    assert any(t <= at < t + found.matched[t] for at in outside for t in range(len(reach)))


def test_a_copy_past_the_end_is_priced_without_a_room(tmp_path: Path) -> None:
    """The last step copies as far as the limit lets it: "4 1 2 3" would follow the answer."""
    ids = [*[1, 2, 3, 4] * 3, 1, 2, 3]
    own = text(tmp_path, "t", line("a", np.full((len(ids), 30), np.log(1 / 30)), ids, 30))
    total = len(ids) - PROMPT
    price = np.arange(5.0)
    exact = {
        room: replay.summed([replace(copied.along(own, "ngram", 4, total), room=room)], price).mean
        for room in (0, 2, 4)
    }
    assert (exact[0] < exact[4]).any()
    for room in (0, 2):
        known = replay.summed([copied.along(own, "ngram", 4, total + room)], price).mean
        assert np.array_equal(known, exact[room])
    least, greatest = copied.summed([copied.along(own, "ngram", 4)], price)
    assert np.array_equal(least, exact[0])
    assert np.array_equal(greatest, exact[4])
