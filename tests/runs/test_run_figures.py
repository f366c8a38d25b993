"""The figures of a run from a real database: from points, and from rollups where points were retired."""

import random

import aiohttp
import pytest

from growd.store.reading.source import SourceReader
from growd.store.rollups.document import Rollup, RollupSeries, rollup_id, span_of
from growd_analysis.figures.figures import Rating
from growd_analysis.figures.run_figures import RunPoints, run_figures
from support.history import ENVIRONMENT
from support.rollups import measured
from support.run_points import CO2, HOLDS_S, LIGHT, MIDNIGHT, UTC, VALVE, WARMTH

RUN = {"environment": ENVIRONMENT, "started": MIDNIGHT, "ended": MIDNIGHT + 7_200}


async def figures(stored, run=RUN, now=MIDNIGHT + 90_000, **options):
    async with aiohttp.ClientSession() as session:
        points = RunPoints(SourceReader(session, stored.source), lambda _: HOLDS_S, **options)
        return await run_figures(run, points, now=now, zone=UTC, ratings={VALVE: Rating(flow_l_min=1.0)})


async def roll_up(stored, values, category="measured", variable=WARMTH, start=MIDNIGHT):
    """Store five-minute documents of (time, value)."""
    series = RollupSeries(ENVIRONMENT, category, variable)
    by_span = {}
    for at, value in values:
        bucket = int(start + at) // 300
        by_span.setdefault(span_of(300, start + at), {}).setdefault(bucket, []).append((start + at, value))
    documents = []
    for span, buckets in by_span.items():
        numbers = [[value for _, value in found] for found in buckets.values()]
        documents.append(
            Rollup(
                id=rollup_id(series, 300, span),
                environment=ENVIRONMENT,
                category=category,
                variable=variable,
                width=300,
                start=span,
                at=[bucket - span // 300 for bucket in buckets],
                min=[min(each) for each in numbers],
                mean=[sum(each) / len(each) for each in numbers],
                max=[max(each) for each in numbers],
                last=[each[-1] for each in numbers],
                last_at=[found[-1][0] for found in buckets.values()],
                count=[len(each) for each in numbers],
            ).document()
        )
    await stored.store_documents(documents, stored.names.rollups)


async def test_from_points_with_the_state_before_the_start(stored):
    await stored.store(
        measured(WARMTH, 20, MIDNIGHT - 100),
        measured(WARMTH, 99, MIDNIGHT - 90_000),
        measured(WARMTH, 22, MIDNIGHT + 300),
        measured(WARMTH, 18, MIDNIGHT - 50_000, is_desired=True),
        measured("recipe_start", "lettuce", MIDNIGHT, is_desired=True),
        measured(LIGHT, 8_000, MIDNIGHT, is_desired=True),
        measured("restart", "growd started", MIDNIGHT - 60_000, category="event"),
        measured(VALVE, 1, MIDNIGHT + 60, category="commanded"),
        measured(VALVE, 0, MIDNIGHT + 90, category="commanded"),
        measured("fault", "scd30: no answer", MIDNIGHT + 500, category="event"),
        measured("water_potential_hydrogen", 6.1, MIDNIGHT + 5, is_manual=True, by="ann"),
        measured(WARMTH, 50, MIDNIGHT + 10, environment="other"),
    )
    found = await figures(stored)
    assert (found.start, found.end) == (MIDNIGHT, MIDNIGHT + 7_200)
    (warmth,) = found.variables
    assert (warmth.whole.data_s, warmth.whole.min, warmth.whole.max) == (560 + 400, 20, 22)
    assert warmth.whole.mean == pytest.approx((20 * 300 + 22 * 660) / 960)
    assert warmth.deviation.mean_absolute == pytest.approx((2 * 300 + 4 * 660) / 960)
    assert warmth.day.data_s == 960
    (valve,) = found.outputs
    assert (valve.on_s, valve.starts, valve.litres) == (30, 1, 0.5)
    assert [(one.kind, one.source) for one in found.events] == [("fault", "scd30")]
    assert [(one.variable, one.by) for one in found.by_hand] == [("water_potential_hydrogen", "ann")]
    assert found.rolled_up_until is None


@pytest.mark.parametrize("at", [-60, 60], ids=["before the run", "in the run"])
async def test_a_value_of_the_moment_of_a_restart_is_known(stored, at):
    await stored.store(
        measured(WARMTH, 20, MIDNIGHT + at),
        measured("restart", "growd started", MIDNIGHT + at, category="event"),
        measured("stop", "growd stopped", MIDNIGHT + at, category="event"),  # by a simulated clock
        measured(WARMTH, 22, MIDNIGHT + 300),
    )
    (warmth,) = (await figures(stored)).variables
    assert warmth.whole.data_s == 660 + 300 - max(0, at)


async def test_a_run_that_has_not_ended_goes_up_to_now(stored):
    found = await figures(stored)
    assert (found.variables, found.outputs, found.events, found.gaps) == ([], [], [], [])
    await stored.store(measured(WARMTH, 20, MIDNIGHT + 10))
    found = await figures(stored, RUN | {"ended": None}, now=MIDNIGHT + 100)
    assert (found.end, found.variables[0].whole.data_s) == (MIDNIGHT + 100, 90)


@pytest.mark.long
async def test_many_points_of_both_databases_come_in_the_order_of_their_times(stored):
    """An hour of 1 s values and a fan that runs every other second, over the borders of pages."""
    await stored.store(
        *[measured(WARMTH, n % 7, MIDNIGHT + n) for n in range(3_600)],
        *[measured("air_flush_on", n % 2, MIDNIGHT + n, category="commanded") for n in range(3_600)],
    )
    found = await figures(stored, RUN | {"ended": MIDNIGHT + 3_600})
    assert found.variable(WARMTH).whole.mean == pytest.approx(sum(n % 7 for n in range(3_600)) / 3_600)
    (fan,) = found.outputs
    assert (fan.on_s, fan.starts, fan.known_s) == (1_800, 1_800, 3_600)


async def test_from_rollups_where_points_were_retired(stored):
    chance = random.Random(2)
    values = [(at, round(chance.gauss(22, 1), 2)) for at in range(0, 7_200, 20)]
    points = [measured(WARMTH, value, MIDNIGHT + at) for at, value in values]
    rest = [
        measured(WARMTH, 22, MIDNIGHT, is_desired=True),
        measured(WARMTH, "fault", MIDNIGHT + 4_000, category="quality"),
        measured(WARMTH, "ok", MIDNIGHT + 5_100, category="quality"),
        measured(CO2, 500, MIDNIGHT + 7_000),
    ]
    values = [one for one in values if not 4_000 <= one[0] < 5_100]
    points = [one for one in points if not 4_000 <= one["timestamp"] - MIDNIGHT < 5_100]
    await roll_up(stored, [one for one in values if one[0] < 6_000])
    await stored.store(*points, *rest)
    exact = await figures(stored)
    rolled = await figures(stored, raw_from=MIDNIGHT + 6_000)
    assert (exact.rolled_up_until, rolled.rolled_up_until) == (None, MIDNIGHT + 6_000)
    wanted, found = exact.variable(WARMTH).whole, rolled.variable(WARMTH).whole
    assert (found.min, found.max) == (wanted.min, wanted.max)
    assert found.mean == pytest.approx(wanted.mean, abs=0.05)
    assert found.data_s == pytest.approx(wanted.data_s, abs=300)
    assert rolled.variable(CO2).whole == exact.variable(CO2).whole
    deviation = rolled.variable(WARMTH).deviation
    assert deviation.mean_absolute < exact.variable(WARMTH).deviation.mean_absolute  # of five-minute means


async def test_retired_commands_that_changed_are_not_known(stored):
    fan = "air_flush_on"
    await stored.store(measured(fan, 0, MIDNIGHT + 3_000, category="commanded"))
    commands = [(0, 1), (290, 1), (310, 0), (320, 1), (600, 1), (900, 0)]
    await roll_up(stored, commands, "commanded", fan)
    found = await figures(stored, raw_from=MIDNIGHT + 1_200)
    (output,) = found.outputs
    assert (output.on_s, output.starts, output.days_starts) == (300, None, None)
    assert output.known_s == 300 + 360 + 660  # the second five minutes of 1, and the last values


async def test_a_variable_of_which_only_rollups_are_left_has_figures(stored):
    """Its sensor was removed, and all points were retired; readings by hand are listed, and no series."""
    acidity = "water_potential_hydrogen"
    await stored.store(
        measured(CO2, 500, MIDNIGHT + 7_000), measured(acidity, 6.1, MIDNIGHT + 10, is_manual=True)
    )
    await roll_up(stored, [(at, 22.0) for at in range(0, 7_200, 20)])
    await roll_up(stored, [(10, 6.1)], variable=acidity)
    found = await figures(stored, raw_from=MIDNIGHT + 7_200)
    assert found.variable(WARMTH).whole.mean == 22.0
    assert (acidity in {one.variable for one in found.variables}, len(found.by_hand)) == (False, 1)
