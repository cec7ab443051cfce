"""What the cache part says of its own prompts: their tokens as they were counted, the stamp among them."""

from __future__ import annotations

from pathlib import Path

from lab_fakes import Fake, bench
from test_lab_report import run_of

from specq.lab import lab_layout, measured, prompt_cache


def test_a_trial_is_told_by_the_length_of_its_text_alone(tmp_path: Path) -> None:
    said: list[str] = []
    prompt_cache.measure(bench(Fake(), say=said.append))
    # A stamp is two words.
    assert any("12 trials of about 322 words, a stamp before 320 of text" in one for one in said)
    found = measured.open_lab(run_of(tmp_path / "run", Fake()))
    shown = {section.title: section for section in lab_layout.sections(found)}
    (row,) = [row for row in shown[lab_layout.COMES].rows if row[0].startswith("prompt read anew")]
    assert row[2] == "322 prompt tokens, first token"
    cache = shown[lab_layout.CACHE]
    assert {row[cache.columns.index("prompt tokens")] for row in cache.rows} == {"322"}
