"""The design documents of `recipes` and `environment`, and the sample recipes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd.recipes.findings import errors
from growd.recipes.interpreter import check, interpret
from support import recipe_strategies
from support.couch_client import FILES, install_design
from support.malformed_recipes import MALFORMED, SOUND, SPAN
from support.recipe_strategies import mutated
from support.rows import each

SAMPLES = {file.stem: json.loads(file.read_text()) for file in sorted((FILES / "recipes").glob("*.json"))}
FLEX, PHASED = SOUND[1], SOUND[3]


@pytest.fixture
async def recipes(couch, database):
    await install_design(couch, database, "recipes")
    return database


@each("recipe", [*SOUND, FLEX | {"author": "x"}, {"format": "a later one", "anything": 1}])
async def test_valid_recipes_and_those_of_unknown_formats_are_stored(couch, recipes, recipe):
    assert (await couch("POST", recipes, recipe)).status == 201


@pytest.mark.long
@each(("recipe", "pointer"), MALFORMED)
async def test_the_error_for_a_malformed_recipe_names_the_place(couch, recipes, recipe, pointer):
    answer = await couch("PUT", f"{recipes}/r", recipe)
    assert (answer.status, answer.json["error"]) == (403, "forbidden")
    assert answer.json["reason"].startswith(f"{pointer}: expected ")


@each(
    "recipe",
    [
        {},
        {"format": "simple", "operations": [[0, "a", 1], ["1", "a", 1]]},
        PHASED | {"phases": [{"duration": 1, "time_units": "days", "daily": {"a": [{"at": "6:00"}]}}]},
        FLEX | {"phases": [FLEX["phases"][0] | {"step": {"a": [SPAN | {"start_time": 13}]}}]},
    ],
)
async def test_the_error_names_the_expected_and_the_given_value(couch, recipes, said, recipe):
    answer = await couch("PUT", f"{recipes}/r", recipe)
    assert answer.json["error"] == "forbidden"
    said(answer.json["reason"])


@pytest.fixture(scope="module")
def made():
    """Valid recipes, and many that were damaged.

    This may take longer than the idle timeout of a server's connection. As a fixture of the module, it runs
    before a test connects.
    """
    older = st.one_of(recipe_strategies.SIMPLE, recipe_strategies.FLEXFORMAT)
    sound = collected(st.one_of(older, recipe_strategies.PHASED), 60)
    return sound + collected(mutated(older), 60) + collected(mutated(recipe_strategies.PHASED), 60)


async def test_the_database_refuses_only_recipes_that_would_not_run(couch, recipes, made):
    documents = [{**recipe, "_id": f"r{number}"} for number, recipe in enumerate(filter(is_json, made))]
    results = (await couch("POST", f"{recipes}/_bulk_docs", {"docs": documents})).json
    refused = {result["id"] for result in results if result.get("error") == "forbidden"}
    assert {result.get("error") for result in results} == {None, "forbidden"}
    assert len(refused) > 50
    assert [one["_id"] for one in documents if one["_id"] in refused and not errors(check(one))] == []


def collected(strategy, number):
    """Examples for one request, because hypothesis cannot repeat a test with asynchronous fixtures."""
    found = []

    @settings(max_examples=number)
    @given(strategy)
    def collect(example):
        found.append(example)

    collect()
    return found


def is_json(recipe):
    """Whether every server can read it: valid characters, and numbers in the range of a float."""
    try:
        text = json.dumps(recipe, allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError:
        return False
    return "0" * 300 not in text


async def test_design_documents_long_recipes_and_deletions_pass(couch, recipes):
    assert (await couch("PUT", f"{recipes}/_design/mine", {"views": {}})).status == 201
    operations = [[second, "air_temperature", 20.5] for second in range(10_000)]
    stored = await couch("PUT", f"{recipes}/r", {"format": "simple", "operations": operations})
    assert stored.status == 201
    assert (await couch("DELETE", f"{recipes}/r", rev=stored.json["rev"])).status == 200


@each("name", SAMPLES)
async def test_the_sample_recipes_are_stored(couch, recipes, name):
    assert SAMPLES[name]["_id"] == name
    assert (await couch("PUT", f"{recipes}/{name}", SAMPLES[name])).status == 201


@each("name", SAMPLES)
def test_the_sample_recipes_fit_the_chamber(name):
    """A lamp of 20 000 lux, CO2 and a climate, without a warning."""
    reach = {
        "light_illuminance": (0.0, 20_000.0),
        "air_carbon_dioxide": (0.0, 40_000.0),
        "air_temperature": (0.0, 40.0),
        "air_humidity": (0.0, 100.0),
        "water_potential_hydrogen": (0.0, 14.0),
        "water_electrical_conductivity": (0.0, 5.0),
        "water_level": (0.0, 100.0),
        "water_circulation": (0.0, 1.0),
    }
    plan, warnings = interpret(SAMPLES[name], reach)
    assert warnings == []
    midnight = 86_400.0
    assert plan.set_points(plan.duration, midnight)["light_illuminance"] == 0


async def test_an_environment_needs_only_its_name(couch, database):
    await install_design(couch, database, "environment")
    assert (await couch("PUT", f"{database}/a", {"name": "Chamber", "x": 1})).status == 201
    assert (await couch("PUT", f"{database}/b", {"x": 1})).status == 201
    answer = await couch("PUT", f"{database}/c", {"name": 5})
    assert (answer.status, answer.json["reason"]) == (403, "name must be a string, not 5")
