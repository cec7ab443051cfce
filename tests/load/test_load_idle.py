"""Options that change nothing beside the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from load_runs import URL, prompts
from load_servers import experiment

from specq import cli
from specq.core.errors import ConfigError
from specq.lab import opening, own_options
from specq.lab.asked import MOST_OWN, own
from specq.lab.measure import measure_requests
from specq.load.running import measure_load
from specq.workloads import counting


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"steady": True}, "--steady spaces the requests of --rate R"),
        ({"steady": True, "rate": [1.0], "trace": "t.jsonl"}, "--steady spaces the requests of --rate R"),
        ({"against_kind": "vllm"}, "--against-kind is of a second server"),
        ({"against_model": "m"}, "--against-model is of a second server"),
        ({"against_name": "n"}, "--against-name is of a second server"),
        ({"time_unit": "ms"}, "--time-unit is of the times of --trace FILE"),
        ({"keep_personal_data": True, "phone_regions": ("DE",)}, "--phone-region says which numbers"),
        ({"machine": "here", "bandwidth": "1GB/s"}, "--bandwidth beside --machine here"),
        ({"tokenizer": "m"}, '--tokenizer makes text of messages, and kind "openai" takes messages'),
    ],
)
def test_an_option_that_does_nothing_is_taken(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        measure_load(URL, prompts(tmp_path), out=tmp_path / "out", **given)


def test_an_option_of_servers_that_run_or_start_is_taken_for_the_others(tmp_path: Path) -> None:
    for name, option in (("name", "--name"), ("key_env", "--key-env")):
        given: dict[str, Any] = {name: "X", "kind": "vllm", "out": tmp_path / "out"}
        with pytest.raises(ConfigError, match=f"{option} is of a server that runs"):
            measure_load("model", prompts(tmp_path), **given)
    file = experiment(tmp_path, model=tmp_path)
    for given, option in (({"args": ["-x"]}, "--arg"), ({"threads": 2}, "--threads")):
        with pytest.raises(ConfigError, match=f"{option} is for servers that are started here.* by url"):
            measure_load(file, overrides=[f"engine.url={URL}"], out=tmp_path / "out", **given)


@pytest.mark.parametrize(
    "option", [("--prompts", "x"), ("--rate", "2"), ("--steady",), ("--warm-prefix",), ("--seed", "0"), ("--name", "n")]
)
def test_an_option_beside_resume_is_taken(option: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["load", "--resume", "run", *option]) == 2
    told = capsys.readouterr().err
    assert "--resume goes on with the run's own" in told
    assert f"leave {option[0]} out" in told


@pytest.mark.parametrize(
    ("target", "given", "words"),
    [
        (URL, {"device": "cpu"}, "--device is of the reference engine"),
        (URL, {"dtype": "float32"}, "--dtype is of what is loaded or started here"),
        (URL, {"threads": 1}, "--threads is of what is loaded or started here"),
        (URL, {"args": ("-x",)}, "--arg is of a server that is started here"),
        ("m", {"kind": "hf", "args": ("-x",)}, "--arg is of a server that is started here"),
        ("m", {"kind": "hf", "served_as": "n"}, "--served-as is of a server"),
        ("m", {"kind": "hf", "key_env": "K"}, "--key-env is of a server that runs already"),
        ("m", {"kind": "vllm", "key_env": "K"}, "--key-env is of a server that runs already"),
        ("m", {"kind": "vllm", "device": "cpu"}, "--device is of the reference engine"),
    ],
)
def test_an_option_of_the_lab_that_does_nothing_is_taken(target: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        opening.check(opening.Wanted(**({"target": target, "kind": "openai"} | given)))


@pytest.mark.parametrize("given", [{"batch": (1, 2)}, {"machine": "h100-sxm"}])
def test_an_option_of_a_part_that_is_not_asked_for_is_taken(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"--{next(iter(given))} is of the part batch"):
        measure_requests(URL, parts=["halves"], out=tmp_path, **given)


@pytest.mark.parametrize(
    ("parts", "given", "words"),
    [
        (("cache",), {"cached_share": 0.5}, "--cached-share is of your own request"),
        (("batch",), {"prompt_tokens": 9}, "--prompt-tokens is of your own request"),
        (("cache", "batch"), {"output_tokens": 9}, "--output-tokens is of your own request"),
        (("batch",), {"prompts": "p.jsonl"}, "--prompts is of the parts halves, context and cache"),
        (("halves",), {"prompts": "p.jsonl", "prompt_tokens": 9, "output_tokens": 9}, "--prompts beside"),
    ],
)
def test_an_option_on_the_own_request_that_does_nothing_is_taken(
    tmp_path: Path, parts: tuple[str, ...], given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        measure_requests(URL, parts=parts, out=tmp_path, **given)


def test_what_goes_before_the_own_prompts_goes_unsaid() -> None:
    given: dict[str, Any] = {"prompts": "p.jsonl", "prompt_tokens": 9, "output_tokens": None, "cached_share": 0.5}
    length, share = own_options.check(("halves", "cache"), **given)
    assert length.startswith("--prompt-tokens 9 is their length here")
    assert share.startswith("--cached-share 0.5 goes before the share")
    assert own_options.check(("halves",), **given) == (length,)
    assert own_options.check(("halves", "cache"), **{**given, "prompts": None}) == ()


def test_prompts_beyond_those_that_are_asked_go_unsaid(tmp_path: Path) -> None:
    how: dict[str, Any] = {"prompt_tokens": None, "output_tokens": None, "cached_share": None, "measured_output": 8}
    many = own(counting.counter(), prompts=prompts(tmp_path, MOST_OWN + 1), **how)
    assert len(many.prompts) == MOST_OWN
    assert many.notes == (f"of the {MOST_OWN + 1} prompts of prompts.jsonl the first {MOST_OWN} are asked",)
    assert own(counting.counter(), prompts=prompts(tmp_path, MOST_OWN), **how).notes == ()
