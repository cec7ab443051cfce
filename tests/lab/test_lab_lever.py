"""Which lever comes first, by numbers whose answer is plain; and seconds at lengths that were not measured."""

from __future__ import annotations

from typing import Any

import pytest

from specq.lab import lever, measured
from specq.lab.lever import Known


def known(ttft: float, decode: float, **more: Any) -> Known:
    return Known(ttft_s=ttft, decode_s=decode, **more)


@pytest.mark.parametrize(
    ("what", "name", "saves"),
    [
        # 4,715 ms of a request of 5,182 ms: a decode lever is capped at 1.10.
        (known(4.715, 0.467, bits=16.0), "fewer prompt tokens", 0.4 * 4.715 / 5.182),
        (known(4.715, 0.467, cacheable=0.6, warm_saved=0.99), "prompt cache", 0.6 * 4.715 / 5.182),
        (known(4.715, 0.467, cacheable=0.6, warm_saved=0.1), "prompt cache", 0.1 * 4.715 / 5.182),
        # A cache that cannot hold much, or whose gain nobody measured, is no lever.
        (known(4.715, 0.467, cacheable=0.05, warm_saved=0.99), "fewer prompt tokens", 0.4 * 4.715 / 5.182),
        (known(4.715, 0.467, cacheable=0.6), "fewer prompt tokens", 0.4 * 4.715 / 5.182),
        # Nor is one whose warm prompts took longer than cold ones, or as long.
        (known(4.715, 0.467, cacheable=0.6, warm_saved=-0.1), "fewer prompt tokens", 0.4 * 4.715 / 5.182),
        (known(4.715, 0.467, cacheable=0.6, warm_saved=0.0), "fewer prompt tokens", 0.4 * 4.715 / 5.182),
        # Decoding is the larger half, and yet a cache saves a fifth of the whole: it changes no answer.
        (known(0.45, 0.55, cacheable=0.5, warm_saved=0.95, bits=16.0), "prompt cache", 0.225),
        (known(0.1, 0.9, cacheable=0.9, warm_saved=0.95, bits=16.0), "quantized weights", 0.9 * (1 - 4.5 / 16)),
        (known(0.1, 0.9, bits=16.0, cache_read=0.6), "quantized KV cache", 0.9 * 0.6 * (1 - 8.5 / 16)),
        (known(0.1, 0.9, bits=4.5, cache_read=0.1), "speculative decoding", 0.9),
        (known(0.1, 0.9), "speculative decoding", 0.9),
        (known(0.1, 0.9, bits=16.0, free_until=1, measured=8), "a smaller model", 0.45),
        (known(0.1, 0.9, bits=16.0, free_until=1, measured=1), "quantized weights", 0.9 * (1 - 4.5 / 16)),
    ],
)
def test_another_lever_comes_first(what: Known, name: str, saves: float) -> None:
    found = lever.first(what)
    assert found.name == name
    assert found.saves == pytest.approx(saves)
    assert 0 < found.saves < 1
    assert found.speedup == pytest.approx(1 / (1 - saves))


def test_the_paragraph_lacks_the_lever_its_number_or_its_risk() -> None:
    for what in (known(2.0, 1.0), known(2.0, 1.0, cacheable=0.6, warm_saved=0.9), known(0.1, 0.9, bits=16.0)):
        found = lever.first(what)
        said = lever.paragraph(what, found)
        assert said.startswith(f"Pull first: {found.name}. ")
        assert "%" in found.why
        assert f"Quality risk accepted with it: {found.risk}" in said
    assert "nothing of how good its answer is" in lever.paragraph(
        known(2.0, 1.0), lever.first(known(2.0, 1.0, cacheable=0.6, warm_saved=0.9))
    )


def test_a_draft_under_an_exact_rule_is_said_to_risk_quality() -> None:
    assert lever.first(known(0.1, 0.9)).risk.startswith("none")
    assert not lever.first(known(0.1, 0.9, bits=16.0)).risk.startswith("none")


@pytest.mark.parametrize(
    ("tokens", "seconds"), [(100, 1.0), (150, 1.5), (300, 4.0), (400, 6.0), (50, 0.5), (0, 0.0), (-100, 0.0)]
)
def test_seconds_between_and_beyond_what_was_measured(tokens: float, seconds: float) -> None:
    assert measured.at(tokens, [(300, 4.0), (100, 1.0), (200, 2.0)]) == pytest.approx(seconds)


def test_one_measured_length_has_a_slope() -> None:
    assert measured.at(500, [(100, 1.0)]) == 1.0
