"""A recipe of 41 days, undisturbed and with twenty kills."""

import random
from copy import deepcopy

import pytest

from growd.recipes.interpreter import interpret
from support.recipes import BEGAN, Chamber

pytestmark = pytest.mark.long

DAYS, DAY_S = 41, 86_400.0
END = BEGAN + DAYS * DAY_S
PERIOD_S = 877.0  # no edge of the recipe comes at such a time
KILLS = 20
VARIABLES = ["air_carbon_dioxide", "air_temperature", "light_illuminance"]


def day(lux, ppm):
    return {
        "light_illuminance": [
            {"at": "06:00", "value": 0, "to_next": "sine"},
            {"at": "07:30", "value": lux},
            {"at": "21:00", "value": lux, "to_next": "ramp"},
            {"at": "22:00", "value": 0},
        ],
        "air_carbon_dioxide": [{"at": "07:00", "value": ppm}, {"at": "21:30", "value": 400}],
    }


WHOLE = {
    "_id": "whole",
    "format": "phased",
    "phases": [
        {"duration": 4, "time_units": "days", "daily": day(2_000, 400)},
        {
            "duration": 14,
            "time_units": "days",
            "daily": day(6_000, 800),
            "course": {
                "air_temperature": [{"at": 0, "value": 24, "to_next": "ramp"}, {"at": 7, "value": 21}]
            },
        },
        {
            "duration": 23,
            "time_units": "days",
            "daily": day(12_000, 1_000),
            "course": {"air_temperature": [{"at": 0, "value": 22}, {"at": 0.5, "value": 19}]},
            "cycle": 1,
        },
    ],
}


async def lived(*kills):
    """The set points of the whole recipe by their times, and its journal; growd is killed at these times."""
    chamber, found = Chamber(), {f"e/desired/{variable}": {} for variable in VARIABLES}
    chamber.recipes["whole"], chamber.period_s, chamber.is_new_boot = WHOLE, PERIOD_S, False

    def note(message):
        value = message.value if message.value is None else round(message.value, 3)
        found[message.topic][round(message.time)] = value

    chamber.clock.stall(waited := -chamber.clock.monotonic() % PERIOD_S)  # ticks are at its multiples
    chamber.clock.step(-waited)
    for end in (*kills, END + PERIOD_S):
        async with chamber.on():
            with chamber.bus.node("log").subscribe(*found, depth=20_000) as messages:
                if not chamber.journal.points:
                    await chamber.start("whole")
                for message in filter(None, map(chamber.desired, VARIABLES)):  # of before the subscription
                    note(message)
                await chamber.clock.advance(end - chamber.clock.time())
                for message in iter(messages.get_nowait, None):
                    note(message)
            at_the_kill = deepcopy(vars(chamber.journal))
        vars(chamber.journal).update(at_the_kill)
        await chamber.clock.advance((BEGAN - chamber.clock.time()) % PERIOD_S)  # to its next set points
    return found, chamber.journal


async def test_a_recipe_of_41_days_runs_completely_also_with_twenty_kills():
    set_points, journal = await lived()
    plan, _ = interpret(WHOLE)
    for tick in range(int(DAYS * DAY_S / PERIOD_S) + 1):
        now = BEGAN + tick * PERIOD_S
        expected = plan.set_points(now - BEGAN, now % DAY_S)
        assert {name: set_points[f"e/desired/{name}"][now] for name in expected} == pytest.approx(
            expected, abs=0.01
        )
    assert [course[max(course)] for course in set_points.values()] == [None] * 3  # and then it lets go
    document = journal.documents[-1]
    assert (document["end_reason"], document["elapsed"]) == ("finished", DAYS * DAY_S)
    dice = random.Random(41)
    again, killed = await lived(*sorted(dice.uniform(BEGAN, END) for _ in range(KILLS)))
    assert again == set_points
    assert killed.recorded() == journal.recorded() == [("recipe_start", "whole"), ("recipe_end", "whole")]
