"""Thirty days of a chamber with all kinds of faults: each ends, and no false number is stored.

Three sensors, two of them of CO2, are read once a minute through real drivers, smbus2 and pyserial on
simulated chips. Time jumps. A schedule, the same in each run, has each kind of fault at each possible place,
several a day. `test_table.py` has more sensors and shorter times.

The schedule leaves out wrong values that cannot be detected: a drift of the only sensor of a variable or of
the first of two, and a frozen light sensor. The second of two sensors drifts only while the first one is ok.
It leaves out the faults of the chamber's parts too, such as a welded relay: `bench/run lettuce` has them.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import os
import random
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import pytest

from growd.bus.messages import Quality
from growd.config import Config, FilterOptions, Light, Output, Sensor
from growd.output_roles import Lease
from growd.store.local import LocalStore
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from growd_hwsim.errors import FaultError
from growd_hwsim.fault_kinds import IN_CHAMBER, KINDS, WITH_AMOUNT
from growd_hwsim.faults import Fault
from support.outbox import opened
from support.rig import rigged
from support.running import in_tasks
from support.scene import UNHINDERED, VALVE, VALVE_PIN

SEED = 4
DAYS = 30
FAULTS_A_DAY = 10
DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3_600.0, 60.0
TICK_S = 600.0  # between two checks of the outputs
QUIET_S = HOUR_S  # at the end of each day, without faults

STALE_S = 150.0  # after which a variable is unknown
CONFIG = Config(
    sensor=(
        Sensor(name="scd30_1", kind="scd30", interval_s=MINUTE_S),
        Sensor(name="mhz19_1", kind="mhz19", port="/dev/ttyUSB*", interval_s=MINUTE_S, stuck_after_s=HOUR_S),
        Sensor(name="tsl2591_1", kind="tsl2591", bus=2, interval_s=MINUTE_S),
    ),
    light=Light(stale_after_s=400.0),
    output=(
        Output(name="valve", pin=VALVE_PIN, variable="air_carbon_dioxide_valve_on", stale_after_s=400.0),
    ),
    interlock=UNHINDERED,
    filter=FilterOptions(weight=1.0, stale_after_s=STALE_S),  # the measured value is the last reading
)
PLACES = {
    "scd30": ("scd30_1",),
    "i2c-1:0x61": ("scd30_1",),
    "mhz19": ("mhz19_1",),
    "/dev/ttyUSB0": ("mhz19_1",),
    "tsl2591": ("tsl2591_1",),
    "i2c-2:0x29": ("tsl2591_1",),
    "i2c-1": ("scd30_1",),
    "i2c-2": ("tsl2591_1",),
    "gpio-12": ("light",),
    "gpio-13": ("light",),
    "gpio-18": ("light",),
    "gpio-21": ("valve",),
}
"""The places of faults, and the devices that a fault there affects."""

RECOVERY_S = {
    "scd30_1": 60 + 1 + 40,  # the longest delay of a retry, a second try, the next measurement and its look
    "mhz19_1": 60 + 1 + 180 + 70,  # the same, its warm-up, and one of the warm-up's constants after that
    "tsl2591_1": 60 + 5,  # the longest delay, and the time limits of transfers that fail meanwhile
    "light": 60 + 60 + 5,  # the longest delay, which here is PERIOD_S, and the tick that ends it
    "valve": 60 + 60 + 5,
}
"""A device is ok within this time after its last fault, in seconds."""

FIRST = {"mhz19_1": "scd30_1"}
"""The preferred sensor of the same variable."""
SECOND_LIES = ("frozen", "drift", "capped", "warm_up", "brown_out")
NOT_TOLD = {("scd30_1", "drift"), ("tsl2591_1", "drift"), ("tsl2591_1", "frozen")}
SPIKE_S = 55.0  # one spike is no reading; two in a row are what a door or a lamp does
AMOUNTS = {
    ("noise", "scd30_1"): 1_000.0,
    ("noise", "mhz19_1"): 1_000.0,
    ("noise", "tsl2591_1"): 20_000.0,
    ("drift", "mhz19_1"): 80.0,
    ("capped", "mhz19_1"): 2_000.0,
}

ACCURACY = {
    "air_carbon_dioxide": lambda ppm: 50 + 0.05 * ppm,  # MH-Z19; the SCD30 is within 30 ppm + 3 %
    "air_temperature": lambda degc: 0.4 + 0.023 * abs(degc - 25),  # SCD30
    "air_humidity": lambda _: 3.0,  # SCD30
    # the BH1750's; the TSL2591's datasheet has none. A spike in its finest range is no jump: 5 lx at most
    "light_illuminance": lambda lux: 5 + 0.2 * lux,
}
LOOK_S = 5.0
"""From a chip's measurement to its message, on a bus with timeouts of other chips.

Simulated chips have no other delay, so a point must fit the truth at its own time.
"""
LIT_LUX = 12_000.0


@dataclass(frozen=True)
class Planned:
    """A fault from `begin` to `end`, in seconds from the start."""

    fault: Fault
    begin: float
    end: float

    @property
    def devices(self):
        """The affected devices. A call that hangs affects all devices on its bus."""
        devices = PLACES[self.fault.device]
        return PLACES["i2c-1"] if self.fault.kind == "hang" and devices[0] in PLACES["i2c-1"] else devices

    def is_near(self, begin, end, margin=0.0):
        return self.begin < end + margin and begin < self.end + margin


def every_fault():
    """Each kind of fault at each place where it is possible and detected."""
    return [
        (kind, place)
        for kind in KINDS
        for place, devices in PLACES.items()
        if _is_possible(kind, place) and (devices[0], kind) not in NOT_TOLD
    ]


def _is_possible(kind, place):
    try:
        Fault(kind, place, amount=1.0 if kind in WITH_AMOUNT else None)
    except FaultError:
        return False
    return True


def schedule(dice):
    """Faults of thirty days, each kind at each place in turn, none twice at one place at a time."""
    planned = []
    waiting = []
    for day in range(DAYS):
        for _ in range(FAULTS_A_DAY):
            waiting = waiting or dice.sample(every_fault(), len(every_fault()))
            kind, place = waiting.pop()
            planned.append(_placed(kind, place, day, planned, dice))
    return sorted(planned, key=lambda one: one.begin)


def _placed(kind, place, day, planned, dice):
    """A fault at a time of that day at which it may be."""
    device = PLACES[place][0]
    fault = Fault(
        kind,
        place,
        probability=1.0 if kind in (*WITH_AMOUNT, *SECOND_LIES) else dice.choice((1.0, 1.0, 0.3)),
        seed=dice.randrange(1_000),
        amount=AMOUNTS[kind, device] if kind in WITH_AMOUNT else None,
    )
    while True:
        lasts = _duration(kind, dice)
        begin = day * DAY_S + dice.uniform(TICK_S, DAY_S - QUIET_S - lasts)
        one = Planned(fault, begin, begin + lasts)
        if not any(_excludes(one, other) or _excludes(other, one) for other in planned):
            return one


def _duration(kind, dice):
    if kind == "noise":
        return SPIKE_S
    if kind == "hang":  # looked at each 2 s
        return dice.uniform(2 * MINUTE_S, 10 * MINUTE_S)
    return MINUTE_S * 3.0 * 60.0 ** dice.random()  # 3 minutes to 3 hours


def _excludes(one, other):
    """Whether these two may not be at a time: they would end together, or nobody could tell who lies."""
    device = one.devices[0]
    if one.fault.device == other.fault.device:
        return one.is_near(other.begin, other.end, margin=1.0)
    is_lie = one.fault.kind == "noise" or (device in FIRST and one.fault.kind in SECOND_LIES)
    variable = {device, FIRST.get(device, device)}
    return is_lie and bool(variable & set(other.devices)) and one.is_near(other.begin, other.end, TICK_S)


class Truth:
    """The values that the chips measured, with their times."""

    def __init__(self, rig):
        self._clock = rig.clock
        self._kept = {variable: [] for variable in ACCURACY}
        room = rig.machine.chamber
        self._air, self.lux = room.air, room.illuminance_lux
        room.air, room.illuminance_lux = self._look_at_air, self._look_at_light

    def is_met(self, variable, value, time):
        """Whether a stored value is within the accuracy of the true value at its time."""
        kept = self._kept[variable]
        met = kept[bisect_left(kept, time - LOOK_S, key=_time) : bisect_right(kept, time, key=_time)]
        return any(abs(value - true) <= ACCURACY[variable](true) for _, true in met)

    def forget(self):
        for kept in self._kept.values():
            kept.clear()

    def _look_at_air(self):
        air = self._air()
        self._note("air_carbon_dioxide", air.carbon_dioxide_ppm)
        self._note("air_temperature", air.temperature_degc)
        self._note("air_humidity", air.humidity_percent)
        return air

    def _look_at_light(self):
        lux = self.lux()
        self._note("light_illuminance", lux)
        return lux

    def _note(self, variable, value):
        self._kept[variable].append((self._clock.time(), value))


_time = itemgetter(0)


class Diary:
    """The states of the devices, with their times."""

    def __init__(self, rig):
        self._clock = rig.clock
        self._node = rig.bus.node("diary")
        self._health = {f"environment_1/diagnostics/{device}": device for device in RECOVERY_S}
        self.levels = {
            device: [(self._clock.monotonic(), rig.last(f"diagnostics/{device}").value)]
            for device in RECOVERY_S
        }

    async def run(self):
        with self._node.subscribe(*self._health) as messages:
            async for message in messages:
                self.levels[self._health[message.topic]].append((self._clock.monotonic(), message.value))

    def forget(self):
        for kept in self.levels.values():
            del kept[:-1]


class Soak:
    """The chamber with its faults, the store, and the checks."""

    def __init__(self, rig, local, outbox, planned):
        self.rig = rig
        self._planned = planned
        self._today = []
        self.truth, self.diary = Truth(rig), Diary(rig)
        self.stored = Counter()
        self.start = rig.clock.monotonic()
        self._local, self._outbox = local, outbox
        self._operator = rig.bus.node("operator")
        self._lux, self._lux_since, self._is_valve_wanted = 0.0, 0.0, False

    def now(self):
        return self.rig.clock.monotonic() - self.start

    async def live(self, day):
        """One day with changing set points, faults, and checks of the outputs."""
        self._today = [one for one in self._planned if day * DAY_S <= one.begin < (day + 1) * DAY_S]
        for time, _, act in self._events(day):
            await self.rig.clock.advance(max(0.0, time - self.now()))
            act()
        await self.rig.clock.advance((day + 1) * DAY_S - self.now())

    def _events(self, day):
        begin, faults = day * DAY_S, self.rig.machine.faults
        events = [
            (begin, lambda: self._want_light(LIT_LUX)),
            (begin + DAY_S / 2, lambda: self._want_light(0.0)),
        ]
        for opens in range(300, int(DAY_S), int(6 * HOUR_S)):
            events.append((begin + opens, lambda: self._want_valve(is_open=True)))
            events.append((begin + opens + 2.5 * HOUR_S, lambda: self._want_valve(is_open=False)))
        events += [(begin + tick * TICK_S - 1.0, self._look) for tick in range(1, int(DAY_S / TICK_S) + 1)]
        for one in self._today:
            events.append((one.begin, lambda one=one: faults.inject(one.fault)))
            events.append((one.end, lambda one=one: faults.clear(one.fault.device)))
        return sorted((time, number, act) for number, (time, act) in enumerate(events))

    def _want(self, variable, value):
        self._operator.publisher(f"environment_1/desired/{variable}").publish(value)

    def _want_light(self, lux):
        self._lux, self._lux_since = lux, self.now()
        self._want("light_illuminance", lux)

    def _want_valve(self, *, is_open):
        self._is_valve_wanted = is_open
        self._want(VALVE, float(is_open))

    def _look(self):
        """Outputs without a fault follow their set points."""
        now = self.now()
        if not self.is_struck("light", now) and now - self._lux_since > RECOVERY_S["light"]:
            # without a sensor the light is 16 % off; after a fault of the lamp the trim needs time
            is_trimmed = not (self.is_struck("tsl2591_1", now, 600) or self.is_struck("light", now, 600))
            within = 0.02 if is_trimmed else 0.2
            assert self.truth.lux() == pytest.approx(self._lux, rel=within), self.story(now)
        if not self.is_struck("valve", now):
            is_known = self.rig.last("measured/air_carbon_dioxide").quality is Quality.OK
            is_open = self.rig.machine.pins.high(VALVE_PIN) > 0
            assert is_open == (self._is_valve_wanted and is_known), self.story(now)

    def is_struck(self, device, now, more_s=0.0):
        """Whether a device has a fault or is recovering from one."""
        after = RECOVERY_S[device] + more_s
        return any(device in one.devices and one.begin <= now <= one.end + after for one in self._today)

    def story(self, now):
        """The faults around a time, for the message of a failed assertion."""
        around = [one for one in self._today if one.is_near(now, now, 600)]
        return f"at {now:.0f} s: " + "; ".join(f"{one.fault} {one.begin:.0f}-{one.end:.0f}" for one in around)

    async def check_points(self):
        """Check that each stored point is true, and mark it as delivered."""
        await self._outbox.flush()
        batch = await self._outbox.next_batch(100_000)
        for document in (waiting.document for waiting in batch):
            variable, value, time = document["variable"], document["value"], document["timestamp"]
            if not document.get("is_desired", True):
                self.stored[variable] += 1
                since = time - self.rig.clock.time() + self.now()
                assert self.truth.is_met(variable, value, time), (document, self.story(since))
        await self._outbox.mark_delivered(batch)
        self.truth.forget()

    def check_recoveries(self, day):
        """Each device is ok outside its faults and the time to recover."""
        for device, levels in self.diary.levels.items():
            for begin, end in self._well(device, day):
                times = [time - self.start for time, _ in levels]
                during = levels[max(0, bisect_right(times, begin) - 1) : bisect_left(times, end)]
                states = {status["level"] for _, status in during}
                assert states == {0}, (device, during, self.story(during[-1][0] - self.start))
        self.diary.forget()

    def _well(self, device, day):
        """The times of a day in which a device must be ok."""
        time = max(RECOVERY_S[device], day * DAY_S)
        for one in self._today:
            if device in one.devices:
                if one.begin > time:
                    yield time, one.begin
                time = max(time, one.end + RECOVERY_S[device])
        yield time, (day + 1) * DAY_S


@asynccontextmanager
async def soaking(folder):
    async with rigged(CONFIG) as rig:
        await rig.clock.settle()  # ignore the first readings
        room = rig.machine.chamber
        room.parameters = dataclasses.replace(room.parameters, valve_flow_l_min=0.001, daylight_lux=0.0)
        local = await LocalStore.open(folder / "growd.sqlite3")
        async with opened(local, rig.clock, commit_interval=HOUR_S) as outbox:
            recorder = Recorder(rig.bus, outbox, PointMaker(local.device), ["environment_1"])
            soak = Soak(rig, local, outbox, schedule(random.Random(SEED)))
            async with in_tasks(recorder, outbox, soak.diary):
                yield soak
        await local.close()


def memory_mb():
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.fixture(autouse=True)
def quiet_loop():
    """Without the check for leftover tasks."""


@pytest.fixture
def by_the_minute(tick_rarely):
    """No loop runs more often than sensors are read."""
    tick_rarely(
        {
            "growd.control.sampling.SLICE_S": 600.0,
            "growd.control.filters.SLICE_S": 600.0,
            "growd.control.sampling.NOT_READY_RETRY_S": 10.0,
            "growd.control.controllers.PERIOD_S": 300.0,
            "growd.control.actuation.PERIOD_S": MINUTE_S,
            "growd.output_roles.HARMFUL": Lease(4 * MINUTE_S, MINUTE_S),
            "growd.control.interlocks.node.PERIOD_S": MINUTE_S,
            "growd.control.interlocks.node.PATIENCE_S": 2 * MINUTE_S,
            "growd.control.health.COUNTERS_S": 600.0,
            "growd_hwsim.chamber.STEP_S": MINUTE_S,
        }
    )
    gc.freeze()  # leave out the objects of other tests
    yield
    gc.unfreeze()


def test_the_schedule_has_each_kind_of_fault_at_each_place():
    planned = schedule(random.Random(SEED))
    assert {(one.fault.kind, one.fault.device) for one in planned} == set(every_fault())
    assert {kind for kind, _ in every_fault()} == set(KINDS) - IN_CHAMBER - {"partial"}  # of MQTT
    assert len(planned) == DAYS * FAULTS_A_DAY


@pytest.mark.timeout(900)
@pytest.mark.soak
@pytest.mark.parametrize("days", [1, pytest.param(DAYS, marks=pytest.mark.nightly)])
async def test_days_of_faults_leave_no_outage_and_no_false_point(tmp_path, by_the_minute, caplog, days):
    caplog.set_level(logging.ERROR)
    holdings = []
    async with soaking(tmp_path) as soak:
        for day in range(days):
            await soak.live(day)
            await soak.check_points()
            soak.check_recoveries(day)
            holdings.append((threading.active_count(), memory_mb()))
    threads, memory = zip(*holdings, strict=True)
    assert len(set(threads)) == 1, threads
    assert max(memory) < memory[0] + 10, memory
    assert set(soak.stored) == set(ACCURACY)
    assert min(soak.stored.values()) > 0.9 * days * DAY_S / 600  # a point each 10 minutes at least
