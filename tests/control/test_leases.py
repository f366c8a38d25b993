"""Levels that end by themselves: leases of outputs, and doses of a known length."""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf

import pytest

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.control.actuation import GivenDose, OutputActuator
from growd.control.dose_accounts import DoseAccounts
from growd.control.interlocks.on_times import OnTimes, RollingDose
from growd.control.output_control import SAME_END_S, Demand, OutputController
from growd.control.topics import declare_environment
from growd.output_roles import HARMFUL, Lease
from growd.runtime.worker import Worker
from growd_drivers.pin_output import PinOutput
from growd_hwsim.gpio import SimulatedPins
from support.bus_rig import BusRig
from support.clock import ManualClock
from support.running import running

ACID, PIN = "nutrient_ph_down", 17


class Rig(BusRig):
    """A pump on a simulated pin, its actuator, and what others learn of its doses."""

    def __init__(self, **options):
        super().__init__()
        self.worker = Worker("output", monotonic=self.clock.monotonic)
        self.clock.watch(self.worker)
        self.pins = SimulatedPins(self.clock.monotonic)
        self.output = PinOutput(self.pins, PIN, name="acid")
        self.doses = []
        self.counted = []
        self.actuator = OutputActuator(
            self.bus,
            "e",
            "acid",
            ACID,
            write=self.output.write,
            worker=self.worker,
            dosed=self.doses.append,
            counted=lambda _output, level, _lasted_s, on_s: self.counted.append((level, on_s)),
            **options,
        )
        self.commands = self.bus.node("controller").publisher(f"e/commanded/{ACID}")

    @property
    def is_on(self):
        return self.pins.high(PIN) > 0

    def on_times(self):
        """How long the pin was high, each time."""
        self.pins.advance(self.clock.monotonic())
        edges = [(each.time, each.high) for each in self.pins.history]
        return [round(after[0] - before[0], 6) for before, after in pairwise(edges) if before[1] > after[1]]


@pytest.fixture
async def rig():
    rig = Rig()
    async with running(rig.clock, rig.actuator):
        yield rig
    await rig.worker.close()


async def test_a_level_is_renewed_as_long_as_it_is_commanded(rig):
    for _ in range(10):
        rig.commands.publish(1.0)
        await rig.clock.advance(1)
        assert rig.is_on
    rig.commands.publish(0.0)
    await rig.clock.settle()
    assert not rig.is_on
    assert rig.on_times() == [10.0]


async def test_a_level_ends_by_itself_while_nobody_renews_it_and_only_what_was_given_counts(rig):
    rig.commands.publish(1.0)
    await rig.clock.settle()
    assert rig.is_on
    rig.clock.stall(30.0)  # the loop is blocked: nothing runs
    assert not rig.is_on
    assert rig.on_times() == [HARMFUL.valid_s]
    rig.commands.publish(1.0)
    await rig.clock.advance(1)
    rig.commands.publish(0.0)
    await rig.clock.advance(0)
    assert sum(on_s for _, on_s in rig.counted if on_s is not None) < HARMFUL.valid_s + 1.5


async def test_a_dose_has_its_length_whatever_happens_to_the_loop(rig):
    rig.commands.publish(1.0, valid_s=2.33)
    await rig.clock.settle()
    rig.clock.stall(30.0)
    await rig.clock.advance(0)
    assert not rig.is_on
    assert rig.on_times() == [2.33]
    await rig.clock.advance(1)
    assert [(each.length_s, each.given_s) for each in rig.doses] == [
        (pytest.approx(2.33), pytest.approx(2.33))
    ]


async def test_a_dose_that_is_repeated_by_its_controller_is_given_once(rig):
    for left_s in (3.5, 2.5, 1.5, 0.5):
        rig.commands.publish(1.0, valid_s=left_s)
        await rig.clock.advance(1)
    assert rig.on_times() == [3.5]
    assert len(rig.doses) == 1


async def test_the_end_that_comes_with_the_last_command_does_not_shorten_a_dose(rig):
    rig.commands.publish(1.0, valid_s=2.0)
    await rig.clock.settle()
    await rig.clock.advance(1.9)
    rig.commands.publish(0.0)
    await rig.clock.advance(1)
    assert rig.on_times() == [2.0]


@pytest.mark.parametrize("command", [0.0, None])
async def test_a_dose_that_is_ended_early_counts_what_was_given(rig, command):
    rig.commands.publish(1.0, valid_s=10.0)
    await rig.clock.settle()
    await rig.clock.advance(3)
    rig.commands.publish(command, Quality.OK if command is not None else Quality.STALE)
    await rig.clock.settle()
    assert not rig.is_on
    (dose,) = rig.doses
    assert (dose.length_s, dose.given_s) == (pytest.approx(10.0), pytest.approx(3.0))


async def test_a_command_that_waited_until_its_dose_was_over_gives_none(rig):
    rig.bus.topics.get(f"e/commanded/{ACID}").deliver(
        1.0, rig.clock.time() - 5.0, Quality.OK, "controller", valid_s=2.0
    )
    await rig.clock.advance(1)
    assert not rig.is_on
    assert rig.on_times() == []


async def test_a_dose_is_renewed_where_the_timer_of_its_device_is_shorter():
    rig = Rig(lease=Lease(12.0, 3.0, renews_safe=True))
    given = []
    write = rig.actuator._write
    rig.actuator._write = lambda output, level, valid_s: write(output, level, given_by(given, valid_s))
    async with running(rig.clock, rig.actuator):
        for left_s in range(30, 0, -1):
            rig.commands.publish(1.0, valid_s=float(left_s))
            await rig.clock.advance(1)
        await rig.clock.advance(1)
    await rig.worker.close()
    assert rig.on_times() == [pytest.approx(30.0, abs=0.1)]


def given_by(given, valid_s):
    """What a device with a timer of 12 s makes of it."""
    given.append(valid_s)
    return min(12.0, valid_s)


async def test_a_command_that_comes_during_a_write_is_written_next(rig):
    rig.commands.publish(1.0, valid_s=1.0)
    await asyncio.sleep(0)
    rig.commands.publish(1.0, valid_s=4.0)
    await rig.clock.settle()
    for left_s in (3.0, 2.0, 1.0):
        await rig.clock.advance(1)
        rig.commands.publish(1.0, valid_s=left_s)
    await rig.clock.advance(2)
    assert sum(rig.on_times()) == pytest.approx(4.0, abs=0.1)


@asynccontextmanager
async def demanding(minimum_on_s):
    """A pump with its controller, and the demand of a loop for it."""
    rig = Rig()
    loop = rig.bus.node("loop").publisher("e/commanded/water_potential_hydrogen")
    demand = Demand("water_potential_hydrogen", raises=False)
    controller = OutputController(rig.bus, "e", ACID, [demand], minimum_on_s=minimum_on_s, minimum_off_s=0.5)
    async with running(rig.clock, controller, rig.actuator):
        yield rig, loop
    await rig.worker.close()


@pytest.mark.parametrize(("waited_s", "length_s"), [(0.0, 3.0), (0.2, 3.0), (1.0, 2.25)])
async def test_a_dose_keeps_its_length_although_its_message_has_waited_for_a_moment(waited_s, length_s):
    async with demanding(0.1) as (rig, loop):
        loop.publish(-1.0, time=rig.clock.time() - waited_s, valid_s=3.0)
        await rig.clock.settle()
        last = rig.bus.topics.get(f"e/commanded/{ACID}").last
        assert (last.value, last.valid_s) == (1.0, pytest.approx(length_s))


async def test_a_dose_ends_once_although_the_messages_of_its_loop_wait_for_different_times():
    async with demanding(0.1) as (rig, loop):
        loop.publish(-1.0, time=rig.clock.time() - SAME_END_S, valid_s=3.0)
        await rig.clock.settle()
        await rig.clock.advance(1.0)
        loop.publish(-1.0, valid_s=2.0 - SAME_END_S)
        await rig.clock.settle()
        assert rig.bus.topics.get(f"e/commanded/{ACID}").last.valid_s == pytest.approx(2.0)


async def test_a_demand_for_a_dose_becomes_a_command_of_its_length():
    async with demanding(0.5) as (rig, loop):
        loop.publish(-1.0, valid_s=2.33)
        await rig.clock.advance(1)
        loop.publish(-1.0, valid_s=1.33)
        await rig.clock.advance(2)
        loop.publish(0.0)
        await rig.clock.advance(5)
        loop.publish(-1.0, valid_s=0.2)  # shorter than the pump may be on
        await rig.clock.advance(3)
    assert rig.on_times() == [2.33, 0.5]


class TestAccounts:
    @pytest.fixture
    def accounts(self):
        bus = Bus(ManualClock())
        declare_environment(bus, "e", [])
        return bus, DoseAccounts(bus, "e")

    @pytest.mark.parametrize(
        ("length_s", "given_s", "is_failure"),
        [(2.33, 2.34, False), (2.33, 10.0, True), (20.0, 20.6, True), (0.5, 0.55, False), (3.0, 1.0, False)],
    )
    def test_a_dose_that_was_too_long_is_a_failure(self, accounts, length_s, given_s, is_failure):
        bus, doses = accounts
        gave = doses.account_of("acid", "pump for acid", lambda: 30.0)
        with bus.node("reader").subscribe("e/events") as events:
            gave(GivenDose(1.0, length_s, given_s))
            assert (events.get_nowait() is not None) is is_failure
        problems = doses.node.detail("problems")
        assert [each.get("is_failure", False) for each in problems] == [True] * is_failure
        if is_failure:
            assert f"{given_s * 0.5:.2f} ml" in problems[0]["text"]

    def test_it_ends_with_the_next_dose_that_is_right(self, accounts):
        _, doses = accounts
        gave = doses.account_of("acid", "pump for acid", lambda: None)
        gave(GivenDose(1.0, 1.0, 9.0))
        gave(GivenDose(1.0, 1.0, 1.0))
        assert doses.node.detail("problems") == []


def test_a_total_follows_the_real_time_once_it_is_known():
    times = OnTimes()
    times.wrote("acid", 0.0, 0.0)
    times.wrote("acid", 1.0, 1.0)
    assert times.total(31.0) == 30.0
    times.wrote("acid", 0.0, 31.0, was_on_s=2.33)
    assert times.total(40.0) == pytest.approx(2.33)


def test_a_time_that_a_measuring_device_lost_is_counted_as_a_guess():
    times = OnTimes()
    times.wrote("acid", 0.0, 0.0)
    times.wrote("acid", 1.0, 1.0, was_on_s=0.0)
    assert times.guesses == 0
    times.wrote("acid", 0.0, 9.0)
    assert (times.guesses, times.total(9.0)) == (1, 8.0)


def test_what_was_counted_too_much_is_taken_back():
    given = RollingDose()
    given.add(10.0, 100.0)
    given.add(20.0, 190.0)
    given.add(-25.0, 200.0)
    assert given.amount(200.0) == pytest.approx(5.0)
    assert given.amount(inf) == 0.0
