"""Where packed layers hand a pass over, as a run measured it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """From how many `rows` on another way is faster than a packed kernel; None: not up to 128 rows.

    Measured by a worker of `process` over `layers` layers of one shape; all later workers of the run take it.
    `way` is what takes over: "dense", a copy of the weights, or "scaled", the integers scaled out for one pass.
    `device` is the name of the processor or the GPU.
    """

    process: int
    kernel: str
    out_features: int
    in_features: int
    group_size: int
    layers: int
    way: str
    dtype: str
    threads: int
    device: str
    rows: int | None
