import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.control.pid import Gains, Pid

PPM = st.floats(0, 40_000)
SECONDS = st.floats(0, 3_600)
GAINS = st.builds(Gains, st.floats(0, 10), st.floats(1, 86_400), st.floats(0, 3_600), st.floats(0, 1))
STEPS = st.lists(
    st.tuples(PPM, PPM, SECONDS, st.none() | st.floats(-1, 1)), min_size=1, max_size=30
)  # set point, measured, seconds, applied


def after(pid, steps):
    output = 0.0
    for step in steps:
        output = pid.update(*step)
    return output


@given(GAINS, STEPS)
def test_output_and_integral_stay_within_their_limits(gains, steps):
    pid = Pid(gains, -1, 1, integral_minimum=0)
    for step in steps:
        assert -1 <= pid.update(*step) <= 1
        assert 0 <= pid.integral <= 1


@given(GAINS, PPM, PPM, PPM)
def test_a_new_set_point_moves_the_output_by_the_proportional_term_alone(gains, before, after_it, measured):
    pid = Pid(gains, -math.inf, math.inf)
    was = pid.update(before, measured, 1.0)
    is_now = pid.update(after_it, measured, 0.0)
    kick = gains.kp * gains.weight * (after_it - before)
    assert is_now - was == pytest.approx(kick, rel=1e-6, abs=1e-6 * (1 + abs(was)))


@given(GAINS, GAINS, st.lists(st.tuples(PPM, PPM, st.floats(0, 100)), min_size=1, max_size=10))
def test_new_gains_do_not_bump_the_output(gains, others, steps):
    pid = Pid(gains, -math.inf, math.inf)
    was = after(pid, steps)
    pid.gains = others
    set_point, measured, _ = steps[-1]
    size = 1 + abs(was) + 40_000 * (gains.kp + others.kp)  # of the terms that cancel out
    others_td = others.td_s * others.kp / (others.td_s / 5 or 1) * 40_000
    assert pid.update(set_point, measured, 0.0) == pytest.approx(was, rel=1e-6, abs=1e-9 * (size + others_td))


@given(st.floats(0, 10), st.floats(1, 86_400), st.floats(-1, 1), PPM)
def test_without_an_error_the_integral_converges_to_the_output_of_the_actuator(kp, ti_s, applied, set_point):
    pid = Pid(Gains(kp, ti_s), -1, 1)
    for _ in range(20):
        pid.update(set_point, set_point, ti_s, applied)
    assert pid.integral == pytest.approx(applied, abs=1e-6)


def test_without_the_output_of_the_actuator_the_integral_stops_at_the_limit():
    pid = Pid(Gains(0.003, 100), 0, 1)
    for _ in range(10_000):
        assert pid.update(1000, 420, 10.0) == 1
    assert pid.update(1000, 2000, 10.0) == 0  # at once, with no hours to work off


def test_the_derivative_is_of_the_measured_value_and_bounded_by_its_filter():
    pid = Pid(Gains(0.01, 1e9, 20), -10, 10)
    pid.update(1000, 1000, 1.0)
    assert pid.update(1000, 1010, 0.0) == pytest.approx(-0.01 * 10 * (1 + 5))
    for _ in range(60):
        pid.update(1000, 1010, 1.0)
    assert pid.update(1000, 1010, 1.0) == pytest.approx(-0.1, rel=0.01)


def test_a_pause_drops_the_derivative_and_holds_the_integral():
    pid = Pid(Gains(0.001, 100, 20), -1, 1)
    after(pid, [(1000, 900, 50.0)] * 3)
    held = pid.integral
    pid.pause()
    assert pid.update(1000, 2000, 0.0) == pytest.approx(held - 1)  # no derivative of a jump during the pause
    pid.reset()
    assert pid.integral == 0
