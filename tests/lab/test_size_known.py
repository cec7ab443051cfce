"""Answers that were worked out by hand, exact to the digits given."""

from __future__ import annotations

from pathlib import Path

import pytest
from size_configs import LLAMA_3B, LLAMA_70B, folder

from specq.lab.size import size_models
from specq.lab.size_result import Row, Sized


@pytest.fixture
def small(tmp_path: Path) -> str:
    return str(folder(tmp_path / "small", LLAMA_3B))


def only(*args: object, **how: object) -> Sized:
    (one,) = size_models(*args, **how).models  # type: ignore[arg-type]
    return one


def gib(count: float) -> str:
    return f"{count / 2**30:.2f}"


def row(one: Sized, tokens: int) -> Row:
    return next(row for row in one.rows if row.tokens == tokens)


def test_a_token_of_28_layers_8_kv_heads_of_128_takes_other_bytes(small: str) -> None:
    token = only(small).token
    assert token.cache["fp16"] == 114_688
    assert token.cache["q8_0"] / 1024 == 59.5
    assert token.cache["q4_0"] / 1024 == 31.5


def test_blocks_lose_their_scales_in_the_table(small: str) -> None:
    one = only(small)
    assert [gib(row(one, tokens).cache["fp16"]) for tokens in (8192, 32768, 131072)] == ["0.88", "3.50", "14.00"]
    assert [gib(row(one, tokens).cache["q8_0"]) for tokens in (8192, 32768, 131072)] == ["0.46", "1.86", "7.44"]


def test_grouped_queries_are_forgotten_or_counted_twice(tmp_path: Path, small: str) -> None:
    large = row(only(str(folder(tmp_path / "large", LLAMA_70B))), 32768)
    assert f"{large.cache['fp16'] / 1e9:.1f}" == "10.7"
    assert f"{large.ungrouped / 1e9:.1f}" == "85.9"
    assert row(only(small), 131072).ungrouped == 42 * 2**30


def test_the_ratio_to_the_weights_is_of_other_weights(small: str) -> None:
    nominal = only(small)
    assert f"{nominal.model.weights.bytes / 1e9:.1f}" == "6.4"
    assert f"{nominal.times_weights(row(nominal, 131072), 'fp16'):.1f}" == "2.3"
    packed = only(small, weights_bytes="2.0GB")
    assert f"{packed.times_weights(row(packed, 131072), 'fp16'):.1f}" == "7.5"
    assert f"{packed.times_weights(row(packed, 131072), 'q8_0'):.1f}" == "4.0"


def test_sequences_do_not_multiply(small: str) -> None:
    one = only(small, context="32k", concurrency=4)
    assert one.memory is not None
    assert one.memory.cache == 14 * 2**30
    assert one.memory.total == one.memory.weights + one.memory.cache + one.memory.margin


@pytest.mark.parametrize(
    ("weights", "bandwidth", "tokens_per_s"),
    [("2.0GB", "380GB/s", 190), ("2.0GB", "120GB/s", 60), ("6.4GB", "380GB/s", 59), (None, "380GB/s", 59)],
)
def test_the_ceiling_is_not_bandwidth_over_bytes(
    small: str, weights: str | None, bandwidth: str, tokens_per_s: int
) -> None:
    one = only(small, weights_bytes=weights, bandwidth=bandwidth)
    assert one.ceilings[0].tokens == 0
    assert round(one.ceilings[0].each) == tokens_per_s
    # With a cache to read a token takes longer.
    assert one.ceilings[1].each < one.ceilings[0].each


def test_bits_are_nominal_where_bytes_are_real(small: str) -> None:
    weights = only(small, weights_bytes="2.0GB", parameters="3.2e9").model.weights
    assert weights.bits == 5
    assert weights.precision == "5.00-bit"


@pytest.mark.parametrize(("bits", "batch"), [("bf16", 295), ("w4", 74), (4.5, 83)])
def test_the_batch_at_the_ridge_forgets_the_bits(small: str, bits: str | float, batch: int) -> None:
    how: dict[str, object] = {"weights": bits} if isinstance(bits, str) else {"weights_bytes": 4.5 / 8 * 3_212_749_824}
    one = only(small, bandwidth="3.35TB/s", flops="989T", **how)
    assert one.ridge is not None
    assert round(one.ridge.flop_per_byte) == 295
    assert (one.ridge.batch, one.ridge.binds) == (batch, "ridge")


def test_the_ridge_of_the_machine_file_is_another(small: str) -> None:
    one = only(small, machine="h100-sxm")
    assert one.ridge is not None
    assert (round(one.ridge.flop_per_byte), one.ridge.batch) == (295, 295)


def test_prefill_does_not_grow_with_the_prompt(small: str) -> None:
    one = only(small, context=8192, bandwidth="3.35TB/s", flops="989T", weights="w4")
    assert one.ridge is not None
    assert one.ridge.prefill == 2 * 8192 / 0.5
