"""What is seen of a device: NVML as a fake, and as it is; the server's own processes; the drafting that a log tells."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from load_runs import attempt, request

from specq.engines.served import stub
from specq.engines.served.kinds import llamacpp
from specq.load import device
from specq.load.device import Watch
from specq.load.drafts import drafting

HERE = "http://127.0.0.1:9"
LOG = """
0.01.037 I spec common_specu: statistics     ngram-simple: #calls(b,g,a) =    1     14      0, #gen drafts =      0, \
#acc drafts =     0, #gen tokens =      0, #acc tokens =     0, dur(b,g,a) = 0.000, 0.017, 0.000 ms
0.02.437 I slot print_timing: id  1 | task 65 | draft acceptance = 0.33333 (    2 accepted /     6 generated)
0.02.437 I spec common_specu: statistics     ngram-simple: #calls(b,g,a) =    7     60     12, #gen drafts =     12, \
#acc drafts =     9, #gen tokens =     44, #acc tokens =    25, #mean acc len = 3.08, #acc rate/pos = (0.750, 0.583), \
dur(b,g,a) = 1.000, 118.000, 1.000 ms
"""


class FakeNvml(SimpleNamespace):
    """pynvml with two devices, of which the second is the busier; what it is told to, it does not answer."""

    class NVMLError(Exception):
        """What the real one raises."""

    def __init__(self, *, devices: int = 2, broken: str = "") -> None:
        super().__init__(asked=0)
        self.devices, self.broken = devices, broken

    def _check(self, name: str) -> None:
        if name == self.broken:
            raise self.NVMLError("Not Supported")

    def nvmlInit(self) -> None:
        self._check("init")

    def nvmlDeviceGetCount(self) -> int:
        return self.devices

    def nvmlDeviceGetHandleByIndex(self, place: int) -> int:
        return place

    def nvmlDeviceGetUtilizationRates(self, place: int) -> Any:
        self.asked += 1
        self._check("use")
        return SimpleNamespace(gpu=[10, 60][place], memory=[5, 25][place])

    def nvmlDeviceGetMemoryInfo(self, place: int) -> Any:
        return SimpleNamespace(used=[2**30, 2**20][place])


def watched(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml, during: Any = None, **how: Any) -> dict[str, Any]:
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(device, "EVERY_S", 0.01)

    async def watch() -> dict[str, Any]:
        one = Watch(HERE, **how)
        one.start()
        await asyncio.sleep(0.03)
        if during is not None:
            during()
        await asyncio.sleep(0.1)
        return one.found()

    return asyncio.run(watch())


def test_nvml_tells_the_idle_device_or_a_share_of_another_size(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(monkeypatch, FakeNvml())
    assert found["source"] == "NVML"
    assert found["readings"] >= 2
    assert found["device_share"] == {"mean": pytest.approx(0.6), "most": 0.6}
    assert found["memory_busy_share"]["most"] == 0.25
    assert found["memory_held_bytes"]["most"] == 2**30


@pytest.mark.parametrize("fake", [FakeNvml(broken="init"), FakeNvml(devices=0), FakeNvml(broken="use")])
def test_an_nvml_that_tells_nothing_ends_the_run_or_hides_the_processor(
    monkeypatch: pytest.MonkeyPatch, fake: FakeNvml
) -> None:
    assert watched(monkeypatch, fake)["source"] == "processor"


def test_an_nvml_that_breaks_on_the_way_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml()
    found = watched(monkeypatch, fake, during=lambda: setattr(fake, "broken", "use"))
    assert found["source"] == "NVML"
    assert found["device_share"]["most"] == 0.6
    asked = fake.asked
    assert asked >= 4


def test_a_real_nvml_is_read_wrong() -> None:
    pynvml = pytest.importorskip("pynvml", reason="pynvml (nvidia-ml-py) is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pytest.skip(f"this machine has no device that NVML tells of: {error}")
    read = device._nvml()
    if read is None:
        pytest.skip("NVML tells no use of this device")
    found = read()
    assert 0 <= found["device_share"] <= 1
    assert 0 <= found["memory_busy_share"] <= 1
    assert found["memory_held_bytes"] > 0


def test_the_whole_machine_is_told_for_the_servers_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = "import sys, time\nprint(flush=True)\nwhile True: sum(range(10000))"
    code = [sys.executable, "-c", busy]
    with subprocess.Popen(code, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            found = watched(monkeypatch, FakeNvml(broken="init"), group=os.getpgid(process.pid))
            gpu = watched(monkeypatch, FakeNvml(), group=os.getpgid(process.pid))
        finally:
            process.kill()
    assert found["source"] == "the server's processes"
    # One busy thread is a core at most, however many the machine has.
    assert 0 < found["server_cores"]["mean"] < 1.3
    assert found["device_share"]["mean"] == pytest.approx(found["server_cores"]["mean"] / device._cores())
    assert gpu["source"] == "NVML"
    assert gpu["server_cores"]["mean"] > 0


def test_a_server_at_a_port_is_taken_for_another_process() -> None:
    with stub.started() as (url, process):
        (found, *_) = device._listening(int(url.rsplit(":", 1)[1]))
        assert found.pid == process.pid
    assert device._listening(9) == []


def test_a_log_of_drafting_is_read_from_another_line_or_in_another_unit() -> None:
    told = llamacpp.drafted(LOG)
    assert told is not None
    assert (told.calls, told.seconds) == (60, pytest.approx(0.12))
    two = llamacpp.drafted(LOG + LOG.replace("ngram-simple", "draft-simple"))
    assert two is not None
    assert (two.calls, two.seconds) == (60, pytest.approx(0.24))
    assert llamacpp.drafted("slot release: stop processing") is None


def test_verifying_takes_what_drafting_took() -> None:
    # 2 answers of 11 tokens: 20 after the first, of which 8 were accepted, so 12 steps in 6 s, and 20 rounds in 1 s.
    rows = [
        request(n, proposed=8, accepted=4, decode_s=3.0, events_at_s=tuple(float(at) for at in range(11)))
        for n in range(2)
    ]
    told = drafting([attempt(*rows, numbers={"draft_calls": 20, "draft_s": 1.0})])
    assert told is not None
    assert (told.steps, told.step_s, told.draft_call_s) == (12, 0.5, 0.05)
    assert told.verify_s == pytest.approx(0.45)
    unknown = drafting([attempt(*rows)])
    assert unknown is not None
    assert unknown.verify_s is None
