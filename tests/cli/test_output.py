"""How commands print: numbers with sensible digits, and nothing that controls the terminal."""

import json
from urllib.parse import quote

import aiohttp
import click
import pytest

from growd_cli.output import number, safe_json, table, text_of, tree
from support.program import started
from support.terminal import typed

HOSTILE = "a\x1b[2J\x9b8m\r\n\u202eb\x7f\t"
"""A name with ESC, C1, line ends, a change of direction, DEL and a tabulator."""

RUN = {
    "environment": "environment_1", "recipe_id": HOSTILE, "recipe_rev": "1-a", "recipe": {}, "started": 1.0,
    "started_by": HOSTILE, "ended": 2.0, "ended_by": HOSTILE, "end_reason": HOSTILE,
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "variable", "text"),
    [
        (8185.802118050029, "light_illuminance", "8185.8"),
        (8185.802118050029, "air_carbon_dioxide", "8186"),
        (24.0, "air_temperature", "24"),
        (-0.001, "air_temperature", "0"),
        (0.5, "air_flush_on", "0.5"),
        (3.72917e-05, "", "0.00004"),
        (1_795_900_063.25, "", "1795900063"),
        (0.1 + 0.2, "", "0.3"),
        (7, "", "7"),
        (1e300, "", "1e+300"),
        (float("nan"), "", "nan"),
    ],
)
def test_numbers_have_sensible_digits(value, variable, text):
    assert number(value, variable) == text


def test_all_numbers_of_a_tree_are_rounded_unless_they_are_asked_for_as_they_are():
    value = {"a": {"b": 1 / 3}, "c": [1 / 3, "x"]}
    assert [*map(click.unstyle, tree(value))] == ["a:", "  b: 0.33333", 'c: [0.33333, "x"]']
    assert "  b: 0.3333333333333333" in [*map(click.unstyle, tree(value, leaf=text_of))]


def test_names_do_not_control_the_terminal():
    lines = [*table(("name", "x"), [(HOSTILE, HOSTILE)]), *tree({HOSTILE: {"x": HOSTILE, "y": [HOSTILE]}})]
    assert [line for line in map(click.unstyle, lines) if not line.isprintable()] == []


def test_json_is_the_same_document_without_control_characters():
    text = safe_json(json.dumps({"x": HOSTILE, "y": "\U000e0001"}, ensure_ascii=False, indent=2))
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.loads(text) == {"x": HOSTILE, "y": "\U000e0001"}


@pytest.mark.long
async def test_no_command_prints_names_of_clients_as_they_are(tmp_path):
    async with started(tmp_path / "data") as program:
        await program.until_there("recipes/demo_day")
        recipe = {"format": "simple", "name": HOSTILE, "operations": [[0, "light_illuminance", 1]]}
        async with aiohttp.ClientSession() as session:
            for path, body in ((f"recipes/{quote(HOSTILE)}", recipe), (f"recipe_run/{quote(HOSTILE)}", RUN)):
                async with session.put(f"{program.address}/{path}", json=body) as answer:
                    assert answer.status == 201, await answer.text()
        lists = [("recipe", "list"), ("run", "list"), ("note", "list"), ("param", "get", "a"), ("status",)]
        for words in (
            ("note", "add", HOSTILE, "--by", HOSTILE),
            ("param", "set", "a/b", HOSTILE),
            *lists,
            *((*words, "--json") for words in lists),
            ("recipe", "show", HOSTILE),
            ("recipe", "resolve", HOSTILE),
        ):
            printed = await typed(*words, "--url", program.address)
            lines = (printed.out + printed.err).split("\n")
            assert [line for line in map(click.unstyle, lines) if not line.isprintable()] == [], words
