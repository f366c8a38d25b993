from __future__ import annotations

import errno
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.pwm_light import PwmLight
from growd_hwsim.gpio import SimulatedGpio, SimulatedPwm
from support.machine import SleepingTime

PINS = {"white": 18, "red": 13, "blue": 19}


class Bench:
    def __init__(self, **options) -> None:
        self.clock = SleepingTime()
        self.gpio = SimulatedGpio(self.clock.monotonic)
        self.light = PwmLight(self.gpio, PINS, **options)

    def settled(self, pin: int) -> float:
        self.clock.advance(10)
        return self.gpio.high(pin)


@pytest.mark.parametrize(("inverted", "off"), [(False, 0.0), (True, 1.0)])
def test_every_pin_is_driven_off_before_any_pwm_runs(inverted, off):
    bench = Bench(inverted=inverted)
    first = list(bench.gpio.history)[: len(PINS)]
    assert {event.pin for event in first} == set(PINS.values())
    assert {(event.high, event.frequency_hz) for event in first} == {(off, 0.0)}
    assert {event.high for event in bench.gpio.history} == {off}
    bench.light.close()


def test_a_level_is_the_duty_of_its_pin():
    bench = Bench(frequency_hz=500.0)
    bench.light.set("red", 0.4)
    event = bench.gpio.history[-1]
    assert (event.pin, event.high, event.frequency_hz) == (13, pytest.approx(0.4), 500.0)
    assert bench.light.duties == {"white": 0.0, "red": pytest.approx(0.4), "blue": 0.0}
    bench.light.close()


def test_an_inverted_lamp_is_lit_by_a_low_pin():
    bench = Bench(inverted=True)
    bench.light.set("white", 0.75)
    assert bench.gpio.high(18) == pytest.approx(0.25)
    assert bench.light.duties["white"] == pytest.approx(0.75)
    bench.light.close()


def test_an_unchanged_level_is_not_written_again():
    bench = Bench()
    bench.light.set("white", 0.5)
    written = len(bench.gpio.history)
    bench.light.set("white", 0.5)
    assert len(bench.gpio.history) == written
    bench.light.set("white", 0.6)
    assert len(bench.gpio.history) == written + 1
    bench.light.close()


def test_after_a_write_that_failed_the_level_from_before_is_written_again(monkeypatch):
    bench = Bench()
    takes = SimulatedPwm.ChangeDutyCycle

    def takes_it_and_fails(pwm: SimulatedPwm, dutycycle: float) -> None:
        takes(pwm, dutycycle)
        raise OSError(errno.EIO, "failed")

    monkeypatch.setattr(SimulatedPwm, "ChangeDutyCycle", takes_it_and_fails)
    with pytest.raises(HardwareUnavailableError):
        bench.light.set("white", 0.8)
    assert math.isnan(bench.light.duties["white"])
    monkeypatch.undo()
    bench.light.set("white", 0.0)
    assert bench.gpio.high(PINS["white"]) == 0.0
    bench.light.close()


def test_a_lamp_that_can_not_be_opened_whole_stays_dark_where_a_low_pin_lights_it(monkeypatch):
    clock = SleepingTime()
    gpio = SimulatedGpio(clock.monotonic)
    *_, last = PINS.values()
    makes = SimulatedGpio.PWM

    def refuse_the_last(gpio: SimulatedGpio, channel: int, frequency: float) -> SimulatedPwm:
        if channel == last:
            raise OSError(errno.EBUSY, "it is in use by gpioset")
        return makes(gpio, channel, frequency)

    monkeypatch.setattr(SimulatedGpio, "PWM", refuse_the_last)
    with pytest.raises(HardwareUnavailableError, match=f"GPIO {last} .*in use by gpioset"):
        PwmLight(gpio, PINS, inverted=True)
    clock.advance(10)
    assert [gpio.high(pin) for pin in PINS.values()] == [1.0, 1.0, 1.0]


@settings(deadline=None)
@given(
    levels=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    minimum_duty=st.floats(0, 0.9),
    gamma=st.floats(0.3, 4),
    inverted=st.booleans(),
)
def test_more_level_is_never_less_light(levels, minimum_duty, gamma, inverted):
    bench = Bench(minimum_duty=minimum_duty, gamma=gamma, inverted=inverted)
    duties = []
    for level in sorted(levels):
        bench.light.set("blue", level)
        duties.append(bench.light.duties["blue"])
        assert level == 0 or duties[-1] >= minimum_duty
    assert 0 <= duties[0] <= duties[1] <= 1
    bench.light.set("blue", 0.0)
    assert bench.light.duties["blue"] == 0.0
    bench.light.set("blue", 1.0)
    assert bench.light.duties["blue"] == pytest.approx(1.0)
    bench.light.close()


@pytest.mark.parametrize(("inverted", "off"), [(False, 0.0), (True, 1.0)])
def test_closed_lamps_are_off_and_stay_off(inverted, off):
    bench = Bench(inverted=inverted)
    for channel in PINS:
        bench.light.set(channel, 0.5)
    bench.light.close()
    bench.light.close()
    assert bench.light.duties == dict.fromkeys(PINS, 0.0)
    assert [bench.settled(pin) for pin in PINS.values()] == [off] * 3
    bench.gpio.output(18, 0)  # still an output: this would be refused of a pin given back


def test_a_lamp_can_be_opened_again_after_close():
    bench = Bench()
    bench.light.close()
    again = PwmLight(bench.gpio, PINS)
    again.set("white", 0.3)
    assert bench.settled(18) == pytest.approx(0.3)
    again.close()


def test_closing_puts_out_the_others_when_one_pin_fails():
    bench = Bench()
    for channel in PINS:
        bench.light.set(channel, 0.5)

    class Broken:
        def ChangeDutyCycle(self, _percent):  # noqa: N802  RPi.GPIO's name
            raise OSError(errno.EBUSY, "it is in use by gpioset")

        stop = ChangeDutyCycle

    bench.light._pwms["red"] = Broken()
    with pytest.raises(HardwareUnavailableError, match="GPIO 13 can't be driven: it is in use by gpioset"):
        bench.light.close()
    assert [bench.settled(pin) for pin in PINS.values()] == [0.0] * 3


def test_a_pin_in_use_elsewhere_is_one_clear_sentence():
    class BusyGpio(SimulatedGpio):
        def setup(self, channel, direction, *, initial=None):
            raise OSError(errno.EBUSY, "it is in use by gpioset")

    clock = SleepingTime()
    with pytest.raises(
        HardwareUnavailableError, match="light: GPIO 18 can't be driven: it is in use by gpioset"
    ):
        PwmLight(BusyGpio(clock.monotonic), PINS)


@pytest.mark.parametrize(
    ("channel", "level", "words"),
    [
        ("green", 0.5, "no channel 'green'"),
        ("white", 1.01, "light white: level must be 0..1, not 1.01"),
        ("white", -0.1, "not -0.1"),
        ("white", math.nan, "not nan"),
    ],
)
def test_a_level_that_cannot_be_is_refused_and_changes_nothing(channel, level, words):
    bench = Bench()
    written = len(bench.gpio.history)
    with pytest.raises(SettingError, match=words):
        bench.light.set(channel, level)
    assert len(bench.gpio.history) == written
    bench.light.close()
    with pytest.raises(SettingError, match="is closed"):
        bench.light.set("white", 0.5)


@pytest.mark.parametrize(
    ("pins", "options", "words"),
    [
        ({}, {}, "its own pin"),
        ({"white": 18, "red": 18}, {}, "its own pin"),
        ({"white": 28}, {}, "light white: pin must be 0..27"),
        ({"white": 18}, {"frequency_hz": 0}, "frequency_hz must be above 0"),
        ({"white": 18}, {"minimum_duty": 1}, "minimum_duty must be 0 to below 1"),
        ({"white": 18}, {"gamma": 0}, "gamma must be above 0"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_a_pin_is_touched(pins, options, words):
    clock = SleepingTime()
    gpio = SimulatedGpio(clock.monotonic)
    with pytest.raises(SettingError, match=words):
        PwmLight(gpio, pins, **options)
    assert not gpio.history
