"""What of a started server lies here: its machine, measured where no sheet is named, and the files of its models."""

from __future__ import annotations

from dataclasses import replace

from specq.core.errors import ConfigError
from specq.load.asked import Asked
from specq.load.given import HERE, Given
from specq.load.measuring import Progress

_MEASURED_DTYPE = {"cpu": "float32"}


def measured(files: Given, asked: Asked, say: Progress) -> Given:
    """The same with this machine's bandwidth and FLOP/s, where that is asked for, or a started server wants it.

    It wants it where it is started on a processor, its model is known, and no other machine is named. Reads of memory
    and products of matrices by torch: in float32 on a processor, in bfloat16 on an accelerator.

    Raises:
        ConfigError: it is asked for, and a server is elsewhere.
    """
    named = files.machine is not None or files.bandwidth is not None or files.flops is not None
    started = [one.start for one in asked.servers if one.start is not None]
    if files.machine == HERE:
        if files.weights is None and not started:
            raise ConfigError("--machine here is for servers that are started here, or name the weights with --weights")
    elif named or not started or not files.models(asked):
        return files
    from specq.engines.devices import pick_device

    device = pick_device("auto")
    if device != "cpu" and files.machine != HERE:
        # Its driver would keep memory that the server is to have.
        return files
    from specq.lab import peak
    from specq.run import bandwidth

    say("measuring the machine's bandwidth and FLOP/s")
    threads = max((one.threads or 0 for one in started), default=0) or None
    found = bandwidth.measure(device, threads=threads).median
    flops = peak.measure(device, _MEASURED_DTYPE.get(device, "bfloat16"), threads=threads)
    return replace(files, machine=None, bandwidth=f"{found / 1e9:.4f}GB/s", flops=f"{flops / 1e12:.6f}T", here=True)


def models(asked: Asked) -> list[str]:
    """The models of started servers, drafts' among them."""
    started = [one.start for one in asked.servers if one.start is not None]
    drafts = [one.draft.model for one in started if one.draft is not None and one.draft.model is not None]
    return [*(one.loads for one in started), *(name for name in drafts if name != "self")]
