"""Another revision of a recipe takes over in a run."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from growd.bus.messages import Quality
from growd.recipes import runner
from growd.recipes.interpreter import interpret
from support.recipe_strategies import FLEXFORMAT, PHASED, SIMPLE
from support.recipes import BEGAN, LIGHT, TEMPERATURE, Chamber

MINUTE = 60.0
HUMIDITY = "air_humidity"


def revision(number, *operations, **more):
    return {"_id": "mine", "_rev": f"{number}-x", "format": "simple", "operations": [*operations], **more}


FIRST = revision(1, [0, LIGHT, 8000], [0, TEMPERATURE, 20], [10 * MINUTE, LIGHT, 0], [12 * MINUTE, LIGHT, 0])
SECOND = revision(2, [0, LIGHT, 8000], [0, HUMIDITY, 60], [11 * MINUTE, LIGHT, 0], [20 * MINUTE, LIGHT, 0])


@pytest.fixture
async def running(chamber):
    """The chamber, three minutes after the start of the first revision, with the second in the database."""
    chamber.recipes["mine"] = FIRST
    async with chamber.on():
        await chamber.start("mine", 0, "anna")
        await chamber.clock.advance(3 * MINUTE)
        chamber.recipes["mine"] = SECOND
        yield chamber


def state(chamber):
    return chamber.bus.topics.get("e/recipe_state").last.value


def values(chamber, *variables):
    return [None if chamber.desired(each) is None else chamber.desired(each).value for each in variables]


def described(chamber):
    return chamber.runner.node.details()["recipe"]


async def change(chamber, recipe_id="", by="bert"):
    return await chamber.ask("change_recipe", recipe_id, by)


async def test_the_newest_revision_takes_over_at_the_same_position(running):
    answer = await change(running)
    assert answer == {"success": True, "message": "the recipe mine has changed to revision 2 at 3 min"}
    assert (state(running)["state"], state(running)["elapsed"], state(running)["remaining"]) == (
        "running", 3 * MINUTE, 17 * MINUTE,
    )  # fmt: skip
    assert values(running, LIGHT, TEMPERATURE, HUMIDITY) == [8000, None, 60]
    assert running.desired(TEMPERATURE).quality is Quality.STALE
    await running.clock.advance(7.5 * MINUTE)
    assert values(running, LIGHT) == [8000]  # the first one darkens at minute ten
    await running.clock.advance(10 * MINUTE)
    assert state(running)["state"] == "idle"
    assert values(running, LIGHT, TEMPERATURE, HUMIDITY) == [None, None, None]


async def test_set_points_that_go_on_have_no_gap(running):
    """From the call until long after it, also while the disk is slow."""
    with running.bus.node("watcher").subscribe(f"e/desired/{LIGHT}", depth=100) as seen:
        async with running.while_it_is_written(change(running)) as call:
            await running.clock.advance(10)
        assert (await call)["success"]
        await running.clock.advance(10)
        found = [seen.get_nowait() for _ in range(len(seen))]
    assert len(found) >= 20
    assert {(message.value, message.quality) for message in found} == {(8000, Quality.OK)}
    assert max(b.time - a.time for a, b in pairwise(found)) <= 1


async def test_a_recipe_that_is_prolonged_in_its_last_second_has_no_gap(running):
    """Its end comes while the change is written."""
    await running.clock.advance(9 * MINUTE - 2)
    with running.bus.node("watcher").subscribe(f"e/desired/{LIGHT}", depth=100) as seen:
        async with running.while_it_is_written(running.call("change_recipe")) as call:
            await running.clock.advance(5)
        assert (await call)["success"]
        await running.clock.advance(5)
        found = [seen.get_nowait() for _ in range(len(seen))]
    assert {message.quality for message in found} == {Quality.OK}
    assert len(found) >= 8
    assert running.journal.recorded() == [("recipe_start", "mine")]


async def test_a_recipe_whose_prolongation_fails_ends_and_can_not_be_changed_any_more(running, said):
    await running.clock.advance(9 * MINUTE - 2)
    async with running.while_it_is_written(running.call("change_recipe")) as call:
        await running.clock.advance(5)
        running.journal.broken = True
    assert not (await call)["success"]
    await running.clock.advance(2)
    running.journal.broken, running.journal.hold = False, asyncio.Event()
    said((await running.call("change_recipe"))["message"])  # its end is not recorded yet
    running.journal.hold.set()
    await running.clock.advance(2)
    assert (state(running)["state"], values(running, LIGHT)) == ("idle", [None])
    assert running.journal.recorded() == [("recipe_start", "mine"), ("recipe_end", "mine")]


async def test_the_record_has_all_recipes_that_ran(running, said):
    await change(running)
    await running.clock.advance(MINUTE)
    running.recipes["other"] = SECOND | {"_id": "other", "_rev": "7-o", "name": "Other"}
    answer = await change(running, "other", "carl")
    said(answer["message"])
    assert (running.parameter("current_recipe"), state(running)["recipe_id"]) == ("other", "other")
    assert running.parameter("current_recipe_start") == BEGAN
    await running.clock.advance(MINUTE)
    await running.stop()
    document = running.journal.documents[-1]

    def plain(recipe):
        return {name: value for name, value in recipe.items() if not name.startswith("_")}

    assert document["recipe"] == plain(FIRST)
    assert (document["recipe_id"], document["recipe_rev"], document["started"]) == ("mine", "1-x", BEGAN)
    assert document["revisions"] == [
        {"time": BEGAN + 3 * MINUTE, "elapsed": 3 * MINUTE, "by": "bert"}
        | {"recipe_id": "mine", "recipe_rev": "2-x", "recipe": plain(SECOND)},
        {"time": BEGAN + 4 * MINUTE, "elapsed": 4 * MINUTE, "by": "carl"}
        | {"recipe_id": "other", "recipe_rev": "7-o", "recipe": plain(SECOND) | {"name": "Other"}},
    ]
    assert (document["end_reason"], document["elapsed"]) == ("stopped", 5 * MINUTE)
    assert running.journal.recorded() == [("recipe_start", "mine"), ("recipe_end", "mine")]
    assert len({document["_id"] for document in running.journal.documents}) == 1


async def test_a_caller_who_gives_no_name_is_recorded_as_growd_knows_them(running):
    service = running.bus.services.get("e/pause_recipe")
    await service.call({}, "192.0.2.7")
    await running.bus.services.get("e/resume_recipe").call({"by": "anna"}, "192.0.2.7")
    await running.bus.services.get("e/stop_recipe").call({"by": ""}, "192.0.2.7")
    assert running.journal.documents[-1]["ended_by"] == "192.0.2.7"


async def test_the_change_is_an_event_and_in_the_status(running, said):
    await change(running)
    event = running.bus.topics.get("e/events").last.value
    said(event["message"])
    assert (event["kind"], event["source"]) == ("recipe", "mine")
    assert described(running)["revision"] == "2-x"
    assert (described(running)["started"], described(running)["by"]) == (BEGAN, "anna")
    assert (described(running)["changed"], described(running)["revised_at"]) == ("", BEGAN + 3 * MINUTE)


@pytest.mark.parametrize(("is_new_boot", "catches_up"), [(False, True), (True, True), (True, False)])
async def test_a_restart_resumes_the_new_revision_at_the_position_of_the_change(
    chamber, is_new_boot, catches_up
):
    """Not at the position that was saved before, up to a minute earlier."""
    chamber.is_new_boot, chamber.catches_up = is_new_boot, catches_up
    chamber.recipes["mine"] = FIRST
    async with chamber.on():
        await chamber.start("mine")
        await chamber.clock.advance(3.5 * MINUTE)
        chamber.recipes["mine"] = SECOND
        await change(chamber)
    await chamber.clock.advance(MINUTE)
    chamber.database_error = ConnectionError("refused")
    elapsed = (4.5 if catches_up else 3.5) * MINUTE
    for _ in range(2):
        async with chamber.on():
            assert (state(chamber)["elapsed"], state(chamber)["remaining"]) == (
                elapsed,
                20 * MINUTE - elapsed,
            )
            assert values(chamber, LIGHT, TEMPERATURE, HUMIDITY) == [8000, None, 60]
            assert described(chamber)["revised_at"] == BEGAN + 3.5 * MINUTE
    async with chamber.on():
        await chamber.stop()
    assert [each["recipe_rev"] for each in chamber.journal.documents[-1]["revisions"]] == ["2-x"]


async def test_a_paused_run_stays_paused(running):
    await running.ask("pause_recipe")
    await running.clock.advance(MINUTE)
    assert (await change(running))["success"]
    await running.clock.advance(MINUTE)
    assert (state(running)["state"], state(running)["elapsed"]) == ("paused", 3 * MINUTE)
    assert values(running, LIGHT, HUMIDITY) == [8000, 60]
    await running.ask("resume_recipe")
    await running.clock.advance(MINUTE)
    assert state(running)["elapsed"] == 4 * MINUTE


# refused


async def test_without_a_run_nothing_changes(on, said):
    assert await change(on) == {"success": False, "message": "no recipe is running"}
    said((await change(on, "day"))["message"])


async def test_the_revision_that_runs_and_one_that_would_have_ended_are_refused(running, said):
    for recipe in (FIRST, revision(2, [0, LIGHT, 8000], [2 * MINUTE, LIGHT, 0])):
        running.recipes["mine"] = recipe
        said((await change(running))["message"])


async def test_a_change_that_can_not_be_recorded_changes_nothing(running, monkeypatch, said):
    running.journal.broken = True
    said((await change(running))["message"])
    await running.clock.advance(1)
    assert values(running, LIGHT, TEMPERATURE, HUMIDITY) == [8000, 20, None]
    assert described(running)["revision"] == "1-x"
    running.journal.broken = False
    assert running.journal.run["ran"] == []
    with monkeypatch.context() as patch:
        patch.setattr(runner, "MAX_RECORD", 200)
        message = (await change(running))["message"]
    assert message.startswith("the record of the run would be too large with another recipe: ")
    assert described(running)["revision"] == "1-x"
    assert (await change(running))["success"]


@pytest.mark.parametrize("next_one", ["mine", "other"])
async def test_a_change_does_not_reach_a_run_that_began_after_the_call(running, next_one):
    """Someone stops the recipe and starts one while the change reads the recipe from a slow database."""
    running.recipes["other"] = {**FIRST, "_id": "other"}
    read, slow = running.library.read, asyncio.Event()

    async def read_slowly(recipe_id):
        found = await read(recipe_id)
        await slow.wait()
        return found

    running.library.read = read_slowly
    call = asyncio.create_task(change(running), name="change")
    await running.clock.until(lambda: slow._waiters)
    running.library.read = read
    await running.ask("stop_recipe", "bert")
    running.recipes["mine"] = FIRST
    await running.start(next_one, 0, "bert")
    before = dict(running.journal.run)
    slow.set()
    sentence = f"the run of mine has ended meanwhile, and {next_one} was started: nothing was changed"
    assert await call == {"success": False, "message": sentence}
    assert (running.journal.run, before["recipe_id"]) == (before, next_one)


async def test_a_change_to_a_revision_that_is_not_the_newest_or_that_runs_already_is_refused(running):
    answer = await running.ask("change_recipe", "", "bert", "1-x")
    assert answer == {"success": False, "message": "the recipe mine has the revision 2-x by now, not 1-x"}
    both = (running.call("change_recipe", "", "bert", revision) for revision in ("2-x", "2-x"))
    assert sorted(answer["success"] for answer in await asyncio.gather(*both)) == [False, True]


async def test_a_recipe_by_the_clock_is_refused_before_the_clock_is_set(running):
    daily = {"duration": 2, "time_units": "days", "daily": {LIGHT: [{"at": "06:00", "value": 1}]}}
    running.recipes["mine"] = {"_id": "mine", "_rev": "2-x", "format": "phased", "phases": [daily]}
    running.clock.step(10 - running.clock.time())
    assert "this machine's clock was never set" in (await change(running))["message"]


# set points by hand


async def test_a_set_point_by_hand_holds_where_the_new_recipe_changes_nothing(running):
    by_hand = (LIGHT, TEMPERATURE, "water_temperature")
    for variable, value in zip(by_hand, (100.0, 25.0, 15.0), strict=True):
        await running.post(variable, value)
    await change(running)
    assert values(running, *by_hand) == [100, None, 15]  # the new one has no temperature
    running.recipes["mine"] = revision(3, [0, LIGHT, 9000], [20 * MINUTE, LIGHT, 0])
    await change(running)
    assert values(running, LIGHT) == [9000]  # another one


# any recipe


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.one_of(SIMPLE, FLEXFORMAT, PHASED), st.floats(0, 0.999), st.booleans())
def test_a_change_to_an_equal_recipe_changes_no_set_point(recipe, part, is_paused):
    plan, _ = interpret(recipe)

    async def run():
        chamber = Chamber()
        chamber.recipes["mine"] = recipe | {"_rev": "1-x"}
        async with chamber.on():
            assert (await chamber.start("mine", part * plan.duration))["success"]
            await chamber.clock.advance(1)
            if state(chamber)["state"] == "idle":
                return
            if is_paused:
                await chamber.ask("pause_recipe")
            chamber.recipes["mine"] = recipe | {"_rev": "2-x"}
            before = state(chamber), values(chamber, *plan.variables)
            topics = [f"e/desired/{variable}" for variable in plan.variables]
            with chamber.bus.node("watcher").subscribe(*topics, depth=100) as seen:
                assert (await change(chamber))["success"]
                published = [seen.get_nowait() for _ in range(len(seen))]
            assert (state(chamber), values(chamber, *plan.variables)) == before
            assert all(message.quality is Quality.OK for message in published)
            assert len(published) == sum(value is not None for value in before[1])

    asyncio.run(run())
