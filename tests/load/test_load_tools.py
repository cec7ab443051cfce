"""Prompts with tools, of a log of requests, reach the server with them."""

from __future__ import annotations

import json
from pathlib import Path

from specq.load import prompts
from specq.workloads.reading import How

CALL = {"id": "a", "type": "function", "function": {"name": "rent", "arguments": '{"city":"Leeds"}'}}
BODY = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the rent?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "EUR 850"},
    ],
    "tools": [{"type": "function", "function": {"name": "rent"}}],
}


def test_tools_of_a_log_are_left_out_without_a_word(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(BODY) + "\n" + json.dumps({"messages": BODY["messages"][:2]}) + "\n")
    found = prompts.read(log, How(), ("openai",), None)
    with_tools, without = found.prompts
    sent = [(one["role"], one["content"]) for one in with_tools.messages]
    assert [role for role, _ in sent] == ["system", "user", "assistant", "user"]
    assert '"name":"rent"' in sent[0][1]
    assert sent[0][1].endswith("Be brief.")
    assert '"name":"rent"' in sent[2][1]
    assert sent[3][1] == "EUR 850"
    assert [one["content"] for one in without.messages] == ["Be brief.", "What is the rent?"]
    assert "tool definitions of 1 prompt are sent as text, at the head of its messages" in found.notes
    assert "results of tools in 1 prompt are sent as text of the user, calls as text" in found.notes
