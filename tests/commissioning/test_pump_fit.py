"""The flow and the dead time of a pump, from measured doses."""

import pytest

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
