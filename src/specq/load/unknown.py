"""Why a number of drafts, device and ceilings is not known at some level."""

from __future__ import annotations

from specq.core.nouns import listed
from specq.load.found import Found, Level


def lines(found: Found) -> list[str]:
    """A line for each reason, with the servers that it holds for; none where everything is known."""
    servers: dict[str, dict[str, None]] = {}
    for one in found.levels:
        for why in _reasons(found, one):
            servers.setdefault(why, {})[one.server] = None
    if len(found.asked.servers) == 1:
        return [f"Not known: {why}." for why in servers]
    return [f"Not known of {listed(list(of))}: {why}." for why, of in servers.items()]


def _reasons(found: Found, one: Level) -> list[str]:
    said = []
    drafts = one.drafting
    if drafts is not None and not drafts.steps:
        said.append("steps, for the server tells no count of tokens that decoding gave")
    elif drafts is not None and drafts.decode_s is None:
        said.append("the time of a step, for the server does not tell how long it decoded")
    elif drafts is not None and drafts.verify_s is None:
        said.append("verify time, for the server tells that of whole steps and not what drafting takes of it")
    if not one.device.get("device_share"):
        said.append("the device's use, for the server is on another machine or nothing here reads its device")
    return [*said, *_of_ceilings(found, one)]


def _of_ceilings(found: Found, one: Level) -> list[str]:
    ceiling, drafts = one.ceiling, one.drafting
    given = found.info.get("given") or {}
    if ceiling is None and not (given.get("machine") or given.get("bandwidth")):
        return ["shares of bandwidth and FLOP/s, for no machine is named: --machine NAME, with --weights MODEL"]
    if ceiling is None and drafts is not None and drafts.tokens_per_step is None:
        return ["shares of bandwidth and FLOP/s, for the server drafts and its steps cannot be counted"]
    if ceiling is None and one.rates.decoding <= 0:
        return ["shares of bandwidth and FLOP/s, for nothing was decoded"]
    if ceiling is None:
        return [
            "shares of bandwidth and FLOP/s, for the model's size is not known (--weights MODEL), or the server counts "
            "no prompt tokens"
        ]
    if ceiling.flops_share is None and one.rates.prompt_tokens_per_s is None:
        return ["the share of FLOP/s, for the server does not count the tokens of every prompt"]
    if ceiling.flops_share is None:
        return ["the share of FLOP/s, for the machine's or the model's are not known: --flops RATE"]
    return []
