"""specq's reference engine beside transformers' `generate`, taking turns on the same prompts in one process.

All arms write equally many tokens, past the model's own end. Prints tables a dtype and one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from compare import SAMPLED, Timed, show
from rich.console import Console
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.generation.streamers import BaseStreamer

from specq.core import clock
from specq.core.errors import RunFailed, SpecqError
from specq.core.types import DraftSpec, Prompt, Sampling
from specq.engines.hf import DTYPES, HFEngine, HFTarget
from specq.experiment import prompts
from specq.models.quiet import quiet
from specq.models.refs import Resolved, resolve
from specq.quantize.dense import repacks
from specq.run.schedule import turns

LAYERS, EARLY_K, LOOKUP_K, NGRAM, SAMPLED_K = 25, 2, 4, 3, 4
EARLY = DraftSpec(method="early_exit", layers=LAYERS, k=EARLY_K)
LOOKUP = DraftSpec(method="lookup", k=LOOKUP_K, rule="greedy_draft", max_ngram=NGRAM, min_ngram=1)
Arm = Callable[[Prompt], Timed]


class Clocked(BaseStreamer):
    """Notes when each pass of `generate` handed its tokens over; the first call brings the prompt."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.counts: list[int] = []

    def put(self, value: torch.Tensor) -> None:
        """One pass's tokens."""
        self.at.append(clock.now())
        self.counts.append(value.numel())

    def end(self) -> None:
        """Nothing is held back."""


def load_peer(resolved: Resolved, dtype: str, device: str) -> PreTrainedModel:
    """The model as transformers loads it, set to draft a fixed number of tokens and to know no end."""
    model = AutoModelForCausalLM.from_pretrained(
        resolved.folder, dtype=DTYPES[dtype], attn_implementation="sdpa", local_files_only=True, use_safetensors=True
    )
    torch.nn.Module.to(model.eval(), device)
    config = model.generation_config
    # `generate` fills an eos of None from here, and a draft's settings are read from here alone.
    config.eos_token_id = None
    config.pad_token_id = 0
    config.num_assistant_tokens = EARLY_K
    config.num_assistant_tokens_schedule = "constant"
    config.assistant_confidence_threshold = 0.0
    return model


def peer_arm(model: PreTrainedModel, tokens: int, **settings: Any) -> Arm:
    """Greedy `generate` with extra settings."""

    def run(prompt: Prompt) -> Timed:
        ids = torch.tensor([prompt.ids], device=model.device)
        streamer = Clocked()
        start = clock.now()
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=tokens,
            streamer=streamer,
            **settings,
        )
        new = tuple(out[0, len(prompt.ids) :].tolist())
        whole = clock.now() - start
        return Timed(
            ids=new,
            whole_s=whole,
            decode_s=streamer.at[-1] - streamer.at[1],
            decoded=sum(streamer.counts[2:]),
            passes=len(streamer.at) - 1,
        )

    return run


def specq_arm(target: HFTarget, draft: DraftSpec | None, sampling: Sampling) -> Arm:
    """A decoder of the reference engine."""
    decoder = target.decoder(draft)

    def run(prompt: Prompt) -> Timed:
        start = clock.now()
        done = decoder.generate([prompt], sampling)[0]
        return Timed(
            ids=done.ids,
            whole_s=clock.now() - start,
            decode_s=done.e2e_s - done.ttft_s,
            decoded=len(done.ids) - 1,
            passes=len(done.steps) + 1,
            steps=done.steps,
        )

    return run


def make_arms(model: PreTrainedModel, target: HFTarget, bare: HFTarget | None, tokens: int) -> dict[str, Arm]:
    """All arms by name; `bare` is the target without packed weights, where packing changes anything."""
    greedy = Sampling(max_new_tokens=tokens, ignore_eos=True)
    warm = Sampling(max_new_tokens=tokens, ignore_eos=True, temperature=0.7, top_p=0.9, seed=7)
    lookup = {"prompt_lookup_num_tokens": LOOKUP_K, "max_matching_ngram_size": NGRAM}
    arms = {
        "transformers plain": peer_arm(model, tokens),
        "transformers plain again": peer_arm(model, tokens),
        "transformers lookup": peer_arm(model, tokens, **lookup),
        "transformers early exit": peer_arm(model, tokens, assistant_early_exit=LAYERS),
        "specq plain": specq_arm(target, None, greedy),
        "specq lookup": specq_arm(target, LOOKUP, greedy),
        "specq early exit": specq_arm(target, EARLY, greedy),
        SAMPLED: specq_arm(target, DraftSpec(method="early_exit", layers=LAYERS, k=SAMPLED_K, rule="rejection"), warm),
    }
    if bare is not None:
        arms["specq plain, not packed"] = specq_arm(bare, None, greedy)
    return arms


def measure(arms: dict[str, Arm], chosen: Sequence[Prompt], repeats: int, tokens: int) -> dict[str, list[list[Timed]]]:
    """Every arm on every prompt, `repeats` times in balanced order after a warm-up: [arm][prompt][repeat]."""
    with quiet():
        for arm in arms.values():
            arm(chosen[0])
    by_id = {prompt.id: number for number, prompt in enumerate(chosen)}
    found: dict[str, list[list[Timed]]] = {name: [[] for _ in chosen] for name in arms}
    schedule = turns(list(by_id), list(arms), repeats, 1, 7)
    for number, turn in enumerate(schedule, start=1):
        for name in turn.arms:
            timed = arms[name](chosen[by_id[turn.prompt]])
            if len(timed.ids) != tokens:
                raise RunFailed(f"{name} wrote {len(timed.ids)} tokens to {turn.prompt}, expected {tokens}")
            found[name][by_id[turn.prompt]].append(timed)
        print(f"turn {number} of {len(schedule)}", file=sys.stderr)
    return found


def main() -> None:
    """Measure each dtype in turn, print its tables, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=Path, default=Path("evals/chat.jsonl"), help="a specq prompts file")
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--limit", type=int, default=12, help="how many prompts")
    parser.add_argument("--tokens", type=int, default=48, help="new tokens a prompt")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"], choices=("float32", "bfloat16"))
    args = parser.parse_args()
    if args.tokens < 8 or args.limit < 1 or args.repeats < 1:
        parser.error("--tokens must be at least 8 (a first pass may give five), --limit and --repeats at least 1")
    console = Console(width=120)
    items = prompts.load(args.prompts, args.limit)
    result: dict[str, Any] = {}
    for dtype in args.dtype:
        with quiet():
            target = HFEngine(dtype=dtype).open(args.model)
            bare = (
                HFEngine(dtype=dtype, packed=False).open(args.model) if repacks(dtype, target.engine.device) else None
            )
            model = load_peer(resolve(args.model), dtype, target.engine.device)
        chosen = [target.encode(item.messages or item.prompt, id=item.id) for item in items]
        console.print(
            f"\n{dtype}: {len(chosen)} prompts, {args.tokens} tokens each, {args.repeats} repeats, {args.model} on "
            f"{target.engine.device}, {torch.get_num_threads()} threads. Equal tokens: against transformers plain.",
            *target.resolved.notes,
            markup=False,
            sep="\n",
        )
        with quiet():
            arms = make_arms(model, target, bare, args.tokens)
        result[dtype] = show(console, measure(arms, chosen, args.repeats, args.tokens))
    print(json.dumps({"model": args.model, "prompts": len(items), "tokens": args.tokens, **result}))


if __name__ == "__main__":
    try:
        main()
    except SpecqError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
