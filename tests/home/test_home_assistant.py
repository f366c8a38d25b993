"""Home Assistant itself: its schemas, and a running one that discovers growd and sets a set point.

GROWD_TEST_HOME_ASSISTANT names a Python that has the packages homeassistant, home-assistant-frontend and
paho-mqtt in the versions that belong together.
"""

import asyncio
import json
import os
import subprocess
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from growd.variables import VARIABLES
from growd_home.discovery import Discovery
from support.broker import broker
from support.home import CLIMATE, ENVIRONMENT, TOPICS, Home
from support.ports import held_port
from support.waiting import PATIENCE_S, until, until_found

PYTHON = os.environ.get("GROWD_TEST_HOME_ASSISTANT", "")
CHECK = Path(__file__).parents[1] / "support" / "home_assistant_check.py"
MEASURABLE = tuple(name for name, each in VARIABLES.items() if not each.is_output)
TEMPERATURE = "sensor.growd_chamber_environment_1_air_temperature"
SET_POINT = "number.growd_chamber_environment_1_air_temperature_set_point"

pytestmark = pytest.mark.skipif(not PYTHON, reason="needs Home Assistant: see GROWD_TEST_HOME_ASSISTANT")


@pytest.mark.parametrize("commands", [True, False])
def test_home_assistant_takes_every_component(commands):
    discovery = Discovery("homeassistant", TOPICS, "chamber", "1.0", commands=commands)
    places = [CLIMATE, replace(CLIMATE, environment="shelf_2", known=MEASURABLE)]
    checked = subprocess.run(
        [PYTHON, CHECK],
        input=json.dumps(discovery.messages(places, ["lettuce"])),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(checked.stdout)
    assert found["version"] >= "2024.12"
    assert found["faults"] == []


class Assistant:
    """A running Home Assistant, and a login of its first user."""

    def __init__(self, address, session):
        self._address = address
        self._session = session
        self._headers = {}

    async def ask(self, path, data=None):
        method = "GET" if data is None else "POST"
        async with self._session.request(
            method, f"{self._address}/api/{path}", json=data, headers=self._headers
        ) as answer:
            answer.raise_for_status()
            return await answer.json()

    async def set_up(self, broker_port):
        """Make the first user, and add the integration MQTT as a person does it on the page."""
        client = f"{self._address}/"
        person = {"name": "grower", "username": "grower", "password": "secret", "language": "en"}

        async def make():
            return await self.ask("onboarding/users", {"client_id": client, **person})

        made = await until_found(make, aiohttp.ClientError)
        form = {"client_id": client, "grant_type": "authorization_code", "code": made["auth_code"]}
        async with self._session.post(f"{self._address}/auth/token", data=form) as answer:
            token = (await answer.json())["access_token"]
        self._headers = {"Authorization": f"Bearer {token}"}
        flow = await self.ask("config/config_entries/flow", {"handler": "mqtt"})
        where = {"broker": "127.0.0.1", "port": broker_port}
        done = await self.ask(f"config/config_entries/flow/{flow['flow_id']}", where)
        assert done["type"] == "create_entry"

    async def until_state(self, entity, *states):
        """Wait until an entity has one of these states."""

        async def has_state():
            return (await self.ask(f"states/{entity}"))["state"] in states

        await until_found(has_state, aiohttp.ClientResponseError)  # it may not be there yet

    async def set_number(self, entity, value):
        await self.ask("services/number/set_value", {"entity_id": entity, "value": value})


@asynccontextmanager
async def assistant(folder, broker_port):
    """Home Assistant with the integration MQTT."""
    with held_port() as port:
        http = f"http:\n  server_host: 127.0.0.1\n  server_port: {port}\n"
        more = ("api", "config", "onboarding", "auth")
        (folder / "configuration.yaml").write_text(http + "".join(f"{each}:\n" for each in more))
        process = await asyncio.create_subprocess_exec(
            PYTHON, "-m", "homeassistant", "-c", folder, "--skip-pip",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with aiohttp.ClientSession() as session:
                found = Assistant(f"http://127.0.0.1:{port}", session)
                async with asyncio.timeout(2 * PATIENCE_S):
                    await found.set_up(broker_port)
                yield found
        finally:
            process.terminate()
            await process.wait()


@pytest.mark.timeout(400)
async def test_home_assistant_discovers_growd_and_a_set_point_comes_back(tmp_path):
    async with broker(tmp_path) as port:
        folder = tmp_path / "assistant"
        folder.mkdir()
        async with assistant(folder, port) as home_assistant:
            home = Home(port)
            async with home.watched():
                async with home.running():
                    await home_assistant.until_state(TEMPERATURE, "21.5")
                    await home_assistant.until_state(SET_POINT, "unknown")
                    await home_assistant.set_number(SET_POINT, 24.5)
                    topic = home.bus.topics.get(f"{ENVIRONMENT}/desired/air_temperature")
                    await until(lambda: topic.last is not None)
                    assert topic.last.value == 24.5
                await home_assistant.until_state(TEMPERATURE, "unavailable")
