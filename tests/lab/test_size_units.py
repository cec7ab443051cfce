"""Sizes, rates, counts and machine files as people write them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from specq.core.errors import ConfigError
from specq.lab import machines, size_units

ROOT = Path(__file__).parents[2]
SIZES = {
    "24GB": 24 * 10**9, "24 GB": 24 * 10**9, "24gb": 24 * 10**9, "24GiB": 24 * 2**30, "24 gib": 24 * 2**30,
    "1.5TB": 15 * 10**11, "800MB": 8 * 10**8, "2e9": 2 * 10**9, "2000000000": 2 * 10**9, "6,425,499,648": 6425499648,
    "2.0e9B": 2 * 10**9,
}  # fmt: skip


@pytest.mark.parametrize("given", SIZES)
def test_a_size_is_read_as_another(given: str) -> None:
    assert size_units.size("--card", given) == SIZES[given]


@pytest.mark.parametrize(
    "given",
    ["", "GB", "24", "24G", "24Gb", "24GiBs", "-5GB", "0GB", "0.0GB", "1e30", "5000TB", "nan", "inf", "1,2GB"],
)  # fmt: skip
def test_an_impossible_card_is_taken(given: str) -> None:
    with pytest.raises(ConfigError, match=r"^--card ") as error:
        size_units.size("--card", given)
    assert "24GB (24e9 bytes)" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_number_of_bytes_that_is_none_is_taken() -> None:
    assert size_units.size("--card", 24e9) == 24 * 10**9
    for given in (True, float("nan"), -1e9, 24):
        with pytest.raises(ConfigError):
            size_units.size("--card", given)


def test_rates_and_flops_are_read_as_others() -> None:
    for given, value in {"380GB/s": 380e9, "3.35 TB/s": 3.35e12, "380GB": 380e9, "3.8e11": 380e9}.items():
        assert size_units.rate("--bandwidth", given) == value
    for given, value in {"989T": 989e12, "989TFLOP/s": 989e12, "989 TFLOPS": 989e12, "1.3P": 1.3e15}.items():
        assert size_units.flops("--flops", given) == value
    assert size_units.flops("--flops", "624 TOPS") == 624e12
    for given in ("380", "380G", "380Gbit/s", "-1GB/s"):
        with pytest.raises(ConfigError, match=r"380GB/s or 3.35TB/s"):
            size_units.rate("--bandwidth", given)
    for given in ("989", "989X", "T", "1e30"):
        with pytest.raises(ConfigError, match="989TFLOP/s, 989T or 989e12"):
            size_units.flops("--flops", given)


def test_contexts_counts_and_margins_are_read_as_others() -> None:
    for given, value in {"32768": 32768, "32,768": 32768, "32k": 32768, "128K": 131072, "1M": 1048576}.items():
        assert size_units.tokens("--context", given) == value
    for given in ("0", "-1", "", "32.5", "32kk", "many", "0k"):
        with pytest.raises(ConfigError, match=r"^--context .*32768 or 32k"):
            size_units.tokens("--context", given)
    for given, value in {"3.2e9": 3_200_000_000, "3.2B": 3_200_000_000, "135M": 135_000_000, "7 b": 7 * 10**9}.items():
        assert size_units.weights("--parameters", given) == value
    for given in ("7", "0", "7X", "-7B"):
        with pytest.raises(ConfigError, match=r"^--parameters .*3.2e9"):
            size_units.weights("--parameters", given)
    for given, value in {"10%": (0.1, 0), "0": (0.0, 0), "0%": (0.0, 0), "2GB": (0.0, 2 * 10**9)}.items():
        assert size_units.margin("--margin", given) == value
    for given in ("100%", "-1%", "10", "x%"):
        with pytest.raises(ConfigError, match=r"^--margin "):
            size_units.margin("--margin", given)


def test_numbers_are_shown_with_other_digits() -> None:
    assert (size_units.gib(14 * 2**30), size_units.gb(6_425_499_648), size_units.gb(269e6)) == ("14.00", "6.43", "0.27")
    assert (size_units.gib(0), size_units.gib(20 * 2**20), size_units.gib(2**10)) == ("0.00", "0.02", "9.5e-07")
    assert [size_units.per_second(one) for one in (190.0, 59.14, 9.96, 9.9, 0.51)] == ["190", "59", "10", "9.9", "0.51"]
    assert [size_units.times(one) for one in (2.339, 0.584, 0.997, 12.0, 0.004)] == [
        "2.3",
        "0.58",
        "1.0",
        "12.0",
        "<0.01",
    ]


@pytest.mark.parametrize("file", sorted((ROOT / "configs" / "machines").glob("*.toml")), ids=lambda file: file.stem)
def test_a_machine_file_is_broken_or_without_its_source(file: Path) -> None:
    machine = machines.load(file)
    assert machine.bandwidth >= 1e11
    assert machine.peak is None or 1e13 < machine.peak < 1e16
    assert machine.memory is None or 1e10 < machine.memory < 1e12
    assert len(machine.source) > 20


def test_a_machine_is_not_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    h100 = machines.load("h100-sxm")
    assert (h100.memory, h100.bandwidth, h100.peak) == (80 * 10**9, 3.35e12, 989e12)
    own = tmp_path / "configs" / "machines" / "h100-sxm.toml"
    own.parent.mkdir(parents=True)
    own.write_text('name = "mine"\nbandwidth = "1 TB/s"\nsource = "measured"\ndate = 2026-01-31\n')
    assert machines.load("h100-sxm").name == "mine"
    with pytest.raises(ConfigError, match=r'no machine "h100-smx", did you mean .h100-sxm.*machines are .*rtx-4090'):
        machines.load("h100-smx")


GOOD = 'name = "m"\nbandwidth = "1 TB/s"\nsource = "s"\ndate = 2026-01-31\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + 'bandwith = "2 TB/s"\n', "unknown key \"bandwith\", did you mean 'bandwidth'"),
        (GOOD.replace('source = "s"\n', ""), "source is missing: it is a text"),
        (GOOD.replace("2026-01-31", '"soon"'), "it is the day on which the figures were noted"),
        (GOOD.replace('bandwidth = "1 TB/s"\n', ""), "bandwidth is missing"),
        (GOOD.replace("1 TB/s", "fast"), 'bandwidth = "fast": allowed is a number'),
        (GOOD + 'flops = "1T"\n', "flops must be a table"),
        (GOOD + '[flops]\nbf16 = "1T"\n', 'unknown dtype "bf16"'),
        (GOOD + '[flops]\nbfloat16 = "1"\n', 'flops.bfloat16 = "1" is 1 FLOP/s'),
        ("name = ", "cannot be read as TOML"),
    ],
)
def test_a_broken_machine_file_is_taken(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "m.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        machines.load(file)
    assert str(error.value).startswith(f"{file}: ")
    assert said in str(error.value)
