"""Health, readiness and the service line: functions of a status, and the pages that show them."""

from contextlib import asynccontextmanager
from datetime import datetime

import msgspec
import pytest
from msgspec.structs import replace

from growd.api.monitoring import add_monitoring
from growd.status.model import ComponentStatus, DeviceStatus, InterlockStatus, Problem, RecipeStatus, Status
from growd.status.notices import notices_of
from growd.status.status_node import StatusNode
from growd.status.summary import health, service_line, verdict_of
from growd_cli.status_table import report
from support.daemon import serving
from support.status import EMPTY, FULL, NEVER, STORE

WELL = replace(EMPTY, store=STORE)
HEATER = next(output for output in FULL.outputs if output.name == "heater")
STUCK = InterlockStatus(
    "e/heater_not_confirmed", True, "it stays on", False, 1.0, is_failure=True, stays_on=True
)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ""),
        ({"store": None}, ""),
        ({"stuck": ["recorder"]}, "stuck"),
        ({"components": [ComponentStatus("recorder", 2, "no", is_failing=False)]}, ""),
        ({"components": [ComponentStatus("recorder", 3, "no", is_failing=True)]}, "failing"),
        ({"store": replace(STORE, is_losing=True)}, "losing points"),
        ({"devices": [DeviceStatus("e/air", "failed", 0.0, "no", NEVER)]}, ""),
        ({"outputs": [HEATER]}, ""),
        ({"outputs": [HEATER, replace(HEATER, level=None)]}, "unsafe"),
        ({"outputs": [replace(HEATER, level=None)], "stage": "starting"}, ""),
        ({"unsafe": ["e/actuators/heater"]}, "unsafe"),
        ({"interlocks": [STUCK]}, "unsafe"),
        ({"interlocks": [replace(STUCK, tripped=False)]}, ""),
        ({"interlocks": [replace(STUCK, stays_on=False)]}, ""),
    ],
)
def test_health_is_lost_by_what_does_not_work_but_not_by_a_sensor(change, expected):
    assert health(replace(WELL, **change)) == expected


SIX = datetime.fromisoformat("2026-11-24T06:00").timestamp()  # of this machine


def test_the_service_line_counts_devices_and_points_and_names_recipes():
    well = verdict_of(WELL, []).line
    assert service_line(replace(WELL, store=None)) == f"{well}; 0 of 0 devices well; 0 points waiting"
    status = replace(
        WELL,
        devices=[DeviceStatus(f"e/{state}", state, 0.0, "", NEVER) for state in ("ok", "warm-up")],
        recipes=[
            RecipeStatus("e", "paused", "lettuce", "2", 1.0, 1.0),
            RecipeStatus("f", "idle", "", "", 0.0, 0.0),
            RecipeStatus("g", "running", "basil", "", 1.0, 1.0),
            RecipeStatus("h", "waiting", "cress", "", 0.0, 1.0, starts_at=SIX),
        ],
        store=replace(STORE, waiting=1),
    )
    line = f"{well}; 1 of 2 devices well; recipe lettuce in phase 2 (paused); recipe basil; "
    line += "recipe cress waits until 2026-11-24 06:00; 1 point waiting"
    assert service_line(status) == line


def test_the_service_line_begins_with_the_first_failure():
    status = replace(WELL, problems=[Problem("a", is_failure=True), Problem("b", is_failure=True)])
    assert service_line(status) == "FAILED: a (and 1 more); 0 of 0 devices well; 0 points waiting"
    assert service_line(replace(WELL, problems=[Problem("a")])).startswith("warning: a;")
    line = service_line(replace(WELL, store=replace(STORE, waiting=2, shipping="no answer in 30 s")))
    assert "; 2 points waiting, the database stores no points: no answer in 30 s" in line
    assert line.startswith("warning: ")


@pytest.mark.parametrize(("ago", "fails"), [(60, True), (2 * 86_400, False)])
def test_lost_points_are_a_failure_for_a_day_and_stay_in_the_table(ago, fails):
    store = replace(STORE, dropped_ever=1234, dropped_at=WELL.time - ago)
    status = replace(WELL, store=store)
    assert ("points_lost" in [each.code for each in notices_of(status)]) is fails
    assert "1234 points LOST for lack of room, the last" in report(status)


# --- Over HTTP


@asynccontextmanager
async def rigged():
    async with serving() as daemon:
        status = StatusNode(daemon.bus, [])
        add_monitoring(daemon.api, daemon.server, status)
        yield daemon, status


async def page(daemon, name):
    async with daemon.session.get(f"{daemon.origin}/_svc/{name}") as response:
        return response.status, await response.text(), response.headers["Content-Type"]


async def test_the_ready_page_follows_the_stage():
    plain = "text/plain; charset=utf-8"
    async with rigged() as (daemon, status):
        assert await page(daemon, "ready") == (503, "starting\n", plain)
        with status.running():
            assert await page(daemon, "ready") == (200, "ok\n", plain)
        assert await page(daemon, "ready") == (503, "stopping\n", plain)


async def test_the_health_page_and_the_status_show_what_keeps_failing_or_is_stuck():
    async with rigged() as (daemon, status):
        with daemon.bus.liveness.heartbeat("recorder", patience_s=-1.0):
            assert status.snapshot().stuck == ["recorder"]
            assert (await page(daemon, "health"))[:2] == (503, "stuck\n")
        for _ in range(2):
            daemon.bus.liveness.failed("recorder", ValueError("an empty name"))
        assert (await page(daemon, "health"))[:2] == (200, "ok\n")
        daemon.bus.liveness.failed("recorder", ValueError("an empty name"))
        assert (await page(daemon, "health"))[:2] == (503, "failing\n")
        answer = await daemon.ask("GET", "/node/status")
    status = msgspec.convert(answer.json["status"], Status)
    (notice,) = notices_of(status)
    assert (notice.severity, notice.code) == ("failure", "component_failing")
    assert status.components == [ComponentStatus("recorder", 3, "ValueError: an empty name", is_failing=True)]


async def test_a_node_that_fails_to_report_its_state_does_not_hide_the_others():
    async with rigged() as (daemon, status):
        daemon.bus.node("good").describe("problems", lambda: [{"text": "it rains", "is_failure": True}])
        daemon.bus.node("bad").describe("problems", lambda: 1 / 0)
        found = status.snapshot()
        assert (await page(daemon, "health"))[:2] == (200, "ok\n")
    assert [each.text for each in notices_of(found)] == ["it rains"]
    assert [(each.name, each.failures) for each in found.components] == [("bad", 1)]
