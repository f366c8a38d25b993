"""The hardware and the clock that the configuration chooses: those of the machine, or simulated ones."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from growd.config import chambers_of
from growd.host.data_folder import StartError
from growd.parts import SIMULATION, found
from growd.runtime.clock import RealClock
from growd.wiring.outputs import check_pwm
from growd_drivers.hardware import Hardware, open_hardware

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import AsyncIterator, Callable

    from growd.bus import Bus
    from growd.config import Config
    from growd.runtime.clock import Clock
    from growd.runtime.liveness import Liveness
    from growd.store.local import LocalStore
    from growd_drivers.mqtt import MqttClient


@contextlib.asynccontextmanager
async def opened_hardware(config: Config, bus: Bus, mqtt: MqttClient | None) -> AsyncIterator[Hardware]:
    """The hardware, open for the body; `mqtt` is the broker of real hardware.

    Raises `HardwareUnavailableError`; `ConfigError` if this machine can't drive the lamps as configured;
    `StartError` for a simulator that can't be opened.
    """
    if config.simulator.enabled:
        opened = (await asyncio.to_thread(_of_simulation, "hardware"))(config, bus)
    else:
        opened = _of_this_machine(config, bus.clock, mqtt)
    async with opened as hardware:
        hardware.pwm_chip = config.gpio.pwm_chip
        await asyncio.to_thread(check_pwm, hardware, config)
        yield hardware


@contextlib.asynccontextmanager
async def _of_this_machine(config: Config, clock: Clock, mqtt: MqttClient | None) -> AsyncIterator[Hardware]:
    library = config.gpio.library if any(each.has_pins for each in chambers_of(config)) else None
    hardware = await asyncio.to_thread(
        open_hardware,
        sleep=clock.sleep_blocking,
        monotonic=clock.monotonic,
        mqtt=mqtt,
        library=library,
    )
    try:
        yield hardware
    finally:
        await asyncio.to_thread(hardware.close)


@contextlib.asynccontextmanager
async def chosen_clock(config: Config, local: LocalStore, liveness: Liveness) -> AsyncIterator[Clock]:
    """The clock of the machine; for simulated hardware one that may run fast and never goes back."""
    if not config.simulator.enabled:
        yield RealClock()
        return
    opened = await asyncio.to_thread(_of_simulation, "clock")
    async with opened(config, local, liveness) as clock:
        yield clock


def loop_of(config: Config) -> Callable[[], AbstractEventLoop] | None:
    """What makes the event loop that `chosen_clock` needs, None for the usual one. Raises `StartError`."""
    return _of_simulation("loop") if config.simulator.enabled else None


def _of_simulation(name: str) -> Any:
    """What the simulator has of that name. Blocking: it imports. Raises `StartError` without a simulator."""
    try:
        return found(SIMULATION[name])
    except ImportError as error:
        remedy = "install all of growd, or set [simulator] enabled = false"
        raise StartError(f"the simulator can't be loaded: {error}; {remedy}") from error


def speed_of(clock: Clock) -> float:
    """How many times as fast as real time a clock ran in the last seconds."""
    return float(getattr(clock, "reached", 1.0))  # of a `SimulatedClock`


def slow_down(clock: Clock) -> None:
    """Slow simulated time down, so that the end of growd takes little of it."""
    getattr(clock, "slow_down", lambda: None)()  # of a `SimulatedClock`
