"""A plant whose time jumps from one event to the next: weeks pass in seconds, through real drivers."""

from __future__ import annotations

import asyncio
import functools
import heapq
import math
import queue
import threading
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from growd.bus import Bus
from growd.liveness import Liveness
from growd.plant import Plants, declare_topics
from growd.simulation import simulated_hardware
from support.clock import Sleepers
from support.memory import ShortMemory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from growd.config import Config
    from growd.worker import Worker
    from growd_drivers.serial_line import SerialLike
    from growd_hwsim.hardware import SimulatedHardware
    from growd_hwsim.uart import Forward, Query, SerialPorts

LOOK_S = 0.002  # real seconds between two looks at what does not tell, such as a call that begins to hang
MOST_SKIPPED = 100  # rounds of the loop without a look at its sockets: what comes there is not kept waiting
ANSWERED_S = 30.0  # real seconds in which the simulated end of a serial line has surely read a command
START = 1_700_000_000.0


class JumpingClock(Sleepers):
    """A `growd.clock.Clock` whose time jumps to the next sleeper when there is nothing left to do.

    There is something to do while the event loop is busy, or a call is in a watched worker and that does not
    hang. A driver's sleep takes no real time: it moves the clock.
    """

    def __init__(self, time: float = START) -> None:
        super().__init__(time)
        self._lock = threading.Lock()
        self._in_flight: Counter[Worker] = Counter()
        self._end = 0.0
        self._reached: asyncio.Future[None] | None = None
        self.grain_s = 0.0
        """Sleepers who are due so soon after another wake with it, a little late: fewer turns of threads."""
        self.hangs: Callable[[Worker], bool] = lambda _: False

    async def sleep(self, seconds: float) -> None:
        await self._new_sleeper(seconds)

    def sleep_blocking(self, seconds: float) -> None:
        with self._lock:
            self._now += max(0.0, seconds)

    def step(self, seconds: float) -> None:
        """Step wall time, as NTP does; monotonic time stays."""
        self._offset += seconds

    def watch(self, worker: Worker) -> None:
        """Let no time pass while a call is in this worker, unless that hangs."""
        worker.submit = functools.partial(self._counted, worker, worker.submit)  # type: ignore[method-assign]

    async def advance(self, seconds: float) -> None:
        """Let everything happen that falls due in the next seconds, in order."""
        end = self._now + seconds
        await self._reach(end)
        with self._lock:
            self._now = max(self._now, end)

    async def until(self, condition: Callable[[], bool], *, within: float) -> float:
        """Let time pass until `condition` holds, `within` seconds at most; how many it took."""
        began = self._now
        await self.settle()
        while not condition():
            if self._now - began > within:
                raise AssertionError(f"what was waited for did not come within {within:g} s")
            await self.advance(1.0)
        return self._now - began

    async def settle(self) -> None:
        """Let the loop and the workers run until nothing is left to do at this moment."""
        await self._reach(-math.inf)

    def is_busy(self) -> bool:
        """Whether a worker has something to do, and does it."""
        if not self._in_flight:
            return False
        return not all(map(self.hangs, self._in_flight))

    def jump(self) -> bool:
        """Go on to what falls due next, as the loop has nothing to do; False where time may not pass."""
        if self._reached is None or self.is_busy():
            return False
        woken, last = 0, self._end
        while self._sleepers and self._sleepers[0][0] <= last:
            due, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():  # else cancelled: nobody sleeps there any more
                with self._lock:
                    self._now = max(self._now, due)
                wake.set_result(None)
                woken += 1
                last = min(last, due + self.grain_s)
        if woken:
            return True
        self._reached.set_result(None)
        self._reached = None
        return True

    async def _reach(self, end: float) -> None:
        assert self._reached is None, "one at a time"
        self._end = end
        self._reached = asyncio.get_running_loop().create_future()
        await self._reached

    def _counted(self, worker: Worker, submit: Callable[..., Any], *args: Any) -> Any:
        call = submit(*args)
        self._in_flight[worker] += 1
        call.add_done_callback(lambda _: self._came_back(worker))
        return call

    def _came_back(self, worker: Worker) -> None:
        self._in_flight[worker] -= 1
        if not self._in_flight[worker]:
            del self._in_flight[worker]


class _Selector:
    """The selector of a loop whose time jumps: where the loop would wait for what comes, time goes on.

    Workers wake the loop through a queue and not through its socket, which takes half of the real time.
    """

    def __init__(self, loop: Any, clock: JumpingClock) -> None:
        self._loop = loop
        self._clock = clock
        self._selector = loop._selector
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._skipped = 0
        loop._selector = self
        loop._write_to_self = lambda: self._woken.put(None)

    def give_back(self) -> None:
        self._loop._selector = self._selector
        del self._loop._write_to_self

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout == 0 and self._skipped < MOST_SKIPPED:  # the loop has more to do
            self._skipped += 1
            return []
        if timeout != 0:
            if self._clock.jump():
                return []
            with suppress(queue.Empty):
                self._woken.get(timeout=LOOK_S if timeout is None else min(timeout, LOOK_S))
                return []
        self._skipped = 0
        return self._selector.select(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


class SerialLines:
    """Serial ports whose time limit passes at once where no answer is on its way.

    Below them are the real ports, and the simulated ones at whose chips' end it is seen what comes.
    """

    def __init__(self, ports: SerialPorts) -> None:
        self._ports = ports
        self._wire = ports._wire
        ports._wire = self._told
        self._coming: defaultdict[str, _Coming] = defaultdict(_Coming)

    def open(self, place: str, baud: int, _timeout_s: float) -> SerialLike:
        real: Any = self._ports.open(place, baud, ANSWERED_S)  # what comes is read, on a busy machine too
        with self._ports._lock:
            port, line = next(item for item in self._ports._lines.items() if item[1].path == real.port)
        return _Port(real, self._coming[port], line.hung_up.is_set)

    def _told(self, query: Query, forward: Forward) -> list[bytes]:
        pieces = self._wire(query, forward)
        coming = self._coming[query.port]
        with coming.changed:
            coming.bytes += sum(map(len, pieces))
            coming.commands += 1
            coming.changed.notify()
        return pieces


class _Coming:
    """Commands that came to a chip, and the bytes of its answers that nobody has read yet."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.commands = 0
        self.bytes = 0


class _Port:
    """A real serial port, which is only asked for bytes that come."""

    def __init__(self, port: SerialLike, coming: _Coming, is_hung_up: Callable[[], bool]) -> None:
        self._port = port
        self._coming = coming
        self._is_hung_up = is_hung_up
        self._sent = coming.commands
        self.close = port.close

    def write(self, data: bytes, /) -> int | None:
        self._sent += 1
        return self._port.write(data)

    def read(self, size: int = 1) -> bytes:
        self._wait()
        if not self._is_hung_up():  # else it says so
            size = min(size, self._coming.bytes)
        data = self._port.read(size) if size else b""
        self._coming.bytes -= len(data)
        return data

    def reset_input_buffer(self) -> None:
        self._wait()
        if not self._is_hung_up():
            self._port.read(self._coming.bytes)  # what is on its way would come after the reset
        self._coming.bytes = 0
        self._port.reset_input_buffer()

    def _wait(self) -> None:
        """Until the chip has done what it was sent."""
        with self._coming.changed:
            for _ in range(int(ANSWERED_S / LOOK_S)):
                if self._coming.commands >= self._sent or self._is_hung_up():
                    return
                self._coming.changed.wait(LOOK_S)  # one that is hung up does not tell
        raise AssertionError("the simulated end of a serial line does not answer")


class Rig:
    """A plant on simulated hardware, on a clock that jumps."""

    def __init__(self, config: Config, memory: ShortMemory | None = None) -> None:
        self.config = config
        self.memory = memory or ShortMemory()
        self.clock = JumpingClock()
        self.bus = Bus(self.clock, liveness=Liveness(monotonic=self.clock.monotonic))
        declare_topics(config, self.bus)
        self.machine: SimulatedHardware = simulated_hardware(config, self.clock)
        self.machine._open_serial = SerialLines(self.machine.serial_ports).open
        self.clock.hangs = self._hangs
        self.complaints: list[str] = []
        self.plant = Plants(
            config, self.bus, self.machine, memory=self.memory, complain=self.complaints.append
        )

    def last(self, topic: str) -> Any:
        """The last message on a topic of the environment; None before the first."""
        return self.bus.topics.get(f"{self.config.environment.id}/{topic}").last

    def device(self, node: str) -> dict[str, Any]:
        """What a node of the environment tells of its device."""
        information = self.bus.find_node(f"{self.config.environment.id}/{node}").information()
        device: dict[str, Any] = information["device"]
        return device

    def _hangs(self, worker: Worker) -> bool:
        faults = self.machine.faults
        return faults.hanging > 0 and faults.hangs(worker._thread)


@asynccontextmanager
async def rigged(config: Config, memory: ShortMemory | None = None) -> AsyncIterator[Rig]:
    """Run the plant of a configuration around the body; `memory` is what its interlocks remember."""
    rig = Rig(config, memory)
    selector = _Selector(asyncio.get_running_loop(), rig.clock)
    try:
        async with rig.plant.running():
            for worker in rig.plant.workers.values():
                rig.clock.watch(worker)
            yield rig
            rig.machine.faults.close()
    finally:
        selector.give_back()
        rig.machine.close()
