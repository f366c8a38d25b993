"""`growd status`, against real servers."""

import asyncio
import json
import signal
from contextlib import asynccontextmanager
from datetime import datetime

import aiohttp
import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.health import Health
from growd.control.topics import commanded, declare_environment, desired, measured
from growd.host.hold import Hold, Holder
from growd.host.machine import MachineStatus
from growd.recipes.status import RECIPE_STATE
from growd.status.model import (
    Counters,
    DeviceStatus,
    HandStatus,
    InterlockStatus,
    Reading,
    RecipeStatus,
    VariableStatus,
)
from growd.status.notices import notices_of
from growd.status.status_node import StatusNode
from growd.store.database_node import DatabaseStatus
from growd_cli.asking import is_running
from growd_cli.options import DaemonOptions
from growd_cli.status_table import report
from growd_cli.terminal import echo_text
from growd_cloud.replication_health import ReplicationHealth
from support.daemon import serving as serving_api
from support.http_server import serving_http
from support.program import home_on, started
from support.status import EMPTY
from support.terminal import typed

SHELF = "shelf"
GIB = 2**30
MACHINE = MachineStatus(
    "0.1.0",
    "3.11.2",
    93_784.0,
    clock_synchronised=True,
    model="Raspberry Pi 4 Model B Rev 1.4",
    system="Debian GNU/Linux 12 (bookworm)",
    uptime_s=100_000.0,
    cores=4,
    load_1min=0.25,
    disk_bytes=30 * GIB,
    disk_free_bytes=20 * GIB,
    temperatures_degc={"cpu-thermal": 48.312},
    troubles=[],
    earlier_troubles=["under-voltage"],
)
WELL = replace(
    EMPTY, machine=MACHINE, database=DatabaseStatus("Apache CouchDB", True, "http://couch:5984", "3.5.0")
)


@asynccontextmanager
async def serving():
    """A daemon whose status can be asked for."""
    async with serving_api() as daemon:
        StatusNode(daemon.bus, ["environment_1", SHELF])
        yield daemon


def health(daemon, device):
    bus = daemon.bus
    return Health(bus.node(f"environment_1/samplers/{device}"), "environment_1", device, bus.clock)


async def asked(daemon, *arguments):
    printed = await typed("status", "--url", daemon.origin, *arguments)
    return printed.status, printed.out + printed.err


async def test_devices_are_a_table_from_one_request_and_a_failed_one_sets_exit_status_1(monkeypatch):
    async with serving() as daemon:
        health(daemon, "scd30_1").succeeded()
        light = health(daemon, "bh1750_1")
        light.warming_up("bh1750_1 has no reading yet")
        before = daemon.server.answered[2]
        exit_status, printed = await asked(daemon)
        assert daemon.server.answered[2] == before + 1
        light.failed("the wire is loose")
        light.failed("the wire is broken: check its plug")
        failed_status, failed = await asked(daemon)
        monkeypatch.setenv("GROWD_URL", daemon.origin)
        shown = await typed("status", "--json")
    assert exit_status == 0
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0] == ["device", "state", "for", "successes", "failures", "outages", "last", "error"]
    assert sorted((line[0], line[1], line[-4:]) for line in lines[1:3]) == [
        ("environment_1/bh1750_1", "warm-up", ["0", "0", "0", "-"]),
        ("environment_1/scd30_1", "ok", ["1", "0", "0", "-"]),
    ]
    assert (failed_status, shown.status) == (1, 1)
    assert "FAILED: bh1750_1 has failed: the wire is broken. " in failed
    assert "the wire is broken (" in failed
    assert failed.count("heck its plug") == 1
    document = {device["name"]: device for device in shown.json["devices"]}
    assert document["environment_1/bh1750_1"]["state"] == "failed"
    assert (
        document["environment_1/bh1750_1"]["counters"]["last_error"] == "the wire is broken: check its plug"
    )
    assert document["environment_1/scd30_1"]["counters"]["successes"] == 1


@pytest.mark.parametrize(("is_failure", "expected"), [(True, 1), (False, 0)])
async def test_problems_of_nodes_are_shown_and_only_failures_set_exit_status_1(is_failure, expected):
    async with serving() as daemon:
        listed = [{"text": "the lamp was never calibrated", "is_failure": is_failure}]
        daemon.bus.node("somebody").describe("problems", lambda: listed)
        exit_status, printed = await asked(daemon)
    assert exit_status == expected
    assert "the lamp was never calibrated" in printed


async def test_replications_are_a_second_table():
    async with serving() as daemon:
        health(daemon, "scd30_1").succeeded()
        node = daemon.bus.node("replication")
        points = ReplicationHealth(node, "points", "points here", "http://far/points")
        recipes = ReplicationHealth(node, "recipes_down", "http://far/recipes", "recipes here")
        node.describe("replications", lambda: msgspec.to_builtins([points.status, recipes.status]))
        points.status.lag = 12
        points.failing("remote server: Connection refused")
        recipes.running()
        exit_status, printed = await asked(daemon)
        _, document = await asked(daemon, "--json")
    assert exit_status == 0  # the chamber is well
    assert "warning: the replication of points fails: remote server: Connection refused" in printed
    (at,) = [n for n, line in enumerate(printed.splitlines()) if line.startswith("replication ")]
    headings, first, second = (line.split() for line in printed.splitlines()[at : at + 3])
    assert headings == ["replication", "state", "for", "lag", "refused", "restarts", "last", "error"]
    assert (first[:2], second[:2]) == (["points", "failing"], ["recipes_down", "running"])
    assert first[4:8] == ["12", "0", "0", "remote"]
    assert second[4:] == ["?", "0", "0", "-"]
    lags = {each["name"]: each["lag"] for each in json.loads(document)["replications"]}
    assert lags == {"points": 12, "recipes_down": None}


@pytest.mark.parametrize("needs_reset", [False, True])
async def test_a_tripped_interlock_is_shown_and_is_a_failure_if_it_needs_a_reset(needs_reset):
    async with serving() as daemon:
        health(daemon, "scd30_1").succeeded()
        since = daemon.bus.clock.time()
        states = [
            InterlockStatus("e/interlocks/one", True, "it is too warm", needs_reset, since),
            InterlockStatus("e/interlocks/other", False, "", False, since),
            InterlockStatus("e/interlocks/still", True, "it mixes", False, since, is_expected=True),
        ]
        daemon.bus.node("e/interlocks").describe("interlocks", lambda: msgspec.to_builtins(states))
        exit_status, printed = await asked(daemon)
        assert exit_status == needs_reset
        line, pause = [line for line in printed.splitlines() if "interlocks" in line]
        assert pause.startswith("e/interlocks/still pauses its outputs, for ")
        assert ("FAILED: " if needs_reset else "warning: ") + "it is too warm" in printed
        assert line.startswith("e/interlocks/one has tripped, for ")
        assert (": it is too warm; reset it with the service e/interlocks/one/reset" in line) == needs_reset
        _, document = await asked(daemon, "--json")
    assert [(each["name"], each["tripped"]) for each in json.loads(document)["interlocks"]] == [
        ("e/interlocks/one", True),
        ("e/interlocks/other", False),
        ("e/interlocks/still", True),
    ]


def test_the_table_is_aligned_and_shows_ages(said):
    now = 1_000_000.0
    found = [
        DeviceStatus("air", "ok", now - 93_784, "ok", Counters(1200, 3, 1, 60.0, "no answer", now - 125)),
        DeviceStatus("light", "starting", now + 1, "starting", Counters(0, 0, 0, 0.0, "", 0.0)),
        DeviceStatus("ahead", "failed", now + 60, "no", Counters(0, 1, 1, 0.0, "no", now + 60)),
    ]
    said(report(replace(EMPTY, time=now, devices=found)).splitlines()[:4])


def test_the_effects_of_a_dead_bus_are_few_lines_below_it():
    names = ("air_carbon_dioxide", "air_temperature")
    gone = Reading(None, "fault", 1.0, "filter")
    counters = (Counters(0, 2, 1, 4.5, f"no answer of {name}", 9.0) for name in names)
    found = replace(
        EMPTY,
        devices=[
            DeviceStatus(f"e/{name}", "failed", 1.0, "", each, [name], "i2c-1")
            for name, each in zip(names, counters, strict=True)
        ],
        variables=[VariableStatus("e", each, "", gone, None, None, 0.0, is_sensed=True) for each in names],
        interlocks=[
            InterlockStatus(
                f"e/interlocks/{each}_unknown", True, "unknown", False, 2.0, holds=holds, reads=[each]
            )
            for each, holds in zip(names, (["valve"], ["heater", "valve"]), strict=True)
        ],
    )
    cause, *effects = report(found).split("FAILED: ")[1].splitlines()[:-1]
    assert cause.startswith("no sensor at i2c-1 answers")
    assert effects == ["  so: unknown: CO₂, Air temperature", "  so: held: valve, heater"]


async def test_an_unknown_host_name_is_reported_as_such():
    printed = await typed("status", "--url", "http://chamber.invalid:5984")
    assert printed.status == 3
    assert printed.err.startswith("growd: the name chamber.invalid can't be resolved: ")


async def test_a_server_that_is_not_growd_is_reported():
    async def answer(_):
        return web.json_response({"couchdb": "Welcome"})

    async with serving_http(answer) as url:
        printed = await typed("status", "--url", url)
        assert printed.status == 3
        assert "than growd answers at" in printed.err
        assert "Object missing required field `status`" in printed.err
        with DaemonOptions(url=url).client() as client:
            assert not await asyncio.to_thread(is_running, client)


# --- Variables and recipes


async def test_each_variable_is_shown_with_set_point_command_and_author():
    async with serving() as daemon:
        bus = daemon.bus
        declare_environment(bus, SHELF, ["air_temperature", "light_illuminance", "air_humidity"])
        sensors, recipe = bus.node("sensors"), bus.node(f"{SHELF}/recipe_runner")
        control, http = bus.node(f"{SHELF}/controllers/light_illuminance"), bus.find_node("http")
        left = Field("override_left", Kind.FLOAT64, 0, 86_400, "s", default=0.0)
        override = control.declare(f"{control.name}/override_left", left, read_only=True)
        now = bus.clock.time()
        sensors.publisher(measured(SHELF, "air_temperature")).publish(21.5, time=now - 100)
        sensors.publisher(measured(SHELF, "light_illuminance")).publish(None, Quality.STALE)
        recipe.publisher(desired(SHELF, "light_illuminance")).publish(8000.0)
        control.publisher(commanded(SHELF, "light_illuminance")).publish(0.4)
        http.publisher(desired(SHELF, "air_carbon_dioxide")).publish(900.0)
        http.publisher(commanded(SHELF, "air_flush_on")).publish(1.0)
        _, printed = await asked(daemon, "--json")
        document = {each["variable"]: each for each in json.loads(printed)["variables"]}
        override.show(540)
        _, printed = await asked(daemon)
        _, again = await asked(daemon, "--json")
    by_hand = {"air_carbon_dioxide", "air_flush_on"}
    assert {*document} == {"air_temperature", "light_illuminance", "air_humidity", *by_hand}
    warm, light = document["air_temperature"], document["light_illuminance"]
    assert (warm["unit"], warm["measured"]["value"], warm["measured"]["quality"]) == ("degC", 21.5, "ok")
    assert warm["measured"]["age_s"] >= 100
    assert warm["desired"] is warm["commanded"] is document["air_humidity"]["measured"] is None
    assert (light["measured"]["value"], light["measured"]["quality"]) == (None, "stale")
    assert (light["desired"]["value"], light["desired"]["by"]) == (8000.0, "recipe")
    assert (light["commanded"]["value"], light["commanded"]["by"]) == (0.4, "control")
    assert document["air_carbon_dioxide"]["desired"]["by"] == "hand"
    assert document["air_flush_on"]["commanded"]["by"] == "hand"
    lines = {line.split()[0]: line.split() for line in printed.splitlines() if line.startswith(f"{SHELF}/")}
    assert lines[f"{SHELF}/air_temperature"][1:4] == ["21.5", "°C", "ok"]
    assert " ".join(lines[f"{SHELF}/light_illuminance"][5:]) == "s 8000 recipe 40%, by hand for 9 min"
    light = next(each for each in json.loads(again)["variables"] if each["variable"] == "light_illuminance")
    assert (light["commanded"]["by"], light["hand_left_s"]) == ("hand", 540)


async def test_the_recipe_of_each_environment_is_shown():
    async with serving() as daemon:
        node = daemon.bus.node("recipes")
        times = {"elapsed": 0.0, "remaining": 0.0, "starts_at": 0.0}
        paused = {"elapsed": 90_000.0, "remaining": 3_600.0, "starts_at": 0.0}
        states = {
            "environment_1": {"state": "idle", "recipe_id": "", "phase": "", **times},
            SHELF: {"state": "paused", "recipe_id": "basil", "phase": "seedling", **paused},
        }
        for environment, state in states.items():
            node.advertise(f"{environment}/recipe_state", RECIPE_STATE).publish(state)
        exit_status, printed = await asked(daemon)
        _, document = await asked(daemon, "--json")
    assert exit_status == 0
    assert "environment_1: no recipe runs\n" in printed
    assert f"{SHELF}: recipe basil is paused, phase seedling, 1 d 1 h gone, 1 h to go\n" in printed
    shown = msgspec.convert(json.loads(document)["recipes"][1], RecipeStatus)
    assert shown == RecipeStatus(SHELF, "paused", "basil", "seedling", 90_000.0, 3_600.0, updates=1)


def test_a_recipe_that_waits_or_took_over_is_shown_with_its_time():
    at = datetime.fromisoformat("2026-11-24T06:00").timestamp()
    waits = RecipeStatus("e", "waiting", "basil", "", 0.0, 60.0, "3-abc", starts_at=at)
    runs = RecipeStatus(
        "e", "running", "basil", "", 60.0, 60.0, "4-def", revised_at=at - 57_600, changed="5-abc"
    )
    printed = report(replace(WELL, time=at - 50_400, recipes=[waits, runs]))
    assert "e: recipe basil waits until 2026-11-24 06:00 (in 14 h), revision 3\n" in printed
    running = "basil is running, 1 min gone, 1 min to go, revision 4, which took over 2 h ago"
    assert f"{running} (changed since: revision 5 is in the database)\n" in printed


# --- Machine and database


def test_a_hold_is_the_first_line_and_the_last():
    lines = report(replace(WELL, holds=[Hold(Holder.PERSON, "cleaning", "ann", 5.0)])).splitlines()
    assert lines[0] == f"HELD: {lines[-1]}"


def test_machine_and_database_are_lines_of_the_report(said):
    said(report(WELL).splitlines()[2:])
    small = replace(MACHINE, disk_bytes=40_000_000, disk_free_bytes=1_500_000)
    assert "; 1.5 MB of 40.0 MB of the disk free" in report(replace(WELL, machine=small))


def test_a_simulated_clock_and_a_switch_are_shown():
    fan = HandStatus("environment_1", "air_flush_on", 1.0, "switch", "anna", WELL.time - 10, "")
    simulated = replace(MACHINE, clock_simulated=True)
    document = report(replace(WELL, machine=simulated, set_points=[fan], speed=82.7))
    assert "environment_1: air_flush_on on by hand, by anna, for 10 s" in document
    assert "without effect" not in document
    assert "; simulated clock\n" in document
    assert "growd: up for 1 d 2 h of real time; growd " in document
    assert "up for 1 d 3 h of real time; load" in document
    assert "82.7 times" in document
    door = replace(fan, variable="door_open", is_idle=True)
    without_effect = report(replace(WELL, set_points=[door]))
    assert "door_open on by hand, by anna, for 10 s, without effect: nothing controls it" in without_effect
    assert "times" not in without_effect


def test_text_from_outside_can_not_control_the_terminal(capsys):
    recipe = RecipeStatus("environment_1", "running", "day", "\x1b[2Jdawn", 1.0, 1.0)
    echo_text(report(replace(WELL, recipes=[recipe])))
    assert "phase \\x1b[2Jdawn," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("part", "warnings"),
    [
        (replace(MACHINE, disk_free_bytes=499_000_000), ["disk_full"]),
        (replace(MACHINE, disk_bytes=4 * GIB, disk_free_bytes=430_000_000), []),  # a small one is full later
        (replace(MACHINE, troubles=["throttled"]), ["machine_trouble"]),
        (replace(MACHINE, clock_synchronised=False), ["clock_not_synchronised"]),
        (replace(MACHINE, disk_free_bytes=None, disk_bytes=None, troubles=None, cores=None), []),
        (DatabaseStatus("embedded", False, reason="it is down"), ["database_away"]),
    ],
)
def test_trouble_of_the_machine_or_the_database_is_a_warning(part, warnings):
    is_database = isinstance(part, DatabaseStatus)
    status = replace(WELL, **{"database" if is_database else "machine": part})
    assert [each.code for each in notices_of(status)] == warnings
    assert all(each.remedy in report(status) for each in notices_of(status))
    assert ("database: embedded is not reachable: it is down" in report(status)) == is_database


@pytest.mark.long
async def test_the_whole_program_shows_its_status_and_is_ready(tmp_path, database_server):
    doubtful = ("--profile", "sim", "--set", "interlock.ceiling_ppm=30000")
    async with (
        home_on(database_server) as home,
        started(tmp_path / "data", *home.arguments, *doubtful) as program,
    ):
        await program.until_there(f"{home.recipes}/_design/svc", home.headers)
        shown = await typed("status", "--json", "--url", program.address)
        pages = {}
        async with aiohttp.ClientSession() as session:
            for page in ("health", "ready", "metrics"):
                async with session.get(f"{program.address}/_svc/{page}") as response:
                    pages[page] = response.status, await response.text()
        assert (await program.end(signal.SIGTERM))[0] == 0
    document = shown.json
    assert (shown.status, document["failures"]) == (0, [])
    warning = "--set interlock.ceiling_ppm: [interlock] ceiling_ppm: 30000 is far above"
    assert any(each.startswith(warning) for each in document["warnings"])
    assert program.printed.count(warning) == 1
    assert document["machine"]["disk_free_bytes"] > 0
    assert document["database"]["reachable"] is True
    assert document["database"]["kind"] == ("embedded" if database_server.is_embedded else "Apache CouchDB")
    assert "secret" not in shown.out
    names = {device["name"] for device in document["devices"]}
    assert names == {f"environment_1/{name}" for name in ("bh1750_1", "fan", "light", "scd30_1", "valve")}
    assert {recipe["state"] for recipe in document["recipes"]} <= {"idle"}
    assert document["store"]["dropped"] == 0
    assert (pages["health"], pages["ready"]) == ((200, "ok\n"), (200, "ok\n"))
    assert pages["metrics"][0] == 200
    assert "growd_database_up 1.0" in pages["metrics"][1]
