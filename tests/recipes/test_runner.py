import asyncio
import logging

import pytest

from growd.bus.errors import ReadOnlyError
from growd.bus.messages import Quality
from support.recipes import BEGAN, DAY, LIGHT, TEMPERATURE


async def test_an_idle_runner_publishes_no_set_points_and_clients_can_not_set_its_parameters(on):
    await on.clock.advance(10)
    idle = {
        "current_recipe": "",
        "current_recipe_start": 0,
        "supported_recipe_formats": "flexformat,phased,simple",
    }
    for name, value in idle.items():
        assert on.parameter(name) == value
        with pytest.raises(ReadOnlyError):
            await on.bus.parameters.set(f"e/{name}", "x")
    assert (on.set_points(), on.journal.points) == ({}, [])


async def test_a_start_is_durable_before_the_answer_and_publishes_set_points_each_second(on):
    async with on.while_it_is_written(on.start()) as call:
        assert (on.parameter("current_recipe"), on.set_points()) == ("", {})
    assert (await call)["success"]
    on.journal.hold = None
    assert on.journal.points == [("recipe_start", "day", BEGAN)]
    assert on.journal.run["recipe"] == DAY
    assert (on.parameter("current_recipe"), on.parameter("current_recipe_start")) == ("day", BEGAN)
    assert on.desired("recipe_start").value == "day"
    assert on.set_points() == {TEMPERATURE: 20}
    await on.clock.advance(300)
    assert on.set_points() == {TEMPERATURE: 25, LIGHT: 8000}
    count = on.bus.topics.get(f"e/desired/{LIGHT}").count
    await on.clock.advance(10)
    assert on.bus.topics.get(f"e/desired/{LIGHT}").count == count + 10


async def test_a_recipe_ends_once_and_releases_its_set_points(on):
    await on.start()
    with on.bus.node("watcher").subscribe(f"e/desired/{TEMPERATURE}", depth=4) as seen:
        await on.clock.advance(1002)
        last = [seen.get_nowait() for _ in range(len(seen))]
    assert [(message.value, message.quality) for message in last[-2:]] == [(18, "ok"), (None, "stale")]
    assert (on.desired(LIGHT).value, on.desired(LIGHT).quality) == (None, Quality.STALE)
    assert on.journal.recorded() == [("recipe_start", "day"), ("recipe_end", "day")]
    assert on.journal.points[1][2] == pytest.approx(BEGAN + 1000, abs=1)
    assert on.journal.run is None
    assert (on.parameter("current_recipe"), on.parameter("current_recipe_start")) == ("", 0)
    count = on.bus.topics.get(f"e/desired/{TEMPERATURE}").count
    await on.clock.advance(100)
    assert on.bus.topics.get(f"e/desired/{TEMPERATURE}").count == count
    assert len(on.journal.points) == 2


async def test_a_stop_releases_set_points_and_is_durable_before_the_answer(on):
    await on.start()
    await on.clock.advance(50)
    assert (await on.stop())["success"]
    assert on.journal.recorded() == [("recipe_start", "day"), ("recipe_end", "day")]
    assert on.journal.run is None
    assert (on.desired(TEMPERATURE).value, on.desired(TEMPERATURE).quality) == (None, Quality.STALE)
    assert on.desired(LIGHT) is None  # the recipe had not come to it: it is not its to release
    assert on.desired("recipe_end").value == "day"
    assert on.parameter("current_recipe") == ""


@pytest.mark.parametrize("service", ["start_recipe", "stop_recipe"])
async def test_one_of_two_simultaneous_requests_wins(on, service):
    arguments = ["day"] if service == "start_recipe" else []
    if not arguments:
        await on.start()
    answers = await asyncio.gather(*(on.call(service, *arguments) for _ in range(2)))
    assert sorted(answer["success"] for answer in answers) == [False, True]
    if arguments:
        assert "day is running" in (await on.start())["message"]
        assert on.parameter("current_recipe") == "day"
    ends = [] if arguments else [("recipe_end", "day")]
    assert on.journal.recorded() == [("recipe_start", "day"), *ends]


async def test_a_malformed_id_and_an_invalid_recipe_are_refused_with_all_errors(on):
    for recipe_id in ("", "_design/svc", "a\nb", "x" * 201):
        answer = await on.start(recipe_id)
        assert not answer["success"]
        assert "recipe_id: expected 1 to 200 printable characters" in answer["message"]
    assert await on.start("night") == {"success": False, "message": "there is no recipe night"}
    on.recipes["bad"] = {"format": "simple", "operations": [[-1, TEMPERATURE, 20], [0, "nothing", 1]]}
    answer = await on.start("bad")
    assert not answer["success"]
    offset = "/operations/0/0: expected the offset as a number of seconds, from 0 to ten years, got -1"
    for words in (offset, '/operations/1/1: there is no variable "nothing"'):
        assert words in answer["message"]
    assert (on.journal.points, on.journal.run, on.set_points()) == ([], None, {})


async def test_the_answer_to_a_start_has_the_warnings(on):
    on.recipes["mixed"] = {"format": "simple", "operations": [[50, TEMPERATURE, 25], [0, TEMPERATURE, 20]]}
    answer = await on.start("mixed")
    assert answer["success"]
    assert "warning: /operations/1/0" in answer["message"]
    assert on.set_points() == {TEMPERATURE: 20}
    await on.clock.advance(49)
    with on.bus.node("watcher").subscribe(f"e/desired/{TEMPERATURE}") as seen:
        await on.clock.advance(2)
        assert seen.get_nowait().value == 25


async def test_the_answer_to_a_start_during_a_hold_says_that_outputs_stay_safe(on, said):
    on.held = "all outputs are safe by ann: cleaning; release with `growd safe --release`"
    answer = await on.start()
    assert answer["success"]
    assert answer["message"] == (
        f"the recipe day has started; warning: no output follows it until the hold is released: {on.held}"
    )
    await on.stop()
    on.held = ""
    said((await on.start())["message"])


async def test_a_start_or_a_stop_that_can_not_be_recorded_is_refused(on):
    on.journal.broken = True
    answer = await on.start()
    assert (answer["status"], "No space left" in answer["message"]) == (503, True)
    assert (on.parameter("current_recipe"), on.set_points()) == ("", {})
    on.journal.broken = False
    await on.start()
    on.journal.broken = True
    assert not (await on.stop())["success"]
    await on.clock.advance(101)  # the position can't be saved after a minute
    assert on.set_points() == {TEMPERATURE: 25}
    on.journal.broken = False
    assert (await on.stop())["success"]
    assert on.journal.recorded() == [("recipe_start", "day"), ("recipe_end", "day")]


async def test_an_end_releases_at_once_and_is_recorded_later(on, caplog):
    caplog.set_level(logging.ERROR, "growd")
    await on.start()
    await on.clock.advance(999)
    on.journal.broken = True
    await on.clock.advance(60)
    assert on.desired(TEMPERATURE).quality is Quality.STALE
    assert len(caplog.records) == 1
    on.journal.broken = False
    await on.clock.advance(60)
    assert on.journal.recorded() == [("recipe_start", "day"), ("recipe_end", "day")]


@pytest.mark.parametrize("verb", ["start", "stop"])
async def test_a_request_completes_after_its_caller_is_cancelled_twice(on, verb):
    if verb == "stop":
        await on.start()
    async with on.while_it_is_written(getattr(on, verb)()) as call:
        for _ in range(2):
            call.cancel()
            await on.clock.settle()
        assert call.done()
        other = asyncio.create_task(on.call("stop_recipe"), name="stop")
        await on.clock.settle()
    assert call.cancelled()
    assert (await other)["success"] == (verb == "start")
    assert on.parameter("current_recipe") == ""
    assert on.journal.recorded() == [("recipe_start", "day"), ("recipe_end", "day")]


@pytest.fixture
def asked_in_vain(on, monkeypatch):
    """A database that never answers; set once it is asked."""
    asked = asyncio.Event()

    async def never(recipe_id):
        asked.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(on.library, "_fetch", never)
        yield asked


async def test_the_refusal_names_an_unavailable_or_hanging_database(on, asked_in_vain, monkeypatch):
    monkeypatch.setattr("growd.recipes.library.FETCH_S", 0.01)
    answer = await on.start()
    assert (answer["success"], on.parameter("current_recipe")) == (False, "")
    assert "can't be read from the database: no answer within 0.01 s" in answer["message"]
    on.library._fetch = on.fetch
    for on.database_error in (ConnectionError("refused"), TimeoutError("slow"), RuntimeError("401")):
        answer = await on.start()
        assert not answer["success"]
        assert f"can't be read from the database: {on.database_error}" in answer["message"]
        assert answer["status"] == 503


async def test_a_hanging_database_does_not_delay_a_stop(on, asked_in_vain, said):
    call = asyncio.create_task(on.start(), name="start")
    await asked_in_vain.wait()
    said((await on.stop())["message"])
    assert not call.done()
    call.cancel()
    await asyncio.wait([call])


async def test_a_start_waiting_for_the_database_is_cancelled_with_its_caller(on, asked_in_vain):
    call = asyncio.create_task(on.start(), name="start")
    await asked_in_vain.wait()
    call.cancel()
    await on.clock.settle()
    assert call.cancelled()
    assert on.journal.points == []
    on.library._fetch = on.fetch
    assert (await on.start())["success"]


async def test_after_an_outage_the_run_continues_without_the_database(chamber):
    async with chamber.on():
        await chamber.start()
        await chamber.clock.advance(90)
    await chamber.clock.advance(115)
    chamber.database_error = ConnectionError("refused")
    async with chamber.on():
        assert chamber.set_points() == {TEMPERATURE: 25, LIGHT: 8000}
        assert (chamber.parameter("current_recipe"), chamber.parameter("current_recipe_start")) == (
            "day",
            BEGAN,
        )
        assert chamber.journal.recorded() == [("recipe_start", "day")]
        await chamber.clock.advance(790)
        assert chamber.parameter("current_recipe") == "day"
        await chamber.clock.advance(10)
        assert chamber.parameter("current_recipe") == ""


async def test_a_stopped_recipe_stays_stopped_after_a_restart_and_an_invalid_saved_run_is_none(chamber):
    async with chamber.on():
        for _ in range(2):
            await chamber.start()
            await chamber.stop()
    assert chamber.journal.recorded() == [("recipe_start", "day"), ("recipe_end", "day")] * 2
    for chamber.journal.run in (None, {"recipe_id": "day", "elapsed": "much"}):
        async with chamber.on():
            await chamber.clock.advance(10)
            assert (chamber.parameter("current_recipe"), chamber.set_points()) == ("", {})
            assert (await chamber.start())["success"]
            await chamber.stop()


@pytest.mark.parametrize("step", [-2.0, -86_400.0, 7200.0, -1.6e9])
async def test_a_step_of_the_wall_clock_does_not_move_the_run(on, step):
    await on.start()
    await on.clock.advance(50)
    on.clock.step(step)
    await on.clock.advance(49)
    assert on.set_points() == {TEMPERATURE: 20}
    await on.clock.advance(3)
    assert on.set_points() == {TEMPERATURE: 25}
    assert (await on.stop())["success"]
    (_, _, start), (_, _, end) = on.journal.points
    assert end >= start + 100  # a start has a later end


async def test_the_position_is_saved_once_per_minute_also_if_the_clock_is_set_back(on):
    await on.start()
    await on.clock.advance(541)
    on.clock.step(-86_400)
    await on.clock.advance(60)
    assert 9 <= on.journal.progressed <= 11
    assert on.journal.run["elapsed"] == pytest.approx(600, abs=61)


async def test_an_error_in_a_tick_is_logged_once_and_the_run_continues(on, caplog, said):
    caplog.set_level(logging.ERROR, "growd")
    await on.start()
    plan = on.runner._active.plan

    def broken(*_, **__):
        raise ZeroDivisionError("in a tick")

    plan.set_points = broken
    await on.clock.advance(20)
    said([record.message for record in caplog.records])
    del plan.set_points
    await on.clock.advance(100)
    assert on.set_points() == {TEMPERATURE: 25}


async def test_requests_are_refused_until_the_journal_is_read(chamber):
    async with chamber.on():
        await chamber.start()
    chamber.journal.broken = True
    async with chamber.on():
        for request in (chamber.start, chamber.stop):
            assert (await request())["status"] == 503
        chamber.journal.broken = False
        await chamber.clock.advance(31)
        await chamber.clock.until(lambda: chamber.set_points() == {TEMPERATURE: 20})
        assert chamber.parameter("current_recipe") == "day"


async def test_it_knows_the_set_points_to_come(on):
    on.recipes["r"] = {"format": "simple", "operations": [[0, LIGHT, 5], [100, LIGHT, 8], [200, LIGHT, 0]]}
    at = on.runner.set_point_at
    assert at(LIGHT, on.clock.time() + 150) is None
    await on.start("r")
    now = on.clock.time()
    assert [at(LIGHT, now + seconds) for seconds in (0, 50, 150, 250)] == [5, 5, 8, None]
    assert at("air_temperature", now + 50) is None
    await on.post(LIGHT, 3)  # stays until the recipe changes it, and longer as far as is known now
    assert at(LIGHT, now + 150) == 3
    await on.post(LIGHT, None)
    await on.ask("pause_recipe")
    assert at(LIGHT, now + 150) == 5
