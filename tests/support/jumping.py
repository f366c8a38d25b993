"""A chamber whose time jumps from one event to the next: weeks pass in seconds, with real drivers."""

from __future__ import annotations

import _thread
import asyncio
import functools
import heapq
import math
import os
import queue
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from growd.bus import Bus
from growd.control.hold import OutputHold
from growd.device_kinds import SENSOR_KINDS
from growd.runtime.liveness import Liveness
from growd.runtime.supervisor import Supervisor
from growd.wiring.chamber import AllChambers
from growd.wiring.pumps import simulated_cylinders
from growd.wiring.simulator import run_broker, simulated_hardware
from growd.wiring.topics import declare_topics
from growd_hwsim import uart
from support.clock import Sleepers
from support.memory import ShortMemory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from growd.config import Config
    from growd.control.calibration_log import RecordKeeper
    from growd.runtime.worker import Worker, _Call
    from growd_drivers.serial_line import SerialLike
    from growd_hwsim.faults import Faults
    from growd_hwsim.hardware import SimulatedHardware

for _kind in SENSOR_KINDS.values():
    if _kind.slow_import:  # samplers import it in a thread, for which this clock does not wait
        import_module(_kind.slow_import)

LOOK_S = 0.002  # real seconds between two checks of conditions without an event, such as a call that hangs
MOST_SKIPPED = 100  # rounds of the loop without a check of its sockets
ANSWERED_S = 60.0  # real seconds; the kernel passes on sent bytes sooner
START = 1_700_000_000.0


class JumpingClock(Sleepers):
    """A `growd.runtime.clock.Clock` whose time jumps to the next sleeper when all is idle.

    All is idle when the event loop is, and each call in a watched worker has ended or hangs. A driver's sleep
    moves the clock and takes no real time.
    """

    def __init__(self, time: float = START) -> None:
        super().__init__(time)
        self._lock = threading.Lock()
        self._calls: list[_Calls] = []
        self._end = 0.0
        self._reached: asyncio.Future[None] | None = None
        self.grain_s = 0.0
        """Sleepers that are due within this time wake together, a little late: fewer turns of the loop."""

    async def sleep(self, seconds: float) -> None:
        await self._new_sleeper(seconds)

    def sleep_blocking(self, seconds: float) -> None:
        with self._lock:
            self._now += max(0.0, seconds)

    def step(self, seconds: float) -> None:
        """Step wall time, as NTP does; monotonic time stays."""
        self._offset += seconds

    def watch(self, worker: Worker, faults: Faults) -> None:
        """Let no time pass during a call in this worker, unless a fault lets the call hang."""
        self._calls.append(_Calls(worker, faults))

    async def advance(self, seconds: float) -> None:
        """Move time forward and let everything happen that falls due, in order."""
        end = self._now + seconds
        await self._reach(end)
        with self._lock:
            self._now = max(self._now, end)

    async def until(self, condition: Callable[[], bool], *, within: float) -> float:
        """Let time pass until `condition` holds: the seconds it took, `within` at most."""
        began = self._now
        await self.settle()
        while not condition():
            if self._now - began > within:
                raise AssertionError(f"the condition did not hold within {within:g} s")
            await self.advance(1.0)
        return self._now - began

    async def settle(self) -> None:
        """Let the loop and the workers run until they are idle."""
        await self._reach(-math.inf)

    def is_busy(self) -> bool:
        """Whether a worker is executing a call that does not hang."""
        return any(calls.are_at_work() for calls in self._calls)

    def jump(self) -> bool:
        """Jump to the next sleeper, as the loop is idle; False if time must not pass."""
        if self._reached is None or self.is_busy():
            return False
        woken, last = 0, self._end
        while self._sleepers and self._sleepers[0][0] <= last:
            due, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():  # else cancelled
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


class _Calls:
    """The calls of a worker, executed by the event loop's thread if none of them can hang.

    This avoids switches between threads, and each run has the same order. While a fault is armed that lets
    calls hang, calls go to the worker's thread as usual, until that thread has executed all of them.
    """

    def __init__(self, worker: Worker, faults: Faults) -> None:
        self._worker = worker
        self._faults = faults
        self._loop = asyncio.get_running_loop()
        self._thread_calls = worker._calls
        self._waiting = 0
        self._under_way = 1
        worker.submit(int).add_done_callback(self._came_back)  # after the calls that the thread already has
        self.get = self._thread_calls.get
        worker._calls = self  # type: ignore[assignment]

    def qsize(self) -> int:
        return self._waiting + self._thread_calls.qsize()

    def put(self, call: _Call | None) -> None:
        self._waiting += 1
        self._loop.call_soon(self._begin, call)

    def are_at_work(self) -> bool:
        """Whether a call is executing and does not hang; abandoned threads that can end must end first."""
        threads = self._worker._abandoned
        if self._under_way and not self._faults.hangs(self._worker._thread):
            return True
        return bool(threads) and any(
            thread.is_alive() and not self._faults.hangs(thread) for thread in threads
        )

    def _begin(self, call: _Call | None) -> None:
        self._waiting -= 1
        if call is None:
            self._thread_calls.put(None)
        elif self._under_way or self._may_hang():
            self._hand_over(call)
        else:
            with _acting_as(self._worker._thread):
                self._worker._carry_out(call)

    def _may_hang(self) -> bool:
        return any(armed.fault.kind == "hang" for armed in self._faults._armed)

    def _hand_over(self, call: _Call) -> None:
        """Pass the call to the thread or its successor, followed by a call that reports its end."""
        self._under_way += 1
        told = call.followed_by(int)
        told.future.add_done_callback(self._came_back)
        self._thread_calls.put(call)
        self._thread_calls.put(told)

    def _came_back(self, _: object) -> None:
        self._under_way -= 1


@contextmanager
def _acting_as(thread: threading.Thread) -> Iterator[None]:
    """Pretend to be another thread, in which no event loop runs."""
    loop, identity, own = asyncio.get_running_loop(), threading.get_ident, threading.get_ident()
    asyncio._set_running_loop(None)
    threading.get_ident = lambda: (thread.ident or own) if identity() == own else identity()
    try:
        yield
    finally:
        threading.get_ident = identity
        asyncio._set_running_loop(loop)


class _Selector:
    """The selector of a loop whose time jumps: instead of waiting, the loop moves the clock.

    Workers wake the loop through a queue instead of its socket, which halves the real time.
    """

    def __init__(self, loop: Any, clock: JumpingClock) -> None:
        self._loop = loop
        self._clock = clock
        self._selector = loop._selector
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._skipped = 0
        loop._selector = self
        loop._write_to_self = self._wake

    def give_back(self) -> None:
        self._loop._selector = self._selector
        del self._loop._write_to_self

    def _wake(self) -> None:
        if _thread.get_ident() != self._loop._thread_id:  # the loop's own thread is not waiting
            self._woken.put(None)

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout == 0 and self._skipped < MOST_SKIPPED:  # the loop is busy
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


class _Line(uart.PseudoTerminal):
    """A serial line whose chip answers in the calling thread, without switches between threads."""

    coming = 0
    """Bytes that the chip has sent and that are still unread."""

    def start(self) -> None:
        """Start nothing: this line needs no thread."""

    def close(self) -> None:
        os.close(self._stop)
        if not self.hung_up.is_set():
            self._hang_up()

    def pass_on(self, count: int) -> None:
        """Let the chip receive `count` bytes, and answer."""
        while count > 0 and not self.hung_up.is_set():
            heard = self._read()
            count -= len(heard) or count  # noise, at another speed
            pieces = self._answers(heard)
            if pieces is None:
                self._hang_up()
            else:
                self.coming += sum(map(len, pieces))
                self._send(pieces)


class _Port:
    """A real serial port that is only asked for bytes that come, so that timeouts take no real time."""

    def __init__(self, port: SerialLike, line: _Line) -> None:
        self._port = port
        self._line = line

    def write(self, data: bytes, /) -> int | None:
        written = self._port.write(data)
        self._line.pass_on(len(data))
        return written

    def read(self, size: int = 1) -> bytes:
        if not self._line.hung_up.is_set():  # else the port reports it
            size = min(size, self._line.coming)
        data = self._port.read(size) if size else b""
        self._line.coming -= len(data)
        return data

    def reset_input_buffer(self) -> None:
        self._drain()
        self._port.reset_input_buffer()

    def close(self) -> None:
        self._drain()
        self._port.close()

    def _drain(self) -> None:
        """Read the bytes that are still in the kernel and would come after a reset."""
        if not self._line.hung_up.is_set():
            self._port.read(self._line.coming)
        self._line.coming = 0


def _opened(ports: uart.SerialPorts, place: str, baud: int, _timeout_s: float) -> SerialLike:
    """The port at a place, as `SerialPorts.open` opens it."""
    port: Any = ports.open(place, baud, ANSWERED_S)  # long enough also on a busy machine
    return _Port(port, next(line for line in ports._lines.values() if line.path == port.port))


def answer_at_once(machine: SimulatedHardware) -> None:
    """Let no real time pass on serial lines, since a busy machine may exceed the time limits."""
    machine.serial_ports.line = _Line
    machine._open_serial = functools.partial(_opened, machine.serial_ports)


class Rig:
    """A chamber on simulated hardware, with a clock that jumps."""

    def __init__(
        self,
        config: Config,
        clock: JumpingClock,
        machine: SimulatedHardware,
        memory: ShortMemory | None,
        *,
        data: Path | None,
        records: RecordKeeper | None,
    ) -> None:
        self.config = config
        self.memory = memory or ShortMemory()
        self.clock = clock
        self.bus = Bus(self.clock, liveness=Liveness(monotonic=self.clock.monotonic))
        declare_topics(config, self.bus)
        self.machine = machine
        answer_at_once(self.machine)
        self.complaints: list[str] = []
        self.hold = None if data is None else OutputHold(self.bus, data, config.chambers())
        self.chambers = AllChambers(
            config,
            self.bus,
            self.machine,
            memory=self.memory,
            report=self.complaints.append,
            records=records,
            hold=self.hold,
            cylinders=simulated_cylinders(config, self.machine),
        )

    def last(self, topic: str) -> Any:
        """The last message on a topic of the environment; None before the first."""
        return self.bus.topics.get(f"{self.config.environment.id}/{topic}").last

    def device(self, node: str) -> dict[str, Any]:
        """The state of a device, as its node reports it."""
        information = self.bus.find_node(f"{self.config.environment.id}/{node}").information()
        device: dict[str, Any] = information["device"]
        return device


@asynccontextmanager
async def rigged(
    config: Config,
    memory: ShortMemory | None = None,
    data: Path | None = None,
    time: float = START,
    records: RecordKeeper | None = None,
) -> AsyncIterator[Rig]:
    """Run the chamber of a configuration around the body from `time`; `memory` is that of its interlocks.

    `records` keeps its calibrations.

    With a `data` folder it has a hold, which the body reads.
    """
    clock = JumpingClock(time)
    machine = await asyncio.to_thread(simulated_hardware, config, clock)  # as growd does: it imports chips
    rig = Rig(config, clock, machine, memory, data=data, records=records)
    selector = _Selector(asyncio.get_running_loop(), rig.clock)
    try:
        async with rig.chambers.running(), Supervisor(rig.clock, rig.bus.liveness) as supervisor:
            if rig.machine.mqtt.sensors:
                supervisor.start(
                    "simulated broker", functools.partial(run_broker, rig.machine.mqtt, rig.clock)
                )
            for worker in rig.chambers.workers.values():
                rig.clock.watch(worker, rig.machine.faults)
            yield rig
            rig.machine.faults.close()
    finally:
        selector.give_back()
        rig.machine.close()
