from __future__ import annotations

import gc

import pytest

from growd_hwsim.gpio import HISTORY_LENGTH, LgpioError, SimulatedGpio
from support.machine import SleepingTime


class Bench:
    def __init__(self) -> None:
        self.clock = SleepingTime()
        self.heard: list[tuple[int, float]] = []
        self.refused: set[int] = set()
        self.gpio = SimulatedGpio(
            self.clock.monotonic,
            on_change=lambda *change: self.heard.append(change),
            is_refused=self.refused.__contains__,
        )
        self.gpio.setmode(self.gpio.BCM)


@pytest.fixture
def bench():
    bench = Bench()
    bench.gpio.setup(18, bench.gpio.OUT, initial=0)
    return bench


def test_changes_are_in_the_history_and_reported(bench):
    pwm = bench.gpio.PWM(18, 100)
    bench.clock.advance(1)
    pwm.start(25)
    bench.clock.advance(1)
    pwm.ChangeDutyCycle(50)
    events = [(event.time, event.high, event.frequency_hz) for event in bench.gpio.history]
    assert events == [(5000.0, 0.0, 0.0), (5001.0, 0.25, 100.0), (5002.0, 0.5, 100.0)]
    assert bench.heard == [(18, 0.0), (18, 0.25), (18, 0.5)]


def test_a_duty_before_start_does_nothing_yet(bench):
    pwm = bench.gpio.PWM(18, 100)
    pwm.ChangeDutyCycle(80)
    assert bench.gpio.high(18) == 0
    pwm.start(10)
    assert bench.gpio.high(18) == pytest.approx(0.1)


def test_a_stopped_pwm_drives_low_after_its_period(bench):
    pwm = bench.gpio.PWM(18, 100)
    pwm.start(100)
    pwm.stop()
    bench.gpio.output(18, 1)
    bench.clock.advance(0.005)
    assert bench.gpio.high(18) == 1
    bench.clock.advance(0.006)
    assert bench.gpio.high(18) == 0
    bench.gpio.output(18, 1)
    bench.clock.advance(1)
    assert bench.gpio.high(18) == 1


def test_a_collected_pwm_stops(bench):
    pwm = bench.gpio.PWM(18, 100)
    pwm.start(100)
    with pytest.raises(RuntimeError, match="already exists"):
        bench.gpio.PWM(18, 100)
    del pwm
    gc.collect()
    bench.clock.advance(1)
    assert bench.gpio.high(18) == 0
    assert bench.gpio.PWM(18, 100)


@pytest.mark.parametrize(
    ("misuse", "error"),
    [
        (lambda gpio: gpio.PWM(17, 100), RuntimeError),
        (lambda gpio: gpio.output(17, 1), RuntimeError),
        (lambda gpio: gpio.PWM(18, 0), ValueError),
        (lambda gpio: gpio.PWM(18, 100).start(100.1), ValueError),
        (lambda gpio: gpio.PWM(18, 100).ChangeDutyCycle(-0.1), ValueError),
        (lambda gpio: gpio.setup(54, gpio.OUT, initial=0), ValueError),
        (lambda gpio: gpio.setup(17, 1, initial=0), ValueError),
        (lambda gpio: gpio.setmode(10), ValueError),
    ],
)
def test_misuse_is_refused_as_by_the_real_module(bench, misuse, error):
    with pytest.raises(error):
        misuse(bench.gpio)


def test_pins_are_numbered_before_they_are_used():
    gpio = SimulatedGpio(SleepingTime().monotonic)
    with pytest.raises(RuntimeError, match="pin numbering mode"):
        gpio.setup(18, gpio.OUT, initial=0)


def test_a_refused_pin_keeps_its_level_and_others_work(bench):
    bench.gpio.setup(17, bench.gpio.OUT, initial=0)
    pwm = bench.gpio.PWM(18, 100)
    pwm.start(50)
    bench.refused.add(18)
    for write in (
        lambda: pwm.ChangeDutyCycle(80),
        lambda: bench.gpio.output(18, 1),
        lambda: bench.gpio.setup(18, bench.gpio.OUT, initial=0),
    ):
        with pytest.raises(LgpioError, match="'GPIO busy'"):
            write()
    bench.gpio.output(17, 1)
    assert (bench.gpio.high(18), bench.gpio.high(17)) == (0.5, 1)
    bench.refused.clear()
    pwm.ChangeDutyCycle(80)
    assert bench.gpio.high(18) == pytest.approx(0.8)


def test_history_is_bounded(bench):
    for number in range(HISTORY_LENGTH + 10):
        bench.gpio.output(18, number % 2)
    assert len(bench.gpio.history) == HISTORY_LENGTH
