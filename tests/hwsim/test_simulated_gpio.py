from __future__ import annotations

import errno

import pytest

from growd_hwsim.gpio import HISTORY_LENGTH, SimulatedGpio
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


@pytest.mark.parametrize("rest", [0, 1])
def test_a_stopped_pwm_leaves_its_pin_at_rest(bench, rest):
    bench.gpio.setup(18, bench.gpio.OUT, initial=rest)
    pwm = bench.gpio.PWM(18, 100)
    pwm.start(40)
    pwm.stop()
    assert bench.gpio.high(18) == rest
    pwm.ChangeDutyCycle(60)
    assert bench.gpio.high(18) == rest


@pytest.mark.parametrize(
    ("misuse", "number"),
    [
        (lambda gpio: gpio.PWM(17, 100), errno.EPERM),
        (lambda gpio: gpio.output(17, 1), errno.EPERM),
        (lambda gpio: gpio.setup(17, 1, initial=0), errno.EINVAL),
    ],
)
def test_misuse_is_refused_as_by_real_pins(bench, misuse, number):
    with pytest.raises(OSError) as caught:  # noqa: PT011  its number follows
        misuse(bench.gpio)
    assert caught.value.errno == number


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
        with pytest.raises(OSError, match="in use by gpioset"):
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
