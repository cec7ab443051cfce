"""Plans of experiments on servers: what is refused before anything is asked or started, and what is said."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specq.core.errors import ConfigError, UserError
from specq.engines.served import files
from specq.experiment import config, plan
from specq.experiment.plan import Plan

PROMPTS = '{"id": "p0", "prompt": "the cat sat"}\n'
LOOKUP = '[levers.lookup]\nkind = "draft"\nmethod = "lookup"\nk = 2\nmax_ngram = 2\nmin_ngram = 2\n'


def planned(tmp_path: Path, engine: str, *, model: str = "some-model", more: str = "", prompts: str = PROMPTS) -> Plan:
    (tmp_path / "prompts.jsonl").write_text(prompts, encoding="utf-8")
    path = tmp_path / "served.toml"
    path.write_text(
        f'[target]\nmodel = {json.dumps(model)}\n[engine]\n{engine}\n[workload]\nprompts = "prompts.jsonl"\n'
        f'lengths = "natural"\nmax_new_tokens = 4\nmemory = false\n{more}',
        encoding="utf-8",
    )
    return plan.make(config.load(path), fetch=False)


def refused(made: Plan) -> str:
    with pytest.raises(UserError) as told:
        made.check()
    return str(told.value)


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ('kind = "openai"\nurl = "http://h:1"\ndevice = "cuda"', 'device = "cuda": kind = "openai" does not read it'),
        ('kind = "hf"\nurl = "http://h:1"', 'url = "http://h:1": kind = "hf" does not read it'),
        ('kind = "vllm"\nurl = "http://h:1"\nargs = ["--x"]', "a server that runs already has what it was started"),
        (
            'kind = "llamacpp"\nurl = "http://h:1"\nthreads = 1',
            "threads = 1: a server that runs already has what it was ",
        ),
        ('kind = "llamacpp"\nurl = "http://h:1"\nthreads = 1', "take threads out of [engine], or url"),
        ('kind = "vllm"\nserved_name = "m"', "served_name: it goes with url"),
        ('kind = "vllm"\nurl = "http://u:pw@h:1"', "the server's address has a user, a password"),
        ('kind = "vllm"\nurl = "http://h:1"\nurl_env = "U"', "url beside url_env"),
    ],
)
def test_a_key_that_would_be_ignored_is_taken(tmp_path: Path, engine: str, says: str) -> None:
    with pytest.raises(ConfigError) as told:
        planned(tmp_path, engine)
    assert says in str(told.value)
    assert "pw" not in str(told.value)


def test_a_variable_that_is_not_set_is_found_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPECQ_NONE", raising=False)
    told = refused(planned(tmp_path, 'kind = "openai"\nurl = "http://h:1"\nkey_env = "SPECQ_NONE"'))
    assert 'key_env = "SPECQ_NONE": the environment has no such variable' in told
    told = refused(planned(tmp_path, 'kind = "openai"\nurl_env = "SPECQ_NONE"'))
    assert 'url_env = "SPECQ_NONE": the environment has no such variable' in told
    assert 'kind = "openai" attaches to a running server' in refused(planned(tmp_path, 'kind = "openai"'))


def test_an_attached_server_is_taken_for_one_that_can_be_set(
    tmp_path: Path, folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(folder_of("llama"))
    attached = planned(tmp_path, 'kind = "vllm"\nurl = "http://127.0.0.1:1"', model=model, more=LOOKUP)
    told = refused(attached)
    assert "lookup#1: levers.lookup needs a server that is started with it" in told
    assert attached.blocks == ()
    assert any("asked of it and recorded" in note for note in attached.notes)
    # Of a server that is not installed all arms say the same, once; and what to set stands there.
    monkeypatch.delenv("SPECQ_VLLM_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    told = refused(planned(tmp_path, 'kind = "vllm"', model=model, more=LOOKUP))
    assert told.count("no vLLM found; set SPECQ_VLLM_PYTHON") == 1
    monkeypatch.setenv("SPECQ_VLLM_PYTHON", "/some/python")
    made = planned(tmp_path, 'kind = "vllm"\nargs = ["--enforce-eager"]', model=model, more=LOOKUP)
    made.check()
    assert made.blocks == (("baseline#1",), ("baseline#2",), ("lookup#1",))
    plain, _, lookup = made.served
    assert (plain.exactness, lookup.exactness, lookup.rule) == ("", "exact", "greedy_draft")
    assert plain.command[:2] == ("/some/python", "-m")
    assert plain.command[-1] == lookup.command[-1] == "--enforce-eager"
    assert ("--speculative-config" in plain.command, "--speculative-config" in lookup.command) == (False, True)
    assert any("the server is started anew for each arm" in note for note in made.notes)
    assert any("gives no logits" in note for note in made.notes)
    exits = '[levers.exit]\nkind = "draft"\nmethod = "early_exit"\nlayers = 1\n'
    told = refused(planned(tmp_path, 'kind = "vllm"', model=model, more=exits))
    assert 'exit#1: method = "early_exit": vLLM has no such draft' in told


def test_evals_that_a_server_cannot_answer_are_asked(tmp_path: Path, folder_of: Callable[..., Path]) -> None:
    (tmp_path / "items.jsonl").write_text(
        '{"id": "a", "prompt": "is it", "choices": ["x", "y"], "reference": "x"}\n', encoding="utf-8"
    )
    evals = '[[evals]]\nname = "picks"\nitems = "items.jsonl"\nmetric = "choice"\n'
    told = refused(planned(tmp_path, 'kind = "openai"\nurl = "http://h:1"', more=evals))
    assert 'eval "picks": its prompts are made by a chat template' in told
    engine = f'kind = "openai"\nurl = "http://h:1"\ntokenizer = {json.dumps(str(folder_of("llama")))}'
    assert "needs log-probabilities of given texts" in refused(planned(tmp_path, engine, more=evals))


def test_messages_without_a_template_reach_a_server_that_takes_text(tmp_path: Path) -> None:
    prompts = '{"id": "p0", "messages": [{"role": "user", "content": "hello"}]}\n'
    told = refused(planned(tmp_path, 'kind = "ollama"\nurl = "http://h:1"', prompts=prompts))
    assert "takes text" in told
    assert "write tokenizer = MODEL" in told


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_weights_are_counted_as_stored_where_a_server_is_told_another_dtype(
    tmp_path: Path, folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for name in ("SPECQ_VLLM_PYTHON", "SPECQ_SGLANG_PYTHON"):
        monkeypatch.setenv(name, "/some/python")
    model = str(folder_of("llama"))
    found = {}
    for dtype in ("auto", "float32", "bfloat16"):
        made = planned(tmp_path, f'kind = "{kind}"\ndtype = "{dtype}"', model=model)
        (target,) = made.models
        known = files.facts(kind, model, revision=None, started=True, dtype=None if dtype == "auto" else dtype)
        assert known is not None
        assert (target.held.weight_bytes, target.held.read_bytes) == (known.weight_bytes, known.bytes_per_token)
        assert (target.dtype, target.cache_bytes(1)) == (known.dtype, known.cache_bytes_per_token)
        found[dtype] = (known.weight_bytes, known.bytes_per_token, known.cache_bytes_per_token)
    assert found["auto"] == found["float32"]
    assert found["float32"] == tuple(2 * one for one in found["bfloat16"])


def test_a_running_servers_slots_are_refused_or_left_idle(tmp_path: Path, folder_of: Callable[..., Path]) -> None:
    (tmp_path / "items.jsonl").write_text('{"id": "a", "prompt": "is it", "reference": "x"}\n', encoding="utf-8")
    evals = '[[evals]]\nname = "said"\nitems = "items.jsonl"\nmetric = "contains"\nbatch_size = 3\n'
    tokenizer = f"tokenizer = {json.dumps(str(folder_of('llama')))}"
    for slots, at_once in ((1, 1), (2, 2), (4, 3)):
        engine = f'kind = "openai"\nurl = "http://h:1"\n{tokenizer}\nslots = {slots}'
        (one,) = planned(tmp_path, engine, more=evals).evals
        assert (one.batch_size, bool(one.one_by_one)) == (at_once, slots == 1)


def test_a_plan_for_a_server_loads_nothing_that_runs_a_model_here(
    tmp_path: Path, folder_of: Callable[..., Path]
) -> None:
    planned(tmp_path, 'kind = "vllm"', model=str(folder_of("llama")), more=LOOKUP)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from specq.experiment import config\n"
        "from specq.run import inputs\n"
        f"inputs.make_plan(config.load(Path({str(tmp_path / 'served.toml')!r})), measure_bandwidth=True)\n"
        "print(*(one for one in ('specq.quantize.load', 'specq.engines.hf') if one in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
