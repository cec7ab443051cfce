"""GGUF headers: the same tensors and bytes as the gguf library reads, and files that are broken."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import ModelError
from specq.lab.size import size_models
from specq.models import gguf_header

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
import model_files


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_files.write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf", kind="Q4_0", hidden_size=64)


def test_tensors_and_bytes_differ_from_those_of_the_gguf_library(file: Path) -> None:
    import gguf

    other = {
        one.name: (one.tensor_type.name, len(one.shape), int(one.n_elements), int(one.n_bytes))
        for one in gguf.GGUFReader(file).tensors
    }
    assert {one.name: (one.kind, one.axes, one.elements, one.size) for one in gguf_header.read(file).tensors} == other


def test_a_type_has_other_bytes_than_the_gguf_library_says() -> None:
    from gguf.constants import GGML_QUANT_SIZES

    assert {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()} == gguf_header.TYPES


def test_bits_leave_scales_and_floats_out(file: Path) -> None:
    (one,) = size_models(str(file), context=64).models
    tensors = gguf_header.read(file).tensors
    weights = one.model.weights
    assert weights.bytes == sum(tensor.size for tensor in tensors)
    assert weights.parameters == sum(tensor.elements for tensor in tensors)
    assert weights.bits is not None
    assert 4.5 < weights.bits < 32
    shape = one.model.shape
    assert (shape.layers, shape.heads, shape.kv_heads, shape.head_dim, shape.context) == (2, 4, 2, 16, 128)
    assert size_models(str(file), weights="w4").models[0].model.weights.bits == 4


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def pair(key: str, value: Any) -> bytes:
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return text(key) + struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)
    return text(key) + struct.pack("<II", 4, value)


def made(path: Path, values: dict[str, Any], tensors: dict[str, tuple[int, ...]]) -> Path:
    """A GGUF file with float16 tensors of zeros."""
    body, offset = b"", 0
    for name, shape in tensors.items():
        body += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 1, offset)
        size = 2
        for side in shape:
            size *= side
        offset += size + -size % 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    head += b"".join(pair(key, value) for key, value in values.items()) + body
    path.write_bytes(head + bytes(-len(head) % 32 + offset))
    return path


def values(architecture: str, **more: Any) -> dict[str, Any]:
    found = {"block_count": 6, "embedding_length": 64, "context_length": 4096, "attention.head_count": 4, **more}
    return {"general.architecture": architecture, **{f"{architecture}.{key}": one for key, one in found.items()}}


def shape(path: Path, architecture: str, **more: Any) -> Any:
    keys = {key.replace("__", "."): one for key, one in more.items()}
    file = made(path / f"{architecture}.gguf", values(architecture, **keys), {"token_embd.weight": (64, 8)})
    return size_models(str(file)).models[0].model.shape


def test_windows_latents_and_layers_without_attention_are_missed(tmp_path: Path) -> None:
    gemma = shape(
        tmp_path, "gemma3", attention__head_count_kv=2, attention__key_length=32, attention__value_length=32,
        attention__sliding_window=512,
    )  # fmt: skip
    assert gemma.windows == {512: 5}
    assert gemma.cache_bytes(4096, "fp16") == 2 * 32 * 2 * 2 * (4096 + 5 * 512)
    deepseek = shape(
        tmp_path, "deepseek2", attention__head_count_kv=1, attention__kv_lora_rank=48, rope__dimension_count=16,
        attention__key_length=64, attention__value_length=48, attention__key_length_mla=32,
        attention__value_length_mla=16,
    )  # fmt: skip
    assert deepseek.cache_bytes(1, "fp16") == 6 * (48 + 16) * 2
    assert deepseek.cache_bytes(1, "fp16", ungrouped=True) == 6 * 4 * (32 + 16) * 2
    lfm2 = shape(tmp_path, "lfm2", attention__head_count_kv=[0, 0, 2, 0, 2, 0], shortconv__l_cache=3)
    assert (len(lfm2.cache), lfm2.state_elements) == (2, 4 * 64 * 3)
    jamba = shape(
        tmp_path, "jamba", attention__head_count_kv=[0, 2, 0, 0, 0, 0], ssm__inner_size=128, ssm__state_size=16,
        ssm__conv_kernel=4, ssm__time_step_rank=8,
    )  # fmt: skip
    assert (len(jamba.cache), jamba.state_elements) == (1, 5 * 128 * (16 + 4))


def test_a_window_for_unknown_layers_passes_in_silence(tmp_path: Path) -> None:
    file = made(
        tmp_path / "m.gguf",
        values("other", **{"attention.sliding_window": 512}),
        {"token_embd.weight": (64, 8)},
    )
    (one,) = size_models(str(file)).models
    assert one.model.shape.windows == {}
    assert any("window of 512 tokens" in note for note in one.notes)


def test_experts_are_all_read(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": (64, 8), "output.weight": (64, 8), "blk.0.ffn_up_exps.weight": (64, 32, 8)}
    keys = {"expert_count": 8, "expert_used_count": 2, "attention.head_count_kv": 2}
    weights = size_models(str(made(tmp_path / "m.gguf", values("qwen3moe", **keys), tensors))).models[0].model.weights
    assert weights.bytes == 2 * (2 * 64 * 8 + 64 * 32 * 8)
    assert weights.read() == 2 * (64 * 8 + 64 * 32 * 2)


def test_a_part_of_several_is_sized_alone(tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    for i, part in enumerate(parts):
        more = values("llama") if i == 0 else {"general.architecture": "llama"}
        made(part, {**more, "split.count": 2}, {f"blk.{i}.attn_q.weight": (64, 64)})
    (one,) = size_models(str(parts[1])).models
    assert one.model.weights.bytes == 2 * 2 * 64 * 64
    parts[0].unlink()
    with pytest.raises(ModelError, match=r"m-00001-of-00002.gguf is missing"):
        size_models(str(parts[1]))


def test_a_broken_file_is_read_to_its_end(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    broken = tmp_path / "b.gguf"
    for content, said in (
        (b"", "not a GGUF"),
        (b"PK\x03\x04" + data[4:], "not a GGUF"),
        (b"GGUF" + struct.pack("<I", 1) + data[8:], "version 1"),
        (data[:200], "truncated or broken"),
        (data[:-40], "truncated"),
        (data[:24] + b"\xff" * 64 + data[88:], "truncated or broken"),
    ):
        broken.write_bytes(content)
        with pytest.raises(ModelError, match=said):
            size_models(str(broken))
    empty = made(broken, {"general.architecture": "llama"}, {"token_embd.weight": (64, 8)})
    with pytest.raises(ModelError, match=r"block_count .* is None; allowed are 1 to 10,000"):
        size_models(str(empty))
    endless = made(broken, values("mamba", block_count=2**32 - 1), {"token_embd.weight": (64, 8)})
    with pytest.raises(ModelError, match=r"block_count .* is 4294967295; allowed"):
        size_models(str(endless))
