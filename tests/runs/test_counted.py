"""Outputs of a run: what their counters say goes before what their commands say."""

import pytest

from growd.store.reading.source import ExportedPoint
from growd_analysis.figures.account import RunAccount
from growd_analysis.figures.figures import Rating
from growd_analysis.figures.run_figures import with_counted
from growd_analysis.reports.language import Language
from growd_analysis.reports.tables import outputs
from support.run_points import HOLDS_S, MIDNIGHT, UTC, VALVE

ACID = "nutrient_ph_down"


def counters(variable, cycles, on_s, litres=None, *, kwh=None, since=1.0):
    return {
        "variable": variable,
        "since": since,
        "cycles": cycles,
        "on_s": on_s,
        "energy_kwh": kwh,
        "volume_l": litres,
    }


def commanded(*commands, variable=ACID, rating=Rating(flow_l_min=0.03), lasts=3_600):  # noqa: B008  frozen
    account = RunAccount(
        MIDNIGHT, MIDNIGHT + lasts, UTC, holds_s=lambda _: HOLDS_S, ratings={variable: rating}
    )
    for at, value in commands:
        account.take(
            ExportedPoint(
                variable, category="commanded", timestamp=MIDNIGHT + at, environment="e", value=value
            )
        )
    return account.figures()


def output(figures, variable=ACID):
    return next(one for one in figures.outputs if one.variable == variable)


HELD = commanded((60, 0.0), *((120 + 20 * n, float(n % 2 == 0)) for n in range(8)))
"""Acid that is commanded four times; an interlock held three of the doses."""


def test_doses_that_an_interlock_held_are_in_no_figure():
    assert (output(HELD).starts, output(HELD).litres) == (4, pytest.approx(0.04))
    found = with_counted(
        HELD, {"acid": counters(ACID, 7, 50.0, 0.02)}, {"acid": counters(ACID, 8, 53.0, 0.021)}
    )
    acid = output(found)
    assert (acid.starts, acid.on_s, acid.is_counted) == (1, 3.0, True)
    assert acid.litres == pytest.approx(0.001)
    assert acid.known_s == output(HELD).known_s


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (None, None),
        ({}, {"acid": counters(ACID, 1, 3.0, 0.001)}),
        ({"acid": counters(ACID, 0, 0.0, 0.0)}, {"acid": counters(ACID, 1, 3.0, 0.001, since=2.0)}),
        ({"acid": counters(ACID, 0, 0.0)}, {"acid": counters(VALVE, 1, 3.0)}),
    ],
)
def test_commands_count_where_counters_are_unknown_or_began_anew(start, end):
    assert output(with_counted(HELD, start, end)) == output(HELD)


def test_two_outputs_of_one_variable_count_together_and_carbon_dioxide_has_a_mass():
    figures = commanded((60, 1.0), (120, 0.0), variable=VALVE)
    start = {name: counters(VALVE, 0, 0.0, 0.0) for name in ("one", "two")}
    end = {"one": counters(VALVE, 2, 30.0, 1.0), "two": counters(VALVE, 1, 10.0, 0.5)}
    valve = output(with_counted(figures, start, end), VALVE)
    assert (valve.starts, valve.on_s, valve.litres, valve.grams) == (3, 40.0, 1.5, 2.76)


def test_channels_of_the_lamp_have_their_energy_without_commands_of_their_own():
    white = "light_intensity_white"
    start, end = ({"light white": counters(white, n, 3_600.0 * n, kwh=0.1 * n)} for n in (1, 2))
    lamp = output(with_counted(HELD, start, end), white)
    assert (lamp.on_s, lamp.starts, lamp.known_s) == (3_600.0, 1, 0.0)
    assert lamp.energy_kwh == pytest.approx(0.1)
    cells = [*outputs(with_counted(HELD, start, end), Language("en", UTC)).itertext()]
    assert cells[8:14] == ["White light", "1 h", "100.0 %", "1", "–", "1 h"]  # noqa: RUF001
    assert len(lamp.days_on_s) == len(HELD.days)
    assert [one.variable for one in with_counted(HELD, end, end).outputs] == [ACID]  # it was dark


@pytest.mark.parametrize("days", [1, 3])
def test_the_days_add_up_to_what_was_counted(days):
    opened = [(86_400 * day + 60 * n, float(n % 2)) for day in range(days) for n in range(2 * day + 3)]
    figures = commanded(*opened, variable=VALVE, lasts=86_400 * days)
    start, end = ({"valve": counters(VALVE, n, 10.0 * n, 0.1 * n)} for n in (2, 7))
    valve = output(with_counted(figures, start, end), VALVE)
    assert (valve.starts, valve.on_s, valve.litres) == (5, 50.0, 0.5)
    assert (len(valve.days_litres), sum(valve.days_starts)) == (days, 5)
    assert sum(valve.days_on_s) == pytest.approx(50.0)
    assert sum(valve.days_litres) == pytest.approx(0.5)
    assert valve.days_litres == sorted(valve.days_litres)
