"""Relays, dimmed outputs and lamps on pins."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.pin_output import PinOutput
from growd_hwsim.gpio import SimulatedPins
from support.machine import SleepingTime

PIN = 23
LEASE_S = 2.0


class Bench:
    def __init__(self):
        self.clock = SleepingTime()
        self.refused = set()
        self.pins = SimulatedPins(self.clock.monotonic, is_refused=self.refused.__contains__)

    def output(self, pin=PIN, *, name="valve", **options):
        return PinOutput(self.pins, pin, name=name, **options)

    def levels(self):
        return [event.high for event in self.pins.history if event.pin == PIN]


@pytest.fixture
def bench():
    return Bench()


@pytest.mark.parametrize("frequency_hz", [None, 200.0])
@pytest.mark.parametrize("active_high", [True, False])
@pytest.mark.parametrize("safe_on", [True, False])
def test_it_is_safe_from_the_first_moment_after_its_time_and_after_close(
    bench, frequency_hz, active_high, safe_on
):
    safe = float(safe_on == active_high)
    output = bench.output(active_high=active_high, safe_on=safe_on, frequency_hz=frequency_hz)
    assert {*bench.levels()} == {safe}
    for _ in range(2):
        output.write(float(not safe_on), LEASE_S)
        assert bench.pins.high(PIN) == 1 - safe
        bench.clock.advance(LEASE_S)
        assert bench.pins.high(PIN) == safe
    output.write(float(not safe_on), LEASE_S)
    output.close()
    output.close()
    assert bench.levels()[-2:] == [1 - safe, safe]


def test_the_answer_is_the_time_since_the_last_write(bench):
    valve = bench.output()
    assert valve.write(1.0, LEASE_S) is None
    bench.clock.advance(0.5)
    assert valve.write(1.0, LEASE_S) == 0.5
    bench.clock.advance(60)
    assert valve.write(0.0, LEASE_S) == LEASE_S
    bench.clock.advance(60)
    assert valve.write(1.0, LEASE_S) == 0.0


def test_a_refused_write_hides_no_time(bench):
    valve = bench.output()
    valve.write(0.0, LEASE_S)
    valve.write(1.0, LEASE_S)
    bench.clock.advance(0.5)
    bench.refused.add(PIN)
    with pytest.raises(HardwareUnavailableError):
        valve.write(0.0, LEASE_S)
    bench.pins.advance(bench.clock.now + 0.2)
    bench.clock.advance(0.2)
    bench.refused.clear()
    assert valve.write(0.0, LEASE_S) == pytest.approx(0.7)


def test_an_unchanged_state_is_not_written_again_and_a_level_out_of_range_is_refused(bench):
    valve = bench.output()
    for level in (-0.1, 1.01, math.nan):
        with pytest.raises(SettingError, match=rf"valve: level must be 0\.\.1, not {level}"):
            valve.write(level, LEASE_S)
    for level in (1.0, 1.0, 1.0, 0.0, 0.0):
        valve.write(level, LEASE_S)
    valve.close()
    assert bench.levels() == [0, 1, 0]


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_after_a_refused_write_any_level_is_written(bench, level):
    valve = bench.output()
    valve.write(1.0, LEASE_S)
    bench.refused.add(PIN)
    with pytest.raises(
        HardwareUnavailableError, match="it is in use by gpioset: stop that program, "
    ) as caught:
        valve.write(0.0, LEASE_S)
    assert caught.value.device == "valve"
    with pytest.raises(HardwareUnavailableError):
        valve.close()
    assert bench.pins.high(PIN) == 1
    bench.refused.clear()
    valve.write(level, LEASE_S)
    assert bench.pins.high(PIN) == level
    valve.close()
    assert bench.pins.high(PIN) == 0


def test_a_closed_output_is_not_switched(bench, said):
    valve = bench.output()
    valve.close()
    with said.raises(SettingError):
        valve.write(1.0, LEASE_S)
    assert bench.pins.high(PIN) == 0
    again = bench.output()
    again.write(1.0, LEASE_S)
    assert bench.pins.high(PIN) == 1


def test_a_pin_that_is_not_on_the_header_or_in_use_is_refused_before_it_is_touched(bench, said):
    bench.refused.add(PIN)
    for pin, error in ((28, SettingError), (PIN, HardwareUnavailableError)):
        with said.raises(error):
            bench.output(pin, name="fan")
    assert not bench.pins.history


@pytest.mark.parametrize("active_high", [True, False])
def test_what_is_switched_is_on_or_off_and_never_pulsed(bench, active_high):
    lamp = bench.output(active_high=active_high)
    for level, is_on in ((1.0, True), (0.6, True), (0.4, False), (0.5, True), (0.0, False)):
        lamp.write(level, LEASE_S)
        assert bench.pins.high(PIN) == (is_on == active_high)
    assert {event.frequency_hz for event in bench.pins.history} == {0.0}


def test_a_level_is_a_duty_cycle_of_the_frequency(bench):
    inverted = bench.output(frequency_hz=500.0, active_high=False)
    inverted.write(0.75, LEASE_S)
    pump = bench.output(frequency_hz=500.0)
    for lamp, level in ((inverted, 0.75), (pump, 0.25)):
        lamp.write(level, LEASE_S)
        event = bench.pins.history[-1]
        assert (event.pin, event.high, event.frequency_hz) == (PIN, 0.25, 500)
    pump.write(1.0, LEASE_S)
    assert (bench.pins.history[-1].high, bench.pins.history[-1].frequency_hz) == (1, 0)


@pytest.mark.parametrize(("level", "high"), [(1e-10, 0.0), (1 - 1e-10, 1.0)])
def test_a_pulse_of_no_length_is_a_steady_level_and_a_motor_begins_at_its_minimum(bench, level, high):
    pump = bench.output(frequency_hz=500.0)
    pump.write(level, LEASE_S)
    event = bench.pins.history[-1]
    assert (event.high, event.frequency_hz) == (high, 0.0)
    bench.clock.advance(1.0)
    assert pump.write(0.0, LEASE_S) == high
    motor = bench.output(frequency_hz=500.0, minimum_duty=0.3)
    motor.write(0.5, LEASE_S)
    assert bench.pins.high(PIN) == pytest.approx(0.65)


@given(
    levels=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    minimum_duty=st.floats(0, 0.9),
    gamma=st.floats(0.3, 4),
    active_high=st.booleans(),
)
def test_more_level_is_never_less_light(levels, minimum_duty, gamma, active_high):
    bench = Bench()
    lamp = bench.output(frequency_hz=200.0, minimum_duty=minimum_duty, gamma=gamma, active_high=active_high)

    def duty(level):
        lamp.write(level, LEASE_S)
        high = bench.pins.high(PIN)
        return high if active_high else 1.0 - high

    duties = [duty(level) for level in sorted(levels)]
    assert all(level == 0 or duty(level) >= minimum_duty - 1e-6 for level in levels)
    assert 0 <= duties[0] <= duties[1] <= 1
    assert duty(0.0) == 0.0
    assert duty(1.0) == pytest.approx(1.0)
