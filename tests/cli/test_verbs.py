"""More commands of `growd topic`, `param`, `service` and `alert` with a running daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from growd.bus.fields import Field, Kind
from support.daemon import CO2, START
from support.terminal import typed

if TYPE_CHECKING:
    from support.daemon import Daemon
    from support.terminal import Printed


async def at(daemon: Daemon, *arguments: str) -> Printed:
    return await typed(*arguments, "--url", daemon.origin)


async def test_a_topic_of_growd_is_refused_without_a_login_prompt(daemon: Daemon):
    refused = await at(daemon, "topic", "pub", CO2, "400")
    assert refused.status == 1
    assert "belongs to the node" in refused.err


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


async def test_arguments_by_name_and_in_order_are_not_mixed(daemon: Daemon):
    refused = await at(daemon, "service", "call", START, "recipe_id=demo_day", "3")
    assert refused.status == 2
    assert "3 is no argument by name" in refused.err
    assert daemon.runner.calls == []


async def test_an_unknown_argument_by_name_is_named(daemon: Daemon):
    refused = await at(daemon, "service", "call", START, "recipe_id=demo_day", "target=3")
    assert refused.status == 2
    assert "target is no argument by name" in refused.err
    assert "recipe_id" in refused.err
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
