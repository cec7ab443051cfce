from __future__ import annotations

from pathlib import Path

import pytest

from specq.core.errors import ConfigError
from specq.quantize import recipes
from specq.quantize.recipes import METHODS, ROW

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "configs" / "quantize").glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_recipe_is_refused_or_cannot_find_its_text(path: Path) -> None:
    recipe = recipes.load(path)
    recipes.need_calibration(recipe)
    assert recipe.calibration is None or Path(recipe.calibration).is_file()


def test_a_method_has_no_recipe_to_start_from() -> None:
    assert {recipes.load(path).method for path in SHIPPED} == METHODS.keys() - {"mlx-from-ct"}


def test_a_relative_text_is_only_found_from_one_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = recipes.load(ROOT / "configs" / "quantize" / "gptq-w4-g64.toml")
    assert recipe.calibration is not None
    assert Path(recipe.calibration).is_file()


@pytest.mark.parametrize("method", METHODS)
def test_the_defaults_of_a_method_are_refused_by_itself(method: str) -> None:
    recipe = recipes.make({"method": method})
    assert recipe.bits == METHODS[method].bits[0]
    assert recipes.make(recipe.to_json()) == recipe


def test_eight_bits_take_groups_that_no_kernel_has() -> None:
    assert recipes.make({"method": "gptq", "bits": 8}).group_size == ROW
    assert recipes.make({"method": "gptq", "bits": 4}).group_size == 64


def test_what_cannot_be_is_let_through() -> None:
    for values, words in (
        ({"method": "qptq"}, "did you mean 'gptq'"),
        ({"method": "gptq", "bits": 5}, "allows 2, 3, 4, 8"),
        ({"method": "gptq", "bits": True}, "a whole number"),
        ({"method": "gptq", "group_size": 1}, "2 or more columns"),
        ({"method": "w8a8", "group_size": 64}, "allows 0"),
        ({"method": "mlx-rtn", "symmetric": True}, "allows false"),
        ({"method": "rtn", "calibration": "a.txt"}, "reads no text"),
        ({"method": "rtn", "mix": "mixed_3_6"}, "mix"),
        ({"method": "mlx-mixed", "mix": "mixed_5_6"}, "mixed_4_6"),
        ({"method": "gptq", "tokens": 8}, "16 or more"),
        ({"method": "gptq", "head": "drop"}, "keep, quantize"),
        ({"method": "gptq", "sample": 8}, "did you mean 'samples'"),
        ({}, "method is missing"),
    ):
        with pytest.raises(ConfigError, match=words):
            recipes.make(values)


def test_a_method_that_reads_text_goes_on_without_any() -> None:
    recipe = recipes.make({"method": "awq"})
    with pytest.raises(ConfigError, match="--calibration FILE"):
        recipes.need_calibration(recipe)
    recipes.need_calibration(recipe.with_calibration("self"))
    recipes.need_calibration(recipes.make({"method": "rtn"}))


def test_a_broken_file_is_not_named(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("method = ")
    with pytest.raises(ConfigError, match=r"r\.toml.*TOML"):
        recipes.load(path)
    path.write_text('method = "gptq"\nbits = 7\n')
    with pytest.raises(ConfigError, match=r"r\.toml: bits = 7"):
        recipes.load(path)
