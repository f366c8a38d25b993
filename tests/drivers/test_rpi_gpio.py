"""The pins over RPi.GPIO, on a stand-in for that package whose levels outlive the process."""

import errno
import os
from functools import partial

import pytest

from growd_drivers import rpi_gpio
from growd_drivers.rpi_gpio import RpiGpioLines
from support.lasting_pins import LastingPins


@pytest.fixture
def pins(tmp_path):
    return LastingPins(tmp_path)


@pytest.fixture
def lines(pins):
    with pins.here():
        yield RpiGpioLines()


def test_a_pin_has_its_first_level_from_its_setup_and_one_that_a_program_left_is_taken_over(pins, lines):
    for pin, level in ((23, 0), (22, 1)):
        drive = lines.claim(pin, level, -1)
        drive.set(0, 1 - level, 0)
    assert pins.history() == [(23, 0), (23, 1), (22, 1), (22, 0)]
    pins.left({24: 1})
    assert (lines.is_output(24), lines.is_output(5)) == (True, False)
    lines.claim(24, 0, -1)
    assert pins.levels()[24] == 0


def test_a_pin_can_become_an_input_and_an_output_again(pins, lines):
    drive = lines.claim(23, 0, -1)
    lines.claim_input(23, "up", 0)
    with pytest.raises(OSError, match="has not been set up as an OUTPUT") as caught:
        drive.set(0, 1, 0)
    assert caught.value.errno == errno.EIO
    lines.claim(23, 1, -1)
    assert pins.history() == [(23, 0), (23, 1)]


@pytest.mark.parametrize(("pull", "level"), [("up", 1), ("down", 0), ("none", 0)])
def test_an_input_has_the_level_of_its_pull(lines, pull, level):
    lines.claim_input(17, pull, 0)
    assert lines.read(17) == level
    with pytest.raises(OSError, match="not set up as an input"):
        lines.read(5)


def test_a_level_counts_once_it_has_stayed(pins, lines, monkeypatch):
    lines.claim_input(17, "up", 50)
    read = []
    for now, level in ((0, 1), (10, 0), (40, 0), (50, 1), (60, 0), (100, 0), (110, 0), (120, 0)):
        monkeypatch.setattr(rpi_gpio.time, "monotonic_ns", partial(int, now))
        pins.left({17: level})
        read.append(lines.read(17))
    assert read == [1, 1, 1, 1, 1, 1, 0, 0]


def test_a_pin_that_the_library_refuses_is_an_error_of_the_system(lines):
    with pytest.raises(OSError, match="The channel sent is invalid") as caught:
        lines.claim(40, 0, -1)
    assert caught.value.errno == errno.EIO


def test_without_permission_the_library_says_so(pins):
    with pins.here({0: "refused"}), pytest.raises(OSError, match="No access to /dev/mem"):
        RpiGpioLines().claim(23, 0, -1)


def test_two_of_growd_do_not_drive_the_pins(pins, tmp_path, monkeypatch):
    device = tmp_path / "gpiomem"
    device.touch()
    monkeypatch.setattr(rpi_gpio, "_DEVICE", str(device))
    with pins.here():
        first = RpiGpioLines()
        with pytest.raises(OSError, match="in use by growd") as caught:
            RpiGpioLines()
        assert caught.value.errno == errno.EBUSY
        assert first._lock is not None
        os.close(first._lock)
        again = RpiGpioLines()
        assert again._lock is not None
        os.close(again._lock)
