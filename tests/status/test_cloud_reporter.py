"""Reports of a device to its cloud: their content, when they are sent, and what answers mean."""

import base64
import json
import logging
import time
from contextlib import ExitStack, asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from growd.bus import Bus
from growd.control.health import Health
from growd.control.topics import declare_environment
from growd.status.model import CloudStatus, DeviceStatus, Problem, Reading, RecipeStatus, VariableStatus
from growd.status.status_node import StatusNode
from growd.store.replication_status import ReplicationStatus
from growd_cli.status_table import report
from growd_cloud.access import CloudAccess
from growd_cloud.device_report import MOST_BYTES, report_of
from growd_cloud.reporter import CloudReporter
from support.clock import ManualClock
from support.http_server import serving_http
from support.running import running
from support.status import EMPTY, NEVER, STORE

ENV = "environment_1"
TAKEN = (200, {"ok": True})
AWAY = (503, {"error": "unavailable", "reason": "no node"})
WRONG = (401, {"error": "unauthorized", "reason": "Name or password is incorrect."})
OF_COUCHDB = [
    (404, {"error": "not_found", "reason": "missing"}),
    (401, {"error": "unauthorized", "reason": "You are not a server admin."}),
    (400, {"error": "illegal_database_name", "reason": "Name: '_device'."}),
]


class Cloud:
    """Takes reports on a real socket, and answers with `answer`."""

    def __init__(self, clock):
        self._clock = clock
        self._began = clock.monotonic()
        self.answer = TAKEN
        self.url = ""
        self.got = []
        self.at = []  # seconds since the start
        self.login = ""

    async def take(self, request):
        assert (request.method, request.path) == ("PUT", "/_device")
        self.login = request.headers["Authorization"]
        self.got.append(json.loads(await request.read()))
        self.at.append(self._clock.monotonic() - self._began)
        status, body = self.answer
        return web.json_response(body, status=status)


class Device:
    """A bus with one device and a reporter, whose clock the test moves in steps of five seconds."""

    def __init__(self, clock, cloud):
        self.clock = clock
        self.cloud = cloud
        self.bus = Bus(clock)
        declare_environment(self.bus, ENV, ["air_carbon_dioxide"])
        self.source = StatusNode(self.bus, [ENV])
        self.stage = ExitStack()
        self.health = Health(self.bus.node(f"{ENV}/samplers/scd30_1"), ENV, "scd30_1", clock)
        self.co2 = self.bus.node("filter").publisher(f"{ENV}/measured/air_carbon_dioxide")
        self.reporter = CloudReporter(
            self.bus,
            self.source,
            cloud.url,
            lambda: "http://10.0.0.7:5984",
            access=CloudAccess(("0123456789ab", "sécret")),
            clock=clock,
        )

    async def passing(self, seconds):
        for _ in range(round(seconds / 5)):
            await self.clock.advance(5)
            await self.clock.until(lambda: self.clock.sleeping == 1)


@asynccontextmanager
async def reporting(answer=TAKEN):
    clock = ManualClock()
    cloud = Cloud(clock)
    cloud.answer = answer
    async with serving_http(cloud.take) as cloud.url:
        device = Device(clock, cloud)
        device.stage.enter_context(device.source.running())
        async with running(clock, device.reporter):
            await clock.until(lambda: clock.sleeping == 1)
            yield device


async def test_a_report_has_the_state_of_the_chamber_and_the_login():
    async with reporting() as device:
        device.co2.publish(412.34567)
        device.health.failed("no answer")
        await device.passing(5)
    first, second = device.cloud.got
    assert base64.b64decode(device.cloud.login.removeprefix("Basic ")).decode() == "0123456789ab:sécret"
    assert first["api"] == "http://10.0.0.7:5984"
    assert first.get("alerts", []) == []
    assert [(each["severity"], each["text"]) for each in second["alerts"]] == [
        ("critical", "scd30_1 has failed: no answer")
    ]
    assert second["environments"][ENV]["values"]["air_carbon_dioxide"] == {
        "value": 412.35, "quality": "ok", "unit": "ppm",
    }  # fmt: skip
    assert device.reporter.status.state == "reporting"


@pytest.mark.parametrize(("ahead", "expected"), [(365 * 86_400.0, ["365 d ahead"]), (5.0, [])])
async def test_a_clock_that_differs_from_the_clouds_is_a_problem(ahead, expected):
    async with reporting((201, {"ok": True, "received": time.time() - ahead})) as device:
        problems = device.reporter.node.details()["problems"]
        found = [words for words in expected for each in problems if words in each["text"]]
        assert (found, len(problems)) == (expected, len(expected))


async def test_it_reports_once_growd_has_started():
    clock = ManualClock()
    device = Device(clock, Cloud(clock))
    async with running(clock, device.reporter):
        await device.passing(60)
        assert device.reporter.status.state == "starting"
        with device.source.running():
            await device.passing(5)
    assert device.reporter.status.state == "away"  # this cloud has no address


async def test_a_database_that_comes_up_is_asked_for_at_once_and_ends_its_alert():
    async with reporting() as device:
        database = {"kind": "embedded", "reachable": False}
        is_up = False

        async def look():
            database["reachable"] = is_up

        device.bus.node("database").describe("database", lambda: dict(database), prepare=look)
        await device.passing(5)
        is_up = True
        await device.passing(20)
    assert device.cloud.at == [0.0, 5.0, 10.0]
    assert [len(report.get("alerts", [])) for report in device.cloud.got] == [0, 1, 0]


async def test_it_reports_each_minute_while_values_change_and_else_each_five_minutes():
    async with reporting() as device:
        device.co2.publish(400.0)  # the environment begins
        await device.passing(600)
        for value in range(1, 37):
            device.co2.publish(400.0 + value)
            await device.passing(5)
    assert device.cloud.at == [0.0, 5.0, 305.0, 605.0, 665.0, 725.0]


async def test_an_alert_is_reported_within_five_seconds_and_so_is_its_end():
    async with reporting() as device:
        await device.passing(20)
        device.health.failed("no answer")
        await device.passing(20)
        device.health.failed("still no answer")  # the same alert in other words
        await device.passing(15)
        device.health.succeeded()
        await device.passing(10)
    assert device.cloud.at == [0.0, 25.0, 60.0]


async def test_a_server_that_is_away_is_asked_each_minute_and_then_gets_the_newest_report():
    async with reporting(answer=AWAY) as device:
        await device.passing(1_800)
        assert 22 <= len(device.cloud.at) <= 31
        assert min(b - a for a, b in zip(device.cloud.at, device.cloud.at[1:], strict=False)) >= 60
        assert device.reporter.status.state == "away"
        assert "503" in device.reporter.status.fault
        device.cloud.answer = TAKEN
        device.co2.publish(500.0)
        await device.passing(80)
    assert device.cloud.got[-1]["environments"][ENV]["values"]["air_carbon_dioxide"]["value"] == 500.0
    assert (device.reporter.status.state, device.reporter.status.fault) == ("reporting", "")


async def test_a_refused_login_is_tried_each_ten_minutes_at_most_and_the_remedy_is_named(caplog):
    caplog.set_level(logging.WARNING)
    async with reporting(answer=WRONG) as device:
        device.health.failed("no answer")  # an alert changes nothing about that
        await device.passing(3_000)
        fault = device.reporter.status.fault
    assert 4 <= len(device.cloud.at) <= 5
    assert min(b - a for a, b in zip(device.cloud.at, device.cloud.at[1:], strict=False)) >= 600
    assert (
        "the device was revoked, or its login is wrong; `sudo growd fleet enroll URL CODE --again`" in fault
    )
    assert caplog.text.count("took no report") == 1


@pytest.mark.parametrize("answer", OF_COUCHDB)
async def test_a_plain_couchdb_gets_no_reports_and_is_asked_each_hour(answer):
    async with reporting(answer=answer) as device:
        await device.passing(9_000 if answer is OF_COUCHDB[0] else 10)
        assert device.reporter.status.state == "none"
    assert len(device.cloud.at) == (3 if answer is OF_COUCHDB[0] else 1)


def test_a_report_has_set_points_recipe_lags_and_the_room_on_the_disk():
    measured, wanted = Reading(21.0, "ok", 1.0, "scd30"), Reading(22.0, "ok", 9.0, "recipe")
    status = replace(
        EMPTY,
        variables=[
            VariableStatus(ENV, "air_temperature", "degC", measured, wanted, None, 0.0),
            VariableStatus(ENV, "air_flush_on", "switch", None, None, Reading(1.0, "ok", 1.0, "x"), 0.0),
        ],
        recipes=[RecipeStatus(ENV, "running", "lettuce", "early", 5.0, 86_400.4)],
        replications=[ReplicationStatus("points", "a", "b", lag=3), ReplicationStatus("events", "a", "b")],
        store=replace(STORE, waiting=4),
    )
    made = report_of(status, "chamber", "1.0", "http://x")
    assert (made.lag, made.points_waiting, made.disk_free_bytes) == ({"points": 3, "events": None}, 4, None)
    environment = made.environments[ENV]
    assert (environment.recipe, environment.state, environment.phase) == ("lettuce", "running", "early")
    assert environment.remaining_s == 86_400
    assert list(environment.values) == ["air_temperature"]
    assert environment.values["air_temperature"].set_point == 22.0
    later = report_of(replace(status, machine_time=2e9), "chamber", "1.0", "http://x")
    assert later.essence == made.essence


def test_a_report_of_very_many_values_and_alerts_fits():
    reading = Reading(1.0, "ok", 1.0, "x")
    variables = [
        VariableStatus(f"environment_{n}_{'x' * 40}", f"variable_{m}", "unit", reading, reading, None, 0.0)
        for n in range(100)
        for m in range(80)
    ]
    devices = [DeviceStatus(f"e/{n}", "failed", 0.0, "ü" * 1_000, NEVER) for n in range(500)]
    status = replace(EMPTY, variables=variables, devices=devices, problems=[Problem("x" * 10_000)])
    body = report_of(status, "chamber", "1.0", "http://x").encoded()
    assert len(body) <= MOST_BYTES
    decoded = msgspec.json.decode(body)
    assert len(decoded["alerts"]) == 50
    assert len(decoded["environments"]) == 64


def test_growd_status_has_a_line_about_the_reports():
    for cloud, line in (
        (CloudStatus("http://c"), "cloud: no report yet"),
        (CloudStatus("http://c", "reporting", 1e9 - 20), "cloud: last report 20 s ago"),
        (CloudStatus("http://c", "away", 1e9 - 7200, "no answer"), "cloud: last report 2 h ago; no answer"),
    ):
        assert line in report(replace(EMPTY, cloud=cloud)).splitlines()
    assert "cloud:" not in report(EMPTY)
