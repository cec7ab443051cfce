"""What a user asks the lab, checked before anything loads: parts, lengths, the own request, the machine."""

from __future__ import annotations

import statistics
from collections import Counter as Counted
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specq.core.errors import ConfigError, nearest
from specq.lab import batching, context, halves, machines, prompt_cache, window
from specq.lab.batching import Machine
from specq.lab.bench import Settings
from specq.lab.measured import PARTS
from specq.lab.opening import Wanted
from specq.lab.requester import OwnPrompt
from specq.lab.sized import Size
from specq.lab.told_weights import Told
from specq.workloads import rendering
from specq.workloads.counting import Counter

if TYPE_CHECKING:
    from specq.models.light_tokenizer import LightTokenizer
    from specq.workloads.request import Request

LENGTHS = (64, 128, 256, 512, 768, 1024)
_NOMINAL = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_FLOAT_BITS = 16
_WEIGHTLESS = Size(weight_bytes=0, bits=None, cache_bytes=None, tokens=None, cache_type="")
UNTEMPLATED = "no model is named, so that messages are counted in words without its chat template: give --model MODEL"
MOST_OWN = 64
"""Prompts of the user's own that are asked: as many as a page can tell of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrompts:
    """The user's prompts as the model sees them, what their own request is taken to be, and notes on reading."""

    prompts: tuple[OwnPrompt, ...]
    given: dict[str, Any]
    notes: tuple[str, ...] = ()


def check(parts: Sequence[str], settings: Settings, sizes: Sequence[int]) -> None:
    """Refuse parts that are none, and settings that the parts can find nothing with.

    Raises:
        ConfigError: as it says.
    """
    for part in parts:
        if part not in PARTS:
            raise ConfigError(f'--part "{part}"{nearest(part, PARTS) or ";"} allowed: {", ".join(PARTS)}')
    if not parts:
        raise ConfigError(f"no part; allowed: {', '.join(PARTS)}")
    if halves.PART in parts:
        halves.check(settings.lengths, settings.repeats, settings.output_tokens)
    elif len(set(settings.lengths)) < (2 if context.PART in parts else 1) or min(settings.lengths, default=0) < 2:
        raise ConfigError(f"lengths {', '.join(map(str, settings.lengths)) or 'none'}: give two or more of 2 and more")
    if settings.repeats < 2 or settings.output_tokens < 2:
        raise ConfigError(
            f"repeats {settings.repeats}, new tokens {settings.output_tokens}: allowed are 2 or more of each, or "
            "there is no spread and no time a token"
        )
    if batching.PART in parts:
        batching.check(sizes)


def own(
    counter: Counter,
    *,
    tokenizer: LightTokenizer | None = None,
    prompts: Path | None,
    prompt_tokens: int | None,
    output_tokens: int | None,
    cached_share: float | None,
    measured_output: int,
) -> OwnPrompts:
    """The user's own request: as given, the median of their prompts, or else the middle of what is measured.

    Raises:
        ConfigError: a count below 1 or a share beyond 1. PromptError: the file cannot be read.
    """
    for what, value in (("--prompt-tokens", prompt_tokens), ("--output-tokens", output_tokens)):
        if value is not None and value < 1:
            raise ConfigError(f"{what} {value}: allowed is 1 or more")
    if cached_share is not None and not 0 <= cached_share <= 1:
        raise ConfigError(f"--cached-share {cached_share}: allowed is a share from 0 to 1, 0.6 is 60 %")
    texts: tuple[OwnPrompt, ...] = ()
    first_notes: tuple[str, ...] = ()
    notes: Counted[str] = Counted()
    told: list[int] = []
    prompt: float | None = prompt_tokens
    unit = "tokens" if prompt_tokens is not None or counter.unit.startswith("tokens") else "words"
    origin = "as given" if prompt_tokens is not None else "the middle of what was measured"
    if prompts is not None:
        from specq.workloads import read_workload

        read = read_workload(prompts)
        texts = tuple(_seen(one, counter, tokenizer, notes) for one in read.requests)
        told = [one.output_tokens for one in read.requests if one.output_tokens]
        if len(texts) > MOST_OWN:
            first_notes = (f"of the {len(texts):,} prompts of {prompts.name} the first {MOST_OWN} are asked",)
        if prompt is None:
            prompt = statistics.median(one.tokens for one in texts)
            origin = f"the median of {len(read.requests)} prompts of {prompts.name}"
    output = output_tokens or (statistics.median(told) if told else measured_output)
    given = {"prompt": prompt, "output_tokens": output, "origin": origin, "unit": unit, "cached_share": cached_share}
    told_notes = (f"{note} ({count} of {len(texts)} prompts)" for note, count in notes.items())
    return OwnPrompts(prompts=texts[:MOST_OWN], given=given, notes=(*first_notes, *told_notes))


def _seen(one: Request, counter: Counter, tokenizer: LightTokenizer | None, notes: Counted[str]) -> OwnPrompt:
    """A prompt as the user's requests are: through the model's chat template where the model is known."""
    asked = rendering.asked(one)
    messages = () if isinstance(asked, str) else tuple(map(dict, asked))
    if tokenizer is None:
        text = rendering.plain(one)
        notes.update([UNTEMPLATED] if messages else [])
        return OwnPrompt(text=text, tokens=counter.count(text), tags=one.tags, messages=messages)
    text, special, found = rendering.text_of(tokenizer, one)
    notes.update(found)
    tokens = len(tokenizer.ids(text, special=special))
    return OwnPrompt(text=text, tokens=tokens, tags=one.tags, special=special, messages=messages)


def context_of(settings: Settings, counter: Counter, asked: OwnPrompts, model: str | None) -> int | None:
    """Tokens that a started server must hold for one request of `model`; None, its own, where lengths are in words."""
    if not counter.unit.startswith("tokens"):
        return None
    longest = max(settings.lengths) + settings.output_tokens
    own = max((one.tokens + prompt_cache.OWN_TOKENS for one in asked.prompts), default=0)
    return window.started(max(longest, own), window.of_model(model))


def size(
    model: str | None,
    asked: OwnPrompts,
    settings: Settings,
    dtype: str | None = None,
    *,
    held: bool = True,
    told: Told | None = None,
    stamp: int = 0,
) -> Size | None:
    """What the weights and one request's cache take; None where neither a model is here nor a server told anything.

    Weights that are stored as floats are counted in `dtype`, where they are loaded in another than their own. `told`
    is what a server says of its own weights, which goes first; `held` whether those of the model are what answers;
    `stamp` the tokens that the part cache puts before its prompts, 0 without that part.

    Raises:
        ConfigError: a length with its answer is beyond the model's window. ModelError: no such model.
    """
    if model is None:
        return None if told is None else _with(_WEIGHTLESS, told)
    from specq.lab.size import size_models

    prompt = asked.given["prompt"]
    tokens = round((max(settings.lengths) if prompt is None else prompt) + asked.given["output_tokens"])
    (one,) = size_models(model).models
    if dtype in _NOMINAL and (one.model.weights.bits or 0.0) >= _FLOAT_BITS:
        (one,) = size_models(model, weights=_NOMINAL[dtype]).models
    limit, more = one.model.shape.context, settings.output_tokens + stamp
    if limit is not None and max(settings.lengths) + more > limit:
        before = f", and the part cache puts a stamp of {stamp} tokens before its prompts" if stamp else ""
        raise ConfigError(
            f"--lengths up to {max(settings.lengths):,} and --new-tokens {settings.output_tokens}: the window of "
            f"{model} is {limit:,} tokens{before}; give lengths of at most {limit - more:,}"
        )
    found = Size(
        weight_bytes=one.model.weights.bytes,
        bits=one.model.weights.bits,
        cache_bytes=one.model.shape.sequence_bytes(tokens, "fp16") if one.model.shape.state_known else None,
        tokens=tokens,
        cache_type="fp16",
        origin="loaded" if held else "named",
    )
    return found if told is None else _with(found, told)


def _with(found: Size, told: Told) -> Size:
    return replace(found, weight_bytes=told.bytes, bits=told.bits, origin="told")


def machine(name: str | None, found: Size | None, wanted: Wanted) -> Machine | None:
    """The ridge: of a data sheet, or of this device where the reference engine runs; None where neither is there.

    Raises:
        ConfigError: no such machine, or one whose sheet has no FLOP/s of 16-bit floats.
    """
    bits = None if found is None or found.bits is None or not found.held else found.bits / 8
    if name is not None:
        sheet = machines.load(name)
        if sheet.peak is None:
            raise ConfigError(f"--machine {name}: {sheet.file} states no FLOP/s of 16-bit floats, so there is no ridge")
        return Machine(
            origin=f"{sheet.name} by its data sheet", flops=sheet.peak, bandwidth=sheet.bandwidth, bytes_per_weight=bits
        )
    if wanted.kind != "hf":
        return None
    from specq.engines.devices import pick_device
    from specq.lab import peak
    from specq.models import facts, refs
    from specq.run import bandwidth

    device = pick_device(wanted.device)
    dtype = wanted.dtype or facts.facts(refs.resolve(wanted.target)).dtype
    return Machine(
        origin=f"measured on this {device} in {dtype}",
        flops=peak.measure(device, dtype, threads=wanted.threads),
        bandwidth=bandwidth.measure(device, threads=wanted.threads).median,
        bytes_per_weight=bits,
    )


def as_json(found: Size | Machine | None) -> dict[str, Any] | None:
    """For run.json."""
    return None if found is None else asdict(found)
