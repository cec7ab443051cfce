"""The row counts from which packed layers hand passes over: each is timed once, and taken again after that.

Times of two ways that are close fall out differently from process to process, so a model that timed them each time
it is loaded would not be the same model each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch

from specq.core.crossover import Crossover
from specq.quantize.kernels import KernelLinear, set_many


class Crossovers:
    """What is known of row counts, by kernel, shape, group, count of layers, way, dtype, threads and device.

    `known` was measured before, by whatever process; what is new is told to `told`, as measured by `process`.
    """

    def __init__(
        self,
        known: Iterable[Crossover] = (),
        *,
        process: int = 0,
        device: str = "",
        told: Callable[[Crossover], None] | None = None,
    ) -> None:
        self._process, self._device, self._told = process, device, told
        self._rows: dict[Crossover, int | None] = {}
        for one in known:
            # The first that was measured counts, for whatever ran first ran on it.
            self._rows.setdefault(_case(one), one.rows)

    def set(self, layers: Sequence[KernelLinear]) -> int | None:
        """`set_many` of layers of one shape, timed only where their case is new."""
        if not layers[0].takes_many:
            return set_many(layers)
        case = self._case_of(layers)
        if case not in self._rows:
            self._rows[case] = set_many(layers)
            if self._told is not None:
                self._told(replace(case, process=self._process, rows=self._rows[case]))
        for layer in layers:
            layer.many = self._rows[case]
        return self._rows[case]

    def _case_of(self, layers: Sequence[KernelLinear]) -> Crossover:
        one = layers[0]
        return Crossover(
            process=0,
            kernel=one.kernel,
            out_features=one.out_features,
            in_features=one.in_features,
            group_size=one.group_size,
            layers=len(layers),
            way="scaled" if one.dense is None else "dense",
            dtype=str(one.scales.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            device=self._device or one.packed.device.type,
            rows=None,
        )


def _case(one: Crossover) -> Crossover:
    return replace(one, process=0, rows=None)
