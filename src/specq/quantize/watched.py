"""Calling llmcompressor: its traps mended for the call, its progress and fallbacks told, nothing littered."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from specq.core.clock import now
from specq.models.quiet import quiet
from specq.quantize.made import OnProgress

_PLACE = re.compile(r"\((\d+)/(\d+)\): Calibrating")


@dataclass(slots=True)
class Watch:
    """What a call tells on its way: `passes` is how often the method walks through the layers, `asked` their names."""

    passes: int
    asked: tuple[str, ...]
    on_progress: OnProgress
    stderr: Any
    fallen_back: list[tuple[str, str]] = field(default_factory=list)
    started: float = field(default_factory=now)
    passed: int = 0
    of: int = 0

    def bar(self, steps: Iterable[Any], *, total: int | None = None, desc: str = "") -> Iterator[Any]:
        """Stands where llmcompressor shows a progress bar for one layer."""
        if place := _PLACE.match(desc):
            layer, layers = int(place[1]), int(place[2])
            self.passed += layer == 1
            self.of = self.passes * layers
            self.tell((self.passed - 1) * layers + layer - 1)
        yield from steps

    def tell(self, done: int) -> None:
        """Report so many layers done."""
        left = (now() - self.started) / done * (self.of - done) if done else None
        with redirect_stderr(self.stderr):
            self.on_progress(done, self.of, left)

    def finish(self) -> None:
        """Report that all is done, for methods without layers to walk through too."""
        self.of = self.of or 1
        self.tell(self.of)


def libraries() -> Any:
    """The entry point of llmcompressor, imported without a word on stdout.

    Its log writes to stdout from the moment it is imported.
    """
    with patch.dict(os.environ, LLM_COMPRESSOR_LOG_LEVEL="CRITICAL"), quiet():
        from llmcompressor import oneshot
    return oneshot


@contextmanager
def watched(passes: int, asked: tuple[str, ...], on_progress: OnProgress) -> Iterator[Watch]:
    """Everything that a call to llmcompressor needs around it; all is put back after it, errors pass through."""
    import sys

    libraries()
    import torch
    from llmcompressor.core import reset_session
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.pipelines.cache import IntermediatesCache
    from llmcompressor.pipelines.sequential import pipeline
    from loguru import logger

    watch = Watch(passes=passes, asked=asked, on_progress=on_progress, stderr=sys.stderr)
    with ExitStack() as stack:
        stack.enter_context(quiet())
        # Tracing the model logs through Python's own logging, past the stderr that is held back.
        stack.enter_context(patch.object(logging.getLogger("torch.fx"), "disabled", True))
        stack.enter_context(patch.object(logging.getLogger("torch.fx._symbolic_trace"), "disabled", True))
        # It switches the tokenizers' threads off for the whole process by this variable.
        stack.enter_context(patch.dict(os.environ, TOKENIZERS_PARALLELISM="false"))
        for package in ("llmcompressor", "compressed_tensors"):
            logger.disable(package)
            stack.callback(logger.enable, package)
        stack.enter_context(patch.object(pipeline, "tqdm", watch.bar))
        if not torch.accelerator.is_available():
            # AWQ pins memory for a device that is not there, and dies.
            stack.enter_context(patch.object(IntermediatesCache, "pin_memory", _pin_nothing))
        stack.enter_context(patch.object(GPTQModifier, "_log_rtn_fallback_summary", _gptq_listing(watch)))
        stack.enter_context(patch.object(AWQModifier, "_log_error_metrics", _awq_listing(watch)))
        stack.callback(reset_session)
        yield watch


def _pin_nothing(cache: Any, *_: Any, **__: Any) -> None:
    return None


def _gptq_listing(watch: Watch) -> Any:
    def listed(modifier: Any) -> None:
        """In the place of the warning at the end: the layers whose Hessian could not be inverted."""
        why = "its Hessian is not positive definite: GPTQ rounded it to nearest"
        watch.fallen_back += [(name, why) for name in modifier._rtn_fallback_module_names]

    return listed


def _awq_listing(watch: Watch) -> Any:
    def listed(modifier: Any) -> None:
        """In the place of a summary: the quantized layers that got no scale, and so are rounded as they were."""
        scaled = {entry["layer_name"] for entry in modifier._error_metrics}
        mapped = {name: mapping for mapping in modifier._resolved_mappings for name in mapping.balance_names}
        for name in watch.asked:
            if name not in mapped:
                watch.fallen_back.append((name, "AWQ has no scale for it in this model: rounded to nearest"))
            elif mapped[name].smooth_name not in scaled:
                why = "AWQ found no scale for it (no calibration token came by, or outputs were not finite)"
                watch.fallen_back.append((name, why))

    return listed
