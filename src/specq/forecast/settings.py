"""The setting to paste into each engine for a draft that was chosen, and the verification rule that it runs there.

Which rule an engine runs is what decides its tokens per step: vLLM and llama.cpp propose the draft's likeliest token,
transformers samples its proposals, mlx-lm draws from the target and keeps what matches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from specq.core.types import DraftSpec, Rule

HERE = "specq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An engine's way to run a draft: the rule that it verifies by, and what to paste; `why_not` where it cannot."""

    engine: str
    rule: Rule | None
    paste: str
    why_not: str = ""


def ways(target: str, name: str, draft: DraftSpec, k: int, rule: Rule) -> tuple[Way, ...]:
    """How each engine runs a draft of k tokens.

    A lookup before a draft is specq's own: of the others only llama.cpp's server puts n-grams before a draft model
    (docs/speculative.md there), by a search of its own.

    Options as vLLM's page on speculative decoding, llama.cpp's docs/speculative.md (the names of its pull request
    22397), mlx-lm's --help and transformers' GenerationConfig have them.
    """
    model = draft.model or ""
    own = draft.method == "model" and draft.bits is None and draft.recipe is None and model != "self"
    found = [_specq(name, draft, k, rule)]
    if draft.lookup_first:
        no = "it has no lookup before a draft"
        searches = "its server puts n-grams before a draft model, by a search of its own that was not forecast"
        found += [
            Way(engine=engine, rule=None, paste="", why_not=searches if engine == "llama.cpp" else no)
            for engine in ("vllm", "llama.cpp", "transformers", "mlx-lm")
        ]
    elif own:
        config = {"model": model, "num_speculative_tokens": k, "method": "draft_model"}
        found += [
            Way(
                engine="vllm", rule="greedy_draft", paste=f"vllm serve {target} --speculative-config '{_json(config)}'"
            ),
            Way(
                engine="llama.cpp",
                rule="greedy_draft",
                paste=(
                    f"llama-server -m TARGET.gguf -md DRAFT.gguf --spec-draft-n-max {k} --spec-draft-n-min {k} "
                    "--spec-draft-p-min 0"
                ),
            ),
            Way(
                engine="transformers",
                rule="rejection",
                paste=(
                    f'draft = AutoModelForCausalLM.from_pretrained("{model}"); '
                    f"draft.generation_config.num_assistant_tokens = {k}; "
                    'draft.generation_config.num_assistant_tokens_schedule = "constant"; '
                    "draft.generation_config.assistant_confidence_threshold = 0; "
                    "target.generate(**inputs, assistant_model=draft)"
                ),
            ),
            Way(
                engine="mlx-lm",
                rule="match",
                paste=f"mlx_lm.generate --model {target} --draft-model {model} --num-draft-tokens {k}",
            ),
        ]
    elif draft.method == "lookup":
        config = {
            "method": "ngram",
            "num_speculative_tokens": k,
            "prompt_lookup_max": draft.max_ngram,
            "prompt_lookup_min": draft.min_ngram,
        }
        ngram = draft.match == "ngram"
        no = "" if ngram else "it looks up n-grams, not the longest suffix"
        found += [
            Way(
                engine="vllm",
                rule="greedy_draft" if ngram else None,
                paste=_vllm(target, config) if ngram else "",
                why_not=no,
            ),
            Way(
                engine="transformers",
                rule="greedy_draft" if ngram else None,
                paste=_copying(k, draft.max_ngram) if ngram else "",
                why_not=no,
            ),
            Way(
                engine="llama.cpp", rule=None, paste="", why_not="its server looks nothing up; its example lookup does"
            ),
            Way(engine="mlx-lm", rule=None, paste="", why_not="it drafts with models alone"),
        ]
    elif draft.method == "early_exit":
        paste = f"target.generate(**inputs, assistant_early_exit={draft.layers})"
        found += [
            Way(engine="transformers", rule="rejection", paste=paste),
            *(
                Way(engine=engine, rule=None, paste="", why_not="it has no early exit")
                for engine in ("vllm", "llama.cpp", "mlx-lm")
            ),
        ]
    else:
        source = target if model in ("", "self") else model
        how = f"--bits {draft.bits}" if draft.recipe is None else f"--recipe {draft.recipe}"
        made = f"specq quantize {source} {how} makes a folder that it may load as a draft model"
        no = "it rounds no target in memory" if draft.recipe is None else "it makes no draft by a recipe"
        found += [
            Way(engine=engine, rule=None, paste="", why_not=f"{no}; {made}")
            for engine in ("vllm", "llama.cpp", "transformers", "mlx-lm")
        ]
    return tuple(found)


def _specq(name: str, draft: DraftSpec, k: int, rule: Rule) -> Way:
    keys = {"kind": "draft", "method": draft.method, "model": draft.model, "layers": draft.layers, "bits": draft.bits}
    keys["recipe"] = draft.recipe
    if draft.lookup_first:
        keys["lookup_first"] = True
    if draft.method == "lookup" or draft.lookup_first:
        keys["match"] = draft.match
        keys |= {"max_ngram": draft.max_ngram} if draft.match == "ngram" else {}
        keys["min_ngram"] = draft.min_ngram
    keys |= {"k": k, "rule": rule}
    lines = [f"{key} = {_json(value)}" for key, value in keys.items() if value is not None]
    return Way(engine=HERE, rule=rule, paste="\n".join([f"[levers.{name}]", *lines]))


def _vllm(target: str, config: dict[str, object]) -> str:
    return f"vllm serve {target} --speculative-config '{_json(config)}'"


def _copying(k: int, longest: int) -> str:
    return f"target.generate(**inputs, prompt_lookup_num_tokens={k}, max_matching_ngram_size={longest})"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
