"""A server's counters over a window of time, from two scrapes of its /metrics."""

from __future__ import annotations

from collections.abc import Mapping

from specq.engines.served.exposition import Grown
from specq.engines.served.kinds.base import Numbers


def over(grown: Grown, names: Mapping[str, str]) -> Numbers:
    """Numbers summed over the requests of a window; `names` gives the counter of each field that the server has."""
    damaged = []

    def count(field: str) -> int | None:
        if field not in names or (value := grown.number(names[field])) is None:
            return None
        if not value.is_integer():
            damaged.append(names[field])
            return None
        return int(value)

    def seconds(field: str) -> float | None:
        return grown.number(names[field]) if field in names else None

    where = names.get("accepted_by_position")
    return Numbers(
        requests=count("requests"),
        prompt_tokens=count("prompt_tokens"),
        cached_tokens=count("cached_tokens"),
        new_tokens=count("new_tokens"),
        queue_s=seconds("queue_s"),
        prefill_s=seconds("prefill_s"),
        decode_s=seconds("decode_s"),
        ttft_s=seconds("ttft_s"),
        e2e_s=seconds("e2e_s"),
        draft_steps=count("draft_steps"),
        proposed=count("proposed"),
        accepted=count("accepted"),
        accepted_by_position=None if where is None else grown.by_position(where),
        restarted=grown.restarted,
        damaged=tuple(damaged),
    )
