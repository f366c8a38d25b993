"""The services check_recipe and recipe_plan, as a page calls them."""

import asyncio
import threading

import pytest

from growd_analysis.recipes.desk import MAX_CALLS
from support.recipes import BEGAN, DAY, LIGHT, TEMPERATURE

BAD = {"format": "simple", "operations": [[-1, TEMPERATURE, 20], [0, "nothing", 1]]}


async def plan(chamber, **arguments):
    return await chamber.bus.services.get("e/recipe_plan").call(arguments)


async def test_an_unsaved_recipe_is_checked_and_drawn_for_any_start(on):
    operations = [[100, LIGHT, 8000], [0, TEMPERATURE, 20], [200, LIGHT, 0]]
    document = {"format": "simple", "operations": operations}
    checked = await on.bus.services.get("e/check_recipe").call({"recipe": document})
    assert (checked["valid"], checked["duration"]) == (True, 200)
    answer = await plan(on, recipe=document, start=BEGAN + 3600)
    assert answer["success"], answer
    assert (answer["message"], answer["plan"]["start"]) == ("the plan of the recipe", BEGAN + 3600)
    assert [finding["pointer"] for finding in answer["findings"]] == ["/operations/1/0"]
    assert (answer["plan"]["state"], answer["plan"]["elapsed"]) == ("idle", 0)
    assert [(each["time"] - BEGAN, each["from"], each["to"]) for each in answer["plan"]["next"]] == [
        (3600, None, 20),
        (3700, None, 8000),
        (3800, 20, None),
        (3800, 8000, None),
    ]
    assert (await plan(on, recipe=document))["plan"]["start"] == BEGAN


async def test_the_errors_of_a_recipe_are_findings_with_places(on):
    on.recipes["bad"] = BAD
    checked = await on.bus.services.get("e/check_recipe").call({"recipe": BAD})
    assert checked["duration"] == 0
    for arguments, name in (({"recipe": BAD}, "the recipe"), ({"recipe_id": "bad"}, "the recipe bad")):
        answer = await plan(on, **arguments)
        assert (answer["success"], answer["plan"]) == (False, None)
        assert answer["message"].startswith(f"{name} is not valid: /operations/0/0: expected the offset")
        assert answer["findings"] == checked["findings"]
        assert len(answer["findings"]) == 2


@pytest.mark.parametrize("document", [3, "text", [], {}, {"format": None}])
async def test_anything_can_be_typed(on, document):
    answer = await plan(on, recipe=document)
    assert (answer["success"], [each["severity"] for each in answer["findings"]]) == (False, ["error"])


async def test_the_plan_of_the_run_has_its_position_and_coming_changes(on):
    await on.start("day")
    await on.clock.advance(150)
    running = (await plan(on))["plan"]
    assert (running["state"], running["elapsed"], running["start"]) == ("running", 150, BEGAN)
    assert [(each["time"] - BEGAN, each["variable"], each["to"]) for each in running["next"]] == [
        (200, LIGHT, 8000),
        (1000, TEMPERATURE, None),
        (1000, LIGHT, None),
    ]
    await on.ask("pause_recipe")
    await on.clock.advance(1000)
    paused = (await plan(on))["plan"]
    assert (paused["state"], paused["elapsed"], paused["start"]) == ("paused", 150, BEGAN + 1000)
    assert paused["next"][0]["time"] == BEGAN + 1200  # after a resumption now


async def test_many_calls_are_computed_one_after_another_and_most_of_a_pile_are_refused(on, monkeypatch):
    at_once, most, gate = [0], [0], threading.Event()

    def slow(*_):
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        gate.wait(10)
        at_once[0] -= 1
        return []

    monkeypatch.setattr("growd.recipes.interpreter.check", slow)
    check = on.bus.services.get("e/check_recipe")
    calls = [asyncio.create_task(check.call({"recipe": DAY}), name=str(call)) for call in range(MAX_CALLS)]
    await on.clock.until(lambda: at_once[0] == 1)
    refused = await check.call({"recipe": DAY})
    assert refused["message"] == f"{MAX_CALLS} recipes are being checked or drawn; try again"
    calls[0].cancel()  # its thread goes on, and no other one begins
    await on.clock.settle()
    assert at_once[0] == 1
    gate.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert all(answer["valid"] for answer in answers[1:])
    assert most[0] == 1
    assert (await check.call({"recipe": DAY}))["success"]
