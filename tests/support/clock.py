"""A clock that only the test moves."""

import asyncio
import heapq
import itertools
import secrets

from growd.runtime.clock import whole_microseconds
from support.waiting import until

SETTLED_AFTER = 10_000  # rounds of the loop; code that is still busy then never rests


class Time:
    """A function that returns `now`, in place of `time.monotonic`."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


class _Timer:
    """A callback that waits for its time; cancelling it needs no turn of the loop."""

    def __init__(self, callback):
        self._callback = callback
        self._is_over = False

    def done(self):
        return self._is_over

    def set_result(self, _):
        self._is_over = True
        asyncio.get_running_loop().call_soon(self._callback)

    def cancel(self):
        self._is_over = True


class ManualClock:
    """A `growd.runtime.clock.Clock` whose time moves only by `await advance(seconds)`.

    Sleepers wake in the order of their times, and the loop settles after each of them. Calls in watched
    workers are part of that.
    """

    def __init__(self, time=1_700_000_000.0):
        self._now = 1_000.0
        self._offset = time - self._now
        self._sleepers = []
        self._order = itertools.count()
        self.boot = secrets.token_hex(8)
        self.synchronised = True
        self._workers = []

    async def sleep(self, seconds):
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await self._new_sleeper(seconds)

    def sleep_blocking(self, seconds):
        """Return at once: the test that moves the clock may be waiting for this thread."""

    def watch(self, worker):
        """Let `settle` wait for calls in this worker; not for a worker that a test lets hang."""
        self._workers.append(worker)

    def unwatch(self, worker):
        self._workers.remove(worker)

    def step(self, seconds):
        """Step the wall time, as NTP does; monotonic time stays."""
        self._offset += seconds

    def stall(self, seconds):
        """Move time forward while the event loop is blocked: nothing else happens."""
        self._now += seconds

    async def advance(self, seconds):
        """Move time forward and let everything happen that falls due, in order."""
        end = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, wake = heapq.heappop(self._sleepers)
            if wake.done():
                continue  # cancelled
            self._now = max(self._now, due)
            wake.set_result(None)
            await self.settle()
        self._now = end

    async def settle(self):
        """Let the loop and the watched workers run until they are idle."""
        await self._drain()
        for _ in range(3):  # an answer from a worker may lead to a next call
            for worker in self._workers:
                await worker.run(int)
                await self._drain()

    async def until(self, condition):
        """Let the loop run until `condition` holds, without moving time."""
        await until(condition)

    async def _drain(self):
        ready = asyncio.get_running_loop()._ready
        for _ in range(SETTLED_AFTER):
            await asyncio.sleep(0)
            if not ready:
                return
        raise AssertionError(f"the loop is still busy after {SETTLED_AFTER} rounds")

    def is_synchronised(self):
        return self.synchronised

    def time(self):
        return whole_microseconds(self._now + self._offset)

    def monotonic(self):
        return self._now

    def call_later(self, seconds, callback):
        timer = _Timer(callback)
        self._add(seconds, timer)
        return timer

    @property
    def sleeping(self):
        """How many wait for the clock."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    def _new_sleeper(self, seconds):
        wake = asyncio.get_running_loop().create_future()
        self._add(seconds, wake)
        return wake

    def _add(self, seconds, wake):
        heapq.heappush(self._sleepers, (self._now + max(0.0, seconds), next(self._order), wake))
