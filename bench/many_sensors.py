"""growd's way from chips to the disk with many sensors, in a process of its own.

Half of them are SCD30s and half BH1750s, a pair on each of as many simulated I2C buses, beneath the real
drivers, samplers, filters, recorder, outbox and API, put together as `growd.app` does. Prints its port once
every sensor was read; ends with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from lifetime import ended

from growd.bus import Bus
from growd.bus.params import Parameters
from growd.clock import RealClock
from growd.config import Sensor
from growd.control.filters import Filter
from growd.control.sampling import Sampler
from growd.control.topics import declare_environment, diagnostics
from growd.devices import SENSOR_KINDS, SensorDevice
from growd.event_loop import run_on_loop
from growd.http.api import Api
from growd.http.gateway import Gateway
from growd.http.server import Server
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.store.parameters import ParameterKeeper
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from growd.supervisor import Supervisor
from growd.worker import Worker
from growd_drivers.errors import NotReadyError
from growd_drivers.hardware import Hardware
from growd_drivers.serial_line import open_port
from growd_hwsim.chamber import Chamber
from growd_hwsim.chips.bh1750 import SimulatedBh1750
from growd_hwsim.chips.scd30 import SimulatedScd30
from growd_hwsim.gpio import SimulatedGpio
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.bus.topics import Subscription

ENVIRONMENT = "chamber"


def sensors(number: int) -> list[Sensor]:
    """So many, of both kinds in turn, two on a bus, read as often as growd's own configuration says."""
    return [_sensor(each) for each in range(number)]


def _sensor(number: int) -> Sensor:
    name, bus = f"sensor_{number}", number // 2
    if number % 2:
        return Sensor(name=name, kind="bh1750", bus=bus, interval_s=1.0)
    return Sensor(name=name, kind="scd30", bus=bus, interval_s=2.0)


def hardware(clock: RealClock, buses: int) -> Hardware:
    """A machine with one chip of each kind on each bus, all in one chamber."""
    chamber = Chamber(clock.monotonic)
    adapters = {}
    for bus in range(buses):
        adapter = adapters[bus] = I2CAdapter(bus)
        scd30 = SimulatedScd30(chamber.air, clock.monotonic, seed=bus)
        bh1750 = SimulatedBh1750(chamber.illuminance_lux, clock.monotonic, seed=bus)
        adapter.attach(SENSOR_KINDS["scd30"].address, scd30)
        adapter.attach(SENSOR_KINDS["bh1750"].address, bh1750)
    gpio = SimulatedGpio(clock.monotonic)
    return Hardware(
        smbus_over(I2CKernel(adapters)),
        open_port,
        gpio,
        sleep=clock.sleep_blocking,
        monotonic=clock.monotonic,
    )


def samplers(
    stack: AsyncExitStack, bus: Bus, machine: Hardware, described: list[Sensor]
) -> Iterator[Sampler]:
    """One for each sensor, and one worker thread for each I2C bus."""
    workers: dict[int, Worker] = {}
    for sensor in described:
        if sensor.bus not in workers:
            worker = workers[sensor.bus] = Worker(f"i2c-{sensor.bus}")
            stack.push_async_callback(worker.close)
        device = SensorDevice(machine, sensor)
        yield Sampler(
            bus,
            ENVIRONMENT,
            device.name,
            read=device.read,
            variables=device.variables,
            worker=workers[sensor.bus],
            interval_s=sensor.interval_s,
            not_ready=NotReadyError,
        )


async def until_well(states: Subscription, number: int) -> None:
    """Until so many devices have said that they are well."""
    well: set[str] = set()
    while len(well) < number:
        state = await states.get()
        if state.value["level"] == 0:
            well.add(state.topic)


async def serve(number: int, folder: Path) -> None:
    clock = RealClock()
    described = sensors(number)
    async with AsyncExitStack() as stack:
        local = await LocalStore.open(folder / "growd.sqlite3")
        stack.push_async_callback(local.close)
        bus = Bus(clock, Parameters(await local.parameters(), ParameterKeeper(local)))
        kinds = {sensor.kind for sensor in described}
        sensed = sorted(variable for kind in kinds for variable in SENSOR_KINDS[kind].variables.values())
        declare_environment(bus, ENVIRONMENT, sensed)
        server = Server(Api(bus, bus.node("http"), "_svc"), Gateway(lambda: None))
        await server.open("127.0.0.1", 0)
        stack.push_async_callback(server.close)
        outbox = await Outbox.open(local, clock)
        machine = await asyncio.to_thread(hardware, clock, (number + 1) // 2)
        parts = await stack.enter_async_context(Supervisor(clock))
        parts.start("outbox", outbox.run)
        parts.start("recorder", Recorder(bus, outbox, PointMaker(local.device), [ENVIRONMENT]).run)
        nodes: list[Filter | Sampler] = [Filter(bus, ENVIRONMENT, variable) for variable in sensed]
        nodes += samplers(stack, bus, machine, described)
        topics = [diagnostics(ENVIRONMENT, sensor.name) for sensor in described]
        with bus.node("bench").subscribe(*topics, depth=10 * number) as states:
            for each in nodes:
                parts.start(each.node.name, each.run)
            await until_well(states, number)
        assert server.address is not None  # noqa: S101  it listens
        print(server.address[1], flush=True)
        await ended()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sensors", type=int, default=2)
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder:
        run_on_loop(serve(parser.parse_args().sensors, Path(folder)))
