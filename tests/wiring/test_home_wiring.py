"""The bridge to home automation in a whole daemon with simulated hardware."""

import asyncio
import functools

import pytest
from msgspec.structs import replace

from growd.config import load
from growd.config.profiles import profile_path
from growd.status.model import BridgeStatus
from growd.wiring.app import App
from growd_cli.status_table import report
from support.broker import broker
from support.home import Watcher
from support.status import EMPTY
from support.waiting import PATIENCE_S, until

SETTINGS = (
    "http.port=0",
    "couchdb.url=http://127.0.0.1:1",  # no database
    "mqtt.host=localhost",
    "mqtt.publish=true",
    "mqtt.commands=true",
)
offline_app = functools.partial(App, database_wait_s=0.0)


@pytest.mark.long
async def test_a_simulated_chamber_is_published_and_takes_a_set_point_and_a_command(tmp_path):
    async with broker(tmp_path) as port:
        config = await asyncio.to_thread(load, profile_path("climate"), (*SETTINGS, f"mqtt.port={port}"))
        app, home, started = offline_app(config, tmp_path / "data"), Watcher(port), asyncio.Event()
        async with home.watched():
            run = asyncio.create_task(app.run(lambda _: started.set()), name="growd")
            await started.wait()

            def said(*names):
                lead = next((each for each in home.seen if each.endswith("/availability")), "/")
                return home.seen.get("/".join((lead.removesuffix("/availability"), *names))) or {}

            await until(lambda: said("environment_1", "measured", "air_temperature").get("quality") == "ok")
            lead = next(each for each in home.seen if each.endswith("/availability")).removesuffix(
                "availability"
            )
            await home.client.publish(f"{lead}environment_1/desired/air_temperature/set", "26.5", qos=1)
            await until(lambda: said("environment_1", "desired", "air_temperature").get("value") == 26.5)
            assert said("environment_1", "desired", "air_temperature")["by"] == "hand"
            await home.client.publish(f"{lead}environment_1/commanded/water_circulation/set", "1", qos=1)
            await until(lambda: said("environment_1", "outputs", "circulation").get("level") == 1.0)
            assert said("environment_1", "commanded", "water_circulation")["hand_left_s"] == 600
            await home.client.publish(f"{lead}hold/set", "ON", qos=1)
            await until(lambda: said("hold").get("held") is True)
            await until(lambda: said("environment_1", "outputs", "circulation").get("level") == 0.0)
            app.stop()
            await run
            await until(lambda: home.seen[f"{lead}availability"] == "offline")


async def test_growd_without_a_broker_starts_and_tells_it(tmp_path):
    config = await asyncio.to_thread(load, profile_path("climate"), (*SETTINGS, "mqtt.port=1"))
    app, started = offline_app(config, tmp_path), asyncio.Event()
    run = asyncio.create_task(app.run(lambda _: started.set()), name="growd")
    async with asyncio.timeout(PATIENCE_S):
        await started.wait()
    app.stop()
    await run


def test_growd_status_shows_the_bridge():
    bridge = BridgeStatus("broker", 1883, True, "", "growd/0123456789ab", True, 90, 4, 1)
    away = replace(bridge, is_connected=False, reason="refused", takes_commands=False)
    takes = "growd publishes on growd/0123456789ab/# and takes commands (4 carried out, 1 refused)"
    for each, words in ((bridge, takes), (away, "growd is not connected: refused")):
        assert f"MQTT broker broker:1883: {words}" in report(replace(EMPTY, bridge=each)).splitlines()
