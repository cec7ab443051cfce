"""The script that asks what drafts are worth, on a tiny model."""

from __future__ import annotations

import pytest
import torch

import peers
import tiny_models as tiny


@pytest.mark.usefixtures("one_thread")
def test_the_script_beside_the_peers_breaks(tmp_path, capsys):
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    folder = tiny.save(tmp_path / "m", tiny.make("llama", **shape), dtype=torch.bfloat16)
    (tmp_path / "p.jsonl").write_text('{"id": "a", "prompt": "abc abd abc", "tags": ["x"]}\n')
    words = ["--questions", str(tmp_path / "p.jsonl"), "--model", str(folder)]
    words += ["--exits", "1", "--bits", "8", "--folders", "--tokens", "8", "--ignore-eos"]
    rows = peers.told("acceptance.py", words, capsys)["rows"]
    greedy = {row["draft"]: row for row in rows if row["temperature"] == 0.0}
    assert set(greedy) == {"lookup", "early exit 1", "itself, 8 bits"}
    assert all(row["positions"] == 7 for row in rows)
    # The target at 8 bits says nearly what the target says; one layer of random two does not.
    assert greedy["itself, 8 bits"]["share"] >= 0.7
