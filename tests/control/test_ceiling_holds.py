"""Clients, calibrations, kills and damaged files never raise CO2 above the ceiling plus one dose.

`GROWD_CEILING_EXAMPLES=1000` tries that many random sequences.
"""

import asyncio
import dataclasses
import os
import random
import shutil
import tempfile
from collections import deque
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from growd.bus.errors import BusError
from growd.config import Config, InterlockOptions, Light, Output, Sensor
from growd.store.local import LocalStore
from growd.store.memories import FILE_NAME, InterlockMemory
from growd.store.point_log import LOG_NAME
from growd_simulation.simulated_clock import SimulatedLoop
from support.rig import rigged

CEILING, OPEN_S, DOSE_S, HOUR_S = 2_000.0, 60.0, 900.0, 3_600.0
FLOW_L_MIN, VOLUME_L = 0.05, 100.0
DOSE_PPM = OPEN_S / 60 * FLOW_L_MIN / VOLUME_L * 1e6  # that one `valve_open_s` lets in
CO2, VALVE = "air_carbon_dioxide", "air_carbon_dioxide_valve_on"
STORE = "growd.sqlite3"
CONFIG = Config(
    sensor=(Sensor(name="air", kind="scd30"),),
    light=Light(enabled=False),
    output=(Output(name="valve", pin=21, variable=VALVE),),
    interlock=InterlockOptions(
        ceiling_ppm=CEILING, valve_open_s=OPEN_S, dose_s=DOSE_S, no_rise_open_s=86_400
    ),
)
NOISE = random.Random(1).randbytes(8_192)
DAMAGES = {
    "text": lambda file: file.write_bytes(b"no database" * 800),
    "random": lambda file: file.write_bytes(NOISE),
    "zeros": lambda file: file.write_bytes(bytes(8_192)),
    "empty": lambda file: file.write_bytes(b""),
    "deleted": lambda file: file.unlink(missing_ok=True),
}
FILES = (STORE, f"{STORE}-wal", FILE_NAME)


class World:
    """A chamber and a data folder, and growd in one life after another."""

    def __init__(self, folder):
        self.folder = folder
        self.life = 0
        self.now = 0.0
        self.opened = deque()  # each second with an open valve
        self.air = self.chip = None

    def new_life(self, *, keeps=True):
        before, self.life = self.folder / f"{self.life}", self.life + 1
        after = self.folder / f"{self.life}"
        if keeps and before.exists():
            shutil.copytree(before, after)
        else:
            after.mkdir()
        return after

    @asynccontextmanager
    async def living(self):
        folder = self.folder / f"{self.life}"
        local = await LocalStore.open(folder / STORE)
        (folder / LOG_NAME).touch()  # as the outbox does
        try:
            async with rigged(CONFIG, InterlockMemory(local)) as rig:
                model = rig.machine.chamber
                model.parameters = dataclasses.replace(
                    model.parameters, leak_per_h=0.1, valve_flow_l_min=FLOW_L_MIN, growing_area_m2=1e-6
                )
                if self.air is not None:
                    model.state, rig.machine.sensor("scd30").memory = self.air, self.chip
                yield Life(self, rig)
                model.air()
                self.air, self.chip = model.state, rig.machine.sensor("scd30").memory
                await rig.clock.settle()
        finally:
            await local.close()


class Life:
    def __init__(self, world, rig):
        self.world, self.rig = world, rig
        self.client = rig.bus.node("client")

    async def advance(self, seconds):
        for _ in range(int(seconds)):
            await self.rig.clock.advance(1.0)
            self.world.now += 1.0
            self.check()

    def check(self):
        world, ppm = self.world, self.rig.machine.chamber.air().carbon_dioxide_ppm
        assert ppm <= CEILING + DOSE_PPM, f"{ppm:.0f} ppm"
        if self.is_open():
            world.opened.append(world.now)
        while world.opened and world.opened[0] <= world.now - HOUR_S:
            world.opened.popleft()
        assert len(world.opened) <= DOSE_S + 5, f"open for {len(world.opened)} s of an hour"

    def is_open(self):
        return self.rig.machine.pins.high(21) > 0

    async def open(self, seconds):
        """Override the valve to open for `seconds`."""
        self.client.publish_arguments(f"environment_1/commanded/{VALVE}", [1])
        await self.advance(seconds)
        self.client.publish_arguments(f"environment_1/commanded/{VALVE}", [0])
        await self.advance(1)

    async def want(self, ppm):
        self.client.publish_arguments(f"environment_1/desired/{CO2}", [ppm])
        await self.advance(30)

    async def calibrate(self, share):
        """Calibrate to a share of the measured value, within the valid references."""
        last = self.rig.last(f"measured/{CO2}")
        reference = (
            400 if last is None or last.value is None else min(2_000, max(400, int(share * last.value)))
        )
        await self.rig.call("samplers/air/calibrate", [reference])
        await self.advance(125)

    async def reset(self):
        await self.rig.call("interlocks/no_rise_after_dose/reset", [])

    async def set(self, name, value):
        try:
            setting = self.rig.bus.parameters.set(f"environment_1/{name}", value)
            task = asyncio.create_task(setting)
            await self.rig.clock.until(task.done, within=5)
            task.result()
        except BusError:
            pass


ENDS = ("restart", "kill")
PARAMETERS = {
    "samplers/air/interval": st.sampled_from([0.1, 2.0, 15.0, 90.0]),
    f"filters/{CO2}/weight": st.sampled_from([0.001, 1.0]),
    f"filters/{CO2}/stale_after": st.sampled_from([0.1, 864_000.0]),
    f"controllers/{CO2}/kp": st.sampled_from([0.0, 100.0]),
    f"controllers/{VALVE}/minimum_on": st.sampled_from([0.5, 3_600.0]),
    "interlocks/carbon_dioxide_ceiling/limit": st.just(30_000.0),
}
damages = st.dictionaries(st.sampled_from(FILES), st.sampled_from([*DAMAGES]), max_size=3)
actions = st.one_of(
    st.tuples(st.just("open"), st.sampled_from([30, 300])),
    st.tuples(st.just("want"), st.sampled_from([0.0, 1_900.0, 10_000.0])),
    st.tuples(st.just("advance"), st.sampled_from([60, 1_260])),
    st.tuples(st.just("calibrate"), st.sampled_from([0.2, 0.76, 0.76, 0.95, 1.2])),
    st.tuples(st.just("reset")),
    st.one_of([st.tuples(st.just("set"), st.just(name), values) for name, values in PARAMETERS.items()]),
    st.tuples(st.just("restart"), st.just({})),
    st.tuples(st.just("kill"), damages),
)
LOWERED = [("open", 280), ("advance", 1_260), *[("calibrate", 0.76)] * 8]
"""Some 1900 ppm, with a sensor calibrated as low as permitted."""


async def happen(sequence, folder):
    """Run one life after another, until the sequence ends."""
    world, left = World(folder), deque(sequence)
    world.new_life()
    ended = True
    while ended:
        ended = False
        async with world.living() as life:
            await life.advance(5)
            while left and not ended:
                name, *given = left.popleft()
                if ended := name in ENDS:
                    end, harm = name, given[0]
                else:
                    await getattr(life, name)(*given)
            if ended and end == "kill":
                folder = world.new_life()
        if ended and end == "kill":
            for file, damage in harm.items():
                DAMAGES[damage](folder / file)


LOST = {STORE: "deleted", FILE_NAME: "zeros"}


@settings(max_examples=int(os.environ.get("GROWD_CEILING_EXAMPLES", "6")))
@given(st.lists(actions, max_size=12))
@example([*LOWERED, ("open", 600)])
@example([*LOWERED, ("kill", {STORE: "random"}), ("open", 600)])
@example([*LOWERED, ("kill", {f"{STORE}-wal": "deleted"}), ("open", 600)])
@example([*LOWERED, ("kill", LOST), ("reset",), ("advance", 3_600), ("open", 600)])
@pytest.mark.fuzz
def test_co2_never_exceeds_the_ceiling_by_more_than_a_dose(sequence):
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(happen(sequence, Path(folder)))
