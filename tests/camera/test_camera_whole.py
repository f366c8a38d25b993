"""Cameras in a whole daemon with simulated hardware: photos, their calls, and the light for them."""

import asyncio
import hashlib
import json
import time
from contextlib import asynccontextmanager

import aiohttp
import aiomqtt
import pytest

from growd.config import ConfigError, load
from growd.wiring.app import App
from support.broker import broker
from support.program import said as said_by_growd
from support.waiting import PATIENCE_S, until, until_found

CHAMBER = """
[http]
port = 0
[couchdb]
url = "http://127.0.0.1:1"
[simulator]
enabled = true
[light]
channel = [{ name = "white", pin = 12 }, { name = "red", pin = 13 }]
[[sensor]]
name = "bh1750_1"
kind = "bh1750"
[[camera]]
name = "top"
kind = "simulated"
width = 640
light = 0.6
[[camera]]
name = "gone"
kind = "http"
url = "http://127.0.0.1:1/snap.jpg"
"""
CHANNELS = "environment_1/light_channels"


@asynccontextmanager
async def running(folder, text=CHAMBER):
    """A daemon without a database, and a session at its API."""
    file = folder / "growd.toml"
    file.write_text(text)
    config = await asyncio.to_thread(load, file, ())
    addresses = asyncio.get_running_loop().create_future()
    app = App(config, folder / "data", database_wait_s=0.0)
    run = asyncio.create_task(app.run(lambda running: addresses.set_result(running.address)), name="growd")
    try:
        async with asyncio.timeout(PATIENCE_S):
            address = await addresses
        async with aiohttp.ClientSession(f"{address}/_svc/api/0.0.1/") as session:
            yield session
    finally:
        app.stop()
        await run


async def read(session, path):
    async with session.get(path) as answer:
        return await answer.json()


@pytest.mark.long
async def test_a_camera_takes_photos_in_its_own_light_and_clients_read_them(tmp_path):
    async with running(tmp_path) as session:
        levels = []

        async def watch():
            async with session.get(
                f"topic_stream/{CHANNELS}", headers={"Accept": "application/jsonl"}
            ) as lines:
                async for line in lines.content:
                    levels.append(line.decode())  # noqa: PERF401  the test reads it meanwhile

        watching = asyncio.create_task(watch(), name="watching the lamp")
        try:
            await until_found(lambda: _first(session), LookupError)
            async with session.post("service/environment_1/camera/top/take") as answer:
                taken = (await answer.json())["photo"]
            listed = await read(session, "photos/environment_1?limit=1")
            (newest,) = listed["photos"]
            assert newest["address"] == f"/_svc/api/0.0.1/photo/{taken['id']}"
            assert {name: newest[name] for name in taken} == taken
            assert (taken["width"], taken["height"], taken["recipe_run"]) == (640, 480, "")
            assert taken["canopy_cover"] == pytest.approx(8.6, abs=3)
            measured = await read(session, "topic_data/environment_1/measured/canopy_cover?last=true")
            assert measured["result"] == taken["canopy_cover"]
            await until(lambda: any('"x":0.6' in each for each in levels))
            await until(lambda: '"x":0.0' in levels[-1])
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await _check_pictures(session, taken)


async def _first(session):
    photos = (await read(session, "photos/environment_1"))["photos"]
    if not photos:
        raise LookupError
    return photos[0]


async def _check_pictures(session, taken):
    for path in (f"photo/{taken['id']}", "photo/latest?camera=top"):
        async with session.get(path) as answer:
            content, tag = await answer.read(), answer.headers["ETag"]
            assert (answer.content_type, len(content)) == ("image/jpeg", taken["bytes"])
        assert hashlib.sha256(content).hexdigest() == taken["sha256"] == tag.strip('"')
        async with session.get(path, headers={"If-None-Match": tag}) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
    async with session.get(f"photo/{taken['id']}?small=true") as answer:
        assert len(await answer.read()) == taken["small_bytes"] < taken["bytes"]
    async with session.head(f"photo/{taken['id']}") as answer:
        assert int(answer.headers["Content-Length"]) == taken["bytes"]
    assert (await read(session, "photos/environment_1"))["cameras"] == ["top", "gone"]
    for path in (
        "photo/0123456789ab:0000000000001-0123456789",
        "photos/shelf_2",
        "photos/environment_1?camera=nope",
        "photo/latest?camera=nope",
        "photo/latest?camera=gone",
    ):
        async with session.get(path) as answer:
            assert answer.status == 404


@pytest.mark.long
async def test_a_camera_that_is_not_there_is_a_failed_device_and_nothing_else(tmp_path):
    async with running(tmp_path) as session:
        node = "node/environment_1/camera/gone"

        async def failed():
            device = (await read(session, node))["device"]
            assert device["name"] == "environment_1/gone"
            if device["state"] != "failed":
                raise ValueError
            return device

        device = await until_found(failed, ValueError)
        assert (device["code"], device["counters"]["outages"]) == ("device_camera", 1)
        status = await read(session, "node/status")
        (notice,) = [each for each in status["status"]["notices"] if each["name"] == "environment_1/gone"]
        assert (notice["kind"], notice["severity"]) == ("device", "failure")
        async with session.post("service/environment_1/camera/gone/take") as answer:
            assert (answer.status, (await answer.json())["error"]) == (400, "refused")
        await until_found(lambda: _first(session), LookupError)  # the other one works


async def test_a_camera_that_fails_gets_no_light_until_it_works_again(tmp_path):
    # the other camera would light the lamp, too
    config = CHAMBER.replace("light = 0.6\n", "").replace('snap.jpg"', 'snap.jpg"\nlight = 1.0')
    channels = "topic_data/environment_1/commanded/light_channels?last=true"

    async def ended():
        if (await read(session, "node/environment_1/camera/gone"))["device"]["state"] != "failed":
            raise ValueError
        return await read(session, channels)

    async with running(tmp_path, config) as session:
        before = await until_found(ended, ValueError)
        assert "result" in before, before  # it was lit for the first photo
        for _ in range(2):
            async with session.post("service/environment_1/camera/gone/take") as answer:
                assert answer.status == 400
        assert await read(session, channels) == before


async def test_without_a_camera_its_calls_say_so(tmp_path):
    async with running(tmp_path, CHAMBER.partition("[[camera]]")[0]) as session:
        for path in ("photo/latest", "photo/latest?camera=top", "photos/environment_1?camera=top"):
            async with session.get(path) as answer:
                assert (answer.status, (await answer.json())["error"]) == (404, "no_camera"), path
        assert (await read(session, "photos/environment_1"))["cameras"] == []


async def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/photos").write_text("no folder")
    async with running(tmp_path) as session:
        async with session.post("service/environment_1/camera/top/take") as answer:
            told = await answer.json()
        assert (answer.status, told["error"]) == (503, "not_kept")
        assert str(tmp_path / "data/photos") in told["reason"]
        (problem,) = (await read(session, "node/photos"))["problems"]
        assert (problem["code"], problem["is_failure"]) == ("photos_not_kept", True)
        assert (await read(session, "node/environment_1/camera/top"))["device"]["state"] == "starting"


async def test_a_camera_whose_folder_cannot_be_written_has_failed_and_the_others_go_on(tmp_path):
    config = CHAMBER.replace('kind = "http"\nurl = "http://127.0.0.1:1/snap.jpg"', 'kind = "simulated"')
    (tmp_path / "data/photos/environment_1").mkdir(parents=True)
    (tmp_path / "data/photos/environment_1/gone").write_text("no folder")
    async with running(tmp_path, config) as session:

        async def states():
            names = ("top", "gone")
            nodes = [await read(session, f"node/environment_1/camera/{name}") for name in names]
            found = [node["device"]["state"] for node in nodes]
            if "starting" in found:
                raise LookupError
            return found

        assert await until_found(states, LookupError) == ["ok", "failed"]
        device = (await read(session, "node/environment_1/camera/gone"))["device"]
        assert str(tmp_path / "data/photos/environment_1/gone") in device["message"]


async def test_the_first_photo_needs_no_light_at_any_time_and_who_asks_meanwhile_gets_that_one(tmp_path):
    hour = (time.localtime().tm_hour + 6) % 24
    window = f'light = 0.6\nbegin = "{hour:02}:00"\nend = "{hour:02}:30"'
    async with running(tmp_path, CHAMBER.replace("light = 0.6", window)) as session:
        await until_found(lambda: _first(session), LookupError)
        last = await read(session, "topic_data/environment_1/commanded/light_channels?last=true")
        assert "result" not in last, last

        async def take():
            async with session.post("service/environment_1/camera/top/take") as answer:
                return (await answer.json())["photo"]["id"]

        ids = await asyncio.gather(*(take() for _ in range(5)))
        assert len({*ids}) == 1


def test_a_check_of_the_hardware_takes_a_photo_with_each_camera(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(CHAMBER)
    status, printed = said_by_growd("check", "--hardware", "--config", str(file))
    lines = dict(line.split(": ", 1) for line in printed.splitlines() if ": " in line)
    assert status == 1
    assert "640x480" in lines["top"]
    assert "127.0.0.1" in lines["gone"]
    assert not (tmp_path / "data").exists()


ODD_OPTIONS = {
    'kind = "http"': "url",
    'kind = "http"\nurl = "ftp://me:secret@camera/"': "url",
    'kind = "rpicam"\nurl = "http://camera/"': "url",
    'kind = "rpicam"\nlight = 0.5': "light",
    'kind = "simulated"\n[simulator]\nenabled = false': "kind",
    'kind = "rpicam"\n[[camera]]\nname = "top"\nkind = "rpicam"': "name",
    'kind = "rpicam"\n[[sensor]]\nname = "top"\nkind = "bh1750"': "name",
    'kind = "v4l2"\ndevice = "/dev/../etc/passwd"': "device",
    'kind = "rpicam"\nbegin = "25:00"': "begin",
    'kind = "http"\nurl = "http://camera/a b"': "url",
    'kind = "v4l2"\n[[camera]]\nname = "side"\nkind = "v4l2"': "kind",
    'kind = "rpicam"\n[[camera]]\nname = "side"\nkind = "rpicam"': "kind",
}


def test_options_that_do_not_fit_are_refused(tmp_path, said):
    file = tmp_path / "growd.toml"
    for options, path in ODD_OPTIONS.items():
        file.write_text(f'[[camera]]\nname = "top"\n{options}\n')
        with pytest.raises(ConfigError) as caught:
            load(file, ())
        said(str(caught.value))
        assert path in str(caught.value)
        assert "secret" not in str(caught.value)


@pytest.mark.long
async def test_home_automation_gets_each_photo_and_an_entity_for_it(tmp_path):
    async with broker(tmp_path) as port, aiomqtt.Client("localhost", port) as client:
        await client.subscribe("#", qos=1)
        at_broker = f'[mqtt]\nhost = "localhost"\nport = {port}\npublish = true\n'
        async with running(tmp_path, CHAMBER + at_broker) as session, asyncio.timeout(PATIENCE_S):
            entity = photo = None
            async for message in client.messages:
                topic, body = str(message.topic), bytes(message.payload)
                if topic.endswith("_environment_1/config"):
                    entity = json.loads(body)["components"]["camera_top"]
                if topic.endswith("/environment_1/photo/top"):
                    photo = topic, hashlib.sha256(body).hexdigest()
                if entity and photo:
                    break
            assert (entity["platform"], entity["image_topic"]) == ("image", photo[0])
            assert photo[1] == (await _first(session))["sha256"]
