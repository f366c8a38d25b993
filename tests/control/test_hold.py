"""A hold keeps every output of a simulated chamber at its safe state, whatever is wanted or has failed."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from growd.bus import Bus
from growd.bus.errors import NotKeptError
from growd.config import Config, Light, Output, Sensor
from growd.control.hold import OutputHold
from growd.control.output_control import Demand, OutputController
from growd.control.topics import declare_environment
from growd.host.hold import Hold, Holder, file_of, read_holds, release_hold, save_hold
from growd.runtime.event_loop import run_on_loop
from growd.status.status_node import StatusNode
from growd.status.summary import service_line
from growd_cli.status_table import report
from growd_hwsim.faults import Fault
from growd_simulation.simulated_clock import SimulatedLoop
from support.clock import ManualClock
from support.rig import rigged
from support.running import running
from support.scene import UNHINDERED
from support.status import told

AIR = Sensor(name="air", kind="scd30")
VALVE = Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on")
VENT = Output(name="vent", pin=20, variable="air_flush_on", safe="on")
LAMP_PINS = (12, 13, 18)
SAFE = {12: 0, 13: 0, 18: 0, 20: 1, 21: 0}
WANTED = {"air_carbon_dioxide_valve_on": 1.0, "air_flush_on": 0.0, "light_intensity_white": 1.0}
CONFIG = Config(sensor=(AIR,), output=(VALVE, VENT), light=Light(), interlock=UNHINDERED)
UPGRADE = Hold(Holder.UPGRADE, "trial of 9.9", "growd upgrade", 1_000.0)


class Stage:
    def __init__(self, rig):
        self.rig = rig
        self.bus, self.clock, self.hold = rig.bus, rig.clock, rig.hold
        self.client = rig.bus.node("client")

    def levels(self):
        pins = (*LAMP_PINS, VENT.pin, VALVE.pin)
        return {pin: self.rig.machine.pins.high(pin) for pin in pins}

    def is_safe(self):
        return all(level == SAFE[pin] for pin, level in self.levels().items())

    def want(self, folder="commanded"):
        for variable, value in WANTED.items():
            self.client.publish_arguments(f"environment_1/{folder}/{variable}", [value])

    async def call(self, service, *arguments, who="ann"):
        return await self.bus.services.get(f"hold/{service}").call([*arguments], who)

    async def until_it_does_what_is_wanted(self):
        for _ in range(30):
            self.want()
            await self.clock.advance(1.0)
            if self.levels()[21] == 1 and self.levels()[20] == 0 and self.levels()[12] == 1:
                return
        raise AssertionError(self.levels())

    def events_since(self, mark):
        return [*self.rig.machine.pins.history][mark:]

    def unsafe_writes(self, mark):
        return [event for event in self.events_since(mark) if event.high != SAFE[event.pin]]


@asynccontextmanager
async def stage(data, config=CONFIG):
    async with rigged(config, data=data) as rig:
        yield Stage(rig)


@asynccontextmanager
async def at_work(data):
    """A chamber that does what is wanted."""
    async with stage(data) as on:
        await on.hold.read()
        await on.until_it_does_what_is_wanted()
        yield on


async def test_nothing_moves_an_output_during_a_hold_and_its_release_alone_does_not(tmp_path):
    async with at_work(tmp_path) as on:
        answer = await on.call("set", "cleaning")
        assert (answer["success"], on.is_safe()) == (True, True)
        assert answer["message"].endswith("by ann: cleaning; release with `growd safe --release`")
        mark = len(on.rig.machine.pins.history)
        for folder in ("desired", "commanded", "desired", "commanded"):
            on.want(folder)
            await on.clock.advance(10.0)
        assert on.events_since(mark) == []
        await on.call("release")
        await on.clock.settle()
        assert on.is_safe()  # commands from before do not count
        await on.until_it_does_what_is_wanted()


@pytest.mark.parametrize(
    "part",
    ["interlocks.node.Interlocks._update", "controllers.Controller._act", "actuation.Actuator._is_moving"],
)
async def test_a_hold_does_not_need_the_parts_that_have_failed(part, tmp_path, monkeypatch):
    async with at_work(tmp_path) as on:
        await on.call("set", "")
        mark = len(on.rig.machine.pins.history)

        def fail(*_, **__):
            raise RuntimeError("broken on purpose")

        monkeypatch.setattr(f"growd.control.{part}", fail)
        for _ in range(30):
            on.want()
            await on.clock.advance(1.0)
        assert on.unsafe_writes(mark) == []
        assert on.is_safe()


async def test_outputs_are_safe_until_the_files_have_been_read(tmp_path):
    async with stage(tmp_path) as on:
        for _ in range(20):
            on.want()
            await on.clock.advance(1.0)
        assert on.unsafe_writes(0) == []
        await on.hold.read()
        await on.until_it_does_what_is_wanted()


@pytest.mark.parametrize("is_during", [False, True])
async def test_a_release_carries_out_no_command_by_hand(is_during, tmp_path):
    async with stage(tmp_path) as on:
        await on.hold.read()
        if is_during:
            await on.call("set", "new bottle")
        on.client.publish_arguments(f"environment_1/commanded/{VALVE.variable}", [1])
        await on.clock.advance(2.0)
        if not is_during:
            await on.call("set", "new bottle")
        await on.clock.advance(2.0)
        mark = len(on.rig.machine.pins.history)
        await on.call("release")
        await on.clock.advance(60.0)
        assert on.unsafe_writes(mark) == []


async def test_a_reason_that_is_given_later_keeps_the_time_of_the_hold(tmp_path):
    async with at_work(tmp_path) as on:
        status = StatusNode(on.bus, ["environment_1"])
        with on.bus.node("reader").subscribe("environment_1/events") as events:
            began = on.clock.time()
            first = await on.call("set", "")
            await on.clock.advance(30.0)
            assert await on.call("set", "") == first
            await on.call("set", "smell of smoke", who="bob")
            said = [event.value["message"] for event in iter(events.get_nowait, None)]
        (hold,) = status.snapshot().holds
        assert (hold.reason, hold.by) == ("smell of smoke", "bob")
        assert began <= hold.since < began + 10.0  # in the chamber's time, which a simulation makes run fast
        assert said[-1] == "all outputs are still held by bob: smell of smoke"


async def test_a_release_that_names_another_hold_is_refused(tmp_path):
    async with at_work(tmp_path) as on:
        status = StatusNode(on.bus, [])
        await on.call("set", "power work")
        mine = status.snapshot().holds[0].since
        await on.call("release")
        await on.clock.advance(30.0)
        await on.call("set", "man in chamber")
        answer = await on.call("release", mine)
        assert not answer["success"]
        now = status.snapshot().holds[0].since
        await on.call("set", "two men in chamber", who="bob")  # which keeps the time
        assert not (await on.call("release", now, "man in chamber"))["success"]
        await on.call("set", "man in chamber")
        assert answer["message"].startswith("this is another hold, it was not released: all outputs are safe")
        assert on.hold.reason
        assert (await on.call("release", now, "man in chamber"))["success"]


async def test_clients_are_answered_what_becomes_of_their_messages(tmp_path):
    async with at_work(tmp_path) as on:
        await on.call("set", "cleaning")
        wish = on.bus.topics.get(f"environment_1/desired/{VALVE.variable}")
        hint = await wish.answer(on.client.publish_arguments(wish.name, [1]), "ann")
        assert hint.startswith("has no effect yet: all outputs are safe since ")
        topic = on.bus.topics.get("environment_1/commanded/air_carbon_dioxide_valve_on")
        message = on.client.publish_arguments(topic.name, [1])
        hint = await topic.answer(message, "ann")
        assert hint.startswith("is dropped: all outputs are safe since ")
        await on.call("release")
        assert "dropped" not in await topic.answer(on.client.publish_arguments(topic.name, [1]), "ann")


async def test_the_status_shows_the_hold_first_and_events_have_author_and_reason(tmp_path):
    async with at_work(tmp_path) as on:
        status = StatusNode(on.bus, ["environment_1"])
        with on.bus.node("reader").subscribe("environment_1/events") as events:
            await on.call("set", "cleaning")
            on.want("desired")
            await on.clock.advance(1.0)
            found = status.snapshot()
            await on.call("release", who="bob")
            said = [each.value for each in iter(events.get_nowait, None) if each.value["kind"] == "hold"]
        (hold,) = found.holds
        assert (hold.holder, hold.by, hold.reason) == (Holder.PERSON, "ann", "cleaning")
        assert report(found).startswith(f"HELD: {hold}\n")
        assert report(found).count(str(hold)) == 2  # the first line and the last
        assert "held at 0% by the hold" in report(found)
        assert "All is well" not in report(replace(found, devices=[], interlocks=[], problems=[]))
        assert f"person: {hold}" in told(found, "warning")
        assert service_line(found).startswith(f"HELD: {hold}; ")
        assert told(found, "failure") == []
    assert [(event["source"], event["message"]) for event in said] == [
        ("hold", "all outputs are held by ann: cleaning"),
        ("hold", "the hold by ann: cleaning is released by bob"),
    ]


async def test_a_person_and_an_upgrade_do_not_release_each_other(tmp_path):
    async with at_work(tmp_path) as on:
        await on.call("set", "cleaning")
        await asyncio.to_thread(save_hold, tmp_path, UPGRADE)
        await on.hold.read()
        answer = await on.call("release")
        assert answer["message"].startswith("the hold is released; still held: all outputs are safe since ")
        assert answer["message"].endswith("trial of 9.9; the upgrade releases it by itself")
        assert on.is_safe()
        answer = await on.call("release")
        assert answer["message"].startswith("there was no hold to release; still held: ")
        await on.call("set", "again")
        assert await asyncio.to_thread(release_hold, tmp_path, Holder.UPGRADE)
        await on.hold.read()
        found = await asyncio.to_thread(read_holds, tmp_path)
        assert [hold.holder for hold in found] == [Holder.PERSON]
        assert on.hold.reason
        await on.call("release")
        await on.until_it_does_what_is_wanted()


async def test_a_hold_that_cannot_be_saved_holds_until_growd_ends_and_one_that_stays_for_good(tmp_path):
    async with at_work(tmp_path) as on:
        data = tmp_path / "hold.json.part"
        data.mkdir()  # in the way of the new file
        (data / "x").touch()
        with pytest.raises(NotKeptError, match="all outputs are safe, but the hold is not saved: "):
            await on.call("set", "cleaning")
        await on.hold.read()
        for _ in range(5):
            on.want()
            await on.clock.advance(1.0)
        assert on.is_safe()
        failures = told(StatusNode(on.bus, ["environment_1"]).snapshot(), "failure")
        assert any("the hold is not saved and ends with growd: " in failure for failure in failures)
        await on.call("release")
        await on.until_it_does_what_is_wanted()
        assert told(StatusNode(Bus(on.clock), []).snapshot(), "failure") == []
        file_of(tmp_path, Holder.PERSON).mkdir()  # which cannot be removed
        await on.hold.read()
        assert "hold.json cannot be read: Is a directory" in on.hold.reason
        with pytest.raises(NotKeptError, match="the hold was not released, because it cannot be removed: "):
            await on.call("release")
        await on.clock.advance(3.0)
        assert on.is_safe()


@pytest.mark.long
async def test_a_failed_output_is_named_in_the_answer(tmp_path):
    async with at_work(tmp_path) as on:
        on.rig.machine.faults.inject(Fault("refused", f"gpio-{VALVE.pin}"))
        valve = "environment_1/actuators/valve"
        answer = await on.call("set", "cleaning")
        words = f"the hold is set, but these outputs are not known to be safe: {valve}"
        assert answer == {"success": False, "message": words}
        node = StatusNode(on.bus, ["environment_1"])
        status = node.snapshot()
        assert status.unsafe == [valve]
        failure = f"unsafe: outputs are held and not known to be safe: {valve}"
        assert failure in told(status, "failure")
        held = "HELD: all outputs are held, but not all are known to be safe, since "
        assert report(status).startswith(held)
        assert "all outputs are safe" not in report(status) + service_line(status)
        on.rig.machine.faults.clear()
        await on.clock.until(lambda: not node.snapshot().unsafe, within=70)
        assert on.is_safe()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"reason": 3}', b"\xff", b'{"reason": "a", "by": "b", "since": "c"}']
)
def test_a_damaged_file_holds(content, tmp_path):
    file_of(tmp_path, Holder.PERSON).write_bytes(content)
    (hold,) = read_holds(tmp_path)
    assert hold.reason == "hold.json is damaged, so the reason is not known"
    assert hold.since > 0
    assert release_hold(tmp_path, Holder.PERSON)
    assert read_holds(tmp_path) == []


@pytest.mark.parametrize("since", [1e300, -1e300, 0.0])
def test_a_hold_is_one_line_also_of_an_impossible_time(since):
    line = str(Hold(Holder.PERSON, "x\nHELD: y\x1b[2J", "an\nn", since))
    assert line.endswith(r" by an\nn: x\nHELD: y\x1b[2J; release with `growd safe --release`")


async def test_the_pause_of_a_dose_is_kept_after_a_short_hold(tmp_path):
    clock = ManualClock()
    bus = Bus(clock)
    declare_environment(bus, "e", [])
    hold = OutputHold(bus, tmp_path, ["e"])
    controller = OutputController(
        bus, "e", VALVE.variable, [Demand("air_carbon_dioxide")], minimum_on_s=4.0, minimum_off_s=10.0
    )
    hold.watch(controller.end_dose)
    await hold.read()
    node = bus.node("controller")
    async with running(clock, controller):
        switched = {}

        async def step(seconds):
            for _ in range(int(seconds * 2)):
                node.publisher("e/commanded/air_carbon_dioxide").publish(1.0)
                await clock.advance(0.5)
                last = bus.topics.get(f"e/commanded/{VALVE.variable}").last
                switched[clock.monotonic()] = None if last is None else last.value

        await step(30)
        assert switched[clock.monotonic()] == 1
        await bus.services.get("hold/set").call(["x"], "ann")
        closed_at = clock.monotonic()
        await bus.services.get("hold/release").call([], "ann")
        await step(30)
        on_again = min(at for at, value in switched.items() if at > closed_at + 1 and value == 1)
        assert on_again - closed_at >= 10.0


STEPS = st.lists(st.sampled_from(["want", "set", "release", "upgrade", "upgraded", "pass"]), max_size=12)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_no_output_leaves_its_safe_state_in_any_order_of_holds(tmp_path_factory, steps):
    data = tmp_path_factory.mktemp("held")

    async def story():
        async with stage(data) as on:
            await on.hold.read()
            for step in steps:
                await take(step, on)

    async def take(step, on):
        was_held = bool(on.hold.reason)
        mark = len(on.rig.machine.pins.history)
        if step in {"set", "release"}:
            await on.call(step)
        elif step == "upgrade":
            await asyncio.to_thread(save_hold, data, UPGRADE)
            await on.hold.read()
        elif step == "upgraded":
            await asyncio.to_thread(release_hold, data, Holder.UPGRADE)
            await on.hold.read()
        is_held = bool(on.hold.reason)
        assert is_held == bool(await asyncio.to_thread(read_holds, data))
        if was_held and is_held:
            assert on.unsafe_writes(mark) == []
        mark = len(on.rig.machine.pins.history)
        for _ in range(3):
            on.want()
            await on.clock.advance(1.0)
        if is_held:
            assert on.unsafe_writes(mark) == []
            assert on.is_safe()

    run_on_loop(story(), SimulatedLoop)
