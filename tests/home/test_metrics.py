"""The metrics, requested over HTTP and parsed as Prometheus does."""

from __future__ import annotations

import asyncio
import math
import shutil
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from growd.api.monitoring import add_monitoring
from growd.bus.messages import Quality
from growd.control.health import Health, State
from growd.control.topics import commanded, declare_environment, desired, measured
from growd.host.machine import MachineNode
from growd.recipes.status import RECIPE_STATE
from growd.status.model import RecipeStatus
from growd.status.status_node import StatusNode
from growd.store.database import Database
from growd.store.database_node import DatabaseNode
from growd.variables import VARIABLES
from growd_home.metrics import UNITS, render
from growd_home.part import add_metrics
from support.couch_client import Answer
from support.daemon import serving
from support.status import DEVICE, FULL, SHELF

if TYPE_CHECKING:
    from support.daemon import Daemon

OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}


@dataclass
class Rig:
    daemon: Daemon
    status: StatusNode

    async def page(self, name, method="GET", **headers):
        url = f"{self.daemon.origin}/_svc/{name}"
        async with self.daemon.session.request(method, url, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def metrics(self):
        answer = await self.page("metrics")
        assert answer.status == 200
        return families(answer.body)


def families(text):
    return {family.name: family for family in parse(text.decode())}


def samples(found, family):
    """The values of a family by those of the labels, in the order of their names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for sample in found[family].samples
    }


def rendered(status):
    return families(render(status, "")[0])


@asynccontextmanager
async def rigged(path):
    """The pages of a daemon whose database is not there."""
    database = Database(files=path, data=path, design_name="svc", url="http://127.0.0.1:9")
    async with serving() as daemon, database:
        status = StatusNode(daemon.bus, [SHELF])
        machine = MachineNode(daemon.bus, path)
        DatabaseNode(daemon.bus, database)
        add_monitoring(daemon.api, daemon.server, status)
        add_metrics(daemon.api, status)
        yield Rig(daemon, status)
        await machine.close()


def declare(rig):
    declare_environment(rig.daemon.bus, SHELF, ["air_temperature", "air_humidity", "light_illuminance"])


# --- Over HTTP


async def test_the_figures_agree_with_what_the_bus_says(tmp_path):
    async with rigged(tmp_path) as rig:
        declare(rig)
        bus = rig.daemon.bus
        sensors, http = bus.node("sensors"), bus.find_node("http")
        now = bus.clock.time()
        sensors.publisher(measured(SHELF, "air_temperature")).publish(21.5, time=now - 100)
        sensors.publisher(measured(SHELF, "air_humidity")).publish(60.0)
        sensors.publisher(measured(SHELF, "light_illuminance")).publish(None, Quality.STALE)
        http.publisher(desired(SHELF, "light_illuminance")).publish(8000.0)
        http.publisher(commanded(SHELF, "light_illuminance")).publish(0.4)
        recipe = {"state": "running", "recipe_id": "basil", "phase": "", "elapsed": 5.0, "remaining": 2.5}
        recipe["starts_at"] = 0.0
        bus.node("recipes").advertise(f"{SHELF}/recipe_state", RECIPE_STATE).publish(recipe)
        health = Health(bus.node(f"{SHELF}/samplers/air"), SHELF, "air", bus.clock)
        health.succeeded()
        health.failed("the wire is broken")
        found = await rig.metrics()
    assert samples(found, "growd_measured_air_temperature_celsius") == {(SHELF,): 21.5}
    assert samples(found, "growd_measured_air_humidity_ratio") == {(SHELF,): 0.6}
    assert samples(found, "growd_desired_light_illuminance_lux") == {(SHELF,): 8000.0}
    assert "growd_measured_light_illuminance_lux" not in found  # it has no value
    qualities = samples(found, "growd_measured_quality")
    assert qualities[SHELF, "ok", "air_temperature"] == 1
    assert {quality: qualities[SHELF, quality, "light_illuminance"] for quality in Quality} == {
        quality: float(quality is Quality.STALE) for quality in Quality
    }
    assert 100 <= samples(found, "growd_measured_age_seconds")[SHELF, "air_temperature"] < 160
    assert samples(found, "growd_commanded_ratio") == {(SHELF, "light_illuminance"): 0.4}
    assert samples(found, "growd_commanded_by_hand") == {(SHELF, "light_illuminance"): 1}
    assert samples(found, "growd_recipe_elapsed_seconds") == {(SHELF,): 5.0}
    states = samples(found, "growd_device_state")
    assert {state: states["air", SHELF, state] for state in State} == {
        state: float(state is State.FAILED) for state in State
    }
    assert samples(found, "growd_device_failures") == {("air", SHELF): 1}
    assert samples(found, "growd_database_up") == {(): 0}
    usage = shutil.disk_usage(tmp_path)
    assert samples(found, "growd_disk_size_bytes") == {(): usage.total}
    assert found["process_resident_memory_bytes"].samples[0].value > 1e6


async def test_answers_are_counted_by_their_class(tmp_path):
    async with rigged(tmp_path) as rig:
        await rig.daemon.ask("GET", "/node/nobody")
        await rig.daemon.ask("GET", "/param")
        found = await rig.metrics()
        again = await rig.metrics()
    assert samples(found, "growd_http_requests") == {
        ("1xx",): 0, ("2xx",): 1, ("3xx",): 0, ("4xx",): 1, ("5xx",): 0,
    }  # fmt: skip
    assert samples(again, "growd_http_requests")["2xx",] == 2
    assert samples(found, "growd_http_connections")[()] >= 1
    assert samples(found, "growd_http_streams") == {(): 0}


async def test_openmetrics_is_served_if_the_client_accepts_it(tmp_path):
    async with rigged(tmp_path) as rig:
        plain = await rig.page("metrics")
        other = await rig.page("metrics", **OPENMETRICS)
        odd = await rig.page("metrics", Accept="text/plain;version=x,,;=application/openmetrics-text")
    assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert odd.headers["Content-Type"] == plain.headers["Content-Type"]
    assert other.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert other.headers["Cache-Control"] == "no-store"
    read = {family.name: family for family in parse_openmetrics(other.body.decode())}
    assert read["growd_disk_free_bytes"].unit == "bytes"
    assert families(plain.body).keys() - {"process_open_fds"} <= {
        name + ("_info" if family.type == "info" else "") for name, family in read.items()
    }


async def test_the_pages_only_allow_get_and_head(tmp_path):
    async with rigged(tmp_path) as rig:
        answers = await asyncio.gather(*(rig.page("metrics") for _ in range(5)))
        assert [answer.status for answer in answers] == [200] * 5
        for page in ("metrics", "health", "ready"):
            refused = await rig.page(page, "POST")
            assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
            assert refused.json["error"] == "method_not_allowed"
            assert (await rig.page(page, "HEAD")).body == b""
            beneath = await rig.page(f"{page}/more")
            assert (beneath.status, beneath.json["error"]) == (404, "not_found")


# --- The text


def test_each_part_of_the_status_has_a_metric():
    found = rendered(FULL)
    assert samples(found, "growd_outbox_points") == {(): 5}
    assert samples(found, "growd_shipped_points") == {(): 1234}
    assert samples(found, "growd_dropped_points") == {(): 3}
    assert samples(found, "growd_rejected_points") == {(): 4}
    assert samples(found, "growd_shipping_failing") == {(): 1}
    assert samples(found, "growd_saving_failing") == {(): 0}
    assert samples(found, "growd_interlock_tripped") == {(SHELF, "too_warm"): 1}
    assert samples(found, "growd_interlock_needs_reset") == {(SHELF, "too_warm"): 1}
    assert samples(found, "growd_recipe_info") == {(SHELF, "seedling", "basil"): 1}
    assert samples(found, "growd_recipe_remaining_seconds") == {(SHELF,): 30}
    assert samples(found, "growd_replication_lag_changes") == {("points",): 7}
    assert samples(found, "growd_replication_restarts") == {("points",): 3}
    assert samples(found, "growd_machine_temperature_celsius") == {("cpu-thermal",): 48.312}
    assert samples(found, "growd_machine_trouble")["throttled",] == 1
    assert samples(found, "growd_machine_trouble_before")["throttled",] == 0
    assert samples(found, "growd_device_outage_seconds") == {("scd30_1", SHELF): 4.5}
    assert samples(found, "growd_http_requests")["5xx",] == 1
    heater, pump = (SHELF, "heater", "air_heater"), (SHELF, "pump", "nutrient_a")
    assert samples(found, "growd_output_level_ratio") == {heater: 1}
    assert samples(found, "growd_output_cycles") == {heater: 12, pump: 3}
    assert samples(found, "growd_output_on_seconds") == {heater: 3600, pump: 60}
    assert samples(found, "growd_output_energy_joules") == {heater: 720_000}
    assert samples(found, "growd_output_volume_liters") == {pump: 0.06}
    assert samples(found, "growd_component_failures") == {("recorder",): 3}
    assert samples(found, "growd_problems") == {("failure",): 4, ("warning",): 4}
    assert samples(found, "growd_verdict")[("trouble",)] == 1
    assert samples(found, "growd_healthy") == {(): 0}
    assert samples(found, "growd_interlock_expected") == {(SHELF, "too_warm"): 0}
    assert samples(found, "growd_open_alerts") == {
        ("false", "too-warm", "critical"): 2,
        ("true", "too-warm", "critical"): 1,
    }
    assert samples(found, "growd_alert_channel_failing") == {("mail",): 1, ("a",): 0}
    assert samples(found, "growd_build_info") == {("3.11.2", "0.1.0"): 1}


def test_each_controlled_variable_has_its_band_and_state():
    found = rendered(FULL)
    assert samples(found, "growd_band_min_air_humidity_ratio") == {(SHELF,): 0.55}
    assert samples(found, "growd_band_max_air_humidity_ratio") == {(SHELF,): 0.65}
    assert samples(found, "growd_band_min_air_carbon_dioxide_ppm") == {(SHELF,): 750}
    assert not [name for name in found if name.startswith(("growd_band_max_air_c", "growd_band_min_air_t"))]
    states = samples(found, "growd_attainment_state")
    assert {labels for labels, value in states.items() if value == 1} == {
        (SHELF, "missed", "air_humidity"),
        (SHELF, "reached", "air_carbon_dioxide"),
        (SHELF, "idle", "air_temperature"),
    }


def test_unknown_values_have_no_metric():
    assert not {"growd_database_up", "growd_machine_load1"} & rendered(FULL).keys()
    bare = replace(FULL, machine=None, store=None)
    assert not {"growd_disk_free_bytes", "growd_outbox_points"} & rendered(bare).keys()
    silent = msgspec.structs.replace(FULL.machine, troubles=None) if FULL.machine else None
    assert "growd_machine_trouble" not in rendered(replace(FULL, machine=silent))


def test_every_unit_of_a_variable_has_a_name():
    assert {variable.unit for variable in VARIABLES.values()} <= UNITS.keys()


def lint(found):
    """What Prometheus's practices ask of names and help."""
    for family in found:
        if not family.documentation.endswith("."):
            yield f"{family.name}: no sentence of help"
        if family.type == "unknown":
            yield f"{family.name}: no type"
        names = {sample.name for sample in family.samples}
        if family.type == "counter" and not all(name.endswith("_total") for name in names):
            yield f"{family.name}: a counter without _total"
        if family.type == "gauge" and any(name.endswith(("_total", "_count", "_sum")) for name in names):
            yield f"{family.name}: a gauge with a counter's name"
        if {"milliseconds", "minutes", "percent", "degc", "kb", "mb"} & {*family.name.split("_")}:
            yield f"{family.name}: no base unit"


def test_the_names_follow_the_practices_of_prometheus():
    own = [family for name, family in rendered(FULL).items() if name.startswith("growd_")]
    assert len(own) > 30
    assert [*lint(own)] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_wrong():
    text, _ = render(FULL, "")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


@given(
    words=st.lists(st.text(st.characters(codec="utf-8"), max_size=30), min_size=5, max_size=5),
    number=st.floats(allow_nan=False) | st.just(math.inf),
)
@pytest.mark.parametrize("accept", ["", OPENMETRICS["Accept"]])
def test_labels_may_have_any_text(accept, words, number):
    device, word, recipe, phase, sensor = words
    message = f"no answer: {word}"
    machine = FULL.machine
    odd = replace(
        FULL,
        devices=[replace(DEVICE, name=f"{SHELF}/{device}", message=message)],
        recipes=[RecipeStatus(SHELF, "paused", recipe, phase, 0.0, 0.0)],
        machine=replace(machine, temperatures_degc={sensor: number}),
    )
    text, _ = render(odd, accept)
    read = parse_openmetrics if accept else parse
    found = {family.name: family for family in read(text.decode())}
    assert (device, SHELF) in samples(found, "growd_device_successes")
    assert (SHELF, phase, recipe) in samples(found, "growd_recipe" if accept else "growd_recipe_info")
    assert samples(found, "growd_machine_temperature_celsius") == {(sensor,): number}
    assert "no answer: " not in text.decode()  # there may be any number of messages: none is a label
