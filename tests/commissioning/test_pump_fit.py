"""The flow and the dead time of a pump, from measured doses."""

from __future__ import annotations

import pytest

from growd.control.interlocks.on_times import OnTimes
from growd.control.pumps import GivenVolume, JointFlow, PumpFlow, Volumes
from growd_commissioning.experiments import ExperimentError
from growd_commissioning.pump_fit import FitPoint, fitted

TIMES = (2.0, 4.0, 8.0, 2.0, 4.0, 8.0)


def doses(ml_s=4 / 3, dead_s=0.3, times=TIMES, errors=()):
    ml = [ml_s * (seconds - dead_s) for seconds in times]
    return [
        FitPoint(seconds, each + error)
        for seconds, each, error in zip(times, ml, [*errors, *[0.0] * len(times)], strict=False)
    ]


def test_flow_and_dead_time_follow_from_doses_of_several_lengths():
    fit = fitted(doses(), 100)
    assert (fit.ml_min, fit.dead_s, fit.r2) == pytest.approx((80, 0.3, 1.0))


def test_errors_of_reading_the_cylinder_average_out():
    fit = fitted(doses(errors=(0.1, -0.1, 0.1, -0.1, 0.1, -0.1)), 100)
    assert fit.ml_min == pytest.approx(80, rel=0.03)
    assert fit.dead_s == pytest.approx(0.3, abs=0.15)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (doses(times=(2, 4, 8)), "3 doses measured; give and measure 1 more"),
        (doses(times=(4, 4, 4, 5)), "the doses took 4.00 to 5.00 s"),
        (doses(ml_s=-0.5), "the flow would be -30 ml/min"),
        (doses(ml_s=0), "the flow would be 0 ml/min"),
        (doses(errors=(0, 0, 0, 0, 0, -4)), "dose 6 of 8.00 s gave 6.27 ml, and by the others 10.3 ml"),
        (doses(dead_s=2.5), "the dead time would be 2.50 s"),
        (doses(dead_s=-0.8), "the dead time would be -0.80 s"),
        (doses(ml_s=10), "more than 2 times away from flow_ml_min = 100"),
        (doses(ml_s=0.3), "more than 2 times away from flow_ml_min = 100"),
    ],
)
def test_what_is_no_pump_is_refused(points, words):
    with pytest.raises(ExperimentError, match=words.replace("(", r"\(")):
        fitted(points, 100)


def of(ml_min, dead_s=0.0):
    flow = PumpFlow(ml_min)
    flow.dead_s = dead_s
    return flow


def test_pumps_together_give_a_dose_of_the_sum_of_their_volumes():
    both = JointFlow([of(60, 0.5), of(120)])
    seconds = both.seconds(6.0)
    assert 1 * (seconds - 0.5) + 2 * seconds == pytest.approx(6.0)
    assert both.ml(seconds) == pytest.approx(6.0)
    assert JointFlow().seconds(3.0) == 3.0


@pytest.mark.parametrize("dead_s", [0.0, 0.4])
@pytest.mark.parametrize("wanted", [0.0, 0.05, 0.5, 1.0])
def test_a_set_point_in_ml_per_hour_allows_for_the_dead_time_of_each_dose(wanted, dead_s):
    shortest_s = 4.0
    share = of(60, dead_s).share(3600 * wanted, shortest_s)
    dose_s = shortest_s / (1 - share) if share < 1 else 1e9  # see growd.control.dosing
    assert share * (dose_s - dead_s) / dose_s == pytest.approx(wanted)


def test_a_dimmed_pump_has_no_doses():
    assert of(60, 0.4).share(900, 0.0) == 0.25


def test_given_volume_leaves_out_the_dead_time_of_each_start():
    given = GivenVolume(of(60, 0.5))
    given.start()
    total = sum(given.ml(seconds) for seconds in (0.2, 0.2, 0.6))  # counted in parts
    assert total == pytest.approx(0.5)
    given.start()
    assert given.ml(0.4) == 0.0
    early = GivenVolume(of(60, -0.2))  # it runs on
    early.start()
    assert early.ml(1.0) == pytest.approx(1.2)


def test_a_new_calibration_does_not_change_the_volume_that_was_counted():
    times, flow = OnTimes(), of(60)
    volumes = Volumes([(times, lambda: flow.ml_s)])
    times.wrote("acid", 1.0, 0.0)
    times.wrote("acid", 0.0, 10.0)
    assert volumes.total(10.0) == pytest.approx(10.0)
    flow.ml_min = 30.0
    assert volumes.total(20.0) == pytest.approx(10.0)
    times.wrote("acid", 1.0, 20.0)
    assert volumes.total(23.0) == pytest.approx(11.5)
