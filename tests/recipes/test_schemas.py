"""The JSON Schemas, compared with growd's own checks."""

import json
import re
import subprocess
import sys

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.recipes.findings import errors
from growd.recipes.grammar import STUDY
from growd.recipes.interpreter import FORMATS, check, schema_of
from growd.variables import VARIABLES
from growd_analysis.runs.tables import TERMS
from support.couch_client import FILES
from support.malformed_recipes import MALFORMED, SOUND
from support.recipe_strategies import FLEXFORMAT, PHASED, SIMPLE, mutated

SCHEMAS = {name: schema_of(name) for name in FORMATS}
VALIDATORS = {name: jsonschema_rs.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
TOOL = FILES.parent / "tools" / "recipe-grammar"
MANUAL = FILES.parent / "docs" / "recipes.md"
SAMPLES = [json.loads(file.read_text()) for file in sorted((FILES / "recipes").glob("*.json"))]
SOME = st.one_of(SIMPLE, FLEXFORMAT, PHASED)


def fits(recipe):
    """Whether it fits the schema of its format, or any schema if its format is unknown."""
    name = recipe.get("format") if isinstance(recipe, dict) else None
    names = [name] if isinstance(name, str) and name in VALIDATORS else VALIDATORS
    return any(VALIDATORS[each].is_valid(recipe) for each in names)


@pytest.mark.parametrize("name", FORMATS)
def test_a_schema_is_valid_and_its_examples_run(name):
    schema = SCHEMAS[name]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(schema)
    assert schema["title"]
    assert schema["description"]
    assert json.dumps(list(VARIABLES)) in json.dumps(schema)
    for example in schema["examples"]:
        assert check(example) == []
        assert fits(example)


def test_the_grammars_in_the_database_are_current():
    subprocess.run([sys.executable, TOOL, "--check"], check=True)


@pytest.mark.parametrize("recipe", [*SOUND, *SAMPLES])
def test_valid_recipes_fit_their_schema(recipe):
    assert not errors(check(recipe))
    assert fits(recipe)


def test_the_recipes_in_the_documentation_are_valid():
    recipes = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", MANUAL.read_text(), re.DOTALL)]
    assert {recipe["format"] for recipe in recipes} == FORMATS.keys()
    assert [check(recipe) for recipe in recipes] == [[]] * len(recipes)
    assert all(map(fits, recipes))


@pytest.mark.parametrize(("recipe", "pointer"), MALFORMED)
def test_malformed_recipes_are_refused_by_growd_and_the_schema(recipe, pointer):
    assert pointer in {finding.pointer for finding in errors(check(recipe))}
    assert not fits(recipe)


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"growd_for": ["group:school", "0123456789ab"]}, None),
        ({"growd_for": []}, "/growd_for"),
        ({"growd_for": "group:school"}, "/growd_for"),
        ({"growd_for": ["school"]}, "/growd_for/0"),
        ({"growd_for": [1]}, "/growd_for/0"),
        ({"study": {"cultivar": "Rex", "replicate": "2"}}, None),
        ({"study": {"cultivar": ""}}, "/study/cultivar"),
        ({"study": {"replicate": 2}}, "/study/replicate"),
        ({"study": {"treatment": "blue\nred"}}, "/study/treatment"),
        ({"study": {"kultivar": "Rex"}}, "/study/kultivar"),
        ({"study": "Rex"}, "/study"),
    ],
)
def test_a_recipe_may_be_for_some_devices_and_say_what_its_runs_are_in_an_experiment(members, pointer):
    recipe = SOUND[0] | members
    assert [finding.pointer for finding in errors(check(recipe))] == [pointer] * (pointer is not None)
    assert fits(recipe) == (pointer is None)


def test_each_member_of_a_study_has_its_name_in_miappe():
    assert STUDY["properties"].keys() == TERMS.keys()


@given(SOME)
def test_generated_recipes_fit_their_schema(recipe):
    assert not errors(check(recipe))
    assert fits(recipe)


@given(mutated(SOME))
def test_growd_refuses_what_the_schema_refuses(recipe):
    try:
        document = json.loads(json.dumps(recipe, allow_nan=False))
        document_fits = fits(document)
    except ValueError:
        return  # no JSON, or half a character
    if not document_fits:
        assert errors(check(document))
