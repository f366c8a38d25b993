"""`growd status`, asked of real servers."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest
from aiohttp import web

from growd.client import Address, Client, ClientError
from growd.control.health import Health
from growd.status import Counters, DeviceStatus, is_running, status_of, table
from growd.store.replication_health import ReplicationHealth
from support.daemon import serving
from support.program import failed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from support.daemon import Daemon


def health(daemon: Daemon, device: str) -> Health:
    bus = daemon.bus
    return Health(bus.node(f"environment_1/samplers/{device}"), "environment_1", device, bus.clock)


async def asked(daemon: Daemon, *arguments: str) -> tuple[int, str]:
    return await failed("status", "--url", daemon.origin, *arguments)


async def test_devices_that_work_are_a_table_and_a_success():
    async with serving() as daemon:
        health(daemon, "scd30_1").succeeded()
        health(daemon, "bh1750_1").warming_up("bh1750_1 has no reading yet")
        exit_status, printed = await asked(daemon)
    assert exit_status == 0
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0] == ["device", "state", "for", "successes", "failures", "outages", "last", "error"]
    assert sorted((line[0], line[1], line[-4:]) for line in lines[1:]) == [
        ("environment_1/bh1750_1", "warm-up", ["0", "0", "0", "-"]),
        ("environment_1/scd30_1", "ok", ["1", "0", "0", "-"]),
    ]


async def test_a_device_that_has_failed_is_told_with_its_error():
    async with serving() as daemon:
        health(daemon, "scd30_1").succeeded()
        health(daemon, "bh1750_1").failed("the wire is broken")
        exit_status, printed = await asked(daemon)
        assert exit_status == 1
        assert "the wire is broken (" in printed
        exit_status, printed = await asked(daemon, "--json")
        assert exit_status == 1
    told = {device["name"]: device for device in json.loads(printed)["devices"]}
    assert told["environment_1/bh1750_1"]["state"] == "failed"
    assert told["environment_1/bh1750_1"]["counters"]["last_error"] == "the wire is broken"
    assert told["environment_1/scd30_1"]["counters"]["successes"] == 1


async def test_what_is_replicated_is_a_second_table():
    async with serving() as daemon:
        health(daemon, "scd30_1").succeeded()
        node = daemon.bus.node("replication")
        points = ReplicationHealth(node, "points", "points here", "http://far/points")
        recipes = ReplicationHealth(node, "recipes_down", "http://far/recipes", "recipes here")
        node.describe("replications", lambda: msgspec.to_builtins([points.status(), recipes.status()]))
        points.lag = 12
        points.failing("the far side: Connection refused")
        recipes.running()
        exit_status, printed = await asked(daemon)
        assert exit_status == 0  # the chamber is well
        _, told = await asked(daemon, "--json")
    headings, first, second = printed.splitlines()[-3:]
    assert headings.split()[:6] == ["replication", "state", "for", "lag", "refused", "restarts"]
    assert first.startswith("points        failing  ")
    assert "12        0         0  the far side: Connection refused (" in first
    assert second.startswith("recipes_down  running  ")
    assert second.endswith("?        0         0  -")
    assert [(each["name"], each["lag"]) for each in json.loads(told)["replications"]] == [
        ("points", 12),
        ("recipes_down", None),
    ]


@pytest.mark.parametrize("needs_reset", [False, True])
async def test_an_interlock_that_has_tripped_is_told_and_one_that_needs_a_reset_is_a_failure(needs_reset):
    async with serving() as daemon:
        health(daemon, "scd30_1").succeeded()
        states = [
            {
                "name": "e/interlocks/one",
                "tripped": True,
                "reason": "it is too warm",
                "needs_reset": needs_reset,
            },
            {"name": "e/interlocks/other", "tripped": False, "reason": "", "needs_reset": False},
        ]
        now = daemon.bus.clock.time()
        node = daemon.bus.node("e/interlocks")
        node.describe("interlocks", lambda: [{**state, "since": now} for state in states])
        exit_status, printed = await asked(daemon)
        assert exit_status == needs_reset
        (line,) = [line for line in printed.splitlines() if "interlocks" in line]
        assert line.startswith("e/interlocks/one has tripped, for ")
        assert (": it is too warm; reset it with the service e/interlocks/one/reset" in line) == needs_reset
        _, told = await asked(daemon, "--json")
    assert [(each["name"], each["tripped"]) for each in json.loads(told)["interlocks"]] == [
        ("e/interlocks/one", True),
        ("e/interlocks/other", False),
    ]


def test_the_table_is_aligned_and_tells_how_long_ago():
    now = 1_000_000.0
    found = [
        DeviceStatus("air", "ok", now - 93_784, "ok", Counters(1200, 3, 1, 60.0, "no answer", now - 125)),
        DeviceStatus("light", "starting", now + 1, "starting", Counters(0, 0, 0, 0.0, "", 0.0)),
        DeviceStatus("ahead", "failed", now + 60, "no", Counters(0, 1, 1, 0.0, "no", now + 60)),
    ]
    assert table(found, now).splitlines() == [
        "device  state     for      successes  failures  outages  last error",
        "air     ok        1 d 2 h       1200         3        1  no answer (2 min 5 s ago)",
        "light   starting  0 s              0         0        0  -",
        "ahead   failed    ?                0         1        1  no (? ago)",
    ]


async def test_a_daemon_that_does_not_run_is_one_sentence_and_a_status_of_its_own():
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        exit_status, printed = await failed("status", "--url", f"http://user:secret@127.0.0.1:{port}/_svc")
    assert exit_status == 3
    assert printed == f"growd: growd does not answer at http://127.0.0.1:{port}/_svc: is it running?\n"


async def test_a_wrong_configuration_is_one_sentence():
    exit_status, printed = await failed("status", "--set", "http.prot=1")
    assert (exit_status, printed.count("\n")) == (1, 1)
    assert "[http] prot: unknown option" in printed


@asynccontextmanager
async def answering(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], patience_s: float = 10.0
) -> AsyncIterator[Client]:
    """A client of a server that is not growd."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        with Client(Address("http", host, port, "/_svc"), timeout_s=patience_s) as client:
            yield client
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (404, "{}", "is not growd \\(HTTP status 404\\)"),
        (302, "", "is not growd \\(HTTP status 302\\)"),
        (200, "<html>", "is not growd \\(JSON is malformed"),
        (200, '{"couchdb": "Welcome"}', "is not growd \\(Object missing required field `results`"),
    ],
)
async def test_what_is_not_growd_is_told(code: int, body: str, words: str):
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=code, text=body, headers={"Location": "/"})

    async with answering(answer) as client:
        with pytest.raises(ClientError, match=words):
            await asyncio.to_thread(status_of, client)
        assert not await asyncio.to_thread(is_running, client)


async def test_what_never_answers_is_told():
    never = asyncio.Event()

    async def wait(_: web.BaseRequest) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    async with answering(wait, patience_s=0.05) as client:
        with pytest.raises(ClientError, match=r"has not answered at \S+ within 0.05 s"):
            await asyncio.to_thread(status_of, client)
        never.set()


async def test_a_node_that_has_left_meanwhile_is_no_error():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/node"):
            return web.json_response({"results": ["gone"]})
        return web.json_response({"ERROR": "there is no node", "error": "not_found"}, status=404)

    async with answering(answer) as client:
        assert await asyncio.to_thread(is_running, client)
        assert (await asyncio.to_thread(status_of, client)).devices == []
