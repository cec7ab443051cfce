"""How much of a target's own text its drafts name right, and what that is worth in tokens a step.

Drafts are lookup, the target's first layers, and the target itself on fewer bits.

The target writes its answer to each prompt once and plainly; every draft is then scored on that text,
position by position. No speculative loop runs, so the figures do not depend on one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel

from specq.core.errors import PromptError, SpecqError
from specq.core.hashes import seed_of
from specq.core.types import EXACT_RULES, DraftSpec, Prompt, Rule, Sampling
from specq.decoding import audit, law
from specq.decoding.sampling import Warper
from specq.decoding.session import Session, shallow
from specq.engines.hf import DTYPES, HFEngine, HFTarget
from specq.engines.hf_decoder import lookup
from specq.experiment import prompts
from specq.models.quiet import quiet
from specq.quantize.in_memory import quantize_in_memory
from specq.quantize.load import load_quantized
from specq.stats.intervals import Interval, pooled_ratio

KS = (1, 2, 4, 8)
LOOKUP = DraftSpec(method="lookup", k=max(KS), rule="greedy_draft", max_ngram=3, min_ngram=1)
Drafts = Mapping[str, PreTrainedModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A draft on one prompt's text: the sum of r over the positions after the first, and steps at each k of KS.

    `accepted` is None for block, which accepts by whole prefixes and has no r of one position.
    """

    positions: int
    accepted: float | None
    steps: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What the target wrote, and its law there: p is 1 throughout at temperature 0."""

    prompt: Prompt
    ids: tuple[int, ...]
    warper: Warper
    p: np.ndarray


def pick(target: HFTarget, file: Path, each: int, most: int) -> list[Prompt]:
    """The first `each` questions of every category, less those of `most` tokens and more, in file order."""
    seen: Counter[str] = Counter()
    picked = []
    for item in prompts.load(file):
        kind = item.tags[0] if item.tags else ""
        seen[kind] += 1
        if seen[kind] > each:
            continue
        prompt = target.encode(item.messages or item.prompt, id=item.id)
        if len(prompt.ids) < most:
            picked.append(dataclasses.replace(prompt, tags=item.tags))
    if not picked:
        raise PromptError(f"{file}: no question of fewer than {most} tokens; raise --most")
    return picked


def write(target: HFTarget, prompt: Prompt, sampling: Sampling) -> tuple[Text, int]:
    """The target's own answer, and at how many positions one pass over it would have said another token.

    The count is of temperature 0 only: one row and many rows round differently.
    """
    ids = target.decoder().generate([prompt], sampling)[0].ids
    warper = Warper(sampling, prompt_tokens=len(prompt.ids), eos_ids=target.eos_ids)
    p = audit.text_law(Session(target.model), warper, prompt.ids, ids, audit.SCORE_ROWS, target.vocabulary).p
    moved = int((p == 0).sum()) if warper.greedy else 0
    return Text(prompt=prompt, ids=ids, warper=warper, p=np.ones(len(ids)) if warper.greedy else p), moved


def score_lookup(text: Text) -> Scored:
    """Lookup's proposals at every start; they are one-hot, so each rule accepts the same ones."""
    drafter, known = lookup(LOOKUP), list(text.prompt.ids)
    drafter.start(known, text.warper, np.random.default_rng(0))
    hits = 0
    for token in text.ids[:-1]:
        known.append(token)
        hits += drafter.propose(known, 1).ids == [text.ids[len(known) - len(text.prompt.ids)]]
    steps = [audit.lookup_steps(lookup(LOOKUP), text.warper, text.prompt.ids, text.ids, k) for k in KS]
    return Scored(positions=len(text.ids) - 1, accepted=float(hits), steps=tuple(map(float, steps)))


def score_model(target: HFTarget, text: Text, model: PreTrainedModel) -> Iterator[tuple[Rule, Scored]]:
    """A draft with the target's vocabulary, teacher-forced on the text, under each rule."""
    session = Session(model, keep="everything")
    q = audit.text_law(session, text.warper, text.prompt.ids, text.ids, audit.SCORE_ROWS, target.vocabulary).p
    # A one-hot law tells the draft's argmax exactly, where Law.hit gives half a hit to near ties.
    greedy = Warper(Sampling(), prompt_tokens=len(text.prompt.ids), eos_ids=target.eos_ids)
    hit = (
        q
        if text.warper.greedy
        else audit.text_law(session, greedy, text.prompt.ids, text.ids, audit.SCORE_ROWS, target.vocabulary).p
    )
    for rule in EXACT_RULES:
        r = [law.survival(rule, text.p, q, hit, t, 1)[1] for t in range(1, len(text.ids))]
        yield (
            rule,
            Scored(
                positions=len(r),
                accepted=None if rule == "block" else float(sum(r)),
                steps=tuple(law.steps(rule, text.p, q, hit, k)[0] for k in KS),
            ),
        )


def score(target: HFTarget, text: Text, drafts: Drafts) -> Iterator[tuple[tuple[str, str], Scored]]:
    """Every draft under every rule on one text; at temperature 0 the rules are one and the same."""
    yield ("lookup", "any"), score_lookup(text)
    for name, model in drafts.items():
        scored = dict(score_model(target, text, model))
        if text.warper.greedy:
            yield (name, "any"), scored["greedy_draft"]
        else:
            for rule in EXACT_RULES:
                yield (name, rule), scored[rule]


def drafts_of(target: HFTarget, args: argparse.Namespace) -> Drafts:
    """The models that draft, by name."""
    found: dict[str, PreTrainedModel] = {f"early exit {n}": shallow(target.model, n) for n in args.exits}
    for bits in args.bits:
        found[f"itself, {bits} bits"] = quantize_in_memory(target.model, bits=bits).model
    for folder in args.folders:
        found[folder.name] = load_quantized(folder, dtype=args.dtype).model
    return found


def pooled(rows: Sequence[Scored]) -> tuple[Interval | None, list[Interval]]:
    """Share of tokens accepted, and tokens a step at each k, pooled over prompts."""
    positions = [row.positions for row in rows]
    accepted = [row.accepted for row in rows if row.accepted is not None]
    share = pooled_ratio([accepted], [positions]) if len(accepted) == len(rows) else None
    per_step = [pooled_ratio([positions], [[row.steps[i] for row in rows]]) for i in range(len(KS))]
    return share, per_step


def measure(
    target: HFTarget, chosen: Sequence[Prompt], sampling: Sampling, drafts: Drafts
) -> tuple[dict[tuple[str, str], list[Scored]], int]:
    """All drafts on the target's text to every prompt; positions where one pass would have said another token."""
    rows: dict[tuple[str, str], list[Scored]] = defaultdict(list)
    moved = 0
    for number, prompt in enumerate(chosen, start=1):
        seeded = dataclasses.replace(sampling, seed=seed_of(sampling.seed, prompt.id))
        text, other = write(target, prompt, seeded)
        moved += other
        # An answer of one token came from the prefill alone: there was no step to speed up.
        if len(text.ids) > 1:
            for name, scored in score(target, text, drafts):
                rows[name].append(scored)
        print(f"temperature {sampling.temperature}: prompt {number} of {len(chosen)}", file=sys.stderr)
    return rows, moved


def shown(interval: Interval | None, digits: int) -> str:
    """A value with its interval, as text; a dash where there is none."""
    if interval is None:
        return "-"
    bounds = "" if interval.low is None else f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
    return f"{interval.value:.{digits}f}{bounds}"


def as_json(name: tuple[str, str], temperature: float, rows: Sequence[Scored]) -> dict[str, object]:
    """One row of the table as counts and pooled values."""
    share, per_step = pooled(rows)
    return {
        "temperature": temperature,
        "draft": name[0],
        "rule": name[1],
        "prompts": len(rows),
        "positions": sum(row.positions for row in rows),
        "accepted": None if share is None else round(sum(row.accepted or 0.0 for row in rows), 3),
        "share": None if share is None else round(share.value, 4),
        "expected_steps": {str(k): round(sum(row.steps[i] for row in rows), 3) for i, k in enumerate(KS)},
        "tokens_per_step": {str(k): round(per_step[i].value, 4) for i, k in enumerate(KS)},
    }


def table(temperature: float, rows: dict[tuple[str, str], list[Scored]]) -> Table:
    """The rows of one temperature."""
    found = Table(title=f"temperature {temperature}", title_justify="left")
    for i, column in enumerate(("draft", "rule", "accepted", "share of tokens", *(f"k = {k}" for k in KS))):
        found.add_column(column, justify="left" if i < 2 else "right")
    for name, scored in rows.items():
        share, per_step = pooled(scored)
        accepted = "-" if share is None else f"{sum(row.accepted or 0.0 for row in scored):.1f}"
        cells = [f"{accepted} of {sum(row.positions for row in scored)}", shown(share, 3)]
        found.add_row(*name, *cells, *(f"{step.value:.3f}" for step in per_step))
    return found


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=Path, required=True, help="Spec-Bench's question.jsonl, or specq prompts")
    parser.add_argument("--model", default="builtin:smollm2-135m")
    parser.add_argument("--dtype", default="bfloat16", choices=DTYPES)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7])
    parser.add_argument("--exits", type=int, nargs="*", default=[20, 25, 28], help="layers of early exit")
    parser.add_argument("--bits", type=int, nargs="*", default=[], help="the target itself, rounded in memory: 8, 4")
    parser.add_argument("--folders", type=Path, nargs="*", default=[], help="what specq quantize made of the target")
    parser.add_argument("--each", type=int, default=2, help="first questions of each category")
    parser.add_argument("--most", type=int, default=700, help="questions of this many tokens and more are left out")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens a prompt at most")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--ignore-eos", action="store_true", help="write on past the model's own end")
    return parser.parse_args()


def main() -> None:
    """Measure, print a table a temperature and one JSON line."""
    args = arguments()
    console = Console(width=110)
    with quiet():
        target = HFEngine(dtype=args.dtype).open(args.model)
        drafts = drafts_of(target, args)
    chosen = pick(target, args.questions, args.each, args.most)
    categories = len({prompt.tags for prompt in chosen})
    console.print(
        f"{len(chosen)} prompts of {categories} categories, {args.model} in {args.dtype}, up to {args.tokens} tokens; "
        f"{torch.get_num_threads()} threads. Intervals: 95 %, over prompts. k columns: tokens a step, pooled.",
        markup=False,
    )
    for note in target.resolved.notes:
        console.print(note, markup=False)
    lines = []
    for temperature in args.temperatures:
        sampling = Sampling(
            temperature=temperature, max_new_tokens=args.tokens, ignore_eos=args.ignore_eos, seed=args.seed
        )
        rows, moved = measure(target, chosen, sampling, drafts)
        console.print(table(temperature, rows))
        if temperature == 0.0:
            console.print(f"One pass over the text has another argmax than plain decoding at {moved} tokens.")
        lines += [as_json(name, temperature, scored) for name, scored in rows.items()]
    print(json.dumps({"model": args.model, "dtype": args.dtype, "prompts": len(chosen), "rows": lines}))


if __name__ == "__main__":
    try:
        main()
    except SpecqError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
