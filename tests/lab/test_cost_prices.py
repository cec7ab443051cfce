"""Price sheets: what is refused and how, which ones go together, and which are too old."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from specq.core.errors import ConfigError
from specq.lab import prices

ROOT = Path(__file__).resolve().parents[2]
WHOLE = {
    "date": "2026-01-31",
    "source": '"an offer"',
    "model": '"large"',
    "currency": '"USD"',
    "input_price": "1.00",
    "cached_price": "0.10",
    "output_price": "4.00",
}


def write(folder: Path, name: str = "sheet.toml", **changed: str | None) -> Path:
    values = {**WHOLE, **changed}
    path = folder / name
    lines = [f"{key} = {value}\n" for key, value in values.items() if value is not None]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_a_sheet_is_read_with_other_values_or_without_its_source(tmp_path: Path) -> None:
    sheet = prices.load(write(tmp_path, cache_write_price="1.25", per_hour="3"))
    assert sheet.to_json() == {
        "file": str(tmp_path / "sheet.toml"),
        "date": "2026-01-31",
        "source": "an offer",
        "model": "large",
        "currency": "USD",
        "input_price": 1.0,
        "cached_price": 0.1,
        "output_price": 4.0,
        "cache_write_price": 1.25,
        "per_hour": 3.0,
    }
    assert prices.load(write(tmp_path, date="2026-01-31T10:00:00Z")).date == date(2026, 1, 31)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"inptu_price": "1"},
            "unknown key \"inptu_price\", did you mean 'input_price'? allowed: date, source, model, ",
        ),
        ({"date": None}, "date is missing: it is the day on which the prices were read, without quotes; type date = "),
        ({"date": '"2026-01-31"'}, "date = '2026-01-31': it is the day"),
        ({"source": None}, "source is missing: it is a text that is not empty; type source = "),
        ({"source": '" "'}, "source = ' ': it is a text that is not empty"),
        ({"currency": "3"}, 'currency = 3: it is a text that is not empty; type currency = "USD"'),
        ({"model": None}, "model is missing"),
        ({"input_price": "-1"}, "input_price = -1: allowed is 0 or more; type input_price = 1.00"),
        ({"input_price": "nan"}, "input_price = nan: allowed is 0 or more"),
        ({"input_price": "inf"}, "input_price = inf: allowed is 0 or more"),
        ({"input_price": '"1.00"'}, "input_price = '1.00': allowed is 0 or more; type input_price = 1.00"),
        ({"input_price": "true"}, "input_price = True: allowed is 0 or more"),
        ({"per_hour": "0"}, "per_hour = 0: allowed is a number above 0; type per_hour = 2.50"),
        ({"output_price": None}, "output_price is missing beside input_price: a bill needs both; type output_price = "),
        ({"input_price": None}, "input_price is missing beside cached_price"),
        ({"input_price": None, "cached_price": None, "output_price": None}, "it has no price; type input_price = "),
        ({"model": '"a'}, "cannot be read as TOML ("),
    ],
)
def test_a_sheet_that_will_not_do_is_taken_or_its_refusal_names_no_file(
    changed: dict[str, str | None], says: str, tmp_path: Path
) -> None:
    path = write(tmp_path, **changed)
    with pytest.raises(ConfigError) as caught:
        prices.load(path)
    assert str(caught.value).startswith(f"{path}: {says}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_name_finds_no_sheet_of_the_project_and_a_file_is_taken_for_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert prices.load("example").model == "example"
    mine = tmp_path / "configs" / "prices"
    mine.mkdir(parents=True)
    write(mine, "example.toml", model='"mine"')
    assert prices.load("example").model == "mine"
    write(tmp_path, "other.toml", model='"a file"')
    assert prices.load("other.toml").model == "a file"
    with pytest.raises(ConfigError, match=r"no price sheet \"exmple\", did you mean 'example'\? sheets are example, "):
        prices.load("exmple")
    with pytest.raises(ConfigError, match=r'no price sheet "absent/example.toml"'):
        prices.load("absent/example.toml")


def test_every_sheet_of_the_project_can_be_read() -> None:
    files = sorted((ROOT / "configs" / "prices").glob("*.toml"))
    assert len(files) > 1
    assert {prices.load(file).currency for file in files} == {"USD"}


def test_an_old_sheet_or_one_of_tomorrow_is_taken_without_a_word(tmp_path: Path) -> None:
    sheet = prices.load(write(tmp_path))
    day = sheet.date
    assert sheet.aged(day) is None
    assert sheet.aged(day + timedelta(days=prices.OLDEST_DAYS)) is None
    old = sheet.aged(day + timedelta(days=prices.OLDEST_DAYS + 1))
    assert old is not None
    assert "91 days old" in old
    assert "an offer" in old
    assert "after today" in (sheet.aged(day - timedelta(days=1)) or "")


def test_currencies_are_mixed_or_a_price_of_two_sheets_is_the_last_one(tmp_path: Path) -> None:
    service = prices.load(write(tmp_path, "service.toml"))
    machine = {"input_price": None, "cached_price": None, "output_price": None, "per_hour": "2.5"}
    own = prices.load(write(tmp_path, "own.toml", **machine))
    assert prices.together([service, own], {}, "USD") == (
        "USD",
        {"input_price": 1.0, "cached_price": 0.1, "output_price": 4.0, "per_hour": 2.5},
    )
    assert prices.together([service], {"output_price": 5.0}, None)[1]["output_price"] == 5.0
    assert prices.together([], {}, None) == ("USD", {})
    assert prices.together([], {}, "EUR") == ("EUR", {})
    in_euro = prices.load(write(tmp_path, "euro.toml", **machine, currency='"EUR"'))
    with pytest.raises(ConfigError, match=r"mixed currencies: .*service.toml has USD, .*euro.toml has EUR; nothing is"):
        prices.together([service, in_euro], {}, None)
    with pytest.raises(ConfigError, match=r"mixed currencies: .*service.toml has USD, --currency has EUR"):
        prices.together([service], {}, "EUR")
    with pytest.raises(ConfigError, match=r"other.toml: input_price stands in another sheet too"):
        prices.together([service, prices.load(write(tmp_path, "other.toml"))], {}, None)
