"""`specq size` from the command line: what it prints, what it loads, and what it refuses in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from specq import cli

sys.path.insert(0, str(Path(__file__).parent / "lab"))
from size_configs import DEEPSEEK_V3, JAMBA, LLAMA_3B, LLAMA_70B, MISTRAL_7B, folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))
    folder(tmp_path / "small", LLAMA_3B)
    folder(tmp_path / "large", LLAMA_70B)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["size", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["size", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("specq: ")
    assert err.count("\n") == 1
    return err


def test_sizing_loads_a_model_library_or_all_that_reports_are_made_of(here: Path) -> None:
    heavy = ("torch", "transformers", "numpy", "scipy", "pandas", "huggingface_hub", "safetensors", "gguf")
    code = (
        "import sys\nfrom specq import cli\ncode = cli.main(['size', 'small', '--context', '32k', '--card', '24GB', "
        f"'--machine', 'h100-sxm'])\nprint(code, *[name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=here)
    assert done.stdout.splitlines()[-1] == "0"


def test_the_table_says_something_else_than_the_answers(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "small")
    assert "A token adds 114,688 bytes of cache in fp16 (112.0 KiB), 59.5 KiB in q8_0, 31.5 KiB in q4_0" in out
    assert "Weights: 6.43 GB (5.98 GiB), bf16, nominal for 3.21 billion weights." in out
    rows = [line.split() for line in out.splitlines() if line[:1].isdigit()]
    assert rows == [
        ["8,192", "0.88", "0.15", "0.46", "0.08", "0.25", "0.04", "2.62"],
        ["32,768", "3.50", "0.58", "1.86", "0.31", "0.98", "0.16", "10.50"],
        ["131,072", "14.00", "2.3", "7.44", "1.2", "3.94", "0.66", "42.00"],
    ]
    assert "times: the cache over the bf16 weights, 6.43 GB. ungrouped: GiB in fp16 without grouped queries." in out
    assert "fit" not in out
    packed = printed(capsys, "small", "--weights-bytes", "2.0GB", "--parameters", "3.2e9")
    assert "Weights: 2.00 GB (1.86 GiB), 5.00 bits a weight, as given for 3.20 billion weights." in packed
    assert "times: the cache over the 5.00-bit weights, 2.00 GB." in packed


def test_the_answer_about_a_card_is_missing_or_wrong(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "small", "--context", "32k", "--concurrency", "4", "--card", "24GB")
    said = "4 sequences of 32,768 tokens fit in 24.00 GB (22.35 GiB)."
    assert f"{said} Sequences of that length that it holds: 4 in fp16, 7 in q8_0, 14 in q4_0." in out
    assert "cache, 4 x 32,768 in fp16  14.00  15.03" in out
    assert "margin, 10 %                2.00   2.15" in out
    out = printed(capsys, "large", "--context", "32k", "--card", "24GB")
    assert "1 sequence of 32,768 tokens does not fit in 24.00 GB (22.35 GiB). Weights and margin alone leave no" in out
    longer = printed(capsys, "small", "--context", "32k", "--concurrency", "9", "--card", "24GB")
    assert "do not fit in" in longer
    assert "alone" not in longer
    assert "missing" in out
    out = printed(capsys, "small", "--card", "24GB")
    assert "weights and margin leave room for 134,213 tokens of fp16 cache in all" in out
    assert "note: no --context: a cache of unknown length is not said to fit anywhere" in out
    assert " fits " not in out


def test_a_draft_is_shown_without_what_it_displaces(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "small", "--context", "32k", "--card", "24GB", "--draft", "small")
    assert "Without the draft small it holds 4 in fp16: the draft takes the place of 3 sequences." in out
    assert "draft's weights, bf16" in out
    assert "draft's cache" in out


def test_speeds_are_shown_without_what_they_rest_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "small", "--weights-bytes", "2.0GB", "--bandwidth", "380GB/s")
    assert ["0", "2.00", "190"] in [line.split() for line in out.splitlines()]
    assert "Decoding at most: 380 GB/s over the weights and fp16 cache that a token reads." in out
    assert "Ridge" not in out
    out = printed(capsys, "small", "--machine", "h100-sxm", "--context", "8192", "--weights", "w4")
    assert "Ridge: 989 TFLOP/s over 3.35 TB/s is 295 FLOP a byte." in out
    assert "b = 0.5 bytes a weight: batch 74 reaches it" in out
    assert "Largest batch that pays: 74, bound by the ridge; the card holds 75." in out
    # 2 x 74 x 3.2e9 weights over 1.6 GB and 74 caches of 0.94 GB.
    assert "With 8,192 tokens in each cache that batch does 6.68 FLOP a byte: bandwidth still binds there" in out
    assert "Prefill of 8,192 tokens does 2P/b = 32,768 FLOP a byte: bound by arithmetic; from 74 tokens on" in out
    assert "note: w4 is nominal, 4 bits for each weight" in out
    assert "NVIDIA H100 Tensor Core GPU data sheet" in out


def test_a_machine_of_tomorrow_is_taken_without_a_word(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'name = "m"\nbandwidth = "1 TB/s"\nsource = "s"\ndate = {}\n'
    for named, day in (("m.toml", date.today() + timedelta(days=2)), ("now.toml", date.today())):
        (here / named).write_text(text.format(day))
    said = f"note: m.toml is dated {date.today() + timedelta(days=2)}, after today: correct its date"
    assert said in printed(capsys, "small", "--machine", "m.toml").splitlines()
    found = json.loads(printed(capsys, "small", "--machine", "m.toml", "--json"))
    assert said.removeprefix("note: ") in found["models"][0]["notes"]
    assert "after today" not in printed(capsys, "small", "--machine", "now.toml")


def test_models_are_ranked_without_a_context_or_a_card(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder(here / "window", {**MISTRAL_7B, "max_position_embeddings": 8192})
    names = ("large", "small", "window")
    out = printed(capsys, *names, "--card", "24GB", "--context", "32768")
    rows = {line.split()[0]: line for line in out.splitlines() if line.split() and line.split()[0] in names}
    assert list(rows) == ["small", "window", "large"]
    assert " yes " in rows["small"]
    assert "no, window" in rows["window"]
    assert " no " in rows["large"]
    for words, need in (
        ((), "a --card and a --context"),
        (("--card", "24GB"), "a --context"),
        (("--context", "8k"), "a --card"),
    ):
        out = printed(capsys, *names, *words)
        assert f"ranking them takes {need}." in out
        assert "yes" not in out


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("several", [False, True])
def test_a_line_is_wider_than_the_terminal(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, several: bool
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    folder(here / "latent", DEEPSEEK_V3)
    folder(here / "hybrid", JAMBA)
    words = ["--context", "32k", "--machine", "h100-sxm", "--kv", "q8", "--concurrency", "8"]
    models = [["latent", "hybrid", "small"]] if several else [["latent"], ["hybrid"], ["small"]]
    for names in models:
        out = printed(capsys, *names, *words)
        assert max(map(len, out.splitlines())) <= columns


@pytest.mark.parametrize("columns", [10, 20, 30, 40])
def test_a_number_in_a_table_is_split_or_cropped_on_a_narrow_terminal(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    words = ("--context", "32k", "--machine", "h100-sxm", "--concurrency", "1000")
    for models in (("small",), ("small", "large")):
        wide = printed(capsys, *models, *words)
        monkeypatch.setenv("COLUMNS", str(columns))
        narrow = printed(capsys, *models, *words)
        monkeypatch.setenv("COLUMNS", "400")
        cells = {cell for cell in wide.split() if cell.strip("0123456789.,") == "" and cell[:1].isdigit()}
        assert cells
        assert {cell for cell in cells if cell not in narrow.split()} == set()


def test_the_last_line_is_no_json_object(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--context", "32k", "--machine", "h100-sxm", "--draft", "small", "--json")
    found: dict[str, Any] = json.loads(printed(capsys, "small", "large", *words).splitlines()[-1])
    assert (found["context"], found["ranked"], found["card_bytes"]) == (32768, True, 80 * 10**9)
    assert found["machine"]["bandwidth_bytes_per_s"] == 3.35e12
    small = found["models"][0]
    assert (small["model"], small["cache_bytes_per_token"]["fp16"]) == ("small", 114_688)
    assert small["weights"] == {
        **small["weights"],
        **{"bytes": 6_425_499_648, "precision": "bf16", "origin": "nominal", "bits": 16.0},
    }
    assert small["table"][1]["times_weights"]["fp16"] == 32768 * 114_688 / 6_425_499_648
    assert small["memory"]["total"] == sum(
        small["memory"][key] for key in ("weights", "cache", "draft_weights", "draft_cache", "margin")
    )
    assert small["card"]["displaced"] == small["card"]["held_without_draft"] - small["card"]["held"]["fp16"]
    assert small["ridge"]["binds"] == "card"
    json.loads(printed(capsys, "small", "--json"))


BAD = {
    "no model": ((), "missing argument"),
    "empty": (("",), "the model name is empty"),
    "no config": (("empty",), "empty has no config.json: it is all that sizing needs"),
    "no such folder": (("./nothing",), "no such file or folder: './nothing'"),
    "no hub id": (("nothing",), "no such file or folder, and no hub id"),
    "hub id": (("org/name",), "type: hf download org/name config.json"),
    "builtin": (("builtin:smollm2-135m",), "type: specq models fetch smollm2-135m"),
    "almost a builtin": (("smollm2-135m",), "did you mean 'builtin:smollm2-135m'?"),
    "gguf in a folder": (("ggufs",), "give the file, for example ggufs/m.gguf"),
    "adapter": (("adapter",), "holds an adapter for org/base, not a model"),
    "weights file": (("m.safetensors",), "give the folder that holds it"),
    "no gguf": (("no.gguf",), "is not a GGUF file"),
    "broken config": (("broken",), "is not valid JSON"),
    "no layers": (("lacks-num_hidden_layers",), "lacks num_hidden_layers (the number of layers; model_type 'llama')"),
    "no heads": (("lacks-num_attention_heads",), "lacks num_attention_heads"),
    "no vocabulary": (("lacks-vocab_size",), "lacks vocab_size"),
    "no mlp": (("lacks-intermediate_size",), "lacks intermediate_size"),
    "no type": (("lacks-model_type",), "lacks model_type"),
    "impossible layers": (
        ("impossible",),
        "impossible/config.json: num_hidden_layers = -1: allowed is a whole number above 0",
    ),
    "layers without end": (("endless",), "1,000,000,000,000 layers; allowed are up to 10,000"),
    "another kind of value": (("listed",), "a key of its config.json or header holds what it cannot (int() argument"),
    "odd groups": (("odd",), "7 KV heads do not divide 24 heads"),
    "encoder": (("encoder",), "not of a causal language model: its architecture is BertModel"),
    "unknown type": (("unknown",), "'brand_new' are not counted here, and none are in the folder; missing is"),
    "context 0": (("small", "--context", "0"), '--context "0": allowed is a whole number of tokens from 1 on'),
    "context of words": (("small", "--context", "long"), '--context "long": allowed is a whole number'),
    "context without a number": (("small", "--context"), "requires an argument"),
    "context beyond": (("small", "--context", "256k"), "beyond the window of small, 131,072 tokens"),
    "card": (("small", "--card", "24"), '--card "24" has no unit; allowed is a number with its unit, as 24GB'),
    "card in bits": (("small", "--card", "24Gb"), "b is taken for bits beside a large letter"),
    "no card": (("small", "--card", "0GB"), "up to 1,000 TB"),
    "kv": (("small", "--kv", "q9"), "allowed: fp16, fp8, q8_0, q4_0, bf16, q8, q4"),
    "weights": (("small", "--weights", "int4"), "allowed: fp32, bf16, fp16, fp8, w8, w6, w5, w4, w3, w2"),
    "weights twice": (("small", "--weights", "w4", "--weights-bytes", "2GB"), "exclude each other"),
    "bytes of two": (("small", "large", "--weights-bytes", "2GB"), "--weights-bytes is of one model, and 2 are given"),
    "parameters of two": (("small", "large", "--parameters", "2B"), "--parameters is of one model"),
    "no sequences": (("small", "--concurrency", "0"), "--concurrency 0: allowed is a whole number of sequences from 1"),
    "half a sequence": (("small", "--concurrency", "1.5"), "--concurrency 1.5: allowed is a whole number"),
    "machine": (("small", "--machine", "h100"), 'no machine "h100"'),
    "flops alone": (("small", "--flops", "989T"), "give --bandwidth too"),
    "bandwidth": (("small", "--bandwidth", "380"), '--bandwidth "380": allowed is a number with its unit, as 380GB/s'),
    "margin": (("small", "--margin", "100%"), "allowed is 0% to 99%"),
    "margin of words": (("small", "--margin", "nan"), '--margin "nan": allowed is 0% to 99%, or bytes'),
    "draft": (("small", "--draft", "empty"), "empty has no config.json"),
    "option": (("small", "--contxt", "1"), "did you mean '--context'?"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_taken_or_gets_more_than_a_line(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    for made in ("empty", "ggufs", "adapter", "broken"):
        (here / made).mkdir()
    (here / "ggufs" / "m.gguf").write_bytes(b"")
    (here / "no.gguf").write_bytes(b"PK")
    (here / "m.safetensors").write_bytes(b"")
    (here / "adapter" / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')
    (here / "broken" / "config.json").write_text("{")
    for key in ("num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size", "model_type"):
        folder(here / f"lacks-{key}", {other: value for other, value in LLAMA_3B.items() if other != key})
    folder(here / "lacks-num_attention_heads", {k: v for k, v in LLAMA_3B.items() if k != "num_attention_heads"})
    folder(here / "impossible", {**LLAMA_3B, "num_hidden_layers": -1})
    folder(here / "endless", {**LLAMA_3B, "num_hidden_layers": 10**12})
    folder(here / "listed", {**LLAMA_3B, "num_kv_shared_layers": [1]})
    folder(here / "odd", {**LLAMA_3B, "num_key_value_heads": 7})
    folder(here / "encoder", {**LLAMA_3B, "architectures": ["BertModel"]})
    folder(here / "unknown", {**LLAMA_3B, "model_type": "brand_new"})
    words, said = BAD[name]
    assert said in refused(capsys, *words)


def test_a_hub_id_that_is_here_is_not_found(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository = here / "hub" / "models--org--name"
    folder(repository / "snapshots" / "old", LLAMA_70B)
    folder(repository / "snapshots" / "new", LLAMA_3B)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("new")
    assert "org/name: llama, 28 layers" in printed(capsys, "org/name")
    assert "small/config.json: llama, 28 layers" in printed(capsys, "small/config.json")
