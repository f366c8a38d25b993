"""The pins over gpiod, on a stand-in for that package whose lines outlive the process."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from growd_drivers import hardware
from growd_drivers.errors import HardwareUnavailableError
from growd_drivers.gpio import claim_output, is_output
from growd_drivers.gpio_lines import GpioLines
from growd_drivers.hardware import gpio_module
from growd_drivers.relay import Relay
from support.lasting_pins import LastingPins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

THREADS = 8
PINS = (5, 6, 12, 13, 18, 22, 23, 24)


@pytest.fixture
def pins(tmp_path: Path) -> LastingPins:
    return LastingPins(tmp_path)


@pytest.fixture
def gpio(pins: LastingPins) -> Iterator[GpioLines]:
    with pins.here():
        gpio = gpio_module()
        assert isinstance(gpio, GpioLines)
        yield gpio


@pytest.mark.parametrize("level", [0, 1])
def test_a_pin_has_its_first_level_from_the_request_itself(pins: LastingPins, gpio: GpioLines, level: int):
    gpio.setup(23, gpio.OUT, initial=level)
    assert pins.history() == [(23, level)]
    gpio.output(23, 1 - level)
    assert pins.history() == [(23, level), (23, 1 - level)]


def test_a_second_setup_drives_the_pin_again(pins: LastingPins, gpio: GpioLines):
    gpio.setup(23, gpio.OUT, initial=1)
    gpio.output(23, 0)
    gpio.setup(23, gpio.OUT, initial=1)
    assert pins.levels() == {23: 1}


def test_a_level_outlives_the_program_and_shows_as_an_output(pins: LastingPins, gpio: GpioLines):
    pins.left({24: 1})
    assert is_output(gpio, 24, device="fan")
    assert not is_output(gpio, 23, device="valve")
    with pytest.raises(HardwareUnavailableError, match="valve: GPIO 23 can't be driven: it is not set up"):
        Relay(NotSetUp(gpio), 23, name="valve").set(True)


class NotSetUp:
    """Forgets to set a pin up."""

    def __init__(self, gpio: GpioLines) -> None:
        self.OUT, self.output, self.PWM = gpio.OUT, gpio.output, gpio.PWM

    def setup(self, channel: int, direction: int, *, initial: int) -> None: ...


def test_a_busy_pin_names_its_user(pins: LastingPins, gpio: GpioLines):
    holder = (
        "import gpiod, sys\n"
        "settings = gpiod.LineSettings(gpiod.Direction.OUTPUT)\n"
        "line = gpiod.Chip('/dev/gpiochip0').request_lines({23: settings}, consumer='gpio-fan')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", holder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(HardwareUnavailableError) as caught:
            claim_output(gpio, 23, 1, device="valve")
        other.communicate()
    assert str(caught.value) == "valve: GPIO 23 can't be driven: it is in use by gpio-fan"
    claim_output(gpio, 23, 1, device="valve")
    assert pins.levels() == {23: 1}


def test_many_threads_at_the_first_use_get_all_their_pins(pins: LastingPins):
    together = threading.Barrier(THREADS)
    failures: list[Exception] = []

    def claim(mine: tuple[int, ...]) -> None:
        together.wait()
        try:
            gpio = gpio_module()
            for pin in mine:
                claim_output(gpio, pin, 1, device=f"relay {pin}")
            for pin in mine:
                gpio.output(pin, 0)
        except Exception as error:  # noqa: BLE001  shown below
            failures.append(error)

    with pins.here():
        each = [PINS[number:] + PINS[:number] for number in range(THREADS)]
        threads = [threading.Thread(target=claim, args=(mine,)) for mine in each]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(hardware._opened) == 1
    assert failures == []
    assert pins.levels() == dict.fromkeys(PINS, 0)
