"""Rules on a real bus, on a clock that the test moves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from growd.alerts.observations import SILENT_S, World
from growd.alerts.watch import GONE_S, PERIOD_S, QUIET_S, Watch
from growd.bus import Bus
from growd.bus.messages import DIAGNOSTIC_STATUS, STRING, Quality
from growd.config.alerts import AlertOptions as Rule
from growd.control.interlocks.node import INTERLOCK
from growd.control.topics import declare_environment
from growd.recipes.status import RECIPE_STATE
from support.clock import ManualClock
from support.running import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from growd.alerts.messages import Alert
    from growd.alerts.rules import AlertPhase

ENV = "environment_1"
TEMPERATURE = "air_temperature"
STORE = {"waiting": 0, "unsaved": 0, "dropped": 0, "rejected": 0, "saving": "", "shipping": ""}


@dataclass
class Scene:
    clock: ManualClock
    bus: Bus
    told: list[tuple[str, str]] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    store: dict[str, Any] = field(default_factory=lambda: dict(STORE))
    machine: dict[str, Any] = field(default_factory=dict)
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        declare_environment(self.bus, ENV, (TEMPERATURE,))
        self.node = self.bus.node("test")
        self.device = self.node.advertise(f"{ENV}/diagnostics/scd30_1", DIAGNOSTIC_STATUS)
        self.interlock = self.node.advertise(f"{ENV}/interlocks/ceiling", INTERLOCK)
        self.recipe = self.node.advertise(f"{ENV}/recipe_state", RECIPE_STATE)
        self.bus.node("store").describe("store", lambda: self.store)
        self.bus.node("machine").describe("machine", lambda: self.machine)

    def measure(self, value: float | None, quality: Quality = Quality.OK) -> None:
        self.node.publisher(f"{ENV}/measured/{TEMPERATURE}").publish(value, quality)

    def wish(self, value: float) -> None:
        self.node.publisher(f"{ENV}/desired/{TEMPERATURE}").publish(value)

    def fail(self, level: int, message: str) -> None:
        self.device.publish({"level": level, "name": "scd30_1", "message": message})

    def tell(self, phase: AlertPhase, alert: Alert) -> None:
        self.told.append((str(phase), alert.text))
        self.alerts.append(alert)

    async def look(self, looks: int = 1) -> list[tuple[str, str]]:
        """What was told since the last call, after some looks of the watch."""
        await self.clock.advance(looks * PERIOD_S)
        told, self.told = self.told, []
        return told


def rule(kind: str, **options: Any) -> Rule:
    return Rule(**({"name": "r", "kind": kind, "for_s": 0.0, "repeat_s": 0.0} | options))


def scene() -> Scene:
    clock = ManualClock()
    return Scene(clock, Bus(clock))


@asynccontextmanager
async def watching(
    *rules: Rule, on: Scene | None = None, opened: Iterable[Alert] = (), is_quiet: bool = True
) -> AsyncIterator[Scene]:
    it = scene() if on is None else on
    world = World(it.bus, {ENV: frozenset([TEMPERATURE])})
    node = it.bus.node(f"alerts_{it.clock.monotonic():g}")
    it.watch = Watch(it.bus, node, world, rules, environments=[ENV], opened=opened, tell=it.tell)
    async with running(it.clock, it.watch):
        if is_quiet:
            await it.clock.advance(QUIET_S)
        yield it
    node.close()


async def test_a_value_out_of_its_band_for_so_long_is_told_and_its_end_with_how_long_it_lasted():
    band = rule("out_of_band", variable=TEMPERATURE, below=18.0, above=30.0, hysteresis=1.0, for_s=10.0)
    async with watching(band) as it:
        it.measure(31.25)
        assert await it.look(4) == []
        assert await it.look(2) == [("start", "environment_1: air_temperature is 31.25 degC, above 30 degC")]
        it.measure(29.5)  # inside, and not by the hysteresis
        assert await it.look() == []
        it.measure(28.0)
        assert await it.look() == [("end", "environment_1: air_temperature is 31.25 degC, above 30 degC")]
        ended = it.alerts[-1]
        assert ended.now == "environment_1: air_temperature is 28.00 degC"
        assert ended.lasted_s == pytest.approx(14.0, abs=2 * PERIOD_S)
        assert ended.place.limit == 30.0
        it.measure(17.0)
        assert await it.look(7) == [("start", "environment_1: air_temperature is 17.00 degC, below 18 degC")]


async def test_nothing_begins_in_the_first_moments():
    async with watching(rule("no_value"), is_quiet=False) as it:
        await it.clock.advance(QUIET_S - 1)
        assert it.told == []
        await it.clock.advance(PERIOD_S)
        assert it.told == [
            ("start", "environment_1: air_temperature is not measured: no sample has ever come")
        ]


async def test_distance_counts_from_the_set_point_and_without_one_nothing_is_too_far():
    band = rule("out_of_band", variable=TEMPERATURE, deviation=2.0, hysteresis=0.5)
    async with watching(band) as it:
        it.measure(40.0)
        assert await it.look(5) == []
        it.wish(25.0)
        assert await it.look() == [
            ("start", "environment_1: air_temperature is 40.00 degC, above 27 degC (set point 25)")
        ]
        it.wish(41.0)
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_a_sensor_that_warms_up_tells_nothing_and_one_that_is_silent_does():
    async with watching(
        rule("no_value", for_s=20.0), rule("out_of_band", name="b", variable=TEMPERATURE, above=30.0)
    ) as it:
        it.measure(None, Quality.WARM_UP)
        assert await it.look(100) == []
        it.measure(None, Quality.STALE)
        assert await it.look(10) == []
        assert await it.look(2) == [
            ("start", "environment_1: air_temperature is not measured: nothing new has come")
        ]
        it.measure(None, Quality.WARM_UP)
        assert await it.look(3) == []
        it.measure(20.0)
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_a_device_that_failed_is_repeated_until_it_is_acknowledged():
    async with watching(rule("device_failed", for_s=10.0, repeat_s=60.0)) as it:
        it.fail(0, "ok")
        it.fail(2, "no answer at 0x61")
        assert await it.look(6) == [
            ("start", "environment_1: the device scd30_1 has failed: no answer at 0x61")
        ]
        it.fail(2, "wrong checksum")
        assert await it.look(31) == [
            ("repeat", "environment_1: the device scd30_1 has failed: wrong checksum")
        ]
        (alert,) = it.watch.open.values()
        alert.acknowledged_by = "Ada"
        assert await it.look(100) == []
        it.fail(0, "ok")
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_only_the_named_device_counts():
    async with watching(rule("device_failed", device="bh1750_1")) as it:
        it.fail(2, "no answer")
        assert await it.look(5) == []


async def test_an_interlock_that_trips_is_told_with_its_reason():
    async with watching(rule("interlock")) as it:
        state = {"tripped": True, "reason": "6000 ppm of CO2", "needs_reset": True, "since": 0.0}
        it.interlock.publish(state)
        text = (
            "environment_1: the interlock ceiling has tripped: 6000 ppm of CO2; "
            "it holds until someone resets it"
        )
        assert await it.look() == [("start", text)]
        it.interlock.publish({**state, "tripped": False, "reason": "", "needs_reset": False})
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_a_recipe_that_ends_is_told_once():
    async with watching(rule("recipe_ended")) as it:
        it.node.advertise(f"{ENV}/desired/recipe_end", STRING).publish("basil")
        assert await it.look(3) == [("notice", "environment_1: the recipe basil has ended")]
        assert not it.watch.open


async def test_a_recipe_that_does_not_go_on_is_told():
    async with watching(rule("recipe_stalled")) as it:
        it.recipe.publish({
            "state": "running", "recipe_id": "basil", "phase": "", "elapsed": 1.0, "remaining": 2.0,
        })  # fmt: skip
        assert await it.look(int(SILENT_S / PERIOD_S)) == []
        assert await it.look(2) == [("start", "environment_1: the recipe basil does not go on")]
        it.recipe.publish({"state": "idle", "recipe_id": "", "phase": "", "elapsed": 0.0, "remaining": 0.0})
        assert [phase for phase, _ in await it.look()] == ["end"]


@pytest.mark.parametrize(
    ("kind", "trouble", "words"),
    [
        ("outbox", {"waiting": 10_001}, "10001 points on the way to the database, more than 10000"),
        ("database", {"shipping": "no answer"}, "the database takes no points: no answer"),
        ("points_lost", {"rejected": 3}, "3 points refused by the database"),
        ("points_lost", {"saving": "the disk is full"}, "the disk takes no points: the disk is full"),
        ("points_lost", {"dropped": 1}, "1 point lost for want of room since growd started"),
    ],
)
async def test_what_the_store_suffers_is_told(kind: str, trouble: dict[str, Any], words: str):
    async with watching(rule(kind)) as it:
        assert await it.look() == []
        it.store.update(trouble)
        assert await it.look() == [("start", words)]
        it.store.update({name: value for name, value in STORE.items() if name != "dropped"})
        assert [phase for phase, _ in await it.look(3_700 // 2)] == ["end"]


async def test_a_problem_is_told_once_while_its_numbers_change():
    problems: list[dict[str, Any]] = [{"text": "a warning", "is_failure": False}]
    it = scene()
    it.bus.node("outbox").describe("problems", lambda: problems)
    async with watching(rule("problem"), on=it):
        assert await it.look() == []
        problems.append({"text": "1 message could not be recorded", "is_failure": True})
        assert await it.look() == [("start", "1 message could not be recorded")]
        problems[1] = {"text": "2 message could not be recorded", "is_failure": True}
        assert await it.look() == []
        problems.clear()
        assert [phase for phase, _ in await it.look()] == ["end"]


async def test_a_replication_that_fails_is_told():
    replications = [{"name": "points", "state": "running", "last_error": ""}]
    it = scene()
    it.bus.node("replication").describe("replications", lambda: replications)
    async with watching(rule("replication", for_s=10.0), on=it):
        replications[0] = {"name": "points", "state": "failing", "last_error": "401"}
        assert await it.look(6) == [("start", "the replication of points fails: 401")]


async def test_a_machine_without_room_or_too_warm_is_told():
    async with watching(rule("disk_full", name="d"), rule("too_hot", name="h")) as it:
        it.machine |= {
            "disk_free_bytes": 100_000_000, "temperatures_degc": {"cpu": 85.0}, "troubles": ["under-voltage"],
        }  # fmt: skip
        assert await it.look() == [
            ("start", "100 MB are free on the disk of the data folder, less than 500 MB"),
            ("start", "the machine has 85.0 degC, above 80 degC"),
            ("start", "the machine tells of under-voltage"),
        ]
        it.machine |= {"disk_free_bytes": 550_000_000, "temperatures_degc": {"cpu": 79.0}, "troubles": []}
        assert [text for _, text in await it.look()] == ["the machine tells of under-voltage"]
        it.machine |= {"disk_free_bytes": 650_000_000, "temperatures_degc": {"cpu": 60.0}}
        assert [phase for phase, _ in await it.look()] == ["end", "end"]


async def test_a_restart_repeats_no_begin_and_loses_no_end():
    failed = rule("device_failed", for_s=60.0, repeat_s=600.0)
    async with watching(failed) as it:
        it.fail(2, "no answer")
        assert [phase for phase, _ in await it.look(31)] == ["start"]
        opened = list(it.watch.open.values())
    async with watching(failed, on=it, opened=opened):
        assert await it.look(200) == []
        assert [phase for phase, _ in await it.look(100)] == ["repeat"]  # 600 s after it was told
        it.fail(0, "ok")
        assert [phase for phase, _ in await it.look()] == ["end"]
        assert it.alerts[-1].id == opened[0].id
        assert it.alerts[-1].lasted_s == pytest.approx(60 + QUIET_S + 602, abs=10)


async def test_what_no_rule_watches_any_more_and_what_is_gone_ends():
    async with watching(rule("device_failed", name="old"), rule("device_failed")) as it:
        it.fail(2, "no answer")
        assert len(await it.look()) == 2
        opened = list(it.watch.open.values())
    async with watching(rule("device_failed"), on=it, opened=opened):
        assert [phase for phase, _ in await it.look()] == ["end"]
        assert it.alerts[-1].now == "its rule is gone from the configuration"
    opened = [each for each in opened if each.rule == "r"]
    elsewhere = scene()  # a machine on which no such device is
    async with watching(rule("device_failed"), on=elsewhere, opened=opened):
        assert [phase for phase, _ in await elsewhere.look(int(GONE_S / PERIOD_S))] == ["end"]
        assert elsewhere.alerts[-1].now == "it is not there any more"


async def test_without_rules_there_is_no_task():
    it = scene()
    async with watching(on=it, is_quiet=False):
        assert not it.clock._sleepers
