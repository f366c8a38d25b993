"""The hardware and the clock that the configuration chooses: those of the machine, or simulated ones."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
from typing import TYPE_CHECKING, cast

from growd.bus import Bus
from growd.config import ConfigError, chambers_of
from growd.host.logs import timed_by
from growd.runtime.clock import RealClock
from growd.runtime.liveness import Liveness
from growd.runtime.supervisor import Supervisor
from growd.wiring.mqtt import mqtt_link
from growd.wiring.outputs import check_pwm
from growd_drivers.hardware import Hardware, open_hardware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.config import Config
    from growd.runtime.clock import Clock
    from growd.store.local import LocalStore
    from growd_drivers.mqtt import MqttClient
    from growd_hwsim.hardware import SimulatedHardware

# Modules of the simulation are imported on use, so that a real chamber does not load them.


def open_configured(config: Config, clock: Clock, mqtt: MqttClient | None = None) -> Hardware:
    """Open the hardware on the time of `clock`, with the broker of real hardware. Blocking.

    Raises `HardwareUnavailableError`; `ConfigError` if this machine can't drive the lamps as configured;
    `SimulationError` for an unusable file of the simulator.
    """
    if config.simulator.enabled:
        from growd.wiring.simulator import simulated_hardware  # noqa: PLC0415

        hardware: Hardware = simulated_hardware(config, clock)
    else:
        hardware = open_hardware(
            sleep=clock.sleep_blocking,
            monotonic=clock.monotonic,
            mqtt=mqtt,
            library=config.gpio.library if any(each.has_pins for each in chambers_of(config)) else None,
        )
    try:
        check_pwm(hardware, config)
    except ConfigError:
        hardware.close()
        raise
    return hardware


@contextlib.asynccontextmanager
async def opened_hardware(config: Config, bus: Bus, mqtt: MqttClient | None) -> AsyncIterator[Hardware]:
    """The hardware, open for the body. Raises what `open_configured` does."""
    hardware = await asyncio.to_thread(open_configured, config, bus.clock, mqtt)
    try:
        if config.simulator.enabled:
            async with _simulating(config, bus, cast("SimulatedHardware", hardware)):
                yield hardware
        else:
            yield hardware
    finally:
        await asyncio.to_thread(hardware.close)


@contextlib.asynccontextmanager
async def broker_running(config: Config, hardware: Hardware, clock: Clock) -> AsyncIterator[None]:
    """The MQTT broker of hardware that only a check uses, for the body. Raises `ConfigError`."""
    if not config.simulator.enabled:
        async with mqtt_link(config, Bus(clock), "check") as hardware.mqtt:
            yield
        return
    from growd.wiring.simulator import run_broker  # noqa: PLC0415

    broker = cast("SimulatedHardware", hardware).mqtt
    async with Supervisor(clock, Liveness()) as supervisor:
        supervisor.start("simulated broker", functools.partial(run_broker, broker, clock))
        yield


@contextlib.asynccontextmanager
async def _simulating(config: Config, bus: Bus, hardware: SimulatedHardware) -> AsyncIterator[None]:
    """The services of the simulator, for the body."""
    from growd.wiring.fault_services import FaultServices, fault_places  # noqa: PLC0415
    from growd.wiring.simulator import run_broker  # noqa: PLC0415

    FaultServices(bus, hardware.faults, fault_places(config))
    async with Supervisor(RealClock(), bus.liveness) as supervisor:
        if hardware.mqtt.sensors:
            supervisor.start("simulated broker", functools.partial(run_broker, hardware.mqtt, bus.clock))
        yield


@contextlib.asynccontextmanager
async def chosen_clock(config: Config, local: LocalStore, liveness: Liveness) -> AsyncIterator[Clock]:
    """The clock of the machine; for simulated hardware one that may run fast and never goes back."""
    if not config.simulator.enabled:
        yield RealClock()
        return
    await asyncio.to_thread(importlib.import_module, "growd.wiring.simulator")  # blocking the first time
    from growd.runtime.simulated_clock import SimulatedClock, moving  # noqa: PLC0415
    from growd.wiring.simulator import release_time, reserve_time, simulated_clock  # noqa: PLC0415

    clock = await simulated_clock(config, local)
    if not isinstance(clock, SimulatedClock):
        yield clock
        return
    with moving(clock, asyncio.get_running_loop()), timed_by(clock.time):
        async with Supervisor(clock, liveness) as supervisor:
            supervisor.start("simulated time", functools.partial(reserve_time, local, clock))
            yield clock
    await release_time(local, clock)


def speed_of(clock: Clock) -> float:
    """How many times as fast as real time a clock ran in the last seconds."""
    return float(getattr(clock, "reached", 1.0))  # of a `SimulatedClock`
