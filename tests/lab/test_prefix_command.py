from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import specq
from specq import cli
from specq.core.errors import ConfigError, PromptError

RULES = "".join(f"Rule {n}: what is {n} stays {n}, whoever asks.\n" for n in range(30))


def row(n: int, app: str, head: str) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": f"{head}{RULES}"},
        {"role": "user", "content": f"Who is {chr(97 + n)}@example.com?"},
    ]
    usage = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 25}}
    return {"custom_id": f"{app}{n}", "body": {"messages": messages, "metadata": {"app": app}}, "usage": usage}


def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    made = [row(n, "stamped", f"It is 10:{n + 10}.\n") if n % 2 else row(n, "\x1b[1mplain", "") for n in range(20)]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in made) + "{broken\n")
    return path


def test_the_table_hides_a_share_a_place_or_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert cli.main(["lab", "prefix", str(log(tmp_path)), "--tag", "metadata.app", "--slots", "1"]) == 0
    told = capsys.readouterr()
    shown = told.out
    assert "20 prompts" in told.err
    assert re.search(r"any earlier prompt +[\d,]+ +4\d\.\d % +9\d\.\d % +\+\d\d\.\d points\n", shown)
    assert re.search(r"any earlier prompt, whole blocks of 16 +[\d,]+ ", shown)
    assert re.search(r"the last prompt of 1 slot +[\d,]+ ", shown)
    assert re.search(r"stamped +10 +[\d,]+ +\d\.\d % +9\d\.\d %", shown)
    assert re.search(r"\\x1b\[1mplain +10 ", shown)
    assert "(stamped) begin with the same 3 words, then a time of day in 10 ways: message 1 (system), line 1" in shown
    assert '"It is "' not in shown
    assert 'It is " HERE ".\\nRule 0' in shown
    assert "the log itself says 25.0 %: 500 of 2,000 tokens, 20 prompts" in shown
    assert "prompts found another's in the slot" in shown
    assert "nothing of how good its answer is" in shown
    assert shown.count("how good") == 1
    assert "words are no tokens; --tokenizer MODEL counts a model's" in shown
    assert "personal data and keys: email 20; names" in shown
    assert "dropped: no whole JSON" in shown
    assert "\x1b" not in shown


def test_json_lacks_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "prefix", str(log(tmp_path)), "--json", "--tag", "metadata.app"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["unit"] == "words"
    assert found["slots"] is None
    rate = found["rates"]["tokens"]["all"]
    assert rate["share"] == rate["cached"] / rate["tokens"]
    by_tag = found["rates"]["tokens"]["by_tag"]
    assert sum(one["cached"] for one in by_tag.values()) == rate["cached"]
    assert sum(one["tokens"] for one in by_tag.values()) == rate["tokens"]
    assert found["points"][0]["values"]
    assert found["workload"]["scrubbed"] == {"email": 20}
    assert "kept" not in json.dumps(found["workload"]["personal_data"])


def test_a_tag_that_stands_twice_counts_a_prompt_twice_or_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    lines = [
        {"id": "1", "prompt": "a b c d", "tags": ["x", "x"]},
        {"id": "2", "prompt": "a b c d", "tags": ["x", "y"]},
        {"id": "3", "prompt": "a b c e"},
    ]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    found = specq.find_prefixes(path, block=2)
    rates = found.rates["tokens"]
    assert (rates.all.cached, rates.all.tokens) == (6, 12)
    assert {tag: (one.cached, one.prompts) for tag, one in rates.by_tag.items()} == {"x": (3, 2), "y": (3, 1)}
    assert rates.untagged is not None
    assert (rates.untagged.cached, rates.untagged.prompts) == (3, 1)
    assert found.rates["blocks"].all.cached == 4


def test_a_trace_has_prompts_or_a_block_no_size(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("timestamp,prompt_tokens\n1.5,7\n2.5,8\n")
    with pytest.raises(PromptError, match="a trace of times and lengths has no prompts"):
        specq.find_prefixes(tmp_path / "t.csv")
    for wrong in ({"block": 0}, {"slots": 0}):
        with pytest.raises(ConfigError, match="allowed is 1 or more of each"):
            specq.find_prefixes(log(tmp_path), **wrong)  # type: ignore[arg-type]


def test_a_hidden_person_breaks_a_prefix_that_was_shared(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    lines = [{"id": str(n), "prompt": f"Write to anna@example.com and {word}"} for n, word in enumerate("ab")]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    hidden, kept = specq.find_prefixes(path), specq.find_prefixes(path, keep_personal_data=True)
    assert hidden.rates["tokens"].all.cached == kept.rates["tokens"].all.cached == 4
    assert "[EMAIL_1]" in hidden.points.found[0].before
    assert "anna@example.com" in kept.points.found[0].before


def test_the_command_loads_torch(tmp_path: Path) -> None:
    code = (
        f"import sys, specq.cli\nspecq.cli.main(['lab', 'prefix', {str(log(tmp_path))!r}])\n"
        "print([name for name in ('torch', 'transformers', 'scipy', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
