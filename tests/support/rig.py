"""A chamber on simulated hardware with real drivers, whose time the test lets pass."""

import asyncio
import functools
import math
from contextlib import asynccontextmanager
from importlib import import_module

from growd.bus import Bus
from growd.control.hold import OutputHold
from growd.device_kinds import SENSOR_KINDS
from growd.parts import Experiments
from growd.runtime.liveness import Liveness
from growd.runtime.supervisor import Supervisor
from growd.wiring.actuators import Common
from growd.wiring.chamber import AllChambers
from growd.wiring.chambers_node import declare_topics
from growd_commissioning.part import experiments_of
from growd_simulation.machine import run_broker
from growd_simulation.simulated_clock import SimulatedClock, moving, on_one_core
from growd_simulation.simulated_hardware import simulated_hardware
from support.memory import ShortMemory

for _kind in SENSOR_KINDS.values():
    if _kind.slow_import:  # samplers import it in a thread, for which `ManualClock` does not wait
        import_module(_kind.slow_import)

START = 1_700_000_000.0


def commissioning():
    """The experiments of the part, as growd offers them."""
    experiments = Experiments()
    experiments.offer("commissioning", experiments_of)
    return experiments


class HeldClock(SimulatedClock):
    """A simulated clock whose time passes only in `advance` and `until`."""

    def __init__(self, time=START, begins_s=0.0):
        super().__init__(start=time - begins_s, ends=begins_s)
        self._now = begins_s

    @property
    def wakes(self):
        """When the present sleepers wake up, in monotonic seconds."""
        return {due for due, _, wake in self._sleepers if not wake.is_over()}

    def step(self, seconds):
        """Step wall time, as NTP does; monotonic time stays."""
        self._start += seconds

    async def until(self, condition, *, within):
        """Let time pass until `condition` holds: the seconds it took, `within` at most."""
        began = self._now
        await self.settle()
        while not condition():
            if self._now - began > within:
                raise AssertionError(f"the condition did not hold within {within:g} s")
            await self.advance(1.0)
        return self._now - began


class Rig:
    """A chamber on simulated hardware, on time that the test lets pass."""

    def __init__(self, config, clock, machine, memory, *, data, records):
        self.config = config
        self.memory = memory or ShortMemory()
        self.clock = clock
        self.bus = Bus(self.clock, liveness=Liveness(monotonic=self.clock.monotonic))
        declare_topics(config, self.bus)
        self.machine = machine
        self.complaints = []
        self.hold = None if data is None else OutputHold(self.bus, data, config.chambers())
        self.chambers = AllChambers(
            config,
            Common(
                self.bus,
                self.machine,
                memory=self.memory,
                report=self.complaints.append,
                records=records,
                hold=self.hold,
                experiments=commissioning(),
            ),
        )

    def last(self, topic):
        """The last message on a topic of the environment; None before the first."""
        return self.bus.topics.get(f"{self.config.environment.id}/{topic}").last

    async def call(self, service, arguments=None, who=""):
        """Call a service of the environment, and let time pass until it has answered."""
        called = self.bus.services.get(f"{self.config.environment.id}/{service}").call(arguments, who)
        task = asyncio.create_task(called)
        await self.clock.until(task.done, within=20.0)
        return task.result()

    def device(self, node):
        """The state of a device, as its node reports it."""
        information = self.bus.find_node(f"{self.config.environment.id}/{node}").information()
        return information["device"]


@asynccontextmanager
async def rigged(config, memory=None, data=None, time=START, records=None, *, begins_s=0.0):
    """Run the chamber of a configuration around the body from `time`; `memory` is that of its interlocks.

    The monotonic time is `begins_s` then.

    `records` keeps its calibrations.

    With a `data` folder it has a hold, which the body reads.
    """
    clock = HeldClock(time, begins_s)
    machine = await asyncio.to_thread(simulated_hardware, config, clock)  # as growd does: it imports chips
    rig = Rig(config, clock, machine, memory, data=data, records=records)
    try:
        with on_one_core(), moving(clock, asyncio.get_running_loop()):
            async with rig.chambers.running(), Supervisor(rig.clock, rig.bus.liveness) as supervisor:
                if machine.mqtt.sensors:
                    supervisor.start("simulated broker", functools.partial(run_broker, machine.mqtt, clock))
                yield rig
                machine.faults.close()
                clock.ends = math.inf
    finally:
        machine.close()
