"""`growd topic` with a running daemon."""

import asyncio
import json
import signal
from contextlib import AsyncExitStack

import pytest

from growd.bus.messages import FLOAT64, Quality
from support.daemon import CO2, LIGHT, POSITION, TOPICS, serving
from support.program import PATIENCE_S
from support.terminal import begun, line_of, typed


async def topic(daemon, *arguments, **environment):
    return await typed("topic", *arguments, "--url", daemon.origin, **environment)


async def test_topics_are_listed(daemon):
    printed = await topic(daemon, "list")
    assert (printed.status, printed.out.splitlines()) == (0, sorted(TOPICS))
    assert (await topic(daemon, "list", "--json")).json == sorted(TOPICS)
    printed = await topic(daemon, "list", "/environment_1/desired")
    assert printed.out.splitlines() == [LIGHT, "environment_1/desired/recipe_start"]
    assert (await topic(daemon, "list", "environment")).out == ""


async def test_topic_info_has_the_unit(daemon, said):
    said((await topic(daemon, "info", f"/{LIGHT}")).out.splitlines())
    reported = (await topic(daemon, "info", LIGHT, "--json")).json
    assert (reported["type"], reported["fields"][0]["unit"]) == ("std_msgs/Float64", "lux")
    assert "\x1b[" not in (await topic(daemon, "info", CO2)).out
    coloured = await topic(daemon, "info", CO2, "--color", "always", NO_COLOR="1")
    assert "\x1b[36mtype\x1b[0m" in coloured.out
    assert "\x1b[" not in (await topic(daemon, "info", CO2, "--color", "never")).out


async def test_messages_are_printed_like_rostopic_with_unit_and_quality(daemon):
    daemon.sensor[CO2].publish(612.8021180500293)
    assert (await topic(daemon, "echo", "-n", "1", CO2)).out == "data: 613  # ppm\n---\n"
    daemon.sensor[CO2].publish(None, Quality.FAULT)
    assert (await topic(daemon, "echo", "-n", "1", CO2)).out == "data: null  # ppm, fault\n---\n"
    daemon.sensor[POSITION].publish({"x": 1.0, "y": -2.5, "z": 0.0})
    printed = await topic(daemon, "echo", "-n", "1", POSITION)
    assert printed.out == "x: 1\ny: -2.5\nz: 0\n---\n"
    start = "environment_1/desired/recipe_start"
    daemon.sensor[start].publish("\x1b[2J lettuce\n")
    printed = await topic(daemon, "echo", "-n", "1", start, "--color", "always")
    assert "\x1b[2J" not in printed.out
    assert r"\u001b[2J lettuce\n" in printed.out


async def test_each_message_is_a_line_of_json(daemon):
    daemon.sensor[CO2].publish(1.0, time=5.0)
    async with begun("topic", "echo", CO2, "--json", "-n", "3", "--url", daemon.origin) as echo:
        lines = [await line_of(echo.stdout)]
        daemon.sensor[CO2].publish(2.0, Quality.WARM_UP, time=6.0)
        daemon.sensor[CO2].publish(3.0, time=7.0)
        lines += [await line_of(echo.stdout), await line_of(echo.stdout)]
        assert await asyncio.wait_for(echo.wait(), PATIENCE_S) == 0
    assert [json.loads(line) for line in lines] == [
        {"value": 1.0, "time": 5.0, "quality": "ok", "node": "scd30", "number": 1},
        {"value": 2.0, "time": 6.0, "quality": "warm-up", "node": "scd30", "number": 2},
        {"value": 3.0, "time": 7.0, "quality": "ok", "node": "scd30", "number": 3},
    ]


@pytest.mark.long
async def test_echo_of_a_silent_topic_says_that_it_waits(daemon):
    async with begun("topic", "echo", CO2, "-n", "1", "--url", daemon.origin) as echo:
        words = await line_of(echo.stderr)
        assert words == f"growd: no message on {CO2} yet; waiting for the first one (Ctrl-C ends)\n"
        daemon.sensor[CO2].publish(1.0)
        out, err = await asyncio.wait_for(echo.communicate(), PATIENCE_S)
        assert (echo.returncode, b"data: 1 " in out, err) == (0, True, b"")


async def test_ctrl_c_ends_echo_silently(daemon):
    daemon.sensor[CO2].publish(1.0)
    async with begun("topic", "echo", CO2, "--url", daemon.origin) as echo:
        await line_of(echo.stdout)
        echo.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(echo.communicate(), PATIENCE_S)
        assert (echo.returncode, out, err) == (130, b"---\n", b"")


async def test_a_closed_pipe_ends_echo_silently(daemon):
    daemon.sensor[CO2].publish(1.0)
    async with begun("topic", "echo", CO2, "--url", daemon.origin) as echo:
        await line_of(echo.stdout)
        echo._transport.get_pipe_transport(1).close()
        waiting = asyncio.create_task(echo.wait())
        while not waiting.done():  # one write may go into a pipe that is just being closed
            daemon.sensor[CO2].publish(2.0)
            await asyncio.wait([waiting], timeout=0.1)
        assert echo.returncode == 141
        assert await line_of(echo.stderr) == ""


async def test_echo_reconnects_after_a_restart(own_port):
    url = f"http://127.0.0.1:{own_port}"
    async with AsyncExitStack() as stack:
        async with serving(port=own_port) as daemon:
            daemon.sensor[CO2].publish(1.0)
            echo = await stack.enter_async_context(begun("topic", "echo", CO2, "--json", "--url", url))
            assert json.loads(await line_of(echo.stdout))["value"] == 1.0
        gone = f"growd: lost the connection to growd at {url}/_svc; reconnecting\n"
        assert await line_of(echo.stderr) == gone
        async with serving(port=own_port) as daemon:
            assert await line_of(echo.stderr) == "growd: reconnected\n"
            daemon.sensor[CO2].publish(2.0)
            assert json.loads(await line_of(echo.stdout))["value"] == 2.0
            echo.send_signal(signal.SIGINT)
            _, err = await asyncio.wait_for(echo.communicate(), PATIENCE_S)
            assert (echo.returncode, err) == (130, b"")


@pytest.mark.parametrize(
    ("name", "values", "value"),
    [
        (LIGHT, ["8e3"], 8000.0),
        ("chamber/pressure", ["-1.5e-3"], -0.0015),
        ("chamber/starts", ["3.0"], 3),
        ("chamber/door_open", ["true"], True),
        ("environment_1/desired/recipe_start", ["true"], "true"),
        ("environment_1/desired/recipe_start", ["two words"], "two words"),
        ("environment_1/desired/recipe_start", ['"quoted"'], "quoted"),
        ("environment_1/desired/recipe_start", ['"half'], '"half'),
        ("environment_1/desired/recipe_start", ["std_msgs/String"], "std_msgs/String"),
        (POSITION, ["1", "2", "-3"], {"x": 1.0, "y": 2.0, "z": -3.0}),
    ],
)
async def test_arguments_become_values_of_the_topic(daemon, name, values, value):
    printed = await topic(daemon, "pub", name, *values)
    assert (printed.status, printed.out, printed.err) == (0, "", "")
    last = daemon.bus.topics.get(name).last
    assert (last.value, type(last.value)) == (value, type(value))


async def test_a_refused_message_has_the_message_of_the_daemon(daemon, said):
    for name, *values in (
        (LIGHT, "bright"),
        (LIGHT, "-5"),
        (POSITION, "1", "2"),
        ("chamber/door_open", "1"),
        (CO2, "400"),
    ):
        printed = await topic(daemon, "pub", name, *values)
        assert (printed.status, printed.out) == (1, "")
        said(printed.err)
        assert daemon.bus.topics.get(name).last is None


async def test_a_message_without_effect_gets_a_hint_and_a_measurement_is_not_released(daemon, said):
    daemon.bus.topics.declare("e/desired/x", FLOAT64, is_open=True, note="nothing in e controls x")
    printed = await topic(daemon, "pub", "e/desired/x", "1")
    assert (printed.status, printed.out) == (0, "")
    assert printed.err == "growd: e/desired/x: nothing in e controls x\n"
    assert daemon.bus.topics.get("e/desired/x").count == 1
    refused = await topic(daemon, "release", "environment_1/measured/air_temperature")
    assert refused.status == 2
    said(refused.err.splitlines()[-1])
