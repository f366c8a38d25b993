"""The revision of a running recipe beside the one in the database."""

import asyncio

import pytest

from growd.recipes.status import LOOK_UP_S
from support.recipes import DAY


@pytest.fixture
async def running(on):
    """The recipe `day` runs in revision 1."""
    for name in ("day", "other"):
        on.recipes[name] = DAY | {"_id": name, "_rev": "1-a"}
    await on.start("day")
    return on


async def changed(chamber):
    await chamber.runner.node.prepare()
    return chamber.runner.node.details()["recipe"]["changed"]


async def test_an_edited_document_is_shown_until_it_takes_over(running):
    assert await changed(running) == ""
    running.recipes["day"] = DAY | {"_rev": "2-b"}
    assert await changed(running) == ""  # the database is asked now and then only
    await running.clock.advance(LOOK_UP_S)
    assert await changed(running) == "2-b"
    running.database_error = ConnectionError("refused")
    await running.clock.advance(LOOK_UP_S)
    assert await changed(running) == "2-b"
    running.database_error = None
    assert (await running.ask("change_recipe"))["success"]
    assert await changed(running) == ""


async def test_a_look_up_that_is_overtaken_by_another_recipe_counts_for_nothing(running):
    fetch, begun, may_end = running.library._fetch, asyncio.Event(), asyncio.Event()

    async def slow(recipe_id):
        document = await fetch(recipe_id)
        if recipe_id == "day" and not may_end.is_set():
            begun.set()
            await may_end.wait()
        return document

    running.recipes["day"] = DAY | {"_rev": "2-b"}
    running.library._fetch = slow
    looking = asyncio.create_task(running.runner.node.prepare(), name="status")
    await begun.wait()
    await running.ask("stop_recipe")
    assert (await running.start("other"))["success"]
    may_end.set()
    await looking
    assert running.runner.node.details()["recipe"]["changed"] == ""


async def test_other_versions_are_a_problem_while_the_recipe_runs_and_are_not_recorded(on):
    on.recipes["day"] = DAY | {"_id": "day", "_rev": "2-b", "_conflicts": ["2-a"]}
    assert "growd recipe resolve day" in (await on.start("day"))["message"]
    await on.runner.node.prepare()
    (problem,) = on.runner.node.details()["problems"]
    assert (not problem.get("is_failure", False), "growd recipe resolve day" in problem["text"]) == (
        True,
        True,
    )
    assert "_conflicts" not in on.journal.run["recipe"]
    await on.ask("stop_recipe")
    await on.runner.node.prepare()
    assert on.runner.node.details()["problems"] == []
