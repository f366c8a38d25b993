"""The example flow of Node-RED: its topics are those of growd, and Node-RED runs it."""

import asyncio
import json
import os
import shutil
import time
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import aiomqtt
import pytest
from msgspec.structs import replace

from growd.status.model import OpenAlert
from support.broker import broker
from support.home import DEVICE, ENVIRONMENT, at_home, reading
from support.ports import held_port
from support.waiting import PATIENCE_S, until, until_found

FLOW = Path(__file__).parents[2] / "docs" / "examples" / "node-red" / "flow.json"
NODES = json.loads(FLOW.read_text(encoding="utf-8"))
NODE_RED = os.environ.get("GROWD_TEST_NODE_RED") or shutil.which("node-red")


def _matches(topic, wanted):
    pairs = [*zip(topic.split("/"), wanted.split("/"), strict=False)]
    return topic.count("/") == wanted.count("/") and all(each in (name, "+") for name, each in pairs)


async def test_growd_publishes_what_the_flow_reads(tmp_path):
    async with broker(tmp_path) as port, at_home(port) as home:
        home.status = replace(home.status, alerts=[_alert()])
        await until(lambda: f"growd/{DEVICE}/event" in home.seen)
        for node in NODES:
            if node["type"] == "mqtt in":
                assert any(_matches(topic, node["topic"]) for topic in home.seen), node["topic"]


def test_the_flow_retains_no_command_and_its_wires_lead_to_nodes():
    ids = {node["id"] for node in NODES}
    for node in NODES:
        assert node.get("retain", "false") == "false"
        assert {target for wires in node.get("wires", ()) for target in wires} <= ids


def _alert():
    return OpenAlert("a1", "hot", "critical", "it is hot", "2026-11-23T10:00:00+00:00", None)


@asynccontextmanager
async def _node_red(folder, broker_port):
    """Node-RED with the flow and another broker; its address."""
    flow = [each | ({"port": str(broker_port)} if each["type"] == "mqtt-broker" else {}) for each in NODES]
    (folder / "flow.json").write_text(json.dumps(flow), encoding="utf-8")
    with held_port() as port:
        settings = {"uiPort": port, "uiHost": "127.0.0.1", "telemetry": {"enabled": False}}
        (folder / "settings.js").write_text(f"module.exports = {json.dumps(settings)};", encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            str(NODE_RED), "--userDir", folder, "--settings", folder / "settings.js", folder / "flow.json",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            await process.wait()


async def _knows(session, address, word):
    """Whether the memory of the flow has the word."""
    try:
        async with session.get(f"{address}/context/flow/growd_flow") as answer:
            return word in await answer.text()
    except aiohttp.ClientError:
        return False


async def _until_known(session, address, word, absent="no such word"):
    """Wait until the memory of the flow has the word, and not `absent`."""

    async def is_known():
        return await _knows(session, address, word) and not await _knows(session, address, absent)

    await until_found(is_known)


@pytest.mark.skipif(NODE_RED is None, reason="needs node-red of npm, or its path in GROWD_TEST_NODE_RED")
@pytest.mark.timeout(150)
async def test_node_red_reads_values_passes_alerts_on_and_sets_a_set_point(tmp_path):
    async with (
        broker(tmp_path) as port,
        at_home(port) as home,
        _node_red(tmp_path, port) as address,
        aiohttp.ClientSession() as session,
    ):
        await _until_known(session, address, DEVICE)
        home.status = replace(home.status, time=time.time(), variables=[reading("air_temperature", 22.5)])
        await _until_known(session, address, "22.5")
        home.status = replace(home.status, alerts=[_alert()])
        await until(lambda: home.seen.get("home/message") == f"growd {DEVICE}: critical: it is hot")
        async with session.post(f"{address}/inject/growd_night") as answer:
            assert answer.ok
        topic = home.bus.topics.get(f"{ENVIRONMENT}/desired/air_temperature")
        await until(lambda: topic.last is not None)
        assert topic.last.value == 18.0


@pytest.mark.skipif(NODE_RED is None, reason="needs node-red of npm, or its path in GROWD_TEST_NODE_RED")
@pytest.mark.timeout(150)
async def test_node_red_takes_no_reading_and_sends_no_set_point_while_growd_is_offline(tmp_path):
    reading_topic = f"growd/{DEVICE}/{ENVIRONMENT}/measured/air_temperature"

    def body(value, age_s=0.0):
        return json.dumps({"value": value, "quality": "ok", "unit": "degC", "time": time.time() - age_s})

    async with (
        broker(tmp_path) as port,
        aiomqtt.Client("localhost", port) as client,
        aiohttp.ClientSession() as session,
    ):
        await client.subscribe(f"growd/{DEVICE}/+/desired/+/set", qos=1)
        await client.publish(reading_topic, body(11.25), qos=1, retain=True)
        async with _node_red(tmp_path, port) as address:

            async def say(text):
                await client.publish(f"growd/{DEVICE}/availability", text, qos=1)

            async with asyncio.timeout(PATIENCE_S):
                while not await _knows(session, address, DEVICE):
                    await say("online")
                    await asyncio.sleep(0.2)
            await client.publish(reading_topic, body(12.25, age_s=400), qos=1)
            await client.publish(reading_topic, body(13.25), qos=1)
            await _until_known(session, address, "13.25")
            await say("offline")
            await client.publish(reading_topic, body(14.25), qos=1)
            await _until_known(session, address, "13.25", absent=DEVICE)
            async with session.post(f"{address}/inject/growd_night") as answer:
                assert answer.ok
            await say("online")
            await _until_known(session, address, DEVICE)
            assert not await _knows(session, address, "14.25")
            async with session.post(f"{address}/inject/growd_night") as answer:
                assert answer.ok
            async with asyncio.timeout(PATIENCE_S):
                await anext(aiter(client.messages))
            assert len(client.messages) == 0
