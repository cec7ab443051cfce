"""The setting to paste into each engine for a draft that was chosen, and the verification rule that it runs there.

Which rule an engine runs is what decides its tokens per step: vLLM and llama.cpp propose the draft's likeliest token
unless they are told to sample it, transformers samples its proposals, mlx-lm draws from the target and keeps what
matches. What vLLM and llama.cpp are told is what specq's own servers of them are started with.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from specq.core.types import DraftSpec, Rule
from specq.engines.served.kinds import llamacpp, vllm

HERE = "specq"
ELSEWHERE = ("vllm", "llama.cpp", "transformers", "mlx-lm")
_SEARCHES = "it looks up in its own way, so the steps forecast here are not its steps: measure it there"
_SUFFIX_NEEDS = "it weighs continuations by how often they came, and needs the package arctic-inference"
_SAMPLES = "a build whose llama-server --help has --spec-draft-sampling"
_ALWAYS_K = "it has no stop by the draft's confidence: it proposes k tokens in each step, which was not forecast"
_DROPS = (
    "it stops by the draft's likeliest token, before warping, and drops it where stop_below keeps what was drawn: that "
    "was not forecast, so measure it there"
)
_MOVES = "leave scikit-learn out of its environment, where transformers moves this threshold from step to step"
_LLAMACPP_NGRAMS = "--spec-type ngram-simple, ngram-map-k, ngram-map-k4v, ngram-mod or ngram-cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An engine's way to run a draft: the rule that it verifies by, k, and what to paste; `why_not` where it cannot.

    `note` is what else to know. Where `foreseen` is False it proposes other tokens than the draft that was forecast, so
    that no forecast of this draft is its own.
    """

    engine: str
    rule: Rule | None
    k: int | None
    paste: str
    why_not: str = ""
    note: str = ""
    foreseen: bool = True


def ways(
    target: str, name: str, draft: DraftSpec, rule: Rule, ks: Mapping[Rule, int], *, greedy: bool = False
) -> tuple[Way, ...]:
    """How each engine runs a draft, by every exact rule that it has for it.

    A lookup before a draft is specq's own: of the others only llama.cpp's server puts n-grams before a draft model
    (docs/speculative.md there), by a search of its own.

    Args:
        target: the model that is served.
        name: of the draft's lever.
        draft: what was chosen.
        rule: that it was chosen with; `ks` has it.
        ks: the best k of the draft under each rule; under a rule that it lacks, that of `rule`.
        greedy: at temperature 0, where all rules do the same: one way an engine.

    Options as vLLM's page on speculative decoding, llama.cpp's docs/speculative.md (the names of its pull request
    22397), mlx-lm's --help and transformers' GenerationConfig have them.
    """
    k = ks[rule]
    found = [_specq(name, draft, k, rule)]
    if draft.lookup_first:
        searches = "its server puts n-grams before a draft model, by a search of its own that was not forecast"
        found += [_no(one, searches if one == "llama.cpp" else "it has no lookup before a draft") for one in ELSEWHERE]
    elif draft.method == "lookup":
        found += _lookups(target, replace(draft, k=k))
    elif draft.method == "early_exit":
        own = ks.get("rejection", k)
        told = _assistant("target", own, draft.stop_below)
        paste = f"{told}target.generate(**inputs, assistant_early_exit={draft.layers})"
        found.append(Way(engine="transformers", rule="rejection", k=own, paste=paste))
        found += [_no(engine, "it has no early exit") for engine in ELSEWHERE if engine != "transformers"]
    elif draft.bits is None and draft.recipe is None and draft.model != "self":
        found += _models(target, draft, {each: ks.get(each, k) for each in (*vllm.MODEL_RULES, "match")}, greedy)
    else:
        source = target if draft.model in (None, "self") else draft.model
        how = f"--bits {draft.bits}" if draft.recipe is None else f"--recipe {draft.recipe}"
        made = f"specq quantize {source} {how} makes a folder that it may load as a draft model"
        no = "it rounds no target in memory" if draft.recipe is None else "it makes no draft by a recipe"
        found += [_no(engine, f"{no}; {made}") for engine in ELSEWHERE]
    return tuple(found)


def _models(target: str, draft: DraftSpec, ks: Mapping[Rule, int], greedy: bool) -> list[Way]:
    """A draft model that every engine can load, by the rules of each."""
    model, found, same = draft.model or "", [], draft.stop_below is None
    for each in vllm.MODEL_RULES[: 1 if greedy else None]:
        config = vllm.speculation(replace(draft, k=ks[each], rule=each), model)
        note = "" if same else _ALWAYS_K
        paste = _vllm(target, config)
        found.append(Way(engine="vllm", rule=each, k=ks[each], paste=paste, note=note, foreseen=same))
    for each in llamacpp.MODEL_RULES[: 1 if greedy else None]:
        paste = _llamacpp(replace(draft, k=ks[each], rule=each))
        notes = [_SAMPLES] if each == "rejection" else []
        notes += [] if same else [_DROPS]
        found.append(Way(engine="llama.cpp", rule=each, k=ks[each], paste=paste, note="; ".join(notes), foreseen=same))
    loaded = f"draft = AutoModelForCausalLM.from_pretrained({_json(model)}); "
    told = _assistant("draft", ks["rejection"], draft.stop_below)
    paste = f"{loaded}{told}target.generate(**inputs, assistant_model=draft)"
    note = "" if same else _MOVES
    found.append(Way(engine="transformers", rule="rejection", k=ks["rejection"], paste=paste, note=note))
    paste = shlex.join(["mlx_lm.generate", "--model", target, "--draft-model", model])
    paste = f"{paste} --num-draft-tokens {ks['match']}"
    note = "" if same else _ALWAYS_K
    found.append(Way(engine="mlx-lm", rule="match", k=ks["match"], paste=paste, note=note, foreseen=same))
    return found


def _lookups(target: str, draft: DraftSpec) -> list[Way]:
    """A lookup where an engine has one: none searches as specq does."""

    def own(engine: str, paste: str, also: str = "") -> Way:
        note = f"{_SEARCHES}; {also}" if also else _SEARCHES
        return Way(engine=engine, rule="greedy_draft", k=draft.k, paste=paste, note=note, foreseen=False)

    copies = _vllm(target, vllm.speculation(draft, None))
    drafts_alone = _no("mlx-lm", "it drafts with models alone")
    if draft.match == "suffix":
        no = "it looks up n-grams, not the longest suffix"
        others = (_no("llama.cpp", f"{no} ({_LLAMACPP_NGRAMS})"), _no("transformers", no))
        return [own("vllm", copies, _SUFFIX_NEEDS), *others, drafts_alone]
    lengths = "" if draft.min_ngram == draft.max_ngram else f"its n-grams have one length, {draft.max_ngram} here"
    return [
        own("vllm", copies),
        own("llama.cpp", _llamacpp(draft), lengths),
        own("transformers", _copying(draft.k, draft.max_ngram)),
        drafts_alone,
    ]


def _no(engine: str, why: str) -> Way:
    return Way(engine=engine, rule=None, k=None, paste="", why_not=why)


def _specq(name: str, draft: DraftSpec, k: int, rule: Rule) -> Way:
    keys: dict[str, object] = {
        "kind": "draft",
        "method": draft.method,
        "model": draft.model,
        "layers": draft.layers,
        "bits": draft.bits,
    }
    keys |= {"recipe": draft.recipe, "stop_below": draft.stop_below}
    if draft.lookup_first:
        keys["lookup_first"] = True
    if draft.method == "lookup" or draft.lookup_first:
        keys["match"] = draft.match
        keys |= {"max_ngram": draft.max_ngram} if draft.match == "ngram" else {}
        keys["min_ngram"] = draft.min_ngram
    keys |= {"k": k, "rule": rule}
    lines = [f"{key} = {_json(value)}" for key, value in keys.items() if value is not None]
    return Way(engine=HERE, rule=rule, k=k, paste="\n".join([f"[levers.{name}]", *lines]))


def _vllm(target: str, config: Mapping[str, object]) -> str:
    return shlex.join(["vllm", "serve", target, "--speculative-config", _json(config)])


def _llamacpp(draft: DraftSpec) -> str:
    return shlex.join(["llama-server", "-m", "TARGET.gguf", *llamacpp.speculation(draft, "DRAFT.gguf")])


def _assistant(model: str, k: int, stop_below: float | None) -> str:
    """Always k proposals, or up to the first that the draft is less sure of than `stop_below`.

    transformers reads the assistant's own settings, never the arguments of generate(). For an early exit that is the
    target itself (EarlyExitCandidateGenerator in generation/candidate_generator.py).
    """
    keys = {"num_assistant_tokens": str(k), "num_assistant_tokens_schedule": '"constant"'}
    keys["assistant_confidence_threshold"] = _json(stop_below or 0)
    return "".join(f"{model}.generation_config.{key} = {value}; " for key, value in keys.items())


def _copying(k: int, longest: int) -> str:
    return f"target.generate(**inputs, prompt_lookup_num_tokens={k}, max_matching_ngram_size={longest})"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
