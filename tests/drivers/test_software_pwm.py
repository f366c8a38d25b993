"""Software PWM: the wave form, and the process that makes it, on a stand-in for gpiod."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from growd_drivers.errors import HardwareUnavailableError
from growd_drivers.gpio_lines import GpioLines
from growd_drivers.hardware import gpio_module
from growd_drivers.pwm_light import PwmLight
from growd_drivers.pwm_pulses import Pulses
from support.lasting_pins import LastingPins
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PERIOD = 5_000_000
PIN = 12


class Wave:
    """Pulses, and the time of each change of their line."""

    def __init__(self, high: int, began: int = 0) -> None:
        self.now = began
        self.changes: list[tuple[int, bool]] = []
        self.pulses = Pulses(lambda is_high: self.changes.append((self.now, is_high)), PERIOD, high)
        self.pulses.begin(began)

    def step(self, late: int = 0) -> None:
        assert self.pulses.due is not None
        self.now = self.pulses.due + late
        self.pulses.step(self.now)

    def highs(self) -> list[tuple[int, int]]:
        """The start and the length of each pulse."""
        ups = [time for time, is_high in self.changes if is_high]
        downs = [time for time, is_high in self.changes[1:] if not is_high]
        return [(up, down - up) for up, down in zip(ups, downs, strict=False)]


def test_periods_do_not_drift_when_each_change_is_late():
    wave = Wave(2_000_000)
    for _ in range(1000):
        wave.step(late=70_000)
    starts = [start for start, _ in wave.highs()]
    assert [start // PERIOD for start in starts] == list(range(500))
    assert {start % PERIOD for start in starts[1:]} == {70_000}


def test_a_pulse_that_was_too_long_makes_the_next_one_shorter():
    wave = Wave(1_000_000)
    wave.step(late=300_000)
    for _ in range(4):
        wave.step()
    assert [length for _, length in wave.highs()] == [1_300_000, 700_000, 1_000_000]


def test_a_pulse_that_was_far_too_long_replaces_the_next_ones():
    wave = Wave(1_000_000)
    wave.step(late=2_500_000)
    for _ in range(5):
        wave.step()
    assert [(start // PERIOD, length) for start, length in wave.highs()] == [(0, 3_500_000), (3, 500_000)]


def test_a_pause_that_was_missed_is_made_up_for():
    wave = Wave(4_000_000)
    wave.step(late=1_100_000)
    wave.step()
    assert wave.highs() == [(0, 5_100_000 + 2_900_000)]


def test_missed_periods_are_made_up_for_by_a_period_at_most():
    wave = Wave(1_000_000)
    wave.step()
    wave.step(late=2 * PERIOD)
    wave.step()
    assert wave.highs()[1] == (3 * PERIOD, 3_000_000)
    wave.step(late=100 * PERIOD)
    wave.step()
    wave.step()
    assert wave.highs()[2][1] <= 2 * PERIOD


@pytest.mark.parametrize("high", [30_000, 1_500_000, 4_900_000])
def test_the_mean_is_right_although_each_change_is_late_by_another_time(high: int):
    wave, dice = Wave(high), random.Random(1)
    for _ in range(4000):
        wave.step(late=round(dice.expovariate(1 / 60_000)))
    lit = sum(length for _, length in wave.highs())
    assert lit / wave.now == pytest.approx(high / PERIOD, rel=0.01)


@pytest.mark.parametrize(("began", "is_high", "due"), [(1_000, True, 2_000_000), (3_000_000, False, PERIOD)])
def test_pulses_begin_as_in_the_middle_of_a_period(began: int, is_high: bool, due: int):  # noqa: FBT001
    wave = Wave(2_000_000, began)
    assert wave.changes == [(began, is_high)]
    assert wave.pulses.due == due


@pytest.mark.parametrize("high", [0, PERIOD])
def test_a_steady_level_needs_no_change(high: int):
    wave = Wave(high, began=3_000_000)
    assert wave.changes == [(3_000_000, bool(high))]
    assert wave.pulses.due is None


# the process


@pytest.fixture
def pins(tmp_path: Path) -> LastingPins:
    return LastingPins(tmp_path)


@pytest.fixture
def gpio(pins: LastingPins) -> Iterator[GpioLines]:
    with pins.here():
        gpio = gpio_module()
        assert isinstance(gpio, GpioLines)
        yield gpio


def changes(pins: LastingPins) -> int:
    return len(pins.history())


def process_of(gpio: GpioLines) -> subprocess.Popen[bytes]:
    process = gpio._pulses._process
    assert process is not None
    return process


@pytest.mark.parametrize("inverted", [False, True])
def test_a_lamp_is_pulsed_and_dark_after_it_is_closed(pins: LastingPins, gpio: GpioLines, inverted: bool):  # noqa: FBT001
    lamp = PwmLight(gpio, {"white": PIN}, inverted=inverted)
    assert pins.history() == [(PIN, int(inverted))] * changes(pins)
    lamp.set("white", 0.5)
    before = changes(pins)
    wait_until(lambda: changes(pins) > before + 4)
    levels = [level for _, level in pins.history()[before:]]
    assert all(level != following for level, following in itertools.pairwise(levels))
    lamp.close()
    assert pins.levels() == {PIN: int(inverted)}


def test_full_light_is_a_steady_level(pins: LastingPins, gpio: GpioLines):
    lamp = PwmLight(gpio, {"white": PIN})
    lamp.set("white", 1.0)
    lamp.close()
    assert [level for _, level in pins.history() if level] == [1]
    assert pins.levels() == {PIN: 0}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_all_processes_of_growd_do_not_end_the_pulses(gpio: GpioLines, number: signal.Signals):
    lamp = PwmLight(gpio, {"white": PIN})
    lamp.set("white", 0.5)
    first = process_of(gpio)
    first.send_signal(number)
    lamp.set("white", 0.6)
    assert (process_of(gpio), first.poll()) == (first, None)
    lamp.close()


def test_a_killed_process_leaves_a_dark_lamp_and_is_started_again(pins: LastingPins, gpio: GpioLines):
    lamp = PwmLight(gpio, {"white": PIN})
    lamp.set("white", 1.0)
    first = process_of(gpio)
    first.kill()
    wait_until(lambda: process_of(gpio) is not first)
    wait_until(lambda: changes(pins) >= 5)
    assert [level for _, level in pins.history()[-2:]] == [0, 1]
    lamp.close()
    assert pins.levels() == {PIN: 0}


def test_a_killed_program_leaves_a_dark_lamp(pins: LastingPins):
    program = (
        "import os, signal\n"
        "from growd_drivers.hardware import gpio_module\n"
        "from growd_drivers.pwm_light import PwmLight\n"
        "lamp = PwmLight(gpio_module(), {'white': 12})\n"
        "lamp.set('white', 1.0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **pins.environment}, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    wait_until(lambda: pins.levels() == {PIN: 0})
    assert (PIN, 1) in pins.history()


def test_a_process_that_does_not_answer_is_killed_and_started_again(pins: LastingPins, gpio: GpioLines):
    lamp = PwmLight(gpio, {"white": PIN})
    lamp.set("white", 1.0)
    first = process_of(gpio)
    first.send_signal(signal.SIGSTOP)
    assert gpio._pulses._control is not None
    gpio._pulses._control.settimeout(0.01)
    with pytest.raises(
        HardwareUnavailableError, match="GPIO 12 can't be driven: the process of the software PWM"
    ):
        lamp.set("white", 0.5)
    wait_until(lambda: process_of(gpio) is not first)
    wait_until(lambda: pins.levels() == {PIN: 1})
    lamp.set("white", 0.0)
    assert pins.levels() == {PIN: 0}
    lamp.close()


def test_a_process_that_hangs_blocks_no_other_pin_and_leaves_the_lamp_dark(
    pins: LastingPins, gpio: GpioLines
):
    gpio.setup(23, gpio.OUT, initial=0)
    lamp = PwmLight(gpio, {"white": PIN})
    lamp.set("white", 1.0)
    process_of(gpio).send_signal(signal.SIGSTOP)
    assert gpio._pulses._control is not None
    gpio._pulses._control.settimeout(60)
    closing = threading.Thread(target=lamp.close)
    closing.start()
    wait_until(gpio._pulses._lock.locked)
    gpio.output(23, 1)
    assert closing.is_alive()
    assert pins.levels() == {23: 1, PIN: 1}
    process_of(gpio).kill()
    closing.join()
    assert pins.levels() == {23: 1, PIN: 0}


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_lamp_that_ends_while_the_process_fails_is_dark(
    pins: LastingPins, gpio: GpioLines, number: signal.Signals
):
    gpio.setup(PIN, gpio.OUT, initial=0)
    gpio.setup(13, gpio.OUT, initial=0)
    lamps = [gpio.PWM(pin, 200) for pin in (PIN, 13)]
    for lamp in lamps:
        lamp.start(100.0)
    assert pins.levels() == {PIN: 1, 13: 1}
    with gpio._pulses._lock:  # the process is not started again before the lamps end
        process_of(gpio).send_signal(number)
        ending = [threading.Thread(target=lamp.stop) for lamp in lamps]
        for thread in ending:
            thread.start()
    for thread in ending:
        thread.join()
    assert pins.levels() == {PIN: 0, 13: 0}


def test_a_frequency_above_that_of_software_pwm_is_refused(gpio: GpioLines):
    with pytest.raises(HardwareUnavailableError, match="software PWM has up to 1000 Hz"):
        PwmLight(gpio, {"white": PIN}, frequency_hz=1001)
