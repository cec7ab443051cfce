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


def test_bits_beside_a_mixture_are_ignored() -> None:
    for bits, mix in ((4, "mixed_2_6"), (2, "mixed_4_6"), (6, "mixed_2_6")):
        with pytest.raises(ConfigError, match="bits"):
            recipes.make({"method": "mlx-mixed", "bits": bits, "mix": mix})
    with pytest.raises(ConfigError, match=r'mixed_2_6" has 2 and 6 bits; leave bits out, or give mix = "mixed_4_6"'):
        recipes.make({"method": "mlx-mixed", "bits": 4, "mix": "mixed_2_6"})
    assert [recipes.make({"method": "mlx-mixed", "bits": bits}).mix for bits in (2, 3, 4)] == [
        "mixed_2_6",
        "mixed_3_6",
        "mixed_4_6",
    ]


def test_what_a_folder_tells_is_made_up_before_it_is_read() -> None:
    recipe = recipes.make({"method": "mlx-from-ct", "bits": 8})
    assert recipe.words() == "mlx-from-ct, as the folder is"
    assert recipe.to_json()["bits"] == 8
    assert recipe.to_json().keys().isdisjoint({"group_size", "symmetric", "untold"})
    assert recipes.make({"method": "rtn"}).untold == ()
    for key in ("head", "embeddings"):
        with pytest.raises(ConfigError, match=f"{key} = .*leave {key} out"):
            recipes.make({"method": "mlx-from-ct", key: "quantize"})


@pytest.mark.parametrize(
    ("head", "embeddings", "tied", "ends"),
    [
        ("quantize", "keep", False, ", head too"),
        ("quantize", "keep", True, "asymmetric"),
        ("quantize", "quantize", False, ", embeddings and head too"),
        ("keep", "quantize", True, ", embeddings and head too"),
        ("keep", "quantize", False, ", embeddings too"),
    ],
)
def test_a_head_is_called_quantized_that_is_kept(head: str, embeddings: str, tied: bool, ends: str) -> None:
    recipe = recipes.make({"method": "mlx-rtn", "head": head, "embeddings": embeddings})
    assert recipe.words(tied=tied).endswith(ends)


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
