"""Set points by hand: over restarts, and as overrides of a recipe."""

import asyncio
import json
import logging

import pytest

from growd.bus.errors import InvalidArgumentsError, InvalidValueError
from growd.bus.messages import Quality
from support.recipes import LIGHT, TEMPERATURE
from support.running import running

RELEASE = f"growd topic release e/desired/{TEMPERATURE}"


def simple(*operations):
    return {"_id": "r", "format": "simple", "operations": [list(operation) for operation in operations]}


def course(*points, cycle=None, duration=1000):
    """A phase in seconds; a point is its time, value, and way to the next."""
    track = [{"at": at, "value": value, "to_next": way[0] if way else "hold"} for at, value, *way in points]
    phase = {"duration": duration, "time_units": "seconds", "course": {TEMPERATURE: track}}
    return phase | ({} if cycle is None else {"cycle": cycle})


def phased(*phases):
    return {"_id": "r", "format": "phased", "phases": list(phases)}


def now(chamber, variable=TEMPERATURE):
    last = chamber.desired(variable)
    return None if last is None or last.quality is not Quality.OK else last.value


async def over_time(chamber, *seconds):
    """The set point this many seconds from now."""
    found, gone = [], 0
    for second in seconds:
        await chamber.clock.advance(second - gone)
        gone = second
        found.append(now(chamber))
    return found


def events(chamber):
    return chamber.bus.topics.get("e/events").last.value["message"]


# --- Without a recipe


async def test_a_set_point_out_of_reach_gets_a_warning(chamber):
    chamber.reach = {LIGHT: (0.0, 20_000.0)}
    async with chamber.on():
        topic = chamber.bus.topics.get(f"e/desired/{LIGHT}")
        for value, expected in (
            (50_000, "light_illuminance can be driven from 0 to 20000 here, not to 50000"),
            (20_000, topic.note),
            (None, ""),
        ):
            message = chamber.client.publish_arguments(topic.name, [value])
            assert (await topic.answer(message, "anna")).endswith(expected)


async def test_a_set_point_by_hand_survives_restarts_until_released(chamber, caplog):
    caplog.set_level(logging.INFO, "growd")
    async with chamber.on():
        for _ in range(3):
            assert await chamber.post(TEMPERATURE, 21.5) == ""
        assert chamber.set_points_by_hand.saves == 1  # not again for the same
        since = chamber.desired(TEMPERATURE).time
    for _ in range(2):
        await chamber.clock.advance(60)
        async with chamber.on():
            restored = chamber.desired(TEMPERATURE)
            assert (restored.value, restored.node, restored.time) == (21.5, "e/set_points", since)
            (reported,) = chamber.bus.find_node("e/set_points").details()["set_points"]
            assert (reported["value"], reported["by"], reported["over"]) == (21.5, "anna", "")
    assert "e: restored the set point by hand: air_temperature 21.5 degC, set by anna" in caplog.text
    async with chamber.on():
        assert await chamber.post(TEMPERATURE, None) == ""
        assert (chamber.desired(TEMPERATURE).value, chamber.desired(TEMPERATURE).quality) == (None, "stale")
    async with chamber.on():
        assert chamber.desired(TEMPERATURE) is None


async def test_a_recipe_ends_set_points_by_hand_once_it_sets_their_variables(chamber):
    async with chamber.on():
        await chamber.post("light_intensity_red", 0.0)
        await chamber.post(TEMPERATURE, 30)
        await chamber.post(LIGHT, 500)
        message = (await chamber.start())["message"]  # it sets the light after 200 s
        assert "set points by hand stay in force: " in message
        assert "light_intensity_red 0 fraction" in message
        assert TEMPERATURE not in message
        assert (now(chamber), now(chamber, LIGHT)) == (20, 500)
        await chamber.clock.advance(199)
        assert now(chamber, LIGHT) == 500
        await chamber.clock.advance(2)
        assert (now(chamber, LIGHT), now(chamber, "light_intensity_red")) == (8000, 0)


@pytest.mark.parametrize(("early", "expected"), [(19, 19), (None, None)])
async def test_a_set_point_published_before_the_start_counts(chamber, early, expected):
    async with chamber.on():
        await chamber.post(TEMPERATURE, 21.5)
    runner = chamber.boot()
    chamber.client.publish_arguments(f"e/desired/{TEMPERATURE}", [early])
    async with running(chamber.clock, runner):
        await chamber.clock.advance(1)
        assert now(chamber) == expected
    async with chamber.on():
        assert now(chamber) == expected


async def test_a_set_point_that_follows_from_another_is_none_by_hand(chamber):
    runner = chamber.boot()
    chamber.bus.node("e/planners/air_humidity").publisher("e/desired/air_humidity").publish(60.0)
    async with running(chamber.clock, runner):
        await chamber.clock.advance(1)
        assert "air_humidity" not in runner.by_hand
        assert now(chamber, "air_humidity") == 60.0


async def test_without_a_store_nothing_is_saved(chamber):
    chamber.set_points_by_hand = None
    for expected in (None, None):
        async with chamber.on():
            assert chamber.desired(TEMPERATURE) is expected
            assert await chamber.post(TEMPERATURE, 21.5) == ""


async def test_no_client_is_answered_before_its_set_point_is_saved(chamber):
    store, may_save = chamber.set_points_by_hand, asyncio.Event()
    save = store.save

    async def save_later(set_points):
        await may_save.wait()
        await save(set_points)

    store.save = save_later
    async with chamber.on(), asyncio.TaskGroup() as clients:
        topic = chamber.bus.topics.get(f"e/desired/{TEMPERATURE}")
        asked = [
            clients.create_task(topic.answer(chamber.client.publish_arguments(topic.name, [value]), "anna"))
            for value in (21.5, 21.5, 23, 24, 24)
        ]
        await chamber.clock.settle()
        assert not any(each.done() for each in asked)
        may_save.set()
    assert store.saves == 1


async def test_on_a_full_disk_a_set_point_applies_and_the_answer_warns(chamber):
    async with chamber.on():
        chamber.set_points_by_hand.broken = True
        words = await chamber.post(TEMPERATURE, 21.5)
        assert words == "could not be saved, so it ends with a restart: [Errno 28] No space left on device"
        assert now(chamber) == 21.5
        released = await chamber.post(TEMPERATURE, None)
        assert (
            released
            == "could not be saved, so a restart may set it again: [Errno 28] No space left on device"
        )
        await chamber.post(TEMPERATURE, 21.5)
        node = chamber.runner.node
        (problem,) = node.details()["problems"]  # at once
        assert (problem["code"], problem["is_failure"]) == ("set_points_not_saved", True)
        chamber.set_points_by_hand.broken = False
        await chamber.clock.advance(1)
        assert node.details()["problems"] == []
    async with chamber.on():
        assert now(chamber) == 21.5


async def test_an_invalid_saved_set_point_is_dropped(chamber):
    who = {"by": "anna", "since": 1}
    for saved in (
        {TEMPERATURE: {"value": 86} | who},
        {TEMPERATURE: {"value": "warm"} | who},
        {TEMPERATURE: 21},
        {"warmth": {"value": 21} | who},
    ):
        chamber.set_points_by_hand.text = json.dumps(saved)
        async with chamber.on():
            if TEMPERATURE in saved:
                assert chamber.desired(TEMPERATURE).quality is Quality.STALE  # so the data says that it ended
            assert now(chamber) is None
            assert (await chamber.start())["success"]
            await chamber.stop()


async def test_null_releases_only_set_points_and_commands(chamber):
    async with chamber.on():
        for topic in ("e/commanded/light_illuminance", "e/commanded/light_channels"):
            chamber.client.open(topic)
            message = chamber.client.publish_arguments(topic, [None])
            assert (message.value, message.quality) == (None, Quality.STALE)
        for topic, given in (
            ("e/notes", [None]),
            ("e/measured/water_potential_hydrogen", [None]),
            ("e/desired/air_temperature", []),
            ("e/desired/air_temperature", [None, None]),
            ("e/desired/air_temperature", [[]]),
        ):
            with pytest.raises((InvalidArgumentsError, InvalidValueError)):
                chamber.client.publish_arguments(topic, given)


# --- Over a recipe


async def test_it_overrides_the_recipe_until_its_next_change(chamber):
    operations = (0, 20), (50, 20), (100, 25), (900, 25)  # the second one changes nothing
    chamber.recipes["r"] = simple(*((at, TEMPERATURE, value) for at, value in operations))
    async with chamber.on():
        await chamber.start("r")
        await chamber.clock.advance(10)
        words = await chamber.post(TEMPERATURE, 30)
        over = "the recipe r (20 degC) until it next changes air_temperature, in 1 min 30 s"
        assert words == f"overrides {over}, or until you release it: {RELEASE}"
        assert events(chamber) == f"air_temperature 30 degC by hand overrides {over} (by anna)"
        (reported,) = chamber.bus.find_node("e/set_points").details()["set_points"]
        assert reported["over"] == over
        assert reported["until"] == pytest.approx(chamber.clock.time() + 90, abs=1)
        assert await over_time(chamber, 1, 50, 89, 91) == [30, 30, 30, 25]
        ends = "air_temperature 30 degC by hand ends: the recipe sets air_temperature 25 degC"
        assert events(chamber) == ends
        assert chamber.bus.find_node("e/set_points").details()["set_points"] == []


async def test_set_points_by_hand_and_their_release_are_events(chamber):
    async with chamber.on():
        await chamber.post(TEMPERATURE, 21.5)
        topic = chamber.bus.topics.get("e/events")
        fields = {"variable": TEMPERATURE, "value": 21.5, "unit": "degC"}
        assert topic.last.value["kind"] == "set_point"
        assert (topic.last.value["code"], topic.last.value["fields"]) == ("hand_set", fields)
        number = topic.last.number
        await chamber.post(TEMPERATURE, 21.5)
        assert topic.last.number == number
        await chamber.post(TEMPERATURE, None)
        assert (topic.last.value["code"], topic.last.value["fields"]) == ("hand_released", fields)


async def test_a_release_restores_the_set_point_of_the_recipe_and_one_of_nothing_is_reported(chamber):
    nothing = f"{TEMPERATURE} had no set point by hand to release"
    async with chamber.on():
        assert await chamber.post(TEMPERATURE, None) == nothing
        await chamber.start()
        over = await chamber.post(TEMPERATURE, None)
        assert over.startswith(f"{nothing}; now in force: the recipe day (20 degC)")
        await chamber.post(TEMPERATURE, 30)
        with chamber.client.subscribe(f"e/desired/{TEMPERATURE}") as messages:
            words = await chamber.post(TEMPERATURE, None)
            assert words.startswith("released; now in force: the recipe day (20 degC) until it next changes")
            assert [messages.get_nowait().value for _ in range(2)] == [None, 20]


@pytest.mark.parametrize(
    ("recipe", "moments", "expected"),
    [
        # along a ramp it holds to the end of the ramp
        (phased(course((0, 20, "ramp"), (100, 25), (200, 22))), (50, 89, 91, 191), [30, 30, 25, 22]),
        # a cycle that repeats the value changes nothing
        (phased(course((0, 20), cycle=10), course((0, 22))), (50, 500, 991), [30, 30, 22]),
        (phased(course((0, 20), cycle=10), course((0, 20))), (991, 1500), [30, 30]),
        (phased(course((0, 20), (60, 22), cycle=100)), (49, 51, 91), [30, 22, 20]),
        # a phase that releases the variable ends it, and so does a gap
        (phased(course((0, 20)), {"duration": 9, "time_units": "days", "otherwise": "release",
                                  "course": {LIGHT: [{"at": 0, "value": 1}]}}), (989, 991), [30, None]),
    ],
)  # fmt: skip
async def test_which_set_points_are_changes_of_the_recipe(chamber, recipe, moments, expected):
    chamber.recipes["r"] = recipe
    async with chamber.on():
        await chamber.start("r")
        await chamber.clock.advance(10)
        await chamber.post(TEMPERATURE, 30)
        assert await over_time(chamber, *moments) == expected


async def test_in_a_gap_it_overrides_until_the_next_span_and_a_gap_at_the_start_releases_it(chamber):
    spans = [
        {"start_time": 30, "end_time": 50, "value": 20},
        {"start_time": 100, "end_time": 200, "value": 22},
    ]
    phase = {"cycles": 1, "time_units": "seconds", "step": {TEMPERATURE: spans}}
    chamber.recipes["r"] = {"_id": "r", "format": "flexformat", "phases": [phase]}
    async with chamber.on():
        await chamber.post(TEMPERATURE, 30)
        await chamber.start("r")
        assert await over_time(chamber, 1, 31, 60) == [None, 20, None]
        assert "the recipe r (released)" in await chamber.post(TEMPERATURE, 30)
        assert await over_time(chamber, 39, 41) == [30, 22]


async def test_in_a_releasing_phase_it_ends_with_the_recipe(chamber):
    released = {"duration": 9, "time_units": "days", "otherwise": "release", "daily": {}}
    chamber.recipes["r"] = phased(course((0, 20), duration=10), released)
    async with chamber.on():
        await chamber.start("r")
        await chamber.clock.advance(20)
        assert "the recipe r (released)" in await chamber.post(TEMPERATURE, 30)
        await chamber.clock.advance(100)
        assert now(chamber) == 30
        await chamber.stop()
        assert now(chamber) is None
        assert chamber.bus.find_node("e/set_points").details()["set_points"] == []


async def test_a_pause_keeps_it_and_a_skip_to_another_set_point_ends_it(chamber):
    chamber.recipes["r"] = phased(course((0, 20)), course((0, 20)), course((0, 22)))
    async with chamber.on():
        await chamber.start("r")
        await chamber.ask("pause_recipe")
        assert "air_temperature, after its pause, or" in await chamber.post(TEMPERATURE, 30)
        assert await over_time(chamber, 5000) == [30]
        await chamber.ask("resume_recipe")
        assert await over_time(chamber, 100) == [30]
        await chamber.ask("skip_to_phase", 2)
        assert await over_time(chamber, 1) == [30]
        await chamber.ask("skip_to_phase", 3)
        assert now(chamber) == 22


@pytest.mark.parametrize("end", ["stopped", "finished"])
async def test_the_end_of_the_recipe_releases_only_its_variables(chamber, end):
    async with chamber.on():
        await chamber.start()
        await chamber.clock.advance(150)
        await chamber.post(TEMPERATURE, 30)
        await chamber.post("air_humidity", 60)
        await (chamber.stop() if end == "stopped" else chamber.clock.advance(900))
        assert (now(chamber), now(chamber, "air_humidity")) == (None, 60)
        await chamber.clock.advance(2)
    async with chamber.on():
        assert (now(chamber), now(chamber, "air_humidity")) == (None, 60)


@pytest.mark.parametrize(("away", "expected"), [(10, 30), (80, 25)])
async def test_it_survives_a_restart_unless_the_recipe_changed_meanwhile(chamber, away, expected):
    async with chamber.on():
        await chamber.start()
        await chamber.clock.advance(30)
        await chamber.post(TEMPERATURE, 30)
    chamber.clock.step(away)
    async with chamber.on():
        await chamber.clock.advance(1)
        assert now(chamber) == expected
        await chamber.clock.advance(61)
        assert now(chamber) == 25
