"""The composition root: a whole daemon in this process, and its shutdown with failing hardware."""

import asyncio
import contextlib
import dataclasses
import functools
import json
import logging
import os
import signal
import socket

import aiohttp
import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from growd.config import ConfigError, InterlockOptions, Output, load
from growd.config.alerts import Notify
from growd.config.checks import RESERVED
from growd.host.data_folder import StartError
from growd.store.block_file import BlockFile
from growd.store.errors import LocalStoreError
from growd.store.local import LocalStore
from growd.store.point_log import LOG_BYTES, LOG_NAME, PointLog
from growd.wiring.app import App
from growd_cli.main import main
from growd_hwsim.hardware import SimulatedHardware
from support.program import PATIENCE_S, failed, heeding_hangups, home_on

SETTINGS = (
    "http.port=0",
    "couchdb.url=http://127.0.0.1:1",  # no database: the points stay in the local file
    "light.enabled=true",
)
offline_app = functools.partial(App, database_wait_s=0.0)
ARGUMENTS = [argument for setting in SETTINGS for argument in ("--set", setting)]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """No device hangs that is only late, as on a machine that is busy."""
    for limit in (
        "chamber.DEVICE_TIMEOUT_S",
        "chamber.LAST_READ_S",
        "actuators.DEVICE_TIMEOUT_S",
        "actuators.DEVICE_CLOSE_S",
    ):
        monkeypatch.setattr(f"growd.wiring.{limit}", PATIENCE_S)


@pytest.fixture
def machines(monkeypatch):
    """The simulated machines that are opened."""
    opened = []

    def open_one(*arguments, **options):
        opened.append(SimulatedHardware(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr("growd_simulation.simulated_hardware.SimulatedHardware", open_one)
    return opened


@contextlib.asynccontextmanager
async def serving(app):
    """A client of the API while the daemon runs."""
    ready = asyncio.Queue()
    runs = asyncio.create_task(app.run(ready.put_nowait), name="app")
    base = f"{(await asyncio.wait_for(ready.get(), PATIENCE_S)).address}/_svc/api/0.0.1/"
    try:
        async with aiohttp.ClientSession(base_url=base) as client:
            yield client
    finally:
        app.stop()
        await asyncio.wait_for(runs, PATIENCE_S)


class Hasty(App):
    """Asked to stop before it has started."""

    async def run(self, on_ready):
        self.stop()
        await super().run(on_ready)


def kept_points(data):
    log = PointLog(BlockFile.open(data / LOG_NAME, LOG_BYTES))
    log.close(released=0)
    return list(log.recovered.values())


async def test_sighup_reloads_the_configuration_unless_it_is_ignored(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    settings = (*SETTINGS, "http.access=couchdb", "access.open_reading=true", "store.minimum_interval_s=600")
    settings += ("simulator.speed=20",)
    eager = "store.variable.air_temperature={absolute_band=0, minimum_interval_s=0}"
    changed = (eager, "store.max_age_s=7", "http.origins=['https://a.example']", "light.ramp_s=1")
    before = await asyncio.to_thread(load, None, settings)
    after = await asyncio.to_thread(load, None, settings + changed)
    (tmp_path / "duty").write_text("json://127.0.0.1:1/\n")
    (tmp_path / "duty").chmod(0o600)
    channel = Notify(name="duty", kind="apprise", url_file=str(tmp_path / "duty"))
    temperature = "environment_1/measured/air_temperature"
    with heeding_hangups():
        async with serving(
            offline_app(before, tmp_path, lambda: replace(after, notify=(channel,)))
        ) as client:
            await heard(client, temperature, lambda message: message["value"])  # by the rule of before
            assert await informed(client, "alerts", "channels") == []
            signal.raise_signal(signal.SIGHUP)
            while not await informed(client, "alerts", "channels"):
                pass
            async with client.get(f"topic_stream/{temperature}") as lines:
                for _ in range(5):
                    await lines.content.readline()
        kept = await asyncio.to_thread(kept_points, tmp_path)
        measured = [point for point in kept if (point.variable, point.category) == ("air_temperature", "")]
        assert len(measured) > 1  # of ten minutes one, as it was; equal ones are not stored
        taken = "[http] origins, [notify], [store] max_age_s, [store] variable"
        assert f"reloaded the configuration; changed: {taken}" in caplog.messages
        assert "these changes need a restart of growd: [light] ramp_s" in caplog.messages
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        app = offline_app(before, tmp_path, lambda: pytest.fail("it was read again"))
        async with serving(app):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            signal.raise_signal(signal.SIGHUP)


async def informed(client, node, detail):
    """A detail of a node."""
    async with client.get(f"node/{node}") as answer:
        return (await answer.json())[detail]


async def test_a_data_folder_in_use_is_refused_and_the_other_growd_continues(tmp_path):
    async with serving(offline_app(load(None, SETTINGS), tmp_path)) as client:
        status, printed = await failed("run", "--data", str(tmp_path), "--port", "0")
        assert status == 1
        (sentence,) = printed.splitlines()
        assert sentence.startswith("growd: ")
        assert str(tmp_path) in sentence
        assert f"in use by another growd (process {os.getpid()})" in sentence
        async with client.get("node") as answer:
            names = {name for name in (await answer.json())["results"] if "/" not in name}
    assert names <= RESERVED  # no environment can have the name of one
    assert len(names) > 5


async def test_a_missing_node_is_reported_and_the_chamber_works(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("PATH", "/nowhere")
    config = load(None, ("http.port=0", "simulator.speed=10"))
    async with serving(offline_app(config, tmp_path)) as client:
        await heard(
            client, "environment_1/measured/air_carbon_dioxide", lambda message: message["quality"] == "ok"
        )
        async with client.get("/recipes") as response:
            assert response.status == 503
            assert (await response.json())["error"]
    assert "can't be started with node" in caplog.text


async def test_a_taken_port_and_an_open_password_of_the_broker_stop_the_start_before_anything_is_up(
    tmp_path, said
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        app = App(load(None, (f"http.port={port}",)), tmp_path / "data")
        with pytest.raises(StartError, match=f"port {port} on 127.0.0.1 is in use by another program"):
            await app.run(print)
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o644)
    broker = ("mqtt.host=broker", "mqtt.user=growd", f"mqtt.password_file={password}", "mqtt.publish=true")
    with said.raises(ConfigError):
        await App(load(None, ("http.port=0", *broker)), tmp_path / "data").run(print)
    assert not (tmp_path / "data").exists()


async def test_another_name_serves_old_clients(tmp_path, database_server):
    async with home_on(database_server, shared=True) as home:
        settings = ("http.port=0", "http.name=openag", *home.settings)
        async with serving(App(load(None, settings), tmp_path, database_wait_s=PATIENCE_S)) as client:
            async with client.get("/_openag/api/0.0.1/node") as response:
                assert response.status == 200
            view = f"/{home.points}/_design/openag/_view/by_variable"
            async with client.get(view, headers=home.headers) as response:
                assert response.status == 200


@pytest.mark.long
async def test_a_database_that_is_missing_later_is_made_again_with_a_warning_and_an_event(
    tmp_path, database_server, monkeypatch, caplog
):
    monkeypatch.setattr("growd.wiring.store.DRAIN_S", PATIENCE_S)  # which asks the database

    async def ask(method, path):
        async with session.request(method, f"{database_server.url}/{path}") as response:
            assert response.status == 200
            return await response.json()

    async def until_lost(*names):
        lost = set()
        async with asyncio.timeout(PATIENCE_S):
            while lost != {*names}:
                await call(client, "service/store/retry_rejected", {})  # sends what waits
                found = await informed(client, "store", "problems")
                lost = {each["name"] for each in found if each["code"] == "database_made_again"}

    async with (
        home_on(database_server, shared=True) as home,
        aiohttp.ClientSession(headers=home.headers) as session,
    ):
        config = load(None, ("http.port=0", *home.settings))
        recipes = f"{home.prefix}recipes"
        for _ in range(2):
            async with serving(App(config, tmp_path, database_wait_s=PATIENCE_S)) as client:
                await until_lost()
        for name in (recipes, home.points):
            await ask("DELETE", name)
        async with serving(App(config, tmp_path, database_wait_s=PATIENCE_S)) as client:
            await until_lost(home.points, recipes)
        async with serving(App(config, tmp_path, database_wait_s=PATIENCE_S)) as client:
            for name in (recipes, home.points):
                await ask("DELETE", name)
            await until_lost(home.points, recipes)
        rows = (await ask("GET", f"{home.events}/_all_docs?include_docs=true"))["rows"]
    details = [row["doc"].get("details", {}) for row in rows]
    told = [each["database"] for each in details if each.get("code") == "database_made_again"]
    assert sorted(told) == [home.points, home.points, recipes, recipes]
    assert len([each for each in caplog.messages if "was created again" in each]) == len(told)


async def test_health_is_lost_while_an_output_cannot_be_switched_off(tmp_path):
    async def until_healthy(expected):
        answered = None
        async with asyncio.timeout(PATIENCE_S):
            while answered != expected:
                async with client.get("/_svc/health") as answer:
                    answered = (answer.status, await answer.text())

    fault = {"device": "gpio-18", "kind": "refused"}
    async with serving(offline_app(load(None, (*SETTINGS, "simulator.speed=20")), tmp_path)) as client:
        await call(client, "topic/environment_1/desired/light_illuminance", [5000])
        await heard(client, "environment_1/light_channels", lambda message: message["value"]["x"] > 0)
        await until_healthy((200, "ok\n"))
        await call(client, "service/simulator/inject_fault", fault)
        await until_healthy((503, "unsafe\n"))
        notices = (await informed(client, "status", "status"))["notices"]
        assert [each["severity"] for each in notices if each["kind"] == "device"] == ["failure"]
        await call(client, "service/simulator/clear_faults", fault)
        await until_healthy((200, "ok\n"))


RELAYS = (
    Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on", active="low", needs=""),
    Output(name="fan", pin=24, variable="air_flush_on", safe="on"),
)
VALVE = "environment_1/commanded/air_carbon_dioxide_valve_on"
FLUSH = "environment_1/commanded/air_flush_on"


@pytest.fixture
def with_relays(tmp_path):
    """A daemon with a valve that a low pin opens, and a fan that runs by default."""

    def made(*settings):
        config = load(None, (*SETTINGS, *settings))
        return offline_app(msgspec.structs.replace(config, output=RELAYS), tmp_path)

    return made


async def heard(client, topic, is_it):
    """Wait for such a message on a topic."""
    async with asyncio.timeout(PATIENCE_S), client.get(f"topic_stream/{topic}") as lines:
        async for line in lines.content:
            if is_it(json.loads(line)):
                return
    raise AssertionError(f"the stream of {topic} has ended")


async def switched(client, relay, value):
    await heard(client, f"environment_1/switches/{relay}", lambda message: message["value"] == value)


async def call(client, path, body, status=200):
    """The answer with this status to a request."""
    async with client.post(path, json=body) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def post(client, topic, value):
    async with client.post(f"topic/{topic}", json=[value]) as response:
        return response.status


async def test_outputs_follow_commands_over_http_and_are_safe_before_parts_and_the_program_end(
    with_relays, machines, monkeypatch
):
    at_the_end_of_parts = []

    @contextlib.asynccontextmanager
    async def parts_opened(_, **given):
        yield
        at_the_end_of_parts.append(machines[0].pins.high(23))

    monkeypatch.setattr("growd.wiring.app.parts_opened", parts_opened)
    app = with_relays()
    async with serving(app) as client:
        gpio = machines[0].pins
        await switched(client, "valve", 0)
        await switched(client, "fan", 1)
        assert (gpio.high(23), gpio.high(24)) == (1, 1)
        assert await post(client, VALVE, True) == 200  # as the switches of old clients do
        assert await post(client, FLUSH, 0) == 200
        await switched(client, "valve", 1)
        await switched(client, "fan", 0)
        assert (gpio.high(23), gpio.high(24)) == (0, 0)
        assert await post(client, VALVE, -1) == 400
        assert await post(client, "environment_1/desired/light_illuminance", 8_000) == 200
        await heard(client, "environment_1/light_channels", lambda message: message["value"]["x"] > 0)
        lamp = machines[0].wiring.lamp_pins.values()
        assert max(map(gpio.high, lamp)) > 0.3
    assert at_the_end_of_parts == [1]
    assert (gpio.high(23), gpio.high(24)) == (1, 1)
    assert [gpio.high(pin) for pin in lamp] == [0.0, 0.0, 0.0]
    assert app.shutdown_errors == []


REFUSED = """
[[fault]]
kind = "refused"
device = "gpio-23"

[[fault]]
kind = "refused"
device = "gpio-12"
"""


@pytest.fixture
def refusing(tmp_path):
    """Settings of a machine that runs fast, whose pins for valve and white lamp refuse from the start."""
    file = tmp_path / "faults.toml"
    file.write_text(REFUSED, encoding="utf-8")
    return f"simulator.faults={file}", "simulator.speed=50"


def is_failed(message):
    return bool(message["value"]["level"] == 2)


def is_well(message):
    return bool(message["value"]["level"] == 0)


async def test_failing_pins_affect_nothing_else_and_are_driven_when_they_work(
    with_relays, machines, refusing, caplog
):
    caplog.set_level("INFO", "growd.control")
    app = with_relays(*refusing)
    async with serving(app) as client:
        await heard(client, "environment_1/diagnostics/valve", is_failed)
        await heard(client, "environment_1/diagnostics/light", is_failed)
        await switched(client, "fan", 1)
        assert await post(client, VALVE, 1) == 200
        machines[0].faults.clear()
        await heard(client, "environment_1/diagnostics/light", is_well)
        await switched(client, "valve", 1)
        assert machines[0].pins.high(23) == 0
    assert machines[0].pins.high(23) == 1
    assert app.shutdown_errors == []
    said = [record.levelname for record in caplog.records if "environment_1/valve " in record.message]
    assert said == ["WARNING", "INFO"]


async def test_pins_that_fail_until_the_shutdown_are_reported_and_points_in_memory_are_saved(
    tmp_path, with_relays, refusing, said
):
    app = with_relays(*refusing)
    async with serving(app) as client:
        await switched(client, "fan", 1)
        assert await post(client, "environment_1/desired/light_illuminance", 8_000) == 200
    said(sorted(app.shutdown_errors))
    points = await asyncio.to_thread(kept_points, tmp_path)
    assert [p.value for p in points if p.variable == "light_illuminance" and p.is_desired] == [8_000]


def test_the_program_reports_outputs_that_may_not_be_safe(tmp_path, monkeypatch, refusing):
    monkeypatch.setattr("growd.wiring.app.App", Hasty)
    faults = ("--set", refusing[0])
    result = CliRunner().invoke(main, ["run", "--data", str(tmp_path), *ARGUMENTS, *faults])
    assert result.exit_code == 1
    assert (
        "growd has stopped, but the lamp channel white's outputs may not be safe: light: GPIO 12"
        in result.stderr
    )
    assert "outputs are safe," not in result.output


async def test_errors_at_shutdown_are_reported(tmp_path, monkeypatch):
    async def full(outbox):
        outbox.fault.failed("growd.sqlite3: database or disk is full")
        raise LocalStoreError(str(outbox.fault))

    async def close(local):
        await closes(local)
        raise LocalStoreError("growd.sqlite3: disk I/O error")

    closes = LocalStore.close
    monkeypatch.setattr(LocalStore, "close", close)
    app = offline_app(load(None, SETTINGS), tmp_path)
    async with serving(app):
        monkeypatch.setattr("growd.wiring.store.Outbox.flush", full)
    lost, other = app.shutdown_errors
    assert "can't be saved and are lost: growd.sqlite3: database or disk is full" in lost
    assert other == "growd.sqlite3: disk I/O error"


async def test_a_deleted_data_folder_is_a_failure_and_nothing_is_acknowledged(tmp_path):
    data = tmp_path / "data"
    app = offline_app(load(None, SETTINGS), data)
    async with serving(app) as client:
        await asyncio.to_thread(
            data.rename, tmp_path / "moved"
        )  # at one moment, whatever growd writes meanwhile
        async with client.get("node/store") as answer:
            problem, *_ = (await answer.json())["problems"]
        for path, body in ("param/my/note", {"value": "x"}), ("topic/environment_1/notes", ["watered"]):
            async with client.post(path, json=body) as answer:
                assert (answer.status, (await answer.json())["error"]) == (503, "not_kept")
        async with client.get("/_svc/health") as answer:
            assert (answer.status, await answer.text()) == (503, "losing points\n")
    assert problem.get("is_failure", False)
    assert f"the data folder {data} was deleted or moved" in problem["text"]
    assert f"the data folder {data} was deleted or moved: its content may be lost" in app.shutdown_errors


def test_a_log_of_points_that_is_a_link_is_refused(tmp_path):
    (tmp_path / LOG_NAME).symlink_to("/dev/zero")
    result = CliRunner().invoke(main, ["run", "--data", str(tmp_path), *ARGUMENTS])
    assert result.exit_code == 1
    assert f"{LOG_NAME} can't be opened: it is a link" in result.stderr


ALARM = "environment_1/interlocks/no_rise_after_dose"


async def test_the_alarm_of_an_empty_bottle_survives_a_restart_until_it_is_reset(tmp_path, machines):
    def made(speed):
        valve = Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on", stale_after_s=86_400.0)
        config = load(None, (*SETTINGS, f"simulator.speed={speed}"))
        limits = InterlockOptions(no_rise_open_s=60.0)
        return offline_app(replace(config, output=(valve,), interlock=limits), tmp_path)

    def empty_the_bottle():
        chamber = machines[-1].chamber
        chamber.parameters = dataclasses.replace(chamber.parameters, valve_flow_l_min=0.0)

    async with serving(made(speed=100)) as client:
        empty_the_bottle()
        assert await post(client, "environment_1/desired/air_carbon_dioxide_valve_on", 1) == 200
        await heard(client, ALARM, lambda message: message["value"]["needs_reset"])
        await switched(client, "valve", 0)
    async with serving(made(speed=5)) as client:  # so that no reading gets old between two requests
        empty_the_bottle()
        await heard(client, ALARM, lambda message: message["value"]["needs_reset"])
        assert await post(client, VALVE, 1) == 200
        await heard(client, "environment_1/measured/air_carbon_dioxide", lambda message: message["value"])
        assert machines[-1].pins.high(23) == 0
        assert (await call(client, f"service/{ALARM}/reset", [], 200))["success"] is True
        assert await post(client, VALVE, 1) == 200
        await switched(client, "valve", 1)
        assert (await call(client, f"service/{ALARM}/reset", [], 400))["success"] is False
