"""growd's way from chips to the disk with many sensors, in a process of its own.

The sensors, of `--kinds` in turn, are spread over `--buses` simulated I2C buses; those on serial lines have
one each. On a bus that has more of a kind than there are addresses of it the others have addresses that no
such part has. Above the simulated chips are the real drivers and all that `growd.wiring.chamber` puts
together, recorder, outbox and API. With `--bare` a bare thread for each line calls the drivers instead.

Prints its port once every sensor was read, and where there is a fault, once those on the bus that has it have
failed. Ends with its standard input. The API has the services `bench/sensors`, which tells how the sensors
are, and `bench/loop_delay`, which measures how late the event loop is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import math
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving import ended, on_beat

from growd.api.api import Api
from growd.api.front_door import FrontDoor
from growd.api.operations import operations_of
from growd.bus import Bus
from growd.bus.fields import Field, Kind
from growd.bus.params import Parameters
from growd.bus.services import SUCCESS
from growd.config import Config, Environment, Light, Sensor
from growd.config.device_checks import device_inconsistencies
from growd.control.health import State
from growd.device_kinds import SENSOR_KINDS
from growd.proxy.gateway import Gateway
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop
from growd.runtime.supervisor import Supervisor
from growd.store.local import LocalStore
from growd.store.memories import ParameterKeeper
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from growd.wiring.actuators import Common
from growd.wiring.chamber import AllChambers
from growd.wiring.chambers_node import declare_topics
from growd.wiring.sensors import SensorDevice
from growd_drivers.errors import NotReadyError
from growd_drivers.mhz19 import WARM_UP_S
from growd_hwsim.faults import Fault
from growd_simulation.simulated_hardware import simulated_hardware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from growd.bus import Node
    from growd_drivers.hardware import Hardware
    from growd_hwsim.hardware import SimulatedHardware

ENVIRONMENT = "chamber"
ON_SERIAL_LINES = ("mhz19",)
MADE_UP_ADDRESS = 0x30  # from here on none is of these parts
FASTEST_S = {"scd30": 2.0}  # a new measurement comes no sooner
FIRST_BUS, FAULTY_LINE = 1, "i2c-1"
FAULTS = ("hang", "timeout")  # of a whole bus: a call does not return, or does so after a second, and fails
BEAT_HZ = 1000
LOOK_S = 0.02
DONE: dict[str, Any] = {"success": True, "message": ""}  # every answer of a service has these


class ClockOfChips(RealClock):
    """The time of chips and drivers, which can be let go ahead: nobody waits for a sensor to warm up."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    def skip_warm_up(self) -> None:
        self._ahead = WARM_UP_S


def configured(arguments: argparse.Namespace) -> Config:
    sensors = tuple(_sensors(arguments.sensors, arguments.buses, arguments.kinds, arguments.interval))
    config = Config(environment=Environment(id=ENVIRONMENT), sensor=sensors, light=Light(enabled=False))
    if faults := [each.sentence for each in device_inconsistencies(config)]:
        raise SystemExit("\n".join(faults))
    return config


def _sensors(number: int, buses: int, kinds: Sequence[str], interval_s: float) -> Iterator[Sensor]:
    places: Counter[tuple[int, str]] = Counter()
    for each in range(number):
        kind = kinds[each % len(kinds)]
        known: dict[str, Any] = {"name": f"sensor_{each}", "kind": kind}
        known["interval_s"] = max(interval_s, FASTEST_S.get(kind, 0.0))
        if kind in ON_SERIAL_LINES:
            yield Sensor(**known, port=f"/dev/ttyUSB{each}")
            continue
        bus = FIRST_BUS + each * buses // number
        yield Sensor(**known, bus=bus, address=_address(kind, places[bus, kind], each))
        places[bus, kind] += 1


def _address(kind: str, place: int, number: int) -> int:
    """Of the sensor `number`, which is on its bus at that place among those of its kind."""
    known = SENSOR_KINDS[kind].addresses
    return known[place] if place < len(known) else MADE_UP_ADDRESS + number % 32


class _NoMemory:
    """For interlocks that are not there without outputs."""

    async def state(self, key: str, default: Any = None) -> Any:  # noqa: ARG002  the shape of a memory
        return default

    async def save_state(self, key: str, value: Any) -> None: ...


class Daemon:
    """The sensors as growd has them."""

    def __init__(self, bus: Bus, config: Config, hardware: Hardware) -> None:
        self._bus = bus
        self._names = [sensor.name for sensor in config.sensor]
        self._chambers = AllChambers(
            config,
            Common(
                bus, hardware, memory=_NoMemory(), report=lambda sentence: print(sentence, file=sys.stderr)
            ),
        )

    @asynccontextmanager
    async def running(self, clock: ClockOfChips) -> AsyncIterator[None]:
        """Around the body, which begins when all are well."""
        async with self._chambers.running():
            await self.until(lambda state: state != State.STARTING, self._names)
            clock.skip_warm_up()
            await self.until(lambda state: state == State.OK, self._names)
            yield

    async def until(self, right: Callable[[str], bool], names: Iterable[str]) -> None:
        """Until the state of each of these sensors is right."""
        for name in names:
            while not right(self._device(name)["state"]):  # noqa: ASYNC110  which has no event, but a name
                await asyncio.sleep(LOOK_S)

    async def told(self) -> dict[str, Any]:
        """The service `bench/sensors`."""
        devices = [self._device(name) for name in self._names]
        return DONE | {
            "readings": sum(device["counters"]["successes"] for device in devices),
            "failed": sum(device["state"] == State.FAILED for device in devices),
            "left_behind": sum(worker.replaced for worker in self._chambers.workers.values()),
        }

    def _device(self, name: str) -> dict[str, Any]:
        device: dict[str, Any] = self._bus.find_node(f"{ENVIRONMENT}/samplers/{name}").information()["device"]
        return device


class Bare:
    """The same sensors, each line's read in a thread of its own at the same pace, and nothing made of it."""

    def __init__(self, config: Config, hardware: Hardware) -> None:
        self._lines: dict[str, list[Sensor]] = {}
        for sensor in config.sensor:
            self._lines.setdefault(sensor.line, []).append(sensor)
        self._hardware = hardware
        self._readings: Counter[str] = Counter()
        self._stopped = threading.Event()

    @asynccontextmanager
    async def running(self, clock: ClockOfChips) -> AsyncIterator[None]:
        """Around the body, which begins when each was asked once."""
        asked = threading.Barrier(len(self._lines) + 1, action=clock.skip_warm_up)
        threads = [
            threading.Thread(target=self._read, args=(line, asked), name=line, daemon=True)
            for line in self._lines
        ]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(asked.wait)
        yield
        self._stopped.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)

    async def told(self) -> dict[str, Any]:
        """The service `bench/sensors`."""
        return DONE | {"readings": self._readings.total(), "failed": 0, "left_behind": 0}

    def _read(self, line: str, asked: threading.Barrier) -> None:
        sensors = self._lines[line]
        devices = [SensorDevice(self._hardware, sensor) for sensor in sensors]
        self._read_all(line, devices)
        asked.wait()
        interval = max(sensor.interval_s for sensor in sensors)
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            self._read_all(line, devices)
            due += interval

    def _read_all(self, line: str, devices: Iterable[SensorDevice]) -> None:
        for device in devices:
            with contextlib.suppress(NotReadyError):
                device.read()
                self._readings[line] += 1


async def loop_delay(seconds: float) -> dict[str, Any]:
    """How late a beat of 1 kHz comes, in ms: the 99.9th percentile, and the worst.

    Beats that fall due while the loop is held up count each with its own lateness. asyncio's timers have a
    grain of 1 ms (its selectors round up to it), which is in it.
    """
    loop = asyncio.get_running_loop()
    began, late_s = loop.time(), list[float]()
    beats = math.ceil(seconds * BEAT_HZ)
    await on_beat(lambda: late_s.append(loop.time() - began - len(late_s) / BEAT_HZ), BEAT_HZ, beats)
    late_s.sort()
    return DONE | {"p999_ms": 1000 * late_s[math.ceil(0.999 * beats) - 1], "worst_ms": 1000 * late_s[-1]}


def offer(node: Node, sensors: Daemon | Bare) -> None:
    """Serve what the benchmarks ask."""
    counts = tuple(Field(name, Kind.INT64) for name in ("readings", "failed", "left_behind"))
    delays = tuple(Field(name, Kind.FLOAT64, unit="ms") for name in ("p999_ms", "worst_ms"))
    node.serve("bench/sensors", "bench/Sensors", sensors.told, reply=(*SUCCESS, *counts))
    node.serve(
        "bench/loop_delay",
        "bench/LoopDelay",
        loop_delay,
        arguments=(Field("seconds", Kind.FLOAT64, 0.001, 3600, "s"),),
        reply=(*SUCCESS, *delays),
    )


@asynccontextmanager
async def core(config: Config, folder: Path) -> AsyncIterator[tuple[Bus, int]]:
    """The bus, what keeps its points on the disk, and the API with its port."""
    clock = RealClock()
    async with AsyncExitStack() as stack:
        local = await LocalStore.open(folder / "growd.sqlite3")
        stack.push_async_callback(local.close)
        bus = Bus(clock, Parameters(await local.parameters(), ParameterKeeper(local)))
        declare_topics(config, bus)
        server = FrontDoor(Api(bus, bus.node("http"), "/_svc", operations_of()), Gateway(lambda: None))
        await server.open("127.0.0.1", 0)
        stack.push_async_callback(server.close)
        outbox = await Outbox.open(local, clock)
        stack.push_async_callback(outbox.close)
        parts = await stack.enter_async_context(Supervisor(clock, bus.liveness))
        parts.start("outbox", outbox.run)
        parts.start("recorder", Recorder(bus, outbox, PointMaker(local.device), [ENVIRONMENT]).run)
        assert server.address is not None  # noqa: S101  it listens
        yield bus, server.address[1]


def opened(config: Config, clock: ClockOfChips) -> SimulatedHardware:
    """The machine, its lamp lit, so that light sensors measure for as short a time as they do by day."""
    hardware = simulated_hardware(config, clock)
    hardware.chamber.set_lamp("white", 1.0)
    return hardware


async def serve(arguments: argparse.Namespace, folder: Path) -> None:
    config = configured(arguments)
    clock = ClockOfChips()
    async with AsyncExitStack() as stack:
        bus, port = await stack.enter_async_context(core(config, folder))
        hardware = await asyncio.to_thread(opened, config, clock)
        stack.push_async_callback(asyncio.to_thread, hardware.close)
        if arguments.bare:
            bare = Bare(config, hardware)
            offer(bus.node("bench"), bare)
            await stack.enter_async_context(bare.running(clock))
        else:
            daemon = Daemon(bus, config, hardware)
            offer(bus.node("bench"), daemon)
            await stack.enter_async_context(daemon.running(clock))
            if arguments.fault:
                logging.disable(logging.WARNING)  # they are asked for
                hardware.faults.inject(Fault(arguments.fault, FAULTY_LINE))
                struck = [sensor.name for sensor in config.sensor if sensor.line == FAULTY_LINE]
                await daemon.until(lambda state: state == State.FAILED, struck)
        print(port, flush=True)
        await ended()


def serve_until_ended() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sensors", type=int, default=2)
    parser.add_argument("--buses", type=int, help="one for each two sensors, unless given")
    parser.add_argument("--kinds", nargs="+", default=["scd30", "bh1750"])
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--fault", choices=FAULTS, help=f"of {FAULTY_LINE}")
    parser.add_argument("--bare", action="store_true", help="only the drivers, called in threads")
    arguments = parser.parse_args()
    if arguments.buses is None:
        arguments.buses = (arguments.sensors + 1) // 2
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder:
        run_on_loop(serve(arguments, Path(folder)))


if __name__ == "__main__":
    serve_until_ended()
