"""The memory task: one arm alone in a fresh process."""

from __future__ import annotations

from specq.core.process_memory import rss_peak_bytes
from specq.core.records import Done, Memory
from specq.engines.served.answers import ServedDecoder
from specq.run import engines, serving, waves
from specq.run.artifacts import Made
from specq.run.job import Job
from specq.run.measure import import_libraries


def measure_memory(job: Job, arm: str) -> None:
    """Record the arm's peak on the longest prompt, or the longest ones at once, less what stood after imports."""
    stood = 0 if job.experiment.engine.is_server else import_libraries()
    by_length = sorted(job.prompts_of(arm).values(), key=lambda p: -(len(p.ids) or len(p.text)))
    asked = by_length[: waves.size(job, arm)]
    engine = engines.of_job(job)
    made = Made(job)
    with engines.Targets(engine, job.experiment) as opened:
        spec = made.target(job.targets[arm])
        decoder = engines.decoder(opened.of(spec), spec, made.draft(job.drafts[arm]))
        job.progress.say("loaded")
        sampling = [job.sampling(prompt.id, 0) for prompt in asked]
        answer = decoder.generate(asked, sampling, batch_size=len(asked))[0]
        on_cuda = engine.device.startswith("cuda")
        peak = cuda_peak_bytes() if on_cuda else max(0, rss_peak_bytes() - stood)
        if isinstance(decoder, ServedDecoder):
            peak = serving.peak_bytes(decoder) or 0
    job.store.append(
        Memory(
            arm=arm,
            peak_bytes=peak,
            source="server" if job.experiment.engine.is_server else "cuda" if on_cuda else "rss",
            prompt=asked[0].id,
            new_tokens=answer.new_tokens,
        )
    )
    job.progress.say("memory", arm=arm)
    job.store.append(Done(process=job.process, task=f"memory:{arm}"))


def cuda_peak_bytes() -> int:
    """The most that the CUDA allocator held in this process, over all devices."""
    import torch

    return sum(torch.cuda.max_memory_allocated(device) for device in range(torch.cuda.device_count()))
