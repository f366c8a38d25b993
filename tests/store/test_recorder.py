"""The recorder: which messages become points, and with which fields."""

import asyncio
import errno
import os
import shutil

import pytest

from growd import config
from growd.bus import Bus
from growd.bus.errors import InvalidValueError, NotKeptError
from growd.bus.messages import BOOL, FLOAT64, STRING, VECTOR3, Quality
from growd.control.controllers import DirectController
from growd.control.topics import EVENT
from growd.store.point_log import PointLog
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from growd.store.storage_rule import ChangeRule
from growd.variables import VARIABLES
from support.clock import ManualClock
from support.outbox import opened_at
from support.running import in_tasks, running

TOPICS = {
    "environment_1/measured/air_carbon_dioxide": FLOAT64,
    "environment_1/measured/door_open": BOOL,
    "environment_1/measured/wind": VECTOR3,
    "environment_1/raw/air_carbon_dioxide": FLOAT64,
    "environment_1/commanded/air_temperature": FLOAT64,
    "environment_1/commanded/air_carbon_dioxide": FLOAT64,
    "environment_1/desired/air_temperature": FLOAT64,
    "environment_1/desired/recipe_start": STRING,
    "environment_1/desired/recipe_end": STRING,
    "environment_2/measured/air_carbon_dioxide": FLOAT64,
    "somewhere_else/measured/air_carbon_dioxide": FLOAT64,
    "environment_1/events": EVENT,
}
PH = "environment_1/measured/water_potential_hydrogen"
NOTES = "environment_1/notes"
OPEN = {PH: FLOAT64, NOTES: STRING}


NOW = 1_700_000_000.0


class Rig:
    def __init__(self, outbox, clock):
        self.clock = clock
        self.bus = Bus(self.clock)
        self.outbox = outbox
        for name, kind in TOPICS.items():
            self.bus.topics.declare(name, kind)
        for name, kind in OPEN.items():
            self.bus.topics.declare(name, kind, is_open=True)
        self.driver = self.bus.node("driver")
        self.client = self.bus.node("http")
        environments = ["environment_1", "environment_2"]
        self.recorder = Recorder(self.bus, self.outbox, PointMaker("0123456789ab"), environments)

    async def publish(self, topic, value, quality=Quality.OK, node=None):
        (node or self.driver).publisher(topic).publish(value, quality)
        await self.clock.settle()

    async def post(self, topic, value, time=0.0):
        """Publish as a client; the hint in the answer."""
        message = self.client.publish_arguments(topic, [value], time)
        return await self.bus.topics.get(topic).answer(message, "anna")

    async def stored(self):
        """The points that were added, without their ids."""
        await self.outbox.flush()
        batch = await self.outbox.next_batch(1000)
        await self.outbox.mark_delivered(batch)
        documents = [waiting.document for waiting in batch]
        for document in documents:
            del document["_id"]
        return documents

    async def values(self):
        return [document["value"] for document in await self.stored()]


@pytest.fixture
async def rig(tmp_path):
    clock = ManualClock(time=NOW)
    async with opened_at(tmp_path / "growd.sqlite3", clock) as outbox:
        rig = Rig(outbox, clock)
        async with running(clock, rig.recorder):
            yield rig


CO2 = "environment_1/measured/air_carbon_dioxide"
WANTED = "environment_1/desired/air_temperature"
COMMANDED = "environment_1/commanded/air_temperature"
EVENTS = "environment_1/events"


def told(points):
    return [(point.get("category", ""), point["variable"], point["value"]) for point in points]


async def test_a_measured_value_becomes_a_point(rig):
    await rig.publish(CO2, 412.4)
    assert await rig.stored() == [
        {
            "environment": "environment_1",
            "variable": "air_carbon_dioxide",
            "is_desired": False,
            "is_manual": False,
            "value": 412.0,  # ppm have no decimals worth storing
            "timestamp": 1_700_000_000.0,
        }
    ]


async def test_the_rule_compares_rounded_values(rig):
    for value in (400.4, 404.6):  # as stored 400 and 405: more than 1 % apart
        await rig.publish(CO2, value)
        await rig.clock.advance(6)
    await rig.publish("environment_2/measured/air_carbon_dioxide", 400.4)
    await rig.clock.advance(6)
    await rig.publish("environment_2/measured/air_carbon_dioxide", 404.49)  # 1.02 % more, but 404 is 1 %
    assert await rig.values() == [400.0, 405.0, 400.0]


async def test_each_topic_has_its_own_storage_rule(rig):
    for step in range(21):
        await rig.publish(CO2, 400.0)
        await rig.publish("environment_2/measured/air_carbon_dioxide", 500.0 + 100 * step)
        await rig.clock.advance(1)
    points = await rig.stored()
    assert [p["value"] for p in points if p["environment"] == "environment_1"] == [400.0]
    times = [p["timestamp"] - NOW for p in points if p["environment"] == "environment_2"]
    assert times == [0, 5, 10, 15, 20]


@pytest.mark.parametrize("quality", [Quality.WARM_UP, Quality.STALE, Quality.FAULT])
async def test_a_value_that_is_not_ok_is_never_stored(rig, quality):
    await rig.publish(CO2, 400.0, quality)
    await rig.publish(CO2, None, quality)
    await rig.publish(WANTED, 20.0, quality)
    assert told(await rig.stored()) == [
        ("quality", "air_carbon_dioxide", str(quality)),
        ("", "air_temperature", None),
    ]


async def test_a_change_of_quality_and_the_first_good_value_after_it_are_stored(rig):
    qualities = [Quality.OK, Quality.STALE, Quality.STALE, Quality.FAULT, Quality.OK, Quality.OK]
    for quality in qualities:
        await rig.publish(CO2, 400.0 if quality is Quality.OK else None, quality)
    co2 = "air_carbon_dioxide"
    assert told(await rig.stored()) == [
        ("", co2, 400.0),
        ("quality", co2, "stale"),
        ("quality", co2, "fault"),
        ("quality", co2, "ok"),
        ("", co2, 400.0),  # the same value, in the same second
    ]


async def test_a_command_is_stored_as_it_changes_and_its_end_as_null(rig):
    for share, dose in zip((0.5, 0.5, 0.505, 0.7), (0.03, 0.12, 0.0, 0.14), strict=True):
        await rig.publish(COMMANDED, share)  # a hundredth is worth storing, five seconds later
        await rig.publish("environment_1/commanded/air_carbon_dioxide", dose)  # a tenth: it swings
        await rig.clock.advance(6)
    await rig.publish(COMMANDED, None, Quality.STALE)
    await rig.publish(COMMANDED, None, Quality.STALE)
    await rig.publish(COMMANDED, 0.7, node=rig.client)
    points = await rig.stored()
    doses = [point["value"] for point in points if point["variable"] == "air_carbon_dioxide"]
    shares = [point for point in points if point["variable"] == "air_temperature"]
    assert doses == [0.03, 0.14]
    assert [point["value"] for point in shares] == [0.5, 0.7, None, 0.7]
    assert {point["category"] for point in points} == {"commanded"}
    assert [point["is_manual"] for point in shares] == [False, False, False, True]


async def test_an_override_that_the_controller_repeats_is_marked_manual(rig):
    async with in_tasks(DirectController(rig.bus, "environment_1", "air_temperature")):
        await rig.bus.parameters.set("environment_1/controllers/air_temperature/override", 20.0)
        await rig.publish(WANTED, 0.5)
        await rig.clock.advance(10)
        await rig.publish(COMMANDED, 1.0, node=rig.client)
        await rig.publish(COMMANDED, 0.0, node=rig.client)  # too soon, until the controller repeats it
        await rig.clock.advance(30)
    commands = [point for point in await rig.stored() if point.get("category") == "commanded"]
    told = [(point["value"], point["is_manual"]) for point in commands]
    assert told == [(0.5, False), (1.0, True), (0.0, True), (0.5, False)]


async def test_the_entries_of_clients_have_their_author_and_a_time_in_the_past(rig):
    await rig.post(NOTES, "watered")
    await rig.post(PH, 6.2)
    await rig.post(PH, 5.9, NOW - 3_600)
    await rig.publish(CO2, 400.0)
    note, *values = await rig.stored()
    assert (note["category"], note["variable"], note["is_manual"]) == ("event", "note", True)
    assert [(point["value"], point["timestamp"], point.get("by")) for point in (note, *values)] == [
        ("watered", NOW, "anna"),
        (6.2, NOW, "anna"),
        (5.9, NOW - 3_600, "anna"),
        (400.0, NOW, None),
    ]
    assert rig.bus.topics.get(PH).last.value == 6.2  # a later measurement stays the newest


async def test_no_entry_has_a_time_to_come_and_nothing_else_has_a_time(rig, said):
    rig.bus.topics.declare("lab/door", FLOAT64, is_open=True)
    for topic, value, time in ((NOTES, "watered", NOW + 11), ("lab/door", 1, NOW - 1)):
        with said.raises(InvalidValueError):
            rig.client.publish_arguments(topic, [value], time)
    assert await rig.stored() == []


async def test_each_entry_of_a_client_is_durable_when_it_is_answered(rig, tmp_path):
    values = (6.1, 6.1, 6.1001)  # in one second, and nearer than the dead band
    assert [await rig.post(PH, value) for value in values] == ["", "", ""]
    assert await rig.post(NOTES, "watered") == ""
    kill = tmp_path / "as a kill leaves it"
    kill.mkdir()
    for file in ("growd.sqlite3", "growd.sqlite3-wal", "points.log"):
        shutil.copy(tmp_path / file, kill)
    async with opened_at(kill / "growd.sqlite3", rig.clock) as outbox:
        assert [point.point.value for point in await outbox.next_batch(10)] == [6.1, 6.1, 6.1, "watered"]
    assert await rig.values() == [6.1, 6.1, 6.1, "watered"]  # once each


@pytest.fixture
def writes(monkeypatch):
    """How many points each write of the log had; it fails while its first member is -1."""
    sizes = []
    append = PointLog.append

    def counted(log, texts, *others):
        if sizes == [-1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sizes.append(len(texts))
        return append(log, texts, *others)

    monkeypatch.setattr(PointLog, "append", counted)
    return sizes


async def test_simultaneous_entries_of_clients_share_a_write(rig, writes):
    await asyncio.gather(*(rig.post(NOTES, str(number)) for number in range(50)))
    assert sum(writes) == 50
    assert len(writes) <= 2


async def test_a_client_gets_an_error_if_the_disk_refuses_its_entry(rig, writes, said):
    writes.append(-1)
    with said.raises(NotKeptError):
        await rig.post(NOTES, "watered")
    writes.clear()
    assert await rig.values() == ["watered"]


async def test_a_client_gets_an_error_while_growd_stops(rig, tmp_path, said):
    (tmp_path / "other").mkdir()
    async with opened_at(tmp_path / "other" / "growd.sqlite3", rig.clock) as outbox:
        ended = Rig(outbox, rig.clock)
        with said.raises(NotKeptError):
            await ended.post(NOTES, "watered")
        async with in_tasks(ended.recorder):
            await rig.clock.settle()
            assert await ended.post(NOTES, "watered") == ""
        with said.raises(NotKeptError):
            await ended.post(NOTES, "watered")


async def test_an_invalid_message_is_counted_and_does_not_end_the_recorder(rig):
    await rig.publish(EVENTS, {"kind": "", "source": "a", "message": "b", "code": "", "fields": {}})
    await rig.publish(CO2, 412.0)
    assert await rig.values() == [412]
    assert [each.name for each in rig.bus.liveness.components()] == ["recorder"]
    assert rig.recorder.lost == 1
    (problem,) = rig.recorder.node.details()["problems"]
    assert (problem["code"], problem["fields"]) == ("not_recorded", {"messages": 1})
    assert problem["is_failure"]


async def test_each_event_is_a_point_of_its_kind(rig):
    event = {"kind": "fault", "source": "scd30_1", "message": "no answer", "code": "device_missing"}
    for _ in range(2):
        await rig.publish(EVENTS, event | {"fields": {"device": "scd30_1"}})
    assert told(await rig.stored()) == [("event", "fault", "scd30_1: no answer")] * 2


async def test_configured_bands_do_not_apply_to_commands(rig):
    in_degc = config.StorageRuleOptions(absolute_band=100, minimum_interval_s=0)
    rig.recorder.reconfigure(config.Store(variable={"air_temperature": in_degc}))
    for share in (0.0, 0.4, 0.2):
        await rig.publish(COMMANDED, share)
    assert await rig.values() == [0.0, 0.4, 0.2]


async def test_rules_can_change_while_it_records(rig):
    rig.recorder.reconfigure(config.Store(minimum_interval_s=0.0))
    await rig.publish(CO2, 400.0)
    await rig.publish(CO2, 500.0)
    rig.recorder.reconfigure(config.Store(minimum_interval_s=60.0))
    await rig.publish(CO2, 600.0)  # the first of a rule
    await rig.publish(CO2, 700.0)
    assert await rig.values() == [400, 500, 600]


async def test_without_room_only_values_and_commands_are_not_stored(rig):
    rig.recorder.reconfigure(config.Store(), stores_values=False)
    await rig.publish(CO2, 400.0)
    await rig.publish(COMMANDED, 0.5)
    await rig.publish(WANTED, 20.0)
    assert [(point.get("is_desired"), point["value"]) for point in await rig.stored()] == [(True, 20.0)]
    rig.recorder.reconfigure(config.Store())
    await rig.publish(CO2, 401.0)
    assert [point["value"] for point in await rig.stored()] == [401.0]


async def test_desired_values_of_one_moment_keep_their_order(rig):
    for value in (20.0, None, 21.0, 22.0):
        await rig.publish(WANTED, value, Quality.FAULT if value is None else Quality.OK)
    points = sorted(await rig.stored(), key=lambda point: point["timestamp"])
    assert [point["value"] for point in points] == [20.0, None, 21.0, 22.0]
    assert points[-1]["timestamp"] - points[0]["timestamp"] < 1e-3


async def test_a_desired_value_is_stored_when_it_changes_and_after_its_release(rig):
    for value in (20.0, 20.0, 0.0, 0.0, None, None, 0.0, 20.123456):
        await rig.publish(WANTED, value, Quality.OK if value is not None else Quality.STALE)
    points = await rig.stored()
    assert [point["value"] for point in points] == [20.0, 0.0, None, 0.0, 20.123456]
    assert all(point["is_desired"] and not point["is_manual"] for point in points)


async def test_each_change_is_stored_but_of_a_ramp_of_a_recipe_only_some(rig):
    for value in (20.0, 20.01, 20.02):
        await rig.publish(WANTED, value, node=rig.client)
    runner = rig.bus.node("environment_1/recipe_runner")
    for value in (20.03, 20.04, 25.0, 25.01, 25.02, 25.02):
        await rig.publish(WANTED, value, node=runner)
    assert [point["value"] for point in await rig.stored()] == [20.0, 20.01, 20.02, 25.0, 25.02]


async def test_measurements_and_set_points_of_clients_are_marked_manual(rig):
    await rig.publish(CO2, 400.0, node=rig.client)
    await rig.publish(WANTED, 20.0, node=rig.client)
    marks = [(point["is_desired"], point["is_manual"]) for point in await rig.stored()]
    assert marks == [(False, True), (True, True)]


async def test_a_set_point_that_is_published_again_after_a_restart_is_the_same_point(rig):
    since = rig.clock.time()
    await rig.publish(WANTED, 20.0, node=rig.client)
    await rig.outbox.flush()
    rig.clock.step(60.0)
    rig.recorder._desired[WANTED] = ChangeRule(VARIABLES["air_temperature"])  # as after a restart
    rig.bus.node("environment_1/set_points").publisher(WANTED).publish(20.0, time=since)
    await rig.publish(WANTED, 21.0, node=rig.client)
    await rig.publish(WANTED, 20.0, node=rig.client)
    await rig.outbox.flush()
    batch = [waiting.document for waiting in await rig.outbox.next_batch(10)]
    found = [(one["value"], round(one["timestamp"] - since, 3)) for one in batch]
    assert found == [(20.0, 0), (21.0, 60), (20.0, 60)]
    assert len({one["_id"] for one in batch}) == 3


async def test_only_single_values_of_its_environments_are_stored(rig):
    await rig.publish("environment_1/measured/door_open", True)
    await rig.publish("environment_1/measured/wind", {"x": 1.0, "y": 2.0, "z": 3.0})
    await rig.publish("environment_1/raw/air_carbon_dioxide", 400.0)
    await rig.publish("environment_1/desired/recipe_start", "lettuce")  # the runner's own
    await rig.publish("somewhere_else/measured/air_carbon_dioxide", 400.0)
    assert [(point["variable"], point["value"]) for point in await rig.stored()] == [("door_open", True)]
    subscribed = rig.bus.find_node("recorder").information()["subs"]
    assert {CO2, WANTED} <= {*subscribed}
    assert "environment_1/raw/air_carbon_dioxide" not in subscribed
