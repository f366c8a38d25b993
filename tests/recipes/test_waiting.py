"""Recipes that wait for the time of their start."""

import asyncio
import logging

import pytest

from growd.recipes.position import CONFIRM_S
from growd.recipes.services import AHEAD_S, PAST_S
from support.recipes import BEGAN, LIGHT, TEMPERATURE
from support.running import running
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.long

HOUR = 3_600.0
AT = BEGAN + HOUR  # 2023-11-14 23:13:20 UTC
WHEN = "2023-11-14 23:13:20"
LONG = {"_id": "long", "_rev": "1-a", "format": "simple"}
LONG["operations"] = [[0, TEMPERATURE, 20], [HOUR, LIGHT, 8000], [20 * HOUR, LIGHT, 0]]
LONG["operations"].append([48 * HOUR, TEMPERATURE, 20])


@pytest.fixture(autouse=True)
def recipes(chamber):
    chamber.recipes["long"] = LONG


async def order(chamber, recipe_id="long", at=AT, offset=0, by="anna"):
    return await chamber.ask("start_recipe", recipe_id, offset, by, at)


def state(chamber):
    return chamber.bus.topics.get("e/recipe_state").last.value


def problems(chamber):
    return chamber.runner.node.details()["problems"]


async def to(chamber, time):
    await chamber.clock.advance(time - chamber.clock.time())


async def test_a_recipe_waits_for_its_time_and_starts_once(on):
    with on.bus.node("watcher").subscribe("e/events") as seen:
        answer = await order(on)
        assert answer == {"success": True, "message": f"the recipe long starts at {WHEN}, in 1 h"}
        await to(on, AT - 2)
        assert state(on) == {
            "state": "waiting",
            "recipe_id": "long",
            "phase": "",
            "elapsed": 0,
            "remaining": 48 * HOUR,
            "starts_at": AT,
        }
        assert (on.parameter("recipe_state"), on.parameter("current_recipe")) == ("waiting", "")
        assert on.parameter("current_recipe_start") == 0
        assert (on.set_points(), on.journal.points, on.journal.documents) == ({}, [], [])
        await to(on, AT + HOUR)
        found = [message.value for message in iter(seen.get_nowait, None)]
    assert [(event["source"], event["message"]) for event in found] == [
        ("long", f"the recipe long waits until {WHEN} (by anna)"),
        ("long", "the recipe long has started, as ordered (by anna)"),
    ]
    assert on.journal.recorded() == [("recipe_start", "long")]
    assert on.set_points() == {TEMPERATURE: 20, LIGHT: 8000}
    assert (state(on)["state"], state(on)["elapsed"]) == ("running", pytest.approx(HOUR, abs=1))
    (document,) = on.journal.documents
    assert document["started"] == on.journal.points[0][2] == pytest.approx(AT, abs=1)
    assert (document["ordered"], document["started_by"], document["offset"]) == (BEGAN, "anna", 0)
    assert (on.journal.order, state(on)["starts_at"]) == (None, 0)


async def test_an_ordered_recipe_can_begin_in_the_middle(on):
    await order(on, offset=2 * HOUR)
    assert (state(on)["elapsed"], state(on)["remaining"]) == (2 * HOUR, 46 * HOUR)
    await to(on, AT + 1)
    assert on.set_points() == {TEMPERATURE: 20, LIGHT: 8000}
    assert on.journal.documents[0]["offset"] == 2 * HOUR


async def test_the_order_is_on_the_disk_before_the_answer_or_refused(on):
    async with on.while_it_is_written(order(on)) as call:
        assert state(on)["state"] == "idle"
    assert (await call)["success"]
    assert on.journal.order["at"] == AT
    on.journal.hold = None
    await on.stop()
    on.journal.broken = True
    answer = await order(on)
    assert (answer["status"], "the order could not be saved" in answer["message"]) == (503, True)
    assert state(on)["state"] == "idle"


@pytest.mark.parametrize("late", [0, PAST_S - 1])
async def test_a_time_that_has_just_passed_is_now(on, late):
    assert (await order(on, at=BEGAN - late))["message"] == "the recipe long has started"
    assert (state(on)["state"], on.journal.documents[0]["ordered"]) == ("running", None)


async def test_other_times_are_refused(on, said):
    said((await order(on, at=BEGAN - HOUR))["message"])
    far = await order(on, at=BEGAN + AHEAD_S + 1)
    said(far["message"])
    assert "more than a year ahead" in (await order(on, at=1e300))["message"]
    on.clock.step(10 - on.clock.time())
    said((await order(on))["message"])
    assert on.journal.order is None


async def test_a_start_while_one_waits_or_runs_is_refused(on, said):
    await order(on)
    for answer in (await on.start("day"), await order(on, "day", AT + 1)):
        assert answer["message"] == f"the recipe long waits until {WHEN}; stop it first"
    assert on.journal.order["recipe_id"] == "long"
    await on.stop()
    await on.start("day")
    said((await order(on))["message"])


async def test_of_an_order_and_a_start_at_the_same_time_one_wins(on):
    answers = await asyncio.gather(on.call("start_recipe", "long", 0, "", AT), on.call("start_recipe", "day"))
    await on.clock.settle()
    assert sorted(answer["success"] for answer in answers) == [False, True]
    assert (on.journal.order is None) is (state(on)["state"] == "running")


@pytest.mark.parametrize("service", ["pause_recipe", "resume_recipe", "skip_to_phase", "change_recipe"])
async def test_a_recipe_that_waits_can_only_be_stopped(on, service):
    await order(on)
    answer = await on.ask(service, *([1] if service == "skip_to_phase" else []))
    assert answer["message"] == f"no recipe is running; the recipe long waits until {WHEN}"


async def test_a_stop_cancels_the_start_durably_or_not_at_all(chamber):
    async with chamber.on():
        await order(chamber)
        chamber.journal.broken = True
        assert not (await chamber.stop())["success"]
        assert state(chamber)["state"] == "waiting"
        chamber.journal.broken = False
        answer = await chamber.ask("stop_recipe", "bert")
        message = f"the recipe long does not start at {WHEN}: it has been stopped"
        assert answer == {"success": True, "message": message}
        event = chamber.bus.topics.get("e/events").last.value
        assert (event["source"], event["message"]) == ("long", f"{message} (by bert)")
        assert state(chamber)["state"] == "idle"
    async with chamber.on():
        await to(chamber, AT + 5)
        assert (state(chamber)["state"], chamber.journal.points) == ("idle", [])


@pytest.mark.parametrize("is_new_boot", [False, True])
async def test_an_order_survives_restarts_with_its_recipe(chamber, is_new_boot):
    chamber.is_new_boot = is_new_boot
    async with chamber.on():
        await order(chamber)
    chamber.recipes["long"] = LONG | {"operations": [[0, TEMPERATURE, 5], [9e6, TEMPERATURE, 5]]}
    for _ in range(2):
        async with chamber.on():
            assert (state(chamber)["state"], state(chamber)["starts_at"]) == ("waiting", AT)
            await chamber.clock.advance(HOUR / 4)
    chamber.database_error = ConnectionError("refused")
    async with chamber.on():
        await to(chamber, AT + 2)
        assert chamber.set_points() == {TEMPERATURE: 20}
    assert chamber.journal.recorded() == [("recipe_start", "long")]
    async with chamber.on():
        assert state(chamber)["state"] == "running"
    assert chamber.journal.recorded() == [("recipe_start", "long")]


async def test_a_recipe_that_waits_is_never_shown_as_idle(chamber):
    async with chamber.on():
        await order(chamber)
    runner = chamber.boot()
    with chamber.bus.node("watcher").subscribe("e/recipe_state", depth=10) as seen:
        async with asyncio.timeout(PATIENCE_S), running(chamber.clock, runner):
            await chamber.clock.until(lambda: runner.is_loaded)
            await chamber.clock.advance(2)
        states = {seen.get_nowait().value["state"] for _ in range(len(seen))}
    assert states == {"waiting"}


@pytest.mark.parametrize(("catches_up", "elapsed"), [(True, 3 * HOUR), (False, HOUR)])
async def test_a_start_during_an_outage_is_made_up_for(chamber, catches_up, elapsed):
    """By the rule of a run that is resumed."""
    chamber.catches_up = catches_up
    async with chamber.on():
        await order(chamber, offset=HOUR)
    await to(chamber, AT + 2 * HOUR)
    async with chamber.on():
        await chamber.clock.advance(1)
        assert state(chamber)["elapsed"] == pytest.approx(elapsed, abs=2)
        (document,) = chamber.journal.documents
        assert document["started"] == pytest.approx(AT + 2 * HOUR, abs=2)
        assert document["offset"] == pytest.approx(elapsed, abs=2)
        place = "3 h" if catches_up else "1 h"
        event = chamber.bus.topics.get("e/events").last.value["message"]
        assert event == f"the recipe long has started at {place}, as ordered (by anna)"


async def test_a_recipe_that_would_have_ended_during_an_outage_does_not_start(chamber):
    async with chamber.on():
        await order(chamber)
    await to(chamber, AT + 49 * HOUR)
    async with chamber.on():
        await chamber.clock.advance(1)
        assert (state(chamber)["state"], chamber.journal.points) == ("idle", [])
        message = chamber.bus.topics.get("e/events").last.value["message"]
        assert message == (
            f"the recipe long does not start: it was to start at {WHEN}, and would have ended by now"
        )
        assert chamber.journal.order is None


async def test_the_wall_clock_decides_also_after_a_short_loss_of_the_time_server(on):
    await order(on)
    on.clock.step(-0.5 * HOUR)
    await on.clock.advance(1.2 * HOUR)
    assert state(on)["state"] == "waiting"
    on.clock.synchronised = False
    on.clock.step(1.3 * HOUR)
    await on.clock.advance(1)
    assert (state(on)["state"], state(on)["elapsed"]) == ("running", pytest.approx(HOUR, abs=2))


async def test_after_a_power_cut_a_start_waits_for_the_time_server(chamber):
    """A battery clock may be wrong."""
    async with chamber.on():
        await order(chamber)
    chamber.clock.synchronised = False
    chamber.clock.step(1.5 * HOUR)
    async with chamber.on():
        await chamber.clock.advance(30)
        assert state(chamber)["state"] == "waiting"
        (problem,) = problems(chamber)
        assert "the clock is not synchronised (NTP); it starts in" in problem["text"]
        chamber.clock.synchronised = True
        chamber.clock.step(-1.5 * HOUR)
        await chamber.clock.advance(2)
        assert (state(chamber)["state"], problems(chamber)) == ("waiting", [])
        chamber.clock.synchronised = False
    chamber.is_new_boot = False  # it is known that the clock is right
    async with chamber.on():
        await to(chamber, AT + 1)
        assert state(chamber)["state"] == "running"


@pytest.mark.parametrize("was_synchronised", [True, False])
async def test_without_a_time_server_it_starts_in_the_end(chamber, was_synchronised):
    chamber.clock.synchronised = was_synchronised
    async with chamber.on():
        answer = await order(chamber)
        assert ("the start uses the time of day, but the clock" in answer["message"]) != was_synchronised
    chamber.clock.synchronised = False
    async with chamber.on():
        await to(chamber, AT + CONFIRM_S - 2)
        assert state(chamber)["state"] == ("waiting" if was_synchronised else "running")
        await to(chamber, AT + CONFIRM_S + 2)
        assert state(chamber)["state"] == "running"


async def test_a_start_that_can_not_be_recorded_is_tried_again(on, caplog):
    caplog.set_level(logging.ERROR, "growd")
    await order(on)
    on.journal.broken = True
    await to(on, AT + 30)
    assert (state(on)["state"], on.set_points()) == ("waiting", {})
    (problem,) = problems(on)
    assert problem.get("is_failure", False)
    assert (
        "the recipe long could not be started: recipe_start of long could not be recorded" in problem["text"]
    )
    assert len(caplog.records) == 1
    on.journal.broken = False
    await on.clock.advance(2)
    assert on.journal.recorded() == [("recipe_start", "long")]
    assert problems(on) == []


@pytest.mark.parametrize("saved", [{"at": "soon"}, {"recipe": {"format": "of the future"}}])
async def test_an_order_that_is_not_valid_any_more_is_dropped(chamber, saved, caplog):
    async with chamber.on():
        await order(chamber)
    chamber.journal.order |= saved
    async with chamber.on():
        assert chamber.journal.order is None
        await to(chamber, AT + 5)
        assert state(chamber)["state"] == "idle"
        assert "the recipe long does not start, the order is dropped: " in caplog.text
        event = chamber.bus.topics.get("e/events").last.value
        assert (event["kind"], event["source"]) == ("recipe", "long")
        assert (event["code"], event["fields"]) == ("recipe_dropped", {"recipe": "long"})
        assert (await chamber.start("day"))["success"]


async def test_a_recipe_that_waits_has_a_plan_and_a_status_and_set_points_by_hand_hold(on):
    await order(on, offset=HOUR / 2)
    plan = (await on.call("recipe_plan"))["plan"]
    assert (plan["state"], plan["elapsed"], plan["start"]) == ("waiting", HOUR / 2, AT - HOUR / 2)
    assert [(each["time"] - AT, each["variable"], each["from"], each["to"]) for each in plan["next"][:2]] == [
        (0, TEMPERATURE, None, 20),
        (HOUR / 2, LIGHT, None, 8000),
    ]
    on.recipes["long"] = LONG | {"_rev": "2-b"}
    await on.clock.advance(10)
    await on.runner.node.prepare()
    described = on.runner.node.details()["recipe"]
    assert (described["revision"], described["changed"]) == ("1-a", "2-b")
    assert await on.post(LIGHT, 500.0) == ""
    await on.clock.advance(HOUR / 2)
    assert on.set_points() == {LIGHT: 500}
