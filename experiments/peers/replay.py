"""How long the replay of many texts takes: every exact rule and every k at once, beside the recursion one by one.

The peer is the slow twin, `specq.decoding.law.steps`, on a part of the same texts; both must say the same.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from specq.core.clock import now
from specq.core.types import EXACT_RULES
from specq.decoding import law
from specq.forecast import MOST_K, replay
from specq.forecast.replay import Traced


def texts(count: int, tokens: int, seed: int = 0) -> list[Traced]:
    """Texts of random probabilities."""
    rng = np.random.default_rng(seed)
    return [
        Traced(
            p=rng.uniform(0.05, 1, tokens),
            q=rng.uniform(0, 1, tokens),
            hit=(rng.random(tokens) < 0.6).astype(float),
        )
        for _ in range(count)
    ]


def twin(one: Traced, most: int) -> np.ndarray:
    """Mean steps of a text, rule by rule and k by k, [rules, most]."""
    ks = range(1, most + 1)
    return np.array([[law.steps(rule, one.p, one.q, one.hit, k)[0] for k in ks] for rule in EXACT_RULES])


def main() -> None:
    """Time both, hold them against each other, print a line and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--most", type=int, default=MOST_K, help="k goes from 1 up to it")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--twins", type=int, default=1, help="texts that the slow twin reads")
    args = parser.parse_args()
    several, taken = texts(args.texts, args.tokens), []
    for _ in range(args.repeats):
        begun = now()
        found = replay.steps(several, args.most)
        taken.append(now() - begun)
    begun = now()
    slow = [twin(one, args.most) for one in several[: args.twins]]
    twin_s = (now() - begun) / max(1, len(slow))
    apart = max((float(np.abs(found.mean[at] - one).max()) for at, one in enumerate(slow)), default=0.0)
    median = float(np.median(taken))
    print(
        f"{args.texts} texts x {args.tokens} tokens x {len(EXACT_RULES)} rules x {args.most} k: {median:.3f} s, the "
        f"median of {args.repeats} ({min(taken):.3f} to {max(taken):.3f}); one by one {twin_s:.2f} s a text, at most "
        f"{apart:.1e} steps apart"
    )
    print(json.dumps({"replay_s": taken, "twin_s_per_text": twin_s, "apart": apart, **vars(args)}))


if __name__ == "__main__":
    main()
