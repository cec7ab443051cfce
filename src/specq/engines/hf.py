"""The reference engine: any transformers causal LM on cpu, cuda or mps, exact and instrumented."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from specq.core.errors import ModelError, Unsupported
from specq.core.hashes import seed_of
from specq.core.records import Audited, FirstTokens, GapNoise, Sampled
from specq.core.types import METHODS, RULES, DraftSpec, Generation, Prompt, Sampling
from specq.decoding import audit
from specq.decoding.probe import check_cache
from specq.decoding.sampling import Warper
from specq.decoding.session import Session, shallow
from specq.engines.base import Capabilities
from specq.engines.hf_decoder import HFDecoder, lookup
from specq.engines.packing import pack
from specq.models import facts as model_facts
from specq.models import refs, tokenizers
from specq.models.refs import Resolved

CAPABILITIES = Capabilities(
    rules=RULES, methods=METHODS, devices=("cpu", "cuda", "mps"), step_traces=True, logprobs=True, batches=True
)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class HFEngine:
    """Opens models. Device "auto" takes cuda, then mps, then cpu; dtype "auto" takes the model's own.

    `packed` lays bfloat16 weights out for the CPU's kernels once (same numbers, faster);
    `device_map` "auto" spreads a model over devices through accelerate.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        *,
        device: str = "auto",
        dtype: str = "auto",
        attention: str = "sdpa",
        threads: int | None = None,
        device_map: str | None = None,
        packed: bool = True,
    ) -> None:
        if dtype not in ("auto", *DTYPES):
            raise Unsupported(f"dtype {dtype!r}: allowed are auto, {', '.join(DTYPES)}")
        self.device = pick_device(device)
        self.dtype, self.attention, self.device_map, self.packed = dtype, attention, device_map, packed
        if threads is not None:
            torch.set_num_threads(threads)

    def open(self, model: str | Resolved) -> HFTarget:
        """Load a model by reference; raises ModelError before anything heavy happens if it cannot work."""
        resolved = refs.resolve(model) if isinstance(model, str) else model
        return HFTarget(self, resolved, self.load(resolved, self.dtype))

    def load(self, resolved: Resolved, dtype: str) -> Loaded:
        """The model in eval mode, packed where that pays.

        Raises:
            Unsupported: it keeps its state elsewhere than in a key-value cache.
            ModelError: transformers cannot load it, or weights are missing.
        """
        check_cache(resolved.folder)
        placed: dict[str, Any] = {"device_map": self.device_map} if self.device_map else {}
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                resolved.folder,
                dtype=DTYPES.get(dtype, "auto"),
                attn_implementation=self.attention,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **placed,
            )
        except (OSError, ValueError, ImportError, RuntimeError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if "ignore_mismatched_sizes" in first:
                first = "the shapes of its weights do not fit its config; get the config that belongs to them"
            raise ModelError(f"transformers cannot load {resolved.name}: {first}") from error
        model, info = loaded
        if missing := sorted(info["missing_keys"]):
            raise ModelError(
                f"{resolved.name} lacks {len(missing)} of the weights its config asks for (first: {missing[0]}); "
                "transformers would make them up at random: get the whole checkpoint"
            )
        model.eval().requires_grad_(False)
        if not self.device_map:
            torch.nn.Module.to(model, self.device)
        weight_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
        linears = sum(isinstance(module, torch.nn.Linear) for module in model.modules())
        packed = pack(model) if self.packed and self.device == "cpu" and not self.device_map else 0
        notes = (f"packed {packed} of {linears} linear layers",) if packed else ()
        return Loaded(model=model, weight_bytes=weight_bytes, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model as it was loaded: the bytes of its weights, and what was done to them."""

    model: PreTrainedModel
    weight_bytes: int
    notes: tuple[str, ...]


class HFTarget:
    """A loaded target, and the drafts that were loaded beside it. Closing it frees them all."""

    def __init__(self, engine: HFEngine, resolved: Resolved, loaded: Loaded) -> None:
        self.engine, self.resolved, self.model = engine, resolved, loaded.model
        self.weight_bytes, self.notes = loaded.weight_bytes, loaded.notes
        self.tokenizer: PreTrainedTokenizerBase = tokenizers.load(resolved)
        self.facts = model_facts.facts(resolved)
        self.eos_ids: tuple[int, ...] = self.facts.eos_ids
        self._drafts: dict[tuple[str, str], PreTrainedModel] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop all weights."""
        self._drafts.clear()
        del self.model
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @property
    def sync(self) -> Callable[[], None] | None:
        """Waits for the device, or None where work is done when a call returns."""
        return {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}.get(self.engine.device)

    @property
    def vocabulary(self) -> int:
        """How many logits the target has."""
        return int(self.model.get_output_embeddings().out_features)

    def encode(self, text: str | Sequence[dict[str, str]], *, id: str = "prompt") -> Prompt:
        """A prompt from plain text, or from chat messages through the model's template."""
        messages = () if isinstance(text, str) else tuple(text)
        rendered = tokenizers.render(self.tokenizer, text if isinstance(text, str) else list(text))
        return Prompt(id=id, ids=tuple(rendered.ids), text=rendered.text, messages=messages)

    def decoder(self, draft: DraftSpec | None = None) -> HFDecoder:
        """A decoder for this target; a draft model is loaded on first use and shared after that.

        Raises:
            Unsupported: the target or the draft cannot be rolled back, or the exit layer is out of range.
            TokenizerMismatch: the draft speaks other tokens.
        """
        return HFDecoder(self, draft)

    def draft_model(self, draft: DraftSpec) -> PreTrainedModel:
        """The second model of a draft; "self" is the target itself."""
        if draft.model is None:
            raise Unsupported("a draft of method 'model' names no model: give one, or \"self\"")
        dtype = draft.dtype or self.engine.dtype
        if draft.model == "self" and dtype == self.engine.dtype:
            return self.model
        key = (draft.model, dtype)
        if key not in self._drafts:
            resolved = self.resolved if draft.model == "self" else refs.resolve(draft.model)
            if draft.model != "self":
                tokenizers.compare(self.tokenizer, tokenizers.load(resolved))
            self._drafts[key] = self.engine.load(resolved, dtype).model
        return self._drafts[key]

    def ends(self, sampling: Sampling) -> tuple[int, ...]:
        """The tokens that end a generation: the sampling's own, else the model's."""
        return self.eos_ids if sampling.eos_ids is None else sampling.eos_ids

    def describe(self) -> dict[str, Any]:
        """The fields of records.LoadedModel less `process` and `role`; sizes are those of the loaded tensors."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        return {
            "name": self.resolved.name,
            "weight_bytes": self.weight_bytes,
            "bytes_per_token": self.facts.bytes_per_token(dtype),
            "cache_bytes_per_token": self.facts.cache_bytes_per_token(dtype),
            "parameters": self.facts.parameters,
            "dtype": dtype,
            "sha256": self.facts.weights_sha256,
            "notes": (*self.facts.notes, *self.notes),
        }

    def gap_noise(self, prompt: Prompt, ids: Sequence[int], rows: int) -> GapNoise:
        """The baseline against itself: its own text in one-row passes and in passes of `rows` rows."""
        moves, ties = audit.gap_moves(*self._plain(prompt), prompt.ids, ids, rows)
        rounded = tuple(float(f"{move:.4g}") for move in moves)
        return GapNoise(prompt=prompt.id, rows=rows, positions=len(moves), ties=ties, moves=rounded)

    def audit_greedy(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline_ids: Sequence[int]) -> Audited:
        """An arm's text on the baseline's path at temperature 0; an equal text needs no second look."""
        pairs = zip(ids, baseline_ids, strict=False)
        first = next((t for t, (mine, base) in enumerate(pairs) if mine != base), None)
        gaps: list[tuple[int, float]] = []
        if first is not None:
            gaps = audit.differences(*self._plain(prompt), prompt.ids, ids)
        return Audited(
            arm=arm,
            prompt=prompt.id,
            positions=len(ids),
            first_difference=first,
            gaps=tuple((t, float(f"{gap:.4g}")) for t, gap in gaps),
        )

    def audit_sampled(
        self, arm: str, prompt: Prompt, repeat: int, generation: Generation, draft: DraftSpec | None, sampling: Sampling
    ) -> Sampled:
        """A sampled text against the law it should come from, and its steps against those expected."""
        session, warper = self._plain(prompt, sampling)
        law = audit.text_law(session, warper, prompt.ids, generation.ids, self.vocabulary)
        mean, variance = float(len(generation.ids) - 1), 0.0
        if draft is not None and draft.method == "lookup":
            mean = float(audit.lookup_steps(lookup(draft), warper, prompt.ids, generation.ids, draft.k))
        elif draft is not None:
            model = shallow(self.model, draft.layers or 0) if draft.method == "early_exit" else self.draft_model(draft)
            other = Session(model, keep="everything")
            drafted = audit.text_law(other, warper, prompt.ids, generation.ids, self.vocabulary)
            mean, variance = audit.expected_steps(draft.rule, draft.k, law, drafted)
        inside = law.p > 0
        return Sampled(
            arm=arm,
            prompt=prompt.id,
            repeat=repeat,
            positions=len(generation.ids),
            outside=int((~inside).sum()),
            surprise=float((-np.log(law.p[inside]) - law.entropy[inside]).sum()),
            surprise_variance=float(law.variance[inside].sum()),
            steps=len(generation.steps),
            steps_mean=mean,
            steps_variance=variance,
        )

    def first_tokens(
        self, arm: str, prompt: Prompt, draft: DraftSpec | None, sampling: Sampling, draws: int
    ) -> FirstTokens:
        """The first token of a step over `draws` seeds against its exact law, after the prompt's likeliest token."""
        session, warper = self._plain(prompt, sampling)
        with torch.inference_mode():
            best = int(warper.argmax(prompt.ids, session.forward(prompt.ids, last_only=True)))
        longer = audit.continued(prompt, best)
        decoder = self.decoder(draft)
        seeds = [dataclasses.replace(sampling, seed=seed_of(sampling.seed, "first tokens", i)) for i in range(draws)]
        requests = [decoder.request(longer, seed) for seed in seeds]
        # Rolled back twice after a pass, which a window would not survive; an early exit's session keeps all anyway.
        shared = draft is not None and draft.method == "early_exit"
        session = decoder.session if shared else Session(self.model, keep="everything")
        cells, counts, expected = audit.first_tokens(requests, session, decoder.drafter(), decoder.k)
        return FirstTokens(
            arm=arm,
            prompt=prompt.id,
            draws=draws,
            cells=tuple(cells),
            counts=tuple(counts),
            expected=tuple(expected),
        )

    def _plain(self, prompt: Prompt, sampling: Sampling | None = None) -> tuple[Session, Warper]:
        """A fresh session of the target, and the warper of a request."""
        chosen = sampling or Sampling()
        warper = Warper(chosen, prompt_tokens=len(prompt.ids), eos_ids=self.ends(chosen))
        return Session(self.model), warper


def pick_device(device: str) -> str:
    """The device of that name; "auto" is cuda, mps or cpu, whichever is there first.

    Raises:
        Unsupported: the device is unknown or absent.
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, there in present.items() if there)
    if device not in present:
        raise Unsupported(f"device {device!r}: allowed are auto, {', '.join(present)}")
    if not present[device]:
        raise Unsupported(f"device {device!r} is not on this machine: use device auto or cpu")
    return device
