"""The clock and the hardware of a simulated machine: the daemon opens them by `growd.parts.SIMULATION`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from growd.host.data_folder import StartError
from growd.host.logs import timed_by
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd.store.errors import LocalStoreError
from growd_hwsim.errors import FaultFileError, ReplayFileError, SimulationError
from growd_simulation.fault_services import FaultServices, fault_places
from growd_simulation.simulated_clock import SimulatedClock, moving
from growd_simulation.simulated_hardware import simulated_hardware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.bus import Bus
    from growd.config import Config
    from growd.runtime.clock import Clock
    from growd.runtime.liveness import Liveness
    from growd.store.local import LocalStore
    from growd_hwsim.chips.mqtt_sensor import SimulatedBroker
    from growd_hwsim.hardware import SimulatedHardware

RENEWED_S: Final = 2.0
"""How often simulated time is reserved for three times as long: real seconds at up to `MOST` times."""

MOST: Final = 1_000.0
STEP_S: Final = 1.0  # between two looks at the simulated broker
_KEY: Final = "simulated_time"
_OPTIONS: Final = {FaultFileError: "faults", ReplayFileError: "replay"}
_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def hardware(config: Config, bus: Bus) -> AsyncIterator[SimulatedHardware]:
    """The simulated hardware, with its broker and the services of its faults, open for the body.

    Raises `StartError` for a file of the simulator that can't be used.
    """
    try:
        machine = await asyncio.to_thread(simulated_hardware, config, bus.clock)
    except SimulationError as error:
        option = _OPTIONS.get(type(error))
        raise StartError(f"[simulator] {option}: {error}" if option else str(error)) from error
    try:
        FaultServices(bus, machine.faults, fault_places(config))
        async with Supervisor(RealClock(), bus.liveness) as supervisor:
            if machine.mqtt.sensors:
                supervisor.start("simulated broker", partial(run_broker, machine.mqtt, bus.clock))
            yield machine
    finally:
        await asyncio.to_thread(machine.close)


@contextlib.asynccontextmanager
async def clock(config: Config, local: LocalStore, liveness: Liveness) -> AsyncIterator[Clock]:
    """A clock that may run fast and never goes back."""
    chosen = await simulated_clock(config, local)
    if not isinstance(chosen, SimulatedClock):
        yield chosen
        return
    with moving(chosen, asyncio.get_running_loop()), timed_by(chosen.time):
        async with Supervisor(chosen, liveness) as supervisor:
            supervisor.start("simulated time", partial(reserve_time, local, chosen))
            yield chosen
    await release_time(local, chosen)


async def simulated_clock(config: Config, local: LocalStore) -> Clock:
    """The clock of a simulation, which starts at the time saved in `local` if that is ahead.

    At speed 1 and without such a time it is the machine's own clock.
    """
    saved = await local.state(_KEY, 0.0)
    now, speed = time.time(), config.simulator.speed
    if speed == 1 and saved <= now:
        return RealClock()
    return SimulatedClock(speed, max(now, saved))


async def reserve_time(local: LocalStore, clock: SimulatedClock) -> None:
    """Keep a time in `local` that is ahead of the clock, until cancelled.

    After a kill, growd starts at that time, so that no time is used twice.
    """
    period_s = RENEWED_S * min(clock.speed, MOST)
    while True:
        await _save(local, clock.time() + 3 * period_s)
        await clock.sleep(period_s)


async def release_time(local: LocalStore, clock: SimulatedClock) -> None:
    """Save the present time at a clean end: the next run starts there."""
    await _save(local, clock.time())


async def run_broker(broker: SimulatedBroker, clock: Clock) -> None:
    """Let the simulated sensors on a broker publish, until cancelled."""
    while True:
        broker.step()
        await clock.sleep(STEP_S)


async def _save(local: LocalStore, moment: float) -> None:
    try:
        await local.save_state(_KEY, moment)
    except LocalStoreError as error:
        _log.debug("the simulated time can't be saved: %s", error)
