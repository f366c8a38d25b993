"""Changes of a run, its record, and its position after a restart."""

import asyncio
import logging
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from growd.bus.errors import BusyError
from growd.bus.messages import Quality
from support.recipes import BEGAN, DAY, LIGHT, TEMPERATURE, Chamber

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE, HOUR = 60.0, 3_600.0
ROUND = 24 * MINUTE
WEEKS = {
    "_id": "weeks",
    "_rev": "3-abc",
    "format": "flexformat",
    "phases": [
        {
            "name": name,
            "cycles": 7,
            "time_units": "minutes",
            "step": {
                LIGHT: [
                    {"start_time": 0, "end_time": 16, "value": lux},
                    {"start_time": 16, "end_time": 24, "value": 0},
                ]
            },
        }
        for name, lux in (("early", 5000), ("late", 9000))
    ],
}
BY_THE_CLOCK = {
    "_id": "wall",
    "format": "phased",
    "phases": [
        {
            "duration": 20,
            "time_units": "days",
            "daily": {LIGHT: [{"at": "06:00", "value": 8000}, {"at": "22:00", "value": 0}]},
        }
    ],
}


@pytest.fixture
def chamber():
    chamber = Chamber()
    chamber.recipes |= {"weeks": WEEKS, "wall": BY_THE_CLOCK}
    return chamber


def state(chamber):
    return chamber.bus.topics.get("e/recipe_state").last.value


def events(chamber):
    last = chamber.bus.topics.get("e/events").last
    return None if last is None else last.value["message"]


async def run_for_a_minute(chamber):
    """A run of `weeks` before a restart."""
    async with chamber.on():
        await chamber.start("weeks")
        await chamber.clock.advance(MINUTE)


async def synchronise(chamber, step):
    """Let NTP step the wall clock, and a minute pass."""
    chamber.clock.step(step)
    chamber.clock.synchronised = True
    await chamber.clock.advance(MINUTE)


async def test_state_phase_elapsed_and_remaining_are_published_each_second(on):
    idle = {"state": "idle", "recipe_id": "", "phase": "", "elapsed": 0, "remaining": 0, "starts_at": 0}
    assert state(on) == idle
    await on.start("weeks")
    await on.clock.advance(8 * ROUND)
    running = {"state": "running", "phase": "late", "elapsed": 8 * ROUND, "remaining": 6 * ROUND}
    assert state(on) == idle | {"recipe_id": "weeks"} | running
    assert {name: on.parameter(f"recipe_{name}") for name in running} == running
    await on.stop()
    assert state(on)["state"] == on.parameter("recipe_state") == "idle"
    assert on.parameter("recipe_elapsed") == 0


async def test_a_recipe_can_begin_in_the_middle_but_not_at_its_end(on):
    refused = await on.start("weeks", 14 * ROUND)
    assert (refused["success"], "offset: 20160 s is not before the end" in refused["message"]) == (
        False,
        True,
    )
    assert (on.journal.points, on.parameter("current_recipe")) == ([], "")
    assert (await on.start("weeks", 7 * ROUND + MINUTE))["success"]
    assert on.set_points() == {LIGHT: 9000}
    assert (state(on)["phase"], state(on)["elapsed"]) == ("late", 7 * ROUND + MINUTE)
    await on.clock.advance(7 * ROUND - MINUTE)
    assert [value for value, _ in on.journal.recorded()] == ["recipe_start", "recipe_end"]
    document = on.journal.documents[-1]
    assert (document["offset"], document["elapsed"]) == (7 * ROUND + MINUTE, 14 * ROUND)
    assert (document["end_reason"], document["ended_by"]) == ("finished", "")
    assert document["ended"] - document["started"] == pytest.approx(7 * ROUND - MINUTE, abs=1)


async def test_the_record_says_what_was_true_of_growd_and_the_chamber_at_the_start(chamber):
    chamber.about = {"growd": "1.0", "configuration": {"light": {"enabled": True}}, "calibrations": {}}
    at_start = dict(chamber.about)
    async with chamber.on():
        await chamber.start("weeks")
        chamber.about = {"growd": "2.0"}
        await chamber.clock.advance(MINUTE)
    async with chamber.on():  # after a restart
        await chamber.stop()
    first, last = chamber.journal.documents[0], chamber.journal.documents[-1]
    assert (first["ended"], last["end_reason"]) == (None, "stopped")
    for document in (first, last):
        assert {name: document[name] for name in at_start} == at_start


@pytest.mark.parametrize("waits_s", [0, HOUR])
async def test_the_record_says_what_the_run_is_in_an_experiment(on, waits_s):
    on.recipes["weeks"] = WEEKS | {"study": {"cultivar": "Rex", "treatment": "blue"}}
    service, at = on.bus.services.get("e/start_recipe"), on.clock.time() + waits_s
    refused = await service.call({"recipe_id": "weeks", "study": {"replicate": 2}})
    assert (refused["success"], "/study/replicate" in refused["message"]) == (False, True)
    for not_an_object in ([], "Rex", None):
        assert not (await service.call({"recipe_id": "weeks", "study": not_an_object}))["success"]
    given = {"treatment": "red", "replicate": "2"}
    assert (await service.call({"recipe_id": "weeks", "at": at, "study": given}))["success"]
    await on.clock.advance(waits_s + MINUTE)
    assert on.journal.documents[0]["study"] == {"cultivar": "Rex", "treatment": "red", "replicate": "2"}


async def test_a_pause_holds_set_points_until_resumed(on, said):
    await on.start("weeks")
    await on.clock.advance(15 * MINUTE)
    said((await on.ask("pause_recipe", "Ada"))["message"])
    assert events(on) == "the recipe weeks has been paused (by Ada)"
    count, writes = on.bus.topics.get(f"e/desired/{LIGHT}").count, on.journal.progressed
    await on.clock.advance(10 * MINUTE)
    assert on.journal.progressed == writes
    assert on.set_points() == {LIGHT: 5000}
    assert on.bus.topics.get(f"e/desired/{LIGHT}").count == count + 10 * MINUTE
    assert (state(on)["state"], state(on)["elapsed"]) == ("paused", 15 * MINUTE)
    assert (await on.ask("resume_recipe"))["success"]
    await on.clock.advance(MINUTE + 1)
    assert on.set_points() == {LIGHT: 0}
    assert state(on)["elapsed"] == pytest.approx(16 * MINUTE, abs=2)


async def test_a_pause_survives_a_restart(chamber, caplog):
    caplog.set_level(logging.INFO, "growd")
    async with chamber.on():
        await chamber.start("weeks")
        await chamber.clock.advance(MINUTE)
        await chamber.ask("pause_recipe")
        await chamber.clock.advance(MINUTE)
    await chamber.clock.advance(3 * HOUR)
    async with chamber.on():
        await chamber.clock.advance(2)
        assert (state(chamber)["state"], state(chamber)["elapsed"]) == ("paused", MINUTE)
        assert "is still paused at 60 s" in caplog.text
        assert chamber.set_points() == {LIGHT: 5000}
        await chamber.ask("resume_recipe")
        await chamber.clock.advance(MINUTE)
        assert state(chamber)["elapsed"] == pytest.approx(2 * MINUTE, abs=2)


async def test_an_ended_run_can_not_be_changed_before_its_end_is_recorded(on):
    await on.start("weeks", 14 * ROUND - MINUTE)
    on.journal.broken = True
    await on.clock.advance(2 * MINUTE)
    on.journal.broken = False
    on.journal.hold = asyncio.Event()
    answer = await on.call("skip_to_phase", "early")
    assert "has ended, but its end is not recorded yet" in answer["message"]
    on.journal.hold = None


@pytest.mark.parametrize("phase", ["late", 2, "2"])
async def test_a_skip_goes_to_the_beginning_of_a_phase_and_the_end_has_the_right_time(on, phase):
    await on.start("weeks")
    await on.clock.advance(MINUTE)
    words = "the recipe weeks has skipped to the phase late"
    assert (await on.ask("skip_to_phase", phase))["message"] == words
    assert (state(on)["elapsed"], on.set_points(), events(on)) == (7 * ROUND, {LIGHT: 9000}, words)
    await on.clock.advance(ROUND)
    assert state(on)["elapsed"] == 8 * ROUND
    await on.stop()
    ended = BEGAN + MINUTE + ROUND
    assert on.journal.points[-1] == ("recipe_end", "weeks", ended)
    document = on.journal.documents[-1]
    assert (document["ended"], document["elapsed"]) == (ended, 8 * ROUND)


async def test_an_unknown_phase_is_refused_with_the_known_ones(on, said):
    await on.start("weeks")
    for phase in ("middle", 0, 3, True, None, 1.5, ["late"], "\uff13", "9" * 5000):
        answer = await on.ask("skip_to_phase", phase)
        assert answer["success"] is False
        assert "the recipe has 2 phases: 1 early, 2 late" in answer["message"]
    assert state(on)["phase"] == "early"
    await on.stop()
    await on.start("day")
    said((await on.ask("skip_to_phase", "2"))["message"])  # its phases have no names


@pytest.mark.parametrize("service", ["stop_recipe", "pause_recipe", "resume_recipe", "skip_to_phase"])
async def test_without_a_recipe_nothing_can_be_stopped_paused_resumed_or_skipped(on, service):
    arguments = ["late"] if service == "skip_to_phase" else []
    answer = await on.ask(service, *arguments)
    assert answer == {"success": False, "message": "no recipe is running"}
    assert events(on) is None


async def test_a_second_pause_or_resume_is_refused_and_does_not_delay_saving(on):
    await on.start("weeks")
    for _ in range(10):
        await on.clock.advance(30)
        assert "is not paused" in (await on.ask("resume_recipe"))["message"]
    assert on.journal.progressed >= 4
    assert on.journal.run["elapsed"] == pytest.approx(300, abs=61)
    await on.ask("pause_recipe")
    assert "is paused already" in (await on.ask("pause_recipe"))["message"]


@pytest.mark.parametrize(("service", "arguments"), [("pause_recipe", []), ("skip_to_phase", ["late"])])
async def test_a_change_that_can_not_be_saved_changes_nothing(on, service, arguments):
    await on.start("weeks")
    await on.clock.advance(MINUTE)
    on.journal.broken = True
    answer = await on.ask(service, *arguments)
    assert answer["success"] is False
    assert "could not be recorded" in answer["message"]
    await on.clock.advance(MINUTE)
    assert (state(on)["state"], state(on)["elapsed"]) == ("running", 2 * MINUTE)


async def test_each_run_has_one_document(on):
    await on.start("weeks", 0, "Ada")
    (begun,) = on.journal.documents
    assert begun == {
        "_id": f"run {BEGAN:.15g}",
        "environment": "e",
        "recipe_id": "weeks",
        "recipe_rev": "3-abc",
        "recipe": {name: value for name, value in WEEKS.items() if not name.startswith("_")},
        "started": BEGAN,
        "started_by": "Ada",
        "ordered": None,
        "offset": 0,
        "revisions": [],
        "ended": None,
        "ended_by": None,
        "end_reason": None,
        "elapsed": None,
        "counters_at_end": None,
    }
    await on.clock.advance(MINUTE)
    on.about = {"growd": "2.0", "counters": {"acid": {"cycles": 1}}}
    await on.ask("stop_recipe", "Grace")
    stopped = {"ended": BEGAN + MINUTE, "ended_by": "Grace", "end_reason": "stopped", "elapsed": MINUTE}
    stopped["counters_at_end"] = on.about["counters"]
    assert on.journal.documents[1:] == [begun | stopped]


async def test_the_record_of_a_run_is_saved_again_when_the_database_has_lost_it(on, caplog):
    await on.runner.record_again()
    assert (on.journal.documents, on.runner.run_id) == ([], "")
    await on.start("weeks")
    await on.clock.advance(MINUTE)
    on.journal.broken = True
    await on.runner.record_again()
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    on.journal.broken = False
    await on.runner.record_again()
    first, again = on.journal.documents
    assert again == first
    assert again["_id"] == on.runner.run_id


async def test_a_saved_recipe_that_became_invalid_ends(chamber, said):
    async with chamber.on():
        await chamber.start("weeks")
    chamber.journal.run["recipe"] = {"format": "of the future"}
    async with chamber.on():
        await chamber.clock.advance(2)
        said(chamber.journal.documents[-1]["end_reason"])
        assert chamber.parameter("current_recipe") == ""


# where it goes on


async def test_after_outage_chooses_the_position_after_an_outage(chamber):
    await run_for_a_minute(chamber)
    await chamber.clock.advance(10 * MINUTE)
    chamber.catches_up = False
    async with chamber.on():
        assert state(chamber)["elapsed"] == MINUTE
        await chamber.clock.advance(MINUTE)
    chamber.catches_up = True
    await chamber.clock.advance(10 * MINUTE)
    async with chamber.on():
        assert state(chamber)["elapsed"] == 12 * MINUTE


@pytest.mark.parametrize("step", [-2, 5 * MINUTE, -5 * MINUTE, 1_000 - BEGAN], ids=str)
async def test_on_the_same_boot_the_wall_clock_is_ignored(chamber, step):
    """After a kill -9 and a clock step, the monotonic clock still has the length of the outage."""
    chamber.is_new_boot = False
    async with chamber.on():
        await chamber.start("weeks")
        await chamber.clock.advance(120)
    chamber.clock.step(step)
    await chamber.clock.advance(300)
    async with chamber.on():
        assert state(chamber)["elapsed"] == 420


async def test_a_power_cut_counts_once_ntp_is_synchronised(chamber):
    await run_for_a_minute(chamber)
    chamber.clock.synchronised = False
    chamber.clock.step(-30)  # it begins where it was last saved; the day without power is not seen
    async with chamber.on():
        await chamber.clock.advance(60)
        assert state(chamber)["elapsed"] == MINUTE + 60
        chamber.clock.step(ROUND + 30)
        chamber.clock.synchronised = True
        await chamber.clock.advance(60)
        assert state(chamber)["elapsed"] == MINUTE + ROUND + 120
        chamber.clock.step(MINUTE)  # and no later step
        await chamber.clock.advance(60)
        assert state(chamber)["elapsed"] == MINUTE + ROUND + 180


async def test_a_boot_in_1970_continues_at_the_saved_position_until_ntp(chamber):
    await run_for_a_minute(chamber)
    seen, true = chamber.journal.run["seen"], chamber.clock.time() + 2 * MINUTE
    chamber.clock.synchronised = False
    chamber.clock.step(10 - chamber.clock.time())
    async with chamber.on():
        await chamber.clock.advance(60)
        assert state(chamber)["elapsed"] == MINUTE + 60
        wall = chamber.runner._active.position.wall()
        assert seen <= wall <= seen + 2 * MINUTE  # the time of day does not turn back
        chamber.clock.step(true + 60 - chamber.clock.time())
        chamber.clock.synchronised = True
        await chamber.clock.advance(1)
        assert state(chamber)["elapsed"] == 3 * MINUTE + 61


async def test_without_a_network_a_battery_clock_counts_until_ntp_sets_it_for_the_first_time(chamber):
    """Two times that are not confirmed are compared, and the first synchronisation moves nothing."""
    years = 3 * 365 * 24 * HOUR
    chamber.clock.synchronised = False
    chamber.clock.step(-years)
    await run_for_a_minute(chamber)
    await chamber.clock.advance(10 * MINUTE)
    async with chamber.on():
        assert state(chamber)["elapsed"] == 11 * MINUTE
        await synchronise(chamber, years)
        assert (state(chamber)["state"], state(chamber)["elapsed"]) == ("running", 12 * MINUTE)


async def test_ntp_corrects_a_wrong_battery_clock(chamber):
    await run_for_a_minute(chamber)
    chamber.clock.synchronised = False
    chamber.clock.step(2 * HOUR)
    async with chamber.on():
        await chamber.clock.advance(MINUTE)
        assert state(chamber)["elapsed"] == 2 * HOUR + 2 * MINUTE  # for the time being
        await synchronise(chamber, -2 * HOUR)
        assert state(chamber)["elapsed"] == 3 * MINUTE
        assert chamber.set_points() == {LIGHT: 5000}


async def test_an_unconfirmed_time_ends_a_run_only_after_an_hour(chamber):
    await run_for_a_minute(chamber)
    chamber.clock.synchronised = False
    chamber.clock.step(10 * 365 * 24 * HOUR)
    async with chamber.on():
        await chamber.clock.advance(HOUR - 10)
        assert state(chamber)["state"] == "running"
        await chamber.clock.advance(20)
        assert (state(chamber)["state"], chamber.journal.documents[-1]["end_reason"]) == ("idle", "finished")


@pytest.mark.parametrize("is_power_cut", [False, True])
async def test_an_uncertain_position_survives_another_restart(chamber, is_power_cut):
    await run_for_a_minute(chamber)
    chamber.clock.synchronised = False
    async with chamber.on():
        await chamber.clock.advance(MINUTE)
    chamber.is_new_boot = is_power_cut
    async with chamber.on():
        await chamber.clock.advance(MINUTE)
        await synchronise(chamber, HOUR)
        assert state(chamber)["elapsed"] == HOUR + 4 * MINUTE


async def test_a_confirmed_power_cut_corrects_the_one_before(chamber):
    await run_for_a_minute(chamber)
    chamber.clock.synchronised = False
    async with chamber.on():
        await chamber.clock.advance(MINUTE)
    chamber.clock.step(HOUR)
    chamber.clock.synchronised = True
    async with chamber.on():
        await chamber.clock.advance(MINUTE)
        assert state(chamber)["elapsed"] == HOUR + 3 * MINUTE
        await chamber.stop()
        assert chamber.journal.points[-1][-1] == chamber.clock.time()


@pytest.mark.parametrize("how", ["pause", "skip", "pause before"])
async def test_a_pause_or_a_skip_ends_the_uncertainty_and_a_power_cut_during_a_pause_is_none(chamber, how):
    async with chamber.on():
        await chamber.start("weeks")
        await chamber.clock.advance(MINUTE)
        if how == "pause before":
            await chamber.ask("pause_recipe")
    chamber.clock.synchronised = False
    async with chamber.on():
        await chamber.clock.advance(MINUTE)
        if how == "skip":
            await chamber.ask("skip_to_phase", "early")
        else:
            await chamber.ask("pause_recipe")
            await chamber.ask("resume_recipe")
        place = state(chamber)["elapsed"]
        assert place == {"pause": 2 * MINUTE, "skip": 0, "pause before": MINUTE}[how]
        await synchronise(chamber, HOUR)
        assert state(chamber)["elapsed"] == place + MINUTE


async def test_a_clock_step_is_saved_once_possible(chamber):
    async with chamber.on():
        await chamber.start("weeks")
        await chamber.clock.advance(2)
        chamber.journal.broken = True
        chamber.clock.step(HOUR)
        await chamber.clock.advance(5)
        chamber.journal.broken = False
        writes = chamber.journal.progressed
        await chamber.clock.advance(2)
        assert chamber.journal.progressed == writes + 1
        assert chamber.journal.run["seen"] == pytest.approx(chamber.clock.time(), abs=2)


async def test_a_change_during_a_failed_save_is_saved_once_possible(on):
    on.clock.synchronised = False
    await on.start("weeks")
    await on.clock.advance(59)
    on.journal.hold = asyncio.Event()
    await on.clock.advance(2)
    on.clock.synchronised = True
    await on.clock.advance(2)
    on.journal.broken = True
    on.journal.hold.set()
    await on.clock.advance(2)
    on.journal.broken = False
    await on.clock.advance(2)
    assert on.journal.run["confirmed"]


async def test_the_position_after_a_restart_is_saved_at_once(chamber):
    await run_for_a_minute(chamber)
    async with chamber.on():
        writes = chamber.journal.progressed
        await chamber.clock.advance(2)
        assert chamber.journal.progressed == writes + 1
        assert chamber.journal.run["boot"] == chamber.clock.boot


# what the end says, and what is held


async def test_an_end_is_never_before_the_start(chamber):
    chamber.is_new_boot = False
    async with chamber.on():
        await chamber.start("weeks")
        await chamber.clock.advance(2 * MINUTE)
        chamber.clock.step(-24 * HOUR)
        await chamber.clock.advance(MINUTE)
    async with chamber.on():
        await chamber.stop()
        assert chamber.journal.points[-1] == ("recipe_end", "weeks", BEGAN + 3 * MINUTE)


async def test_an_end_during_an_outage_is_at_the_end_of_the_recipe(chamber):
    async with chamber.on():
        await chamber.start("weeks", 13 * ROUND)
    await chamber.clock.advance(5 * ROUND)
    for _ in range(2):
        async with chamber.on():
            await chamber.clock.advance(2)
            assert (chamber.set_points(), chamber.parameter("current_recipe")) == ({}, "")
    assert chamber.journal.recorded() == [("recipe_start", "weeks"), ("recipe_end", "weeks")]
    assert chamber.journal.documents[-1]["elapsed"] == 14 * ROUND


async def test_outputs_are_released_even_if_parameters_fail(on, monkeypatch):
    await on.start("weeks")

    async def busy(_active):
        raise BusyError("sets", 256)

    with monkeypatch.context() as patch:
        patch.setattr(on.runner._status, "save", busy)
        assert (await on.stop())["success"]
    assert is_released(on, LIGHT)
    assert on.parameter("current_recipe") == "weeks"
    await on.clock.advance(2)
    assert on.parameter("current_recipe") == ""


HELD = {
    "_id": "held",
    "format": "phased",
    "phases": [
        {
            "duration": 60,
            "time_units": "minutes",
            "daily": {LIGHT: [{"at": "06:00", "value": 8000}, {"at": "12:30", "value": 0}]},
        },
        {"duration": 12, "time_units": "hours", "course": {TEMPERATURE: [{"at": 0, "value": 20}]}},
    ],
}


@pytest.fixture
def held(chamber):
    """At eleven, before a phase of an hour with light until half past twelve, and one with warmth."""
    chamber.recipes["held"] = HELD
    chamber.period_s = 30.0
    chamber.clock.step(at("2026-06-01T11:00") - chamber.clock.time())
    return chamber


@pytest.mark.parametrize("how", ["pause", "outage"])
async def test_held_values_survive_a_pause_or_an_outage(held, how):
    held.catches_up = False
    async with held.on():
        await held.start("held")
        await held.clock.advance(61 * MINUTE)
        assert held.set_points() == {LIGHT: 8000, TEMPERATURE: 20}
        if how == "pause":
            await held.ask("pause_recipe")
            await held.clock.advance(3 * HOUR)
            await held.ask("resume_recipe")
    if how == "outage":
        await held.clock.advance(3 * HOUR)
    async with held.on():
        await held.clock.advance(10 * MINUTE)
        assert held.set_points() == {LIGHT: 8000, TEMPERATURE: 20}


async def test_a_held_value_is_that_at_the_end_of_its_phase(held):
    async with held.on():
        await held.start("held")
        await held.clock.advance(30 * MINUTE)
        await held.ask("pause_recipe")
        await held.clock.advance(45 * MINUTE)
        await held.ask("resume_recipe")
        await held.clock.advance(50 * MINUTE)  # the phase ended at a quarter to one, in the dark
        assert held.set_points() == {LIGHT: 0, TEMPERATURE: 20}


# the plan


async def test_a_plan_by_id_is_that_of_the_current_document(on):
    await on.start("day")
    on.recipes["day"] = DAY | {"operations": [[0, LIGHT, 1], [77, LIGHT, 2]]}
    for recipe_id, duration in (("", 1000), ("day", 77)):
        assert (await on.call("recipe_plan", recipe_id))["plan"]["duration"] == duration


# the time of day


def at(text, zone=UTC):
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


async def until(chamber, time):
    await chamber.clock.advance(time - chamber.clock.time())


async def test_lights_go_on_at_six_local_time_over_dst_changes(chamber):
    chamber.zone = BERLIN
    chamber.period_s = 30.0
    for day, next_day in (("2026-03-28", "2026-03-29"), ("2026-10-24", "2026-10-25")):
        chamber.clock.step(at(f"{day}T21:00", chamber.zone) - chamber.clock.time())
        async with chamber.on():
            await chamber.start("wall")
            assert chamber.set_points() == {LIGHT: 8000}
            await until(chamber, at(f"{day}T22:00:31", chamber.zone))
            assert chamber.set_points() == {LIGHT: 0}
            await until(chamber, at(f"{next_day}T05:59:29", chamber.zone))
            assert chamber.set_points() == {LIGHT: 0}
            await until(chamber, at(f"{next_day}T06:00:31", chamber.zone))
            assert chamber.set_points() == {LIGHT: 8000}
            await chamber.stop()


@pytest.mark.parametrize("step", [-2, -50])
async def test_a_small_step_back_switches_no_light_twice(on, step):
    on.clock.step(at("2026-06-01T05:00") - on.clock.time())
    await on.start("wall")
    await until(on, at("2026-06-01T06:00:01"))
    on.clock.step(step)
    for _ in range(200):
        await on.clock.advance(1)
        assert on.set_points() == {LIGHT: 8000}


async def test_a_large_clock_step_moves_the_time_of_day_only(on):
    on.clock.step(at("2026-06-01T12:00") - on.clock.time())
    await on.start("wall")
    on.clock.step(-10 * HOUR)
    await on.clock.advance(60)
    assert on.set_points() == {LIGHT: 0}
    assert state(on)["elapsed"] == 60
    on.clock.synchronised = False
    on.clock.step(12 * HOUR)
    await on.clock.advance(2)
    assert on.set_points() == {LIGHT: 8000}
    on.clock.step(-12 * HOUR)  # back, not synchronised
    await on.clock.advance(60)
    assert on.set_points() == {LIGHT: 8000}


async def test_a_daily_recipe_does_not_start_before_the_clock_is_set_and_warns_without_ntp(on):
    on.clock.synchronised = False
    assert "clock is not synchronised" in (await on.start("wall"))["message"]
    await on.stop()
    assert "time server" not in (await on.start("weeks"))["message"]
    await on.stop()
    on.clock.step(10 - on.clock.time())
    answer = await on.start("wall")
    assert answer["success"] is False
    assert "this machine's clock was never set" in answer["message"]
    assert (await on.start("weeks"))["success"]


def two_phases(**second):
    """Five minutes of light, then five minutes of warmth."""
    whole = {"duration": 5, "time_units": "minutes"}
    light, air = ({"course": {name: [{"at": 0, "value": 20}]}} for name in (LIGHT, TEMPERATURE))
    return {"format": "phased", "phases": [whole | light, whole | air | second]}


def is_released(chamber, variable):
    last = chamber.desired(variable)
    return (last.quality, last.value) == (Quality.STALE, None)


async def test_a_releasing_phase_releases_earlier_set_points(on):
    on.recipes["two"] = two_phases(otherwise="release")
    await on.start("two")
    await on.clock.advance(301)
    assert is_released(on, LIGHT)
    assert on.desired(TEMPERATURE).value == 20
    count = on.bus.topics.get(f"e/desired/{LIGHT}").count
    await on.clock.advance(10)
    assert on.bus.topics.get(f"e/desired/{LIGHT}").count == count


async def test_set_points_published_during_a_change_are_released_with_the_run(on):
    """A pause just before the next phase, which is saved just after."""
    on.recipes["two"] = two_phases()
    await on.start("two")
    await on.clock.advance(299)
    async with on.while_it_is_written(on.call("pause_recipe")) as pause:
        await on.clock.advance(3)
        assert on.desired(TEMPERATURE).value == 20
    assert (await pause)["success"]
    assert (state(on)["state"], state(on)["elapsed"]) == ("paused", 299)
    assert on.desired(LIGHT).value == 20
    assert is_released(on, TEMPERATURE)
