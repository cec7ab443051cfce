"""Settings of a folder that are not its source's must be told, and defaults that one of them spells out must not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import audit_folders as made
import pytest
import transformers

from specq.quantize import settings
from specq.quantize.audit import audit_folder

Folders = Callable[[str], Path]


def folder(path: Path, generation: dict[str, Any] | None = None, **said: Any) -> Path:
    """A folder of a config alone."""
    config = transformers.LlamaConfig(hidden_size=64, num_attention_heads=4, rope_theta=1e4, bos_token_id=1)
    path.mkdir()
    (path / "config.json").write_text(json.dumps({**config.to_dict(), **said}), encoding="utf-8")
    if generation is not None:
        (path / settings.GENERATION).write_text(json.dumps(generation), encoding="utf-8")
    return path


def notes(source: Path, folder: Path, *, untied: bool = False, ids: bool = False) -> list[str]:
    return settings.notes(source, folder, untied=untied, ids=ids)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rms_norm_eps": 1e-5}, "rms_norm_eps 1e-06 -> 1e-05"),
        ({"hidden_act": "gelu"}, 'hidden_act "silu" -> "gelu"'),
        ({"max_position_embeddings": 4096}, "max_position_embeddings 2048 -> 4096"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "rope_theta 10000.0 -> 500000.0"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings false -> true"),
    ],
)
def test_another_setting_of_the_model_is_not_told(tmp_path: Path, said: dict[str, Any], words: str) -> None:
    (note,) = notes(folder(tmp_path / "a"), folder(tmp_path / "b", **said))
    assert note.startswith("config.json differs from the source's: ")
    assert words in note


def test_what_saving_and_quantizing_change_is_told(tmp_path: Path) -> None:
    source = folder(tmp_path / "a", {"do_sample": True, "transformers_version": "4.40.0"}, torch_dtype="float32")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    # As older versions spell it.
    theta = config.pop("rope_parameters")["rope_theta"]
    for name in ("attention_dropout", "pretraining_tp", "mlp_bias"):
        config.pop(name, None)
    (source / "config.json").write_text(json.dumps({**config, "rope_theta": theta}), encoding="utf-8")
    made_of_it = folder(
        tmp_path / "b",
        {"do_sample": True, "transformers_version": "5.17.0", "_from_model_config": True},
        dtype="bfloat16",
        transformers_version="5.17.0",
        use_cache=False,
        quantization={"bits": 4, "group_size": 64},
    )
    assert notes(source, made_of_it) == []


def test_another_default_of_sampling_is_not_told(tmp_path: Path) -> None:
    source = folder(tmp_path / "a", {"temperature": 0.6, "top_p": 0.9, "eos_token_id": 2})
    assert notes(source, folder(tmp_path / "b", {"temperature": 0.6, "eos_token_id": 2})) == [
        "generation_config.json differs from the source's: top_p 0.9 -> null"
    ]
    (note,) = notes(source, folder(tmp_path / "c"))
    assert "temperature 0.6 -> null, top_p 0.9 -> null" in note


def test_another_end_is_told_twice_or_never(tmp_path: Path) -> None:
    """The tokenizers' comparison tells of it, where there are tokenizers."""
    source, other = (folder(tmp_path / str(end), {"eos_token_id": end}) for end in (2, 3))
    assert notes(source, other) == []
    assert notes(source, other, ids=True) == ["generation_config.json differs from the source's: eos_token_id 2 -> 3"]


def test_a_head_that_is_quantized_is_called_another_setting(tmp_path: Path) -> None:
    source, other = folder(tmp_path / "a", tie_word_embeddings=True), folder(tmp_path / "b")
    assert notes(source, other, untied=True) == []


def test_the_audit_does_not_tell_of_another_setting(folders: Folders, tmp_path: Path) -> None:
    other = made.changed(folders("w4"), tmp_path / "eps", config=lambda config: config.update(rms_norm_eps=0.5))
    found = audit_folder(other, folders("source"), forward=False)
    assert any("rms_norm_eps 1e-06 -> 0.5" in note for note in found.notes)
    sound = audit_folder(folders("w4"), folders("source"), forward=False)
    assert not [note for note in sound.notes if "differs from the source's" in note]
