from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from model_files import llama_folder

from specq.core.errors import ModelError
from specq.models import refs
from specq.models.refs import resolve


def test_importing_model_names_and_facts_loads_no_heavy_package():
    code = (
        "import sys; import specq.models.refs, specq.models.facts; "
        "print([m for m in ('torch', 'transformers', 'huggingface_hub', 'gguf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_folder_is_resolved_to_its_absolute_path(tmp_path, monkeypatch):
    llama_folder(tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    found = resolve("m")
    assert (found.name, found.kind, found.folder, found.revision) == ("m", "folder", tmp_path / "m", None)
    assert found.notes == ()


@pytest.mark.parametrize(
    "name", ["./gone", "/gone/model", "~/gone-model", "gone.gguf", "here/gone", "a/b/c", "two words"]
)
def test_missing_path_is_not_looked_up_on_the_hub(tmp_path, monkeypatch, name):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(refs.hub, "snapshot", lambda *a, **k: pytest.fail("asked the hub"))
    with pytest.raises(ModelError, match="no such file or folder"):
        resolve(name)


def test_unknown_builtin_names_the_nearest():
    with pytest.raises(ModelError, match=r"did you mean 'smollm2-135m'.*allowed is builtin:smollm2-135m"):
        resolve("builtin:smollm-135m")
    with pytest.raises(ModelError, match="did you mean 'builtin:smollm2-135m'"):
        resolve("smollm2-135m")


def test_builtin_that_is_not_fetched_tells_the_command(monkeypatch):
    monkeypatch.setattr(refs.builtins, "fetch", lambda *a, **k: pytest.fail("went to the network"))
    with pytest.raises(ModelError, match="specq models fetch smollm2-135m"):
        resolve("builtin:smollm2-135m", fetch=False)


def test_revision_on_a_folder_is_not_ignored(tmp_path):
    folder = llama_folder(tmp_path / "m")
    with pytest.raises(ModelError, match="pins a hub id"):
        resolve(str(folder), revision="main")


def test_weight_files_by_name_are_refused(tmp_path):
    folder = llama_folder(tmp_path / "m")
    with pytest.raises(ModelError, match="give the folder"):
        resolve(str(folder / "model.safetensors"))
    (tmp_path / "w.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match="is a pickle"):
        resolve(str(tmp_path / "w.bin"))
    with pytest.raises(ModelError, match="is not a GGUF file"):
        resolve(str(folder / "config.json"))


def test_note_of_a_conversion_stays_with_the_folder(tmp_path):
    folder = llama_folder(tmp_path / "m")
    (folder / "specq.json").write_text(json.dumps({"notes": ["weights were quantized before: Q4_1"]}))
    assert resolve(str(folder)).notes == ("weights were quantized before: Q4_1",)


def test_quantized_checkpoint_is_never_called_full_precision(tmp_path):
    folder = llama_folder(tmp_path / "m", quantization_config={"quant_method": "gptq", "bits": 4})
    assert resolve(str(folder)).notes == ("weights were quantized before: gptq, 4 bits",)


def test_hub_without_network_gets_one_line_with_the_way_out(monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def offline(*args, **given):
        raise LocalEntryNotFoundError("cannot\nreach")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(ModelError, match=r"cannot be reached.*specq models fetch") as caught:
        resolve("someone/some-model")
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="not in the local hub cache: type: specq models fetch someone/some-model"):
        resolve("someone/some-model", fetch=False)


def test_a_hub_copy_in_part_or_out_of_reach_is_told_to_be_absent(tmp_path, monkeypatch):
    import huggingface_hub

    folder = llama_folder(tmp_path / "snapshots" / "0123abcd")
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *args, **given: str(folder))
    with pytest.raises(ModelError, match="is not whole in the local hub cache: type: specq models fetch someone/some"):
        resolve("someone/some-model", fetch=False)

    def closed(*args, **given):
        raise PermissionError("locked away")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", closed)
    with pytest.raises(ModelError, match=r"cannot be read for someone/some-model \(locked away\): mend"):
        resolve("someone/some-model", fetch=False)


def test_local_hub_copy_is_used_without_asking_the_hub(tmp_path, monkeypatch):
    import huggingface_hub

    folder = llama_folder(tmp_path / "snapshots" / "0123abcd")
    asked = []

    def local(name, *, revision=None, local_files_only=False, **given):
        asked.append(local_files_only)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", local)
    found = resolve("someone/some-model", revision="main")
    assert (found.kind, found.folder, found.revision, asked) == ("hub", folder, "0123abcd", [True])


def test_half_a_local_hub_copy_is_completed_and_pickles_are_never_downloaded(tmp_path, monkeypatch):
    import huggingface_hub

    folder = llama_folder(tmp_path / "snapshots" / "0123abcd")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    patterns = []

    def download(name, *, local_files_only=False, allow_patterns=(), **given):
        if not local_files_only:
            patterns.extend(allow_patterns)
            Path(folder / "model.safetensors").write_bytes(weights)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve("someone/some-model").folder == folder
    assert "*.safetensors" in patterns
    assert not any(p.endswith((".bin", ".pt", ".py", "*")) for p in patterns)
