"""The pins over gpiod, on a stand-in for that package whose lines outlive the process."""

import subprocess
import sys

import pytest

from growd_drivers.gpio_lines import GpiodLines, header_chip
from support.lasting_pins import LastingPins
from support.processes import Ending


@pytest.fixture
def pins(tmp_path):
    return LastingPins(tmp_path)


@pytest.fixture
def lines(pins):
    with pins.here():
        lines = GpiodLines(header_chip())
        yield lines
        for request in lines._requests.values():
            request.release()


def test_a_line_that_is_claimed_otherwise_is_never_given_back(pins, lines):
    lines.claim(23, 0, -1)
    request = lines._requests[23]
    lines.claim(23, 1, -1)
    lines.claim_input(23, "up", 0)
    assert lines.read(23) == 1
    lines.claim(23, 0, -1)
    assert lines._requests[23] is request
    lines.claim(22, 1, -1)
    assert pins.history() == [(23, 0), (23, 1), (23, 0), (22, 1)]  # each from its request
    pins.left({24: 1})
    assert (lines.is_output(24), lines.is_output(21)) == (True, False)


def test_a_busy_pin_names_its_user(pins, lines, said):
    holder = (
        "import gpiod, sys\n"
        "settings = gpiod.LineSettings(gpiod.Direction.OUTPUT)\n"
        "line = gpiod.Chip('/dev/gpiochip0').request_lines({23: settings}, consumer='gpio-fan')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", holder]
    with Ending(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with said.raises(OSError):
            lines.claim(23, 1, -1)
        other.communicate()
    lines.claim(23, 1, -1)
    assert pins.levels() == {23: 1}


def test_the_kernel_gets_pull_and_debounce(pins, lines, said):
    import gpiod  # noqa: PLC0415  the stand-in

    for pull, bias, level in (("up", "PULL_UP", 1), ("down", "PULL_DOWN", 0), ("none", "DISABLED", 0)):
        lines.claim_input(17, pull, 20_000_000)
        settings = gpiod.LineRequest.requested[17]
        assert (settings.bias.name, settings.debounce_period.total_seconds()) == (bias, 0.02)
        assert lines.read(17) == level
    pins.left({17: 1})
    assert lines.read(17) == 1
    with said.raises(OSError):
        lines.read(5)
