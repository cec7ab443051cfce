"""The work of `kernels.py`: arms that take turns by whole generations, their tables and ratios.

Parts: "model" decodes a real model greedily through every arm; "large" does it with a random Llama of about a
billion weights, and holds its speed against the memory bandwidth measured here; "rows" times single layers by
row count over weights that no cache holds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from compare import as_data, bounded
from llamacpp import MISSING, installed, server_arm
from rich.console import Console
from rich.table import Table
from rows import table_of_rows
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.initialization import no_init_weights

from specq.core import clock
from specq.core.errors import ConfigError, Unsupported
from specq.decoding.compiled import CompiledSession
from specq.decoding.session import Session
from specq.engines.hf import HFEngine
from specq.experiment import prompts
from specq.models.quiet import quiet
from specq.quantize.dense import pack
from specq.quantize.in_memory import quantize_in_memory
from specq.quantize.replace import Swap, held_bytes
from specq.run import bandwidth
from specq.run.schedule import turns
from specq.stats.intervals import log_ratio

EAGER, AGAIN, PACKED = "bf16 eager", "bf16 eager again", "bf16 packed"
HEAD8 = "4-bit, 8-bit head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One generation: seconds to the first token, seconds of the `decoded` tokens after it, and the tokens."""

    prefill_s: float
    decode_s: float
    decoded: int
    ids: tuple[int, ...] = ()


Arm = Callable[[Sequence[int]], Timed]


def arm(session: Session, tokens: int) -> Arm:
    """Greedy decoding of `tokens` tokens, the model's own end ignored."""

    def run(ids: Sequence[int]) -> Timed:
        with torch.inference_mode():
            session.restart()
            start = clock.now()
            new = [int(session.forward(ids, last_only=True)[-1].argmax())]
            first = clock.now()
            while len(new) < tokens:
                new.append(int(session.forward(new[-1:], last_only=True)[-1].argmax()))
            return Timed(prefill_s=first - start, decode_s=clock.now() - first, decoded=tokens - 1, ids=tuple(new))

    return run


def compiled(model: PreTrainedModel, tokens: int, longest: int) -> Arm:
    """The same through graphs that are compiled before anything is timed."""
    session = CompiledSession(model, [1])
    with torch.inference_mode():
        session.warm_up(longest + tokens)
    return arm(session, tokens)


def server(args: argparse.Namespace, threads: int, longest: int) -> Arm:
    """llama.cpp on the same weights."""
    run = server_arm(args.gguf, threads, args.tokens, longest)
    return lambda ids: Timed(**run(ids))


def measure(arms: Mapping[str, Arm], chosen: Sequence[Sequence[int]], repeats: int) -> dict[str, list[list[Timed]]]:
    """Every arm on every prompt, `repeats` times in balanced order after a warm-up: [arm][prompt][repeat]."""
    for run in arms.values():
        run(chosen[0])
    found: dict[str, list[list[Timed]]] = {name: [[] for _ in chosen] for name in arms}
    for turn in turns([str(number) for number in range(len(chosen))], list(arms), repeats, 1, 7):
        for name in turn.arms:
            found[name][int(turn.prompt)].append(arms[name](chosen[int(turn.prompt)]))
    return found


def show(console: Console, title: str, found: Mapping[str, list[list[Timed]]], base: str) -> dict[str, Any]:
    """One row an arm: milliseconds a token, prefill, and how many times the base's speed it has."""
    table = Table("arm", "ms a token", "prefill s", f"decode, times {base} [95 %]", "prefill time, times", title=title)
    result: dict[str, Any] = {}

    def sums(name: str, what: str) -> tuple[list[float], list[int]]:
        times = [sum(getattr(t, what) for t in runs) for runs in found[name]]
        return times, [sum(t.decoded for t in runs) for runs in found[name]]

    for name, rows in found.items():
        every = [timed for runs in rows for timed in runs]
        ms = 1000 * sum(t.decode_s for t in every) / sum(t.decoded for t in every)
        prefill = sum(t.prefill_s for t in every) / len(every)
        speed = log_ratio(*sums(base, "decode_s"), *sums(name, "decode_s"))
        slower = sum(sums(name, "prefill_s")[0]) / sum(sums(base, "prefill_s")[0])
        same = sum(mine[0].ids == theirs[0].ids for mine, theirs in zip(rows, found[base], strict=True))
        result[name] = {
            "ms_a_token": ms,
            "prefill_s": prefill,
            "decode_ratio": as_data(speed),
            "prefill_ratio": slower,
            "equal_outputs": same,
        }
        table.add_row(name, f"{ms:.2f}", f"{prefill:.3f}", bounded(speed), f"{slower:.2f}")
    console.print(table)
    return result


def model_part(console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """The arms of a real model, its head kept, and with the head quantized too."""
    with quiet():
        bare = HFEngine(device="cpu", dtype="bfloat16", packed=False).open(args.model)
        target = HFEngine(device="cpu", dtype="bfloat16", packed=False).open(args.model)
    pack(target.model)
    items = prompts.load(args.prompts, args.limit)
    chosen = [target.encode(item.messages or item.prompt, id=item.id).ids for item in items]
    longest, tokens = max(map(len, chosen)), args.tokens
    models = {PACKED: target.model}
    held: dict[str, Any] = {PACKED: held_bytes(target.model)}
    for head in (False, True) if args.head else (False,):
        for bits in (8, 4):
            how = {"bits": bits, "group_size": args.group[bits], "head": head, "prefill": args.prefill}
            made = quantize_in_memory(target.model, **how)
            name = f"{bits}-bit{', head too' if head else ''}"
            models[name], held[name] = made.model, made.bytes_held
            console.print(name, *made.notes, sep="\n  ", markup=False)
    if args.head:
        # As llama.cpp has it in its files of four bits.
        body = quantize_in_memory(target.model, bits=4, group_size=args.group[4], prefill=args.prefill).model
        swap = Swap(body, args.prefill, {})
        swap.round_head()
        made = swap.result("in memory")
        models[HEAD8], held[HEAD8] = made.model, made.bytes_held
    makers = {EAGER: lambda: arm(Session(bare.model, keep="nothing"), tokens)}
    makers[AGAIN] = makers[EAGER]
    makers |= {name: lambda model=model: arm(Session(model, keep="nothing"), tokens) for name, model in models.items()}
    if args.compile:
        for name, model in models.items():
            makers[f"{name}, compiled"] = lambda model=model: compiled(model, tokens, longest)
    if args.gguf is not None:
        for threads in (1, 2):
            makers[f"llama.cpp, {threads} threads"] = lambda threads=threads: server(args, threads, longest)
    if unknown := set(args.only or ()) - set(makers):
        raise ConfigError(f"--only {', '.join(sorted(unknown))}: allowed are {', '.join(makers)}")
    arms = {name: make() for name, make in makers.items() if name in (EAGER, AGAIN, *(args.only or makers))}
    title = f"{args.model}, {len(chosen)} prompts, {tokens} tokens, {torch.get_num_threads()} threads"
    return {"arms": show(console, title, measure(arms, chosen, args.repeats), EAGER), "bytes_held": held}


def large_model(layers: int, hidden: int) -> PreTrainedModel:
    """A random bfloat16 Llama in TinyLlama's proportions: 22 layers of 2048 are 1.1 billion weights."""
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=max(1, hidden // 512),
        vocab_size=32000,
        tie_word_embeddings=False,
    )
    with no_init_weights():
        model = LlamaForCausalLM._from_config(config, dtype=torch.bfloat16).eval().requires_grad_(False)
    # Drawing a billion normal values takes longer than the whole measurement: one block is repeated.
    block = torch.randn(2**20, generator=torch.Generator().manual_seed(0)).mul_(0.02).to(torch.bfloat16)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.fill_(1.0)
        else:
            for piece in parameter.data.view(-1).split(len(block)):
                piece.copy_(block[: len(piece)])
    return model


def large_part(console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """Decode speed of the random Llama and the share of what memory bandwidth allows."""
    model = large_model(args.layers, args.hidden)
    count = sum(p.numel() for p in model.parameters())
    embedding = model.get_input_embeddings().weight.nbytes
    pack(model)
    models, read = {PACKED: model}, {PACKED: held_bytes(model) - embedding}
    for bits in (8, 4):
        made = quantize_in_memory(model, bits=bits, group_size=args.group[bits], prefill="packed")
        models[f"{bits}-bit"], read[f"{bits}-bit"] = made.model, made.bytes_held - embedding
    arms = {name: arm(Session(each, keep="nothing"), args.tokens) for name, each in models.items()}
    if args.compile:
        arms |= {f"{name}, compiled": compiled(each, args.tokens, 16) for name, each in models.items()}
    chosen = [tuple(range(start, start + 16)) for start in range(100, 100 + args.limit)]
    before = bandwidth.measure("cpu", size_bytes=args.bandwidth_bytes)
    found = measure(arms, chosen, args.repeats)
    after = bandwidth.measure("cpu", size_bytes=args.bandwidth_bytes)
    # Neighbours on the machine's memory come and go: both ends of the run count alike.
    seen = statistics.fmean([before.median, after.median])
    result = show(console, f"random Llama, {count / 1e9:.2f} billion weights", found, PACKED)
    for name, row in result.items():
        row["bytes_a_token"] = read[name.removesuffix(", compiled")]
        row["share_of_bandwidth"] = row["bytes_a_token"] / seen / (row["ms_a_token"] / 1000)
        console.print(f"{name}: {row['share_of_bandwidth']:.0%} of {seen / 1e9:.1f} GB/s", markup=False)
    return {"arms": result, "weights": count, "bandwidth_bytes_per_s": [before.median, after.median]}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure the parts that were asked for, print a table each, then one JSON line."""
    parser = argparse.ArgumentParser(prog="kernels.py", description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["model", "large", "rows"], choices=("model", "large", "rows"))
    parser.add_argument("--prompts", type=Path, default=Path("evals/chat.jsonl"), help="a specq prompts file")
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--limit", type=int, default=4, help="how many prompts")
    parser.add_argument("--tokens", type=int, default=32, help="new tokens a prompt")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--group-size", type=int, default=32, help="columns a scale at 4 bits")
    parser.add_argument("--prefill", choices=("dense", "packed"), default="dense")
    parser.add_argument("--head", action="store_true", help="arms with the head quantized too")
    parser.add_argument("--compile", action="store_true", help="compiled arms; compiling takes minutes")
    parser.add_argument("--only", nargs="+", metavar="ARM", help=f"arms of the model part beside {EAGER} and its twin")
    parser.add_argument("--gguf", type=Path, help="the same weights for llama.cpp, through the package xllamacpp")
    parser.add_argument("--layers", type=int, default=22, help="of the random Llama")
    parser.add_argument("--hidden", type=int, default=2048, help="of the random Llama; a multiple of 512")
    parser.add_argument("--bandwidth-bytes", type=int, default=bandwidth.SIZE_BYTES)
    parser.add_argument("--shapes", nargs="+", default=["1536x576", "49152x576", "4096x4096"], help="rows x columns")
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 2, 3, 5, 8, 16, 64])
    parser.add_argument("--walk-bytes", type=int, help="weights a timing walks through; default: 4 last-level caches")
    args = parser.parse_args(argv)
    if args.gguf is not None and not installed():
        raise Unsupported(MISSING)
    args.group = {8: None, 4: args.group_size}
    console = Console(width=120)
    result: dict[str, Any] = {}
    if "model" in args.parts:
        result["model"] = model_part(console, args)
    if "large" in args.parts:
        result["large"] = large_part(console, args)
    if "rows" in args.parts:
        result["rows"] = table_of_rows(console, args.shapes, args.rows, args.group_size, args.walk_bytes)
    print(json.dumps(result))
    return result
