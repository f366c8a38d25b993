"""Rules on statuses made by the test, on a clock moved by the test."""

from __future__ import annotations

import dataclasses
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from growd.bus import Bus
from growd.bus.messages import STRING, Quality
from growd.config.alerts import AlertOptions as Rule
from growd.control.topics import declare_environment
from growd.host.machine import MachineStatus
from growd.recipes.status import RECIPE_STATE
from growd.runtime.text import duration
from growd.status.model import (
    AttainmentStatus,
    CalibrationDue,
    DeviceStatus,
    InterlockStatus,
    Problem,
    Reading,
    RecipeStatus,
    SensorsApart,
    Status,
    VariableStatus,
)
from growd.status.status_node import StatusNode
from growd.store.replication_status import ReplicationState, ReplicationStatus
from growd.store.retention.budget import RetentionStatus
from growd_alerts.observations import LOSS_S, SILENT_S, observe
from growd_alerts.rules import Level
from growd_alerts.watch import GONE_S, MACHINE_S, PERIOD_S, QUIET_S, Watch
from support.clock import ManualClock
from support.running import running
from support.status import EMPTY, NEVER, STORE

if TYPE_CHECKING:
    from growd_alerts.messages import Alert

ENV = "environment_1"
TEMPERATURE = "air_temperature"
CALCULATED = "air_growing_degree_days"
MACHINE = MachineStatus("0.1.0", "3.11.2", 60.0, clock_synchronised=True)
INTERLOCK = InterlockStatus(f"{ENV}/interlocks/ceiling", False, "", False, 0.0)
RUNNING = RecipeStatus(ENV, "running", "basil", "", 1.0, 2.0, updates=1)
VARIABLE = VariableStatus(ENV, TEMPERATURE, "degC", None, None, None, 0.0, is_sensed=True)
UNMEASURED = replace(EMPTY, variables=[VARIABLE])


@dataclass
class Scene:
    """A source of the status that `now` changes, and what the watch reports of it."""

    clock: ManualClock = field(default_factory=ManualClock)
    status: Status = UNMEASURED
    news: list[tuple[str, str]] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    machine_reads: int = 0
    watch: Watch = field(init=False)
    real_s: float = 0.0

    def snapshot(self):
        return self.status

    async def look_up_machine(self):
        self.machine_reads += 1

    def now(self, **changes):
        self.status = replace(self.status, **changes)

    def measure(self, value, quality=Quality.OK):
        (variable,) = self.status.variables
        self.now(variables=[replace(variable, measured=Reading(value, quality, 0.0, "sensor"))])

    def set_point(self, value):
        (variable,) = self.status.variables
        self.now(variables=[replace(variable, desired=Reading(value, Quality.OK, 0.0, "hand"))])

    def device(self, state, message=""):
        self.now(devices=[DeviceStatus(f"{ENV}/scd30_1", state, 0.0, message, NEVER)])

    def report(self, phase, alert):
        self.news.append((str(phase), alert.text))
        self.alerts.append(alert)

    async def look(self, looks=1):
        """What was reported since the last call, after some looks of the watch."""
        await self.clock.advance(looks * PERIOD_S)
        news, self.news = self.news, []
        return news


def rule(kind, **options):
    return Rule(**({"name": "r", "kind": kind, "for_s": 0.0, "repeat_s": 0.0} | options))


@asynccontextmanager
async def watching(*rules, on=None, opened=(), is_quiet=True):
    it = Scene() if on is None else on
    real = (lambda: it.real_s) if it.real_s else None
    it.watch = Watch(it.clock, it, rules, opened=opened, report=it.report, real=real)
    async with running(it.clock, it.watch):
        if is_quiet:
            await it.clock.advance(QUIET_S)
        yield it


async def test_a_value_out_of_its_band_is_reported_after_for_s_and_its_end_with_the_duration():
    band = rule("out_of_band", variable=TEMPERATURE, below=18.0, above=30.0, for_s=10.0)
    async with watching(band) as it:
        it.measure(31.25)
        assert await it.look(4) == []
        assert await it.look(2) == [("start", "Air temperature is 31.25 °C, above 30.00 °C")]
        it.measure(29.6)  # inside, and not by the hysteresis
        assert await it.look() == []
        it.measure(28.0)
        assert await it.look() == [("end", "Air temperature is 31.25 °C, above 30.00 °C")]
        ended = it.alerts[-1]
        assert ended.now == "Air temperature is 28.00 °C"
        assert ended.lasted_s == pytest.approx(14.0, abs=2 * PERIOD_S)
        assert ended.place.limit == 30.0
        it.measure(17.0)
        assert await it.look(7) == [("start", "Air temperature is 17 °C, below 18 °C")]
        it.measure(20.0)
        await it.look()
        it.measure(30.004)  # the sentence tells it from its limit
        assert await it.look(7) == [("start", "Air temperature is 30.004 °C, above 30.000 °C")]


async def test_no_alert_starts_in_the_first_30_s():
    async with watching(rule("no_value"), is_quiet=False) as it:
        await it.clock.advance(QUIET_S - 1)
        assert it.news == []
        await it.clock.advance(PERIOD_S)
        assert it.news == [("start", "Air temperature is not measured: no sample has arrived")]


async def test_a_deviation_counts_from_the_set_point_if_there_is_one():
    band = rule("out_of_band", variable=TEMPERATURE, deviation=2.0)
    async with watching(band) as it:
        it.measure(40.0)
        assert await it.look(5) == []
        it.set_point(25.0)
        assert await it.look() == [("start", "Air temperature is 40 °C, above 27 °C (set point 25)")]
        it.set_point(41.0)
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_a_silent_sensor_is_reported_and_one_that_warms_up_is_not():
    async with watching(
        rule("no_value", for_s=20.0), rule("out_of_band", name="b", variable=TEMPERATURE, above=30.0)
    ) as it:
        it.measure(None, Quality.WARM_UP)
        assert await it.look(100) == []
        it.measure(None, Quality.STALE)
        assert await it.look(10) == []
        assert await it.look(2) == [("start", "Air temperature is not measured: no new sample arrives")]
        it.measure(None, Quality.WARM_UP)
        assert await it.look(3) == []
        it.measure(20.0)
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_a_device_that_failed_is_repeated_until_it_is_acknowledged():
    async with watching(rule("device_failed", for_s=10.0, repeat_s=60.0)) as it:
        it.device("ok")
        assert await it.look() == []
        it.device("failed", "no answer at 0x61")
        assert await it.look(6) == [("start", "the device scd30_1 has failed: no answer at 0x61")]
        it.device("failed", "wrong checksum")
        assert await it.look(31) == [("repeat", "the device scd30_1 has failed: wrong checksum")]
        (alert,) = it.watch.open.values()
        alert.acknowledged_by = "Ada"
        assert await it.look(100) == []
        it.device("ok")
        assert [phase for phase, _ in await it.look()] == ["end"]
        assert it.alerts[-1].now == "the device scd30_1 is ok"


def test_the_options_of_a_rule_choose_what_it_watches():
    lamps, values = [f"{ENV}/diagnostics/lamp", "shelf/diagnostics/lamp"], [f"{ENV}/{TEMPERATURE}"]
    status = replace(
        EMPTY,
        devices=[DeviceStatus(f"{name}/lamp", "failed", 0.0, "no", NEVER) for name in (ENV, "shelf")],
        interlocks=[INTERLOCK],
        variables=[
            VARIABLE,
            replace(VARIABLE, environment="shelf", variable="air_humidity"),
            replace(VARIABLE, variable="light_illuminance", is_sensed=False),
            replace(VARIABLE, variable=CALCULATED),  # none before the first recipe
        ],
        attainment=[AttainmentStatus(ENV, TEMPERATURE, "missed", "too cold", 18.0, 22.0)],
        recipes=[RUNNING],
    )
    for found, kind, options in (
        (lamps, "device_failed", {}),
        ([], "device_failed", {"device": "other"}),
        (lamps[:1], "device_failed", {"environment": ENV}),
        ([INTERLOCK.name], "interlock", {}),
        ([INTERLOCK.name], "interlock", {"device": "ceiling"}),
        ([], "interlock", {"device": "other"}),
        ([*values, "shelf/air_humidity"], "no_value", {}),
        (values, "no_value", {"variable": TEMPERATURE}),
        ([ENV], "out_of_band", {"variable": TEMPERATURE, "above": 30.0}),
        ([], "set_point_missed", {"environment": "shelf"}),
        (values, "set_point_missed", {"variable": TEMPERATURE}),
        ([], "recipe_stalled", {"environment": "shelf"}),
        ([ENV], "recipe_stalled", {}),
        ([], "recipe_ended", {}),
    ):
        observed = observe(rule(kind, **options), status, {})
        assert sorted(each.subject for each in observed) == found, (kind, options)


TRIPPED = replace(INTERLOCK, tripped=True, reason="6000 ppm of CO2")
UNKNOWN = replace(TRIPPED, name=f"{ENV}/interlocks/air_temperature_unknown")


@pytest.mark.parametrize(
    ("options", "change", "is_raised"),
    [
        ({}, {"interlocks": [TRIPPED]}, True),
        # a condition of the chamber, and what a failed sensor trips, only if a rule names it
        ({}, {"interlocks": [replace(TRIPPED, is_expected=True)]}, False),
        ({"device": "ceiling"}, {"interlocks": [replace(TRIPPED, is_expected=True)]}, True),
        ({}, {"interlocks": [UNKNOWN]}, False),
        ({"device": "air_temperature_unknown"}, {"interlocks": [UNKNOWN]}, True),
        ({}, {"interlocks": [replace(UNKNOWN, name=f"{ENV}/interlocks/condition_of_an_unknown")]}, True),
        # at the start
        ({}, {"interlocks": [replace(TRIPPED, is_quiet=True)]}, False),
        ({"kind": "no_value"}, {"variables": [replace(VARIABLE, variable=CALCULATED)]}, False),
        (
            {"kind": "no_value", "variable": CALCULATED},
            {"variables": [replace(VARIABLE, variable=CALCULATED)]},
            True,
        ),
    ],
)
def test_what_is_no_alert_unless_a_rule_names_it(options, change, *, is_raised):
    found = observe(rule(**{"kind": "interlock"} | options), replace(EMPTY, **change), {})
    assert any(each.level is Level.RAISED for each in found) is is_raised


async def test_an_open_alert_of_an_interlock_has_the_present_reason_and_what_it_holds():
    held = replace(TRIPPED, name=f"{ENV}/interlocks/condition_door", holds=["heater", "valve"])
    async with watching(rule("interlock")) as it:
        it.now(interlocks=[replace(held, reason="door_open is on", needs_reset=True)])
        words = "the interlock condition_door has tripped: Door is on"
        (started,) = await it.look()
        assert started == ("start", f"{words}; it holds until it is reset; it holds heater and valve")
        it.now(interlocks=[replace(held, reason="9000 ppm of CO2")])
        assert await it.look() == []
        (alert,) = it.watch.open.values()
        assert "9000 ppm of CO2" in alert.text
        it.now(interlocks=[replace(held, tripped=False)])
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_an_alert_of_an_interlock_that_the_start_trips_again_goes_on_until_its_release():
    async with watching(rule("interlock")) as before:
        before.now(interlocks=[TRIPPED])
        await before.look()
    opened = [*before.watch.open.values()]
    async with watching(rule("interlock"), on=Scene(before.clock), opened=opened) as it:
        it.now(interlocks=[replace(TRIPPED, reason="it has not been measured yet", is_quiet=True)])
        assert await it.look(int(1.5 * GONE_S / PERIOD_S)) == []
        it.now(interlocks=[replace(INTERLOCK, is_quiet=True)])
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_an_output_that_is_not_confirmed_has_an_alert_of_its_own():
    name = f"{ENV}/interlocks/heater_not_confirmed"
    words = "the output heater is not confirmed: heater is written off"
    async with watching(rule("interlock", name="i"), rule("not_confirmed", device="heater")) as it:
        it.now(interlocks=[replace(TRIPPED, name=name, reason="heater is written off")])
        assert await it.look() == [("start", words)]
        assert it.alerts[0].rule == "r"
        it.now(interlocks=[replace(INTERLOCK, name=name)])
        assert await it.look() == [("end", words)]


@pytest.mark.parametrize(("options", "repeats"), [({"repeat_s": 86_400.0}, 2), ({}, 0)])
async def test_a_failure_that_growd_cannot_end_is_repeated_each_half_hour(options, repeats):
    stuck = replace(INTERLOCK, tripped=True, reason="the valve may be stuck open", is_failure=True)
    async with watching(rule("interlock", **options)) as it:
        it.now(interlocks=[stuck])
        assert [phase for phase, _ in await it.look()] == ["start"]
        news = [await it.look(450) for _ in range(5)]
        assert [phase for each in news for phase, _ in each] == ["repeat"] * repeats
    async with watching(rule("interlock", **options)) as it:
        it.now(interlocks=[replace(stuck, needs_reset=True)])  # growd holds the output until then
        await it.look()
        assert [await it.look(450) for _ in range(5)] == [[]] * 5


async def test_sensors_that_drift_apart_are_reported_and_unknown_ends_nothing():
    apart = SensorsApart(ENV, TEMPERATURE, True, True, "a reads 1.5 degC more than b")
    async with watching(rule("sensors_apart")) as it:
        it.now(sensors_apart=[apart])
        assert await it.look() == [("start", "a reads 1.5 °C more than b")]
        it.now(sensors_apart=[replace(apart, is_known=False)])
        assert await it.look() == []
        it.now(sensors_apart=[replace(apart, is_apart=False)])
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_a_recipe_without_progress_is_reported():
    async with watching(rule("recipe_stalled")) as it:
        it.now(recipes=[RUNNING])
        assert await it.look(int(SILENT_S / PERIOD_S)) == []
        assert await it.look(2) == [("start", "the recipe basil makes no progress")]
        it.now(recipes=[replace(RUNNING, updates=2)])
        assert [phase for phase, _ in await it.look()] == ["end"]
        it.now(recipes=[replace(RUNNING, state="paused", updates=3)])
        assert await it.look() == [("start", "the recipe basil is paused")]
        it.now(recipes=[replace(RUNNING, state="idle", updates=4)])
        assert [phase for phase, _ in await it.look(100)] == ["end"]


REPLICATION = ReplicationStatus(
    "points", "here", "far", ReplicationState.RUNNING, 1.0, 7, "401", 0.0, 2, 1, 3
)
DUE = CalibrationDue(ENV, "scd30_1", True, "scd30_1 was calibrated 400 days ago")
LOST = "1 point lost for lack of room since growd started"


@pytest.mark.parametrize(
    ("options", "member", "well", "troubled", "words"),
    [
        ({"kind": kind}, "store", STORE, replace(STORE, **trouble), words)
        for kind, trouble, words in (
            ("outbox", {"waiting": 10_001}, "10001 points waiting for the database, more than 10000"),
            ("database", {"shipping": "no answer"}, "the database does not take points: no answer"),
            ("points_lost", {"rejected": 3}, "3 points refused by the database"),
            ("points_lost", {"saving": "full"}, "points can't be saved to disk: full"),
            ("points_lost", {"dropped": 1}, LOST),
            ("points_lost", {"dropped": 1, "lost_ago_s": 9.0}, LOST),
        )
    ]
    + [
        (
            {"kind": "calibration_due", "device": "scd30_1"},
            "calibrations_due",
            [replace(DUE, is_due=False), replace(DUE, device="other")],
            [DUE],
            DUE.text,
        ),
        (
            {"kind": "replication"},
            "replications",
            [REPLICATION],
            [dataclasses.replace(REPLICATION, state=ReplicationState.FAILING)],
            "the replication of points fails: 401",
        ),
    ],
)
async def test_trouble_is_reported_until_it_is_over(options, member, well, troubled, words):
    async with watching(rule(**options)) as it:
        it.now(**{member: well})
        assert await it.look() == []
        it.now(**{member: troubled})
        assert await it.look() == [("start", words)]
        it.now(**{member: well})
        assert [phase for phase, _ in await it.look()] == ["end"]


def test_a_loss_of_points_is_reported_for_an_hour():
    def level(ago):
        store = replace(STORE, dropped=1, lost_ago_s=ago)
        (lost, *_) = observe(rule("points_lost"), replace(EMPTY, store=store), {})
        return lost.level

    assert [level(LOSS_S - 1), level(LOSS_S)] == [Level.RAISED, Level.CLEAR]


async def test_a_problem_is_reported_once_for_each_chamber_whatever_its_value_and_however_long_it_lasts():
    async with watching(rule("problem")) as it:
        it.now(problems=[Problem("a warning")])
        assert await it.look() == []
        for value, seconds in (("4", 59), ("4.1", 61), ("-4", 3_600), ("4", 86_400), ("4", 90_000)):
            missed = f"pH is {value} pH: adjust it by hand; for {duration(seconds)}"
            found = [Problem(f"environment_{each}: {missed}", is_failure=True) for each in (1, 2)]
            it.now(problems=found)
            await it.look()
        assert len(it.alerts) == 2
        assert it.alerts[1].text.startswith("environment_2: ")
        it.now(problems=[])
        assert [phase for phase, _ in await it.look()] == ["end", "end"]
        assert f"solved: environment_2: {missed}" in [alert.now for alert in it.alerts]


async def test_a_full_disk_and_a_hot_machine_are_reported():
    async with watching(rule("disk_full", name="d"), rule("too_hot", name="h")) as it:
        full = {"disk_free_bytes": 100_000_000, "temperatures_degc": {"cpu": 85.0, "disk": 40.0}}
        it.now(machine=replace(MACHINE, **full, troubles=["under-voltage"]))
        assert await it.look() == [
            ("start", "100 MB are free on the disk of the data folder, less than the 500 MB of the rule"),
            ("start", "the machine is at 85 °C, above 80 °C"),
            ("start", "the machine reports under-voltage"),
        ]
        better = {"disk_free_bytes": 550_000_000, "temperatures_degc": {"cpu": 79.0}}
        it.now(machine=replace(MACHINE, **better, troubles=[]))
        assert [text for _, text in await it.look()] == ["the machine reports under-voltage"]
        well = {"disk_free_bytes": 650_000_000, "temperatures_degc": {"cpu": 60.0}}
        it.now(machine=replace(MACHINE, **well, troubles=[]))
        assert [phase for phase, _ in await it.look()] == ["end", "end"]


async def test_short_room_for_the_database_raises_an_alert():
    text, worst = (f"room for the database is short: {words}" for words in ("compacting", "storing nothing"))
    numbers = {"used": 1, "needed": 2, "limit": 3.0, "begins_at": 0.0, "retired": 0, "keep_days": 90.0}
    well = RetentionStatus(shortage="none", text="", waits_for="", **numbers)
    full = replace(well, shortage="storing_nothing", text=worst)
    async with watching(rule("database_room"), replace(rule("problem"), name="p")) as it:
        it.now(retention=well)
        assert await it.look() == []
        it.now(retention=replace(well, shortage="compacting", text=text))
        assert await it.look() == [("start", text)]
        it.now(retention=full, problems=[Problem(f"{worst}; free some room", is_failure=True)])
        assert await it.look() == [("start", worst)]
        it.now(retention=well, problems=[])
        assert [phase for phase, _ in await it.look()] == ["end", "end"]


@pytest.mark.parametrize(
    ("kind", "trouble"), [("outbox", {"waiting": 10_001}), ("database", {"shipping": "no answer"})]
)
async def test_an_outage_of_the_database_is_judged_in_real_time(kind, trouble):
    async with watching(rule(kind, for_s=60.0), on=Scene(real_s=5_000.0)) as it:
        it.now(store=replace(STORE, **trouble))
        assert await it.look(int(3_600 / PERIOD_S)) == []  # an hour of the chamber, in no time
        it.real_s += 61
        assert [phase for phase, _ in await it.look()] == ["start"]


@pytest.mark.parametrize(("kind", "reads"), [("disk_full", 3), ("too_hot", 3), ("interlock", 0)])
async def test_the_machine_is_read_once_a_minute_for_a_rule_that_needs_it(kind, reads):
    async with watching(rule(kind)) as it:
        await it.look(int(2.5 * MACHINE_S / PERIOD_S))
        assert it.machine_reads == reads


async def test_a_restart_repeats_no_start_and_loses_no_end():
    failed = rule("device_failed", for_s=60.0, repeat_s=600.0)
    async with watching(failed) as it:
        it.device("failed", "no answer")
        assert [phase for phase, _ in await it.look(31)] == ["start"]
        opened = list(it.watch.open.values())
    async with watching(failed, on=it, opened=opened):
        assert await it.look(200) == []
        assert [phase for phase, _ in await it.look(100)] == ["repeat"]  # 600 s after the last report
        it.device("ok")
        assert [phase for phase, _ in await it.look()] == ["end"]
        assert it.alerts[-1].id == opened[0].id
        assert it.alerts[-1].lasted_s == pytest.approx(60 + QUIET_S + 602, abs=10)


async def test_alerts_end_when_their_rule_or_their_subject_is_gone():
    async with watching(rule("device_failed", name="old"), rule("device_failed")) as it:
        it.device("failed", "no answer")
        assert len(await it.look()) == 2
        opened = list(it.watch.open.values())
    async with watching(rule("device_failed"), on=it, opened=opened):
        assert [phase for phase, _ in await it.look()] == ["end"]
        assert it.alerts[-1].now == "its rule is gone from the configuration"
    opened = [each for each in opened if each.rule == "r"]
    async with watching(rule("device_failed"), on=Scene(it.clock), opened=opened) as elsewhere:
        assert [phase for phase, _ in await elsewhere.look(int(GONE_S / PERIOD_S))] == ["end"]
        assert elsewhere.alerts[-1].now == "it is no longer there"


# --- On a real bus


@asynccontextmanager
async def on_a_bus(*rules):
    it = Scene()
    bus = Bus(it.clock)
    declare_environment(bus, ENV, (TEMPERATURE,))
    it.watch = Watch(it.clock, StatusNode(bus, [ENV]), rules, opened=(), report=it.report)
    async with running(it.clock, it.watch):
        yield bus, it


async def test_each_recipe_end_between_two_looks_is_reported_once():
    async with on_a_bus(rule("recipe_ended")) as (bus, it):
        ends = bus.node("runner").advertise(f"{ENV}/desired/recipe_end", STRING)
        ends.publish("mint")  # before the first look
        await it.clock.advance(QUIET_S)
        assert it.news == [("notice", "the recipe mint has ended")]
        it.news.clear()
        ends.publish("basil")
        ends.publish("basil")
        assert await it.look(3) == [("notice", "the recipe basil has ended")] * 2
        assert not it.watch.open


async def test_a_status_of_the_bus_has_what_rules_need():
    rules = [rule("no_value", name="v"), rule("recipe_stalled", name="s"), rule("problem", name="p")]
    async with on_a_bus(*rules) as (bus, it):
        node = bus.node("test")
        state = {"state": "running", "recipe_id": "basil", "phase": "", "elapsed": 1.0, "remaining": 2.0}
        state["starts_at"] = 0.0
        recipe = node.advertise(f"{ENV}/recipe_state", RECIPE_STATE)
        node.describe("problems", lambda: [{"text": "the lamp is loose", "is_failure": True}])
        await it.clock.advance(QUIET_S)
        assert {text for _, text in it.news} == {
            "Air temperature is not measured: no sample has arrived",
            "the lamp is loose",
        }
        it.news.clear()
        recipe.publish(state)
        node.publisher(f"{ENV}/measured/{TEMPERATURE}").publish(21.0)
        assert [phase for phase, _ in await it.look()] == ["end"]
        recipe.publish(state)
        assert await it.look(int(SILENT_S / PERIOD_S)) == []
        assert await it.look(2) == [("start", "the recipe basil makes no progress")]


async def test_what_follows_from_a_cause_is_listed_with_it_and_has_no_alert():
    rules = (
        rule("device_failed", name="devices", for_s=4.0, severity="critical"),
        rule("no_value", name="values", channels=("mail",)),
        rule("set_point_missed", name="missed"),
    )
    reason = {"code": "variable_unknown", "fields": {"variable": TEMPERATURE}, "text": "no reading"}
    missed = AttainmentStatus(ENV, TEMPERATURE, "missed", "not reached", None, 25.0, reason=reason)
    scene = Scene()
    scene.measure(20.0)
    async with watching(*rules, on=scene) as it:
        it.measure(None, Quality.FAULT)
        sensor = DeviceStatus(f"{ENV}/scd30_1", "failed", 0.0, "no answer", NEVER, [TEMPERATURE])
        it.now(devices=[sensor], attainment=[missed])
        assert [phase for phase, _ in await it.look(3)] == ["start"]
        (alert,) = it.alerts
        assert (alert.rule, len(alert.effects)) == ("devices", 2)
        assert alert.remedy
        it.now(devices=[replace(sensor, state="ok")])  # its effects stay: now they are news
        await it.look()
        assert sorted(alert.rule for alert in it.alerts[1:]) == ["devices", "missed", "values"]


async def test_an_effect_is_told_to_those_who_do_not_hear_of_the_cause():
    devices = rule("device_failed", name="devices", channels=("mail",))
    async with watching(devices, rule("no_value", name="values", channels=("phone",))) as it:
        it.measure(None, Quality.FAULT)
        it.now(devices=[DeviceStatus(f"{ENV}/scd30_1", "failed", 0.0, "no answer", NEVER, [TEMPERATURE])])
        await it.look()
        assert {alert.rule for alert in it.alerts} == {"devices", "values"}
