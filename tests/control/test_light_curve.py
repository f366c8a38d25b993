import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.bus.errors import InvalidValueError
from growd.control.light_curve import CurveField, LightCurve, power_curve, problem_of

STEPS = st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(1.0, 5_000.0)), min_size=1, max_size=30)


def curve_of(steps):
    """Points that rise by these steps, as shares of the whole level, and lux."""
    whole = sum(level for level, _ in steps)
    points, level, lux = [], 0.0, 0.0
    for level_step, lux_step in steps:
        level, lux = level + level_step / whole, lux + lux_step
        points.append([level, lux])
    points[-1][0] = 1.0
    return points


@given(STEPS, st.floats(0.0, 1.0))
def test_level_and_lux_are_inverse(steps, level):
    points = curve_of(steps)
    assert problem_of(points) == ""
    curve = LightCurve(points)
    assert curve.level(curve.lux(level)) == pytest.approx(level, abs=1e-6)
    assert curve.level(0.0) == 0.0
    assert curve.level(curve.full_lux * 2) == 1.0


@given(STEPS, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_the_level_rises_with_the_light_from_0_to_1(steps, one, other):
    curve = LightCurve(curve_of(steps))
    levels = [curve.level(lux) for lux in sorted((one, other))]
    assert 0.0 <= levels[0] <= levels[1] <= 1.0


@pytest.mark.parametrize("gamma", [0.2, 0.5, 1.0, 2.2, 5.0])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.3, 0.9, 1.0])
def test_the_curve_of_gamma_gives_the_level_for_each_light(gamma, share):
    level = power_curve(20_000.0, gamma).level(20_000 * share)
    assert level**gamma == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize("curve", [power_curve(20_000.0, 2.2, 0.1), LightCurve([[0.5, 9e3], [1, 2e4]], 0.1)])
def test_light_below_the_minimum_becomes_the_minimum_or_dark(curve):
    assert curve.level(900) == 0.0
    assert 0 < curve.level(1_100) < 0.01
    assert curve.lux(curve.level(1_100)) == pytest.approx(2_000, rel=0.02)
    assert curve.lux(curve.level(8_000)) == pytest.approx(8_000)
    assert curve.lux(0.0) == 0.0


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([], "not a list"),
        ([[1, 2]] * 65, "not a list"),
        ([[0.5, "x"], [1, 2]], "not a list"),
        ([[0.5], [1, 2]], "not a list"),
        ([[0.5, -1], [1, 2]], "not a list"),
        ([[0.5, True], [1, 2]], "not a list"),
        ([[0.5, float("nan")], [1, 2]], "not a list"),
        ([[0.5, 5]], "ends at level 0.5"),
        ([[0.5, 5], [0.4, 6], [1, 7]], "level 0.4 comes after 0.5"),
        ([[0.5, 5], [1, 5]], "light does not rise: 5 lux at level 0.5, 5 lux at level 1"),
        ([[0.5, 0], [1, 5]], "light does not rise: 0 lux at level 0, 0 lux at level 0.5"),
    ],
)
def test_invalid_points_are_refused_with_the_reason(points, words):
    assert words in problem_of(points)
    if points:
        with pytest.raises(InvalidValueError, match="a list of at most 64 pairs"):
            CurveField("curve").check(points)


def test_the_parameter_is_a_list_that_may_be_empty():
    assert CurveField("curve").check([]) == []
    with pytest.raises(InvalidValueError):
        CurveField("curve").check({"0": 1})
