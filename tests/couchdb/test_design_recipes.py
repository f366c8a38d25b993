"""The design documents of `recipes` and `environment`, and the sample recipes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from growd.variables import VARIABLES
from support.couch_client import FILES, install_design

if TYPE_CHECKING:
    from support.couch_client import Client

SAMPLES = {file.stem: json.loads(file.read_text()) for file in sorted((FILES / "recipes").glob("*.json"))}
SPAN = {"start_time": 0, "end_time": 12, "value": 8000}
PHASE = {"name": "day", "cycles": 2, "time_units": "hours", "step": {"light_illuminance": [SPAN]}}
FLEX = {"format": "flexformat", "phases": [PHASE]}


@pytest.fixture
async def recipes(couch: Client, database: str) -> str:
    await install_design(couch, database, "recipes")
    return database


@pytest.mark.parametrize(
    "recipe",
    [
        {"format": "simple", "operations": [[0, "light_illuminance", 8000], [3600, "light_illuminance", 0]]},
        {"format": "simple", "operations": [[0, "a", None], [0.5, "b", "text"], [1, "c", True]]},
        {"format": "simple", "operations": []},
        FLEX,
        {
            "format": "flexformat",
            "phases": [PHASE | {"variable_units": {"light_illuminance": "lux"}}],
            "author": "x",
        },
        {"format": "a later one", "anything": 1},
    ],
)
async def test_a_good_recipe_is_let_in(couch: Client, recipes: str, recipe: dict[str, Any]) -> None:
    assert (await couch("PUT", f"{recipes}/r", recipe)).status == 201


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ({}, "format must be the name of a recipe format, it is missing"),
        ({"format": 5}, "format must be the name of a recipe format, not 5"),
        ({"format": "simple"}, "operations must be an array, it is missing"),
        ({"format": "simple", "operations": {}}, "operations must be an array, not {}"),
        (
            {"format": "simple", "operations": ["x"]},
            'operations[0] must be [offset, variable, value], not "x"',
        ),
        (
            {"format": "simple", "operations": [[0, "a"]]},
            'operations[0] must be [offset, variable, value], not [0,"a"]',
        ),
        (
            {"format": "simple", "operations": [[0, "a", 1], ["1", "a", 1]]},
            'operations[1][0] must be an offset in seconds, 0 or more, not "1"',
        ),
        (
            {"format": "simple", "operations": [[-1, "a", 1]]},
            "operations[0][0] must be an offset in seconds, 0 or more, not -1",
        ),
        (
            {"format": "simple", "operations": [[0, 7, 1]]},
            "operations[0][1] must be the name of a variable, not 7",
        ),
        (
            {"format": "simple", "operations": [[0, "a", [1]]]},
            "operations[0][2] must be a number, a string, true, false or null, not [1]",
        ),
        ({"format": "flexformat"}, "phases must be an array of one phase or more, it is missing"),
        ({"format": "flexformat", "phases": []}, "phases must be an array of one phase or more, not []"),
        (
            {"format": "flexformat", "phases": [PHASE | {"cycles": 0}]},
            "phases[0].cycles must be a number above 0, not 0",
        ),
        (
            {"format": "flexformat", "phases": [PHASE | {"time_units": "weeks"}]},
            'phases[0].time_units must be one of days, hours, seconds, milliseconds, not "weeks"',
        ),
        (
            {"format": "flexformat", "phases": [PHASE | {"step": {"a": 1}}]},
            "phases[0].step.a must be an array, not 1",
        ),
        (
            {"format": "flexformat", "phases": [PHASE | {"step": {"a": [SPAN | {"end_time": -1}]}}]},
            "phases[0].step.a[0].end_time must be a number, start_time or more, not -1",
        ),
        (
            {"format": "flexformat", "phases": [PHASE | {"step": {"a": [{"start_time": 0, "end_time": 1}]}}]},
            "phases[0].step.a[0].value must be a number, a string, true, false or null, it is missing",
        ),
    ],
)
async def test_a_malformed_recipe_is_refused_with_the_place_that_is_wrong(
    couch: Client, recipes: str, recipe: dict[str, Any], sentence: str
) -> None:
    answer = await couch("PUT", f"{recipes}/r", recipe)
    assert (answer.status, answer.json) == (403, {"error": "forbidden", "reason": sentence})


async def test_design_documents_and_deletions_pass(couch: Client, recipes: str) -> None:
    assert (await couch("PUT", f"{recipes}/_design/mine", {"views": {}})).status == 201
    rev = (await couch("PUT", f"{recipes}/r", FLEX)).json["rev"]
    assert (await couch("DELETE", f"{recipes}/r", rev=rev)).status == 200


@pytest.mark.parametrize("name", SAMPLES)
async def test_the_sample_recipes_are_let_in(couch: Client, recipes: str, name: str) -> None:
    assert SAMPLES[name]["_id"] == name
    assert (await couch("PUT", f"{recipes}/{name}", SAMPLES[name])).status == 201


@pytest.mark.parametrize("name", SAMPLES)
def test_the_sample_recipes_ask_for_what_the_chamber_can_give(name: str) -> None:
    operations = SAMPLES[name]["operations"]
    assert [operation[0] for operation in operations] == sorted(operation[0] for operation in operations)
    for _, variable, value in operations:
        assert VARIABLES[variable].minimum <= value <= VARIABLES[variable].maximum
        assert variable != "light_illuminance" or value <= 20_000  # what the lamp reaches
    last = {variable: value for _, variable, value in operations}
    assert last["light_illuminance"] == 0


async def test_an_environment_is_free_but_for_its_name(couch: Client, database: str) -> None:
    await install_design(couch, database, "environment")
    assert (await couch("PUT", f"{database}/a", {"name": "Chamber", "x": 1})).status == 201
    assert (await couch("PUT", f"{database}/b", {"x": 1})).status == 201
    answer = await couch("PUT", f"{database}/c", {"name": 5})
    assert (answer.status, answer.json["reason"]) == (403, "name must be a string, not 5")
