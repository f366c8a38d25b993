"""The whole program: a sensor fails on simulated hardware, and all channels report it, over a restart."""

import asyncio
import json
import signal
from urllib.parse import quote

import pytest
from aiohttp import web

from support.broker import PASSWORD as BROKER_PASSWORD
from support.broker import USER as BROKER_USER
from support.broker import broker, listening
from support.http_server import serving_http
from support.mail import PASSWORD, USER, Mailbox, mail_server
from support.program import PATIENCE_S, home_on, started
from support.program import said as growd
from support.tls_door import CA_FILE

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

CONFIGURATION = """
[simulator]
speed = 60

[mqtt]
host = "localhost"
port = {broker}
user = "{broker_user}"
password_file = "{folder}/broker-password"

[[notify]]
name = "mail"
kind = "apprise"
url_file = "{folder}/mail"
ca_file = "{ca}"

[[notify]]
name = "broker"
kind = "mqtt"

[[notify]]
name = "hook"
kind = "apprise"
url_file = "{folder}/hook"

[[alert]]
name = "sensor"
kind = "device_failed"
device = "scd30_1"
for_s = 20
"""


def wrote(folder, box, broker_port, hook):
    """A configuration with all three channels, and its secrets beside it."""
    login = f"{USER}:{quote(PASSWORD, safe='')}"
    secrets = {
        "mail": f"mailtos://{login}@localhost:{box.port}?from=growd@example.org&to=grower@example.org",
        "broker-password": BROKER_PASSWORD,
        "hook": f"{hook.replace('http', 'json')}/alerts",
    }
    for name, secret in secrets.items():
        (folder / name).write_text(f"{secret}\n", encoding="utf-8")
        (folder / name).chmod(0o600)
    file = folder / "growd.toml"
    file.write_text(
        CONFIGURATION.format(broker=broker_port, ca=CA_FILE, broker_user=BROKER_USER, folder=folder)
    )
    return file


async def title(queue):
    """Of the next message to a webhook."""
    async with asyncio.timeout(PATIENCE_S):
        return str((await queue.get())["title"])


async def event(heard):
    """The phase in the next event that is no test."""
    while True:
        document = json.loads(bytes((await heard.next("event")).payload))
        if not document["test"]:
            return document["alerts"][0]["phase"]


async def alert(program, *arguments):
    """The output of `growd alert`."""
    return await asyncio.to_thread(growd, "alert", *arguments, "--url", program.address)


FAULT = {"kind": "absent", "device": "scd30"}


async def test_a_failed_sensor_is_reported_on_all_channels_once_and_its_end_after_a_kill(
    tmp_path, database_server
):
    posted = asyncio.Queue()

    async def take(request):
        posted.put_nowait(await request.json())
        return web.Response(status=204)

    async with (
        home_on(database_server, shared=True) as home,
        mail_server("starttls", login=True) as box,
        broker(tmp_path, login=True) as broker_port,
        serving_http(take) as hook,
        listening(broker_port, username=BROKER_USER, password=BROKER_PASSWORD) as heard,
    ):
        config = wrote(tmp_path, box, broker_port, hook)
        options = ("--config", str(config), *home.arguments)
        async with started(tmp_path / "data", *options) as program:
            assert await alert(program, "test") == (0, "sent a test message on 3 channels\n")
            assert (await box.arrived(1))[0]["Subject"].endswith("test message")
            assert "test message" in await title(posted)
            injected = await program.ask("POST", "service/simulator/inject_fault", FAULT)
            assert injected["success"] is True, injected

            assert "warning: the device scd30_1 has failed" in await title(posted)
            begin = (await box.arrived(2))[1]
            assert "critical" not in begin["Subject"]
            assert "warning: the device scd30_1 has failed" in begin["Subject"]
            assert box.was_encrypted == [True, True]
            assert await event(heard) == "start"
            sent = []
            while sent != [1, 1, 1]:  # servers have a message before growd has their answers
                sent = [each["sent"] for each in (await program.ask("GET", "node/alerts"))["channels"]]
            status, printed = await alert(program, "list")
            assert status == 1
            assert "warning: the device scd30_1 has failed" in printed
            acknowledged = await alert(program, "acknowledge", "sensor", "--by", "Ada")
            assert acknowledged == (0, "1 alert acknowledged\n")  # so that it is saved
            await program.end(signal.SIGKILL)

        async with started(tmp_path / "data", *options) as program:  # where the sensor is well
            assert "ended: the device scd30_1" in await title(posted)
            assert "ended: the device scd30_1" in (await box.arrived(3))[2]["Subject"]
            assert await event(heard) == "end"
            status, printed = await alert(program, "list")
            assert (status, printed.splitlines()[0]) == (0, "No alert is open.")
            status, words = await program.end(signal.SIGTERM)
            assert status == 0, words
    assert posted.empty()


def test_a_missing_secret_prevents_the_start(tmp_path):
    config = wrote(tmp_path, Mailbox(), 1, "http://127.0.0.1:1")
    (tmp_path / "hook").unlink()
    without = ("--port", "0", "--set", "couchdb.url=http://127.0.0.1:1")
    status, printed = growd("run", "--data", str(tmp_path / "data"), "--config", str(config), *without)
    assert status == 1
    assert f"[notify] url_file: hook: {tmp_path}/hook can't be read: No such file" in printed


def test_invalid_rules_are_refused_with_their_lines(tmp_path, said):
    file = tmp_path / "growd.toml"
    file.write_text(
        '[[alert]]\nname = "a"\nkind = "out_of_band"\nvariable = "water_temperature"\nbelow = 5\n'
        'above = 4\nchannels = ["nobody"]\n'
        '[[notify]]\nname = "m"\nkind = "apprise"\n[[notify]]\nname = "n"\nkind = "mqtt"\nurl_file = "x"\n'
    )
    status, printed = growd("check", "--config", str(file))
    assert status == 1
    said(printed.splitlines())
