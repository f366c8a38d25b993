import asyncio
import threading

import pytest

from growd.control.calls import DeviceCalls
from growd.control.errors import DeviceTimeoutError
from growd.runtime.worker import Worker
from support.clock import ManualClock


class Call:
    """A call that waits until it is released."""

    def __init__(self):
        self.begun, self.release = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        self.release.wait(10)
        return "done"


class Bench:
    """Two devices on one bus."""

    def __init__(self):
        self.clock = ManualClock()
        self.worker = Worker("bus 1", monotonic=self.clock.monotonic)
        self.first = DeviceCalls("first", self.worker, self.clock, 2.0)
        self.second = DeviceCalls("second", self.worker, self.clock, 2.0)
        self.slow, self.next = Call(), Call()

    async def begin(self):
        tasks = [
            asyncio.create_task(self.first.run(self.slow)),
            asyncio.create_task(self.second.run(self.next)),
        ]
        await asyncio.to_thread(self.slow.begun.wait, 10)
        await self.clock.settle()
        return tasks


@pytest.fixture
async def bench():
    bench = Bench()
    yield bench
    bench.slow.release.set()
    bench.next.release.set()
    await bench.worker.close()


async def test_waiting_for_another_call_does_not_use_up_the_time_limit(bench, said):
    first, second = await bench.begin()
    await bench.clock.advance(1.9)
    bench.slow.release.set()
    assert await first == "done"
    await asyncio.to_thread(bench.next.begun.wait, 10)
    await bench.clock.advance(1.9)
    assert not second.done()
    await bench.clock.advance(0.2)
    with said.raises(DeviceTimeoutError):
        await second
