"""More commands of `growd topic`, `param`, `service` and `alert` with a running daemon."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from growd.bus.fields import Field, Kind
from support.daemon import CO2, LIGHT, START
from support.terminal import begun, typed

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import Daemon
    from support.terminal import Printed


async def at(daemon: Daemon, *arguments: str) -> Printed:
    return await typed(*arguments, "--url", daemon.origin)


async def test_type_and_find_are_inverse(daemon: Daemon):
    kind = (await at(daemon, "topic", "type", LIGHT)).out.strip()
    assert kind == "std_msgs/Float64"
    assert LIGHT in (await at(daemon, "topic", "find", kind)).out.splitlines()
    assert LIGHT not in (await at(daemon, "topic", "find", "std_msgs/Bool", "--json")).json


async def test_once_is_the_default_and_excludes_rate(daemon: Daemon):
    assert (await at(daemon, "topic", "pub", "--once", LIGHT, "100")).status == 0
    assert daemon.bus.topics.get(LIGHT).last.value == 100
    refused = await at(daemon, "topic", "pub", "--once", "-r", "1", LIGHT, "200")
    assert refused.status == 2
    assert daemon.bus.topics.get(LIGHT).last.value == 100


async def test_a_topic_of_growd_is_refused_without_a_login_prompt(daemon: Daemon):
    refused = await at(daemon, "topic", "pub", CO2, "400")
    assert refused.status == 1
    assert "belongs to the node" in refused.err


async def test_the_bandwidth_of_a_topic(daemon: Daemon):
    async with begun("topic", "bw", CO2, "-n", "3", "--json", "--url", daemon.origin) as bw:
        waiting = asyncio.create_task(bw.communicate())
        while not waiting.done():
            daemon.sensor[CO2].publish(1.0)
            await asyncio.wait([waiting], timeout=0.1)
        out, err = waiting.result()
    assert (bw.returncode, err) == (0, b"")
    reported = json.loads(out.splitlines()[-1])
    assert reported["window"] == 3
    assert 0 < reported["min_bytes"] <= reported["mean_bytes"] <= reported["max_bytes"]
    assert reported["bytes_per_s"] > 0


async def test_parameters_are_dumped_and_loaded(daemon: Daemon, tmp_path: Path):
    node = daemon.bus.node("lamp")
    node.declare("lamp/gain", Field("gain", Kind.FLOAT64, default=1.0))
    node.declare("lamp/left", Field("left", Kind.FLOAT64, default=0.0), read_only=True)
    await daemon.bus.parameters.set("lamp/gain", 2.0)
    dumped = await at(daemon, "param", "dump", "lamp")
    assert dumped.json == {"lamp/gain": 2.0, "lamp/left": 0.0}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"lamp/gain": 3.0, "lamp/left": 5.0}))
    loaded = await at(daemon, "param", "load", str(file))
    assert (loaded.status, loaded.err) == (0, "")
    assert loaded.out == "set 1 of 2 parameters; 1 are read-only, the others were unchanged\n"
    assert daemon.bus.parameters.get("lamp") == {"gain": 3.0, "left": 0.0}


async def test_a_dump_of_any_text_is_json(daemon: Daemon):
    text = "20\u00a0C, soft\u00adhyphen, \x1b\U000e0041"
    await daemon.bus.parameters.set("own/text", text)
    dumped = await at(daemon, "param", "dump", "own")
    assert dumped.json == {"own/text": text}
    assert dumped.out.replace("\n", "").isprintable()


async def test_a_parameter_is_deleted_and_a_new_name_needs_new(daemon: Daemon):
    declared = Field("gain", Kind.FLOAT64, default=1.0)
    daemon.bus.node("lamp").declare("lamp/gain", declared)
    refused = await at(daemon, "param", "set", "lamp/gian", "2")
    assert refused.status == 1
    assert refused.err.endswith('has no parameter "gian" (--new would add it); did you mean lamp/gain?\n')
    assert (await at(daemon, "param", "set", "--new", "lamp/gian", "2")).out == "2\n"
    unknown = await at(daemon, "param", "get", "lamp/gia")
    assert unknown.err.endswith("did you mean lamp/gain?\n")  # and not the other typo, which is there
    assert (await at(daemon, "param", "delete", "lamp/gian")).out == ""
    await at(daemon, "param", "set", "lamp/gain", "2")
    assert (await at(daemon, "param", "delete", "lamp/gain")).out == "1.0\n"
    assert daemon.bus.parameters.get("lamp") == {"gain": 1.0}


@pytest.mark.parametrize("text", ["{", "[1]"])
async def test_an_invalid_dump_is_refused(daemon: Daemon, tmp_path: Path, text: str):
    file = tmp_path / "dump.json"
    file.write_text(text)
    refused = await at(daemon, "param", "load", str(file))
    assert refused.status == 2
    assert str(file) in refused.err


async def test_the_arguments_of_a_service_are_listed(daemon: Daemon):
    assert (await at(daemon, "service", "args", START)).out.split()[0] == "recipe_id"


async def test_a_misspelt_argument_is_refused_with_a_suggestion(daemon: Daemon):
    refused = await at(daemon, "service", "call", START, "recipe=demo_day")
    assert refused.status == 2
    assert "there is no argument recipe; did you mean recipe_id?" in refused.err
    assert daemon.runner.calls == []


async def test_arguments_by_name_and_in_order_are_not_mixed(daemon: Daemon):
    refused = await at(daemon, "service", "call", START, "recipe_id=demo_day", "3")
    assert refused.status == 2
    assert "recipe_id=... is given by name, and other arguments are not" in refused.err
    assert daemon.runner.calls == []


async def test_an_unknown_argument_by_name_is_named(daemon: Daemon):
    refused = await at(daemon, "service", "call", START, "recipe_id=demo_day", "target=3")
    assert refused.status == 2
    assert "there is no argument target; the arguments are recipe_id" in refused.err
    assert daemon.runner.calls == []


async def test_a_measurement_is_not_released(daemon: Daemon):
    refused = await at(daemon, "topic", "release", "environment_1/measured/air_temperature")
    assert refused.status == 2
    assert "a measurement can't be released; set points and commands can" in refused.err


@pytest.mark.parametrize(("words", "meant"), [(["topc", "list"], "topic"), (["stauts"], "status")])
async def test_a_misspelt_command_is_refused_with_a_suggestion(words: list[str], meant: Any):
    refused = await typed(*words)
    assert refused.status == 2
    assert f"Did you mean '{meant}'?" in refused.err
