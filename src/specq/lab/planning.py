"""From options to all that is measured with: checked and read, before anything loads, starts or is written."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError
from specq.lab import asked, batching, opening, own_options, prompt_cache, told_weights
from specq.lab.asked import OwnPrompts
from specq.lab.bench import Settings
from specq.lab.measured import PARTS
from specq.lab.opening import Wanted
from specq.lab.options import Options
from specq.lab.sized import Size
from specq.lab.told_weights import Told
from specq.models import light_tokenizer
from specq.run import stale
from specq.workloads import counting, synthetic
from specq.workloads.counting import Counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked of what. Prompts are cut from `text`; `told` is what a server that runs says of its weights."""

    options: Options
    wanted: Wanted
    parts: tuple[str, ...]
    settings: Settings
    sizes: tuple[int, ...]
    counter: Counter
    text: str
    own: OwnPrompts
    told: Told | None
    sized: Size | None

    def said(self) -> dict[str, Any]:
        """What of it stands in run.json and is the same for as long as the run goes on."""
        given, local = self.options, self.wanted.local
        prompts = {} if given.prompts is None else {"prompts": given.prompts, "sha256": _of_file(given.prompts)}
        return {
            "kind": self.wanted.kind,
            "parts": list(self.parts),
            "settings": {**asdict(self.settings), "batch": list(self.sizes), "text": given.text},
            "unit": self.counter.unit,
            "own": self.own.given,
            "size": asked.as_json(self.sized),
            "models": stale.weights(_files(local, self.wanted.sized)),
            "data": prompts,
            "sha256": {"text": hashes.of_bytes(self.text.encode())},
        }


def plan(given: Options) -> Plan:
    """Check and read everything.

    Raises:
        ConfigError, ModelError, PromptError, Unsupported: as `specq lab measure` says.
    """
    chosen = tuple(dict.fromkeys(given.parts)) or PARTS
    settings = Settings(
        lengths=given.lengths or asked.LENGTHS,
        output_tokens=given.new_tokens,
        repeats=given.repeats,
        seed=given.seed,
    )
    sizes = given.batch or batching.SIZES
    asked.check(chosen, settings, sizes)
    for name, value in (("batch", given.batch), ("machine", given.machine)):
        if value and batching.PART not in chosen:
            raise ConfigError(
                f"--{name} is of the part batch, which is not asked for: leave it out, or add --part batch"
            )
    beside = own_options.check(
        chosen,
        prompts=given.prompts,
        prompt_tokens=given.prompt_tokens,
        output_tokens=given.output_tokens,
        cached_share=given.cached_share,
    )
    wanted = Wanted(
        target=given.target,
        kind=given.kind or ("openai" if given.attached else opening.HF),
        model=given.model,
        served_as=given.served_as,
        key_env=given.key_env,
        device=given.device,
        dtype=given.dtype,
        threads=given.threads,
        args=given.args,
    )
    opening.check(wanted)
    if wanted.local is None:
        tokenizer, counter = None, counting.counter()
    else:
        tokenizer = light_tokenizer.load(wanted.local)
        counter = Counter(unit=f"tokens of {wanted.local}", spans=tokenizer.spans)
    text = synthetic.text_of(given.text)
    own = asked.own(
        counter,
        tokenizer=tokenizer,
        prompts=None if given.prompts is None else Path(given.prompts),
        prompt_tokens=given.prompt_tokens,
        output_tokens=given.output_tokens,
        cached_share=given.cached_share,
        measured_output=given.new_tokens,
    )
    own = replace(own, notes=(*own.notes, *beside))
    told = None
    if wanted.attached:
        told = told_weights.ask(given.target, served_as=given.served_as, key_env=given.key_env)
    stamp = prompt_cache.stamp_tokens(counter) if prompt_cache.PART in chosen else 0
    return Plan(
        options=given,
        wanted=replace(wanted, context=asked.context_of(settings, counter, own, wanted.sized)),
        parts=chosen,
        settings=settings,
        sizes=sizes,
        counter=counter,
        text=text,
        own=own,
        told=told,
        sized=asked.size(wanted.sized, own, settings, given.dtype, held=wanted.held, told=told, stamp=stamp),
    )


def _files(local: str | None, sized: str | None) -> list[str]:
    """The model that is read here, and the GGUF file that a server loads in its place."""
    return [*([] if local is None else [local]), *([sized] if sized is not None and sized.endswith(".gguf") else [])]


def _of_file(path: str) -> str:
    return hashes.of_file(Path(path))
