"""Nine clock pulses by `pinctrl`, as its sources print and take pins (raspberrypi/utils, pinctrl.c)."""

import errno
import os

import pytest

from growd_drivers import bus_clear
from growd_drivers.bus_clear import clear_bus, run_pinctrl


class Pinctrl:
    """The tool, on a machine whose pin 3 has this state."""

    def __init__(self, state=" 3: a0    pu | hi // GPIO3 = SCL1\n"):
        self.state = state
        self.sets = []
        self.fails_at = None

    def __call__(self, command, pin, *options):
        if command == "get":
            return self.state
        self.sets.append((pin, *options))
        if self.fails_at == len(self.sets):
            raise OSError(errno.EPERM, "must be root")
        return ""


@pytest.mark.parametrize(
    ("bus", "state", "given_back"),
    [
        (1, " 3: a0    pu | hi // GPIO3 = SCL1\n", ("3", "a0", "pu")),
        (1, " 3: a3    pn | lo // GPIO3 = SCL1\n", ("3", "a3", "pn")),  # a Pi 5 with pull-ups of its own
        (0, " 1: a0    pu | hi // GPIO1 = SCL0\n", ("1", "a0", "pu")),
    ],
)
def test_nine_pulses_are_sent_and_the_pin_is_returned_to_the_controller(bus, state, given_back):
    pinctrl = Pinctrl(state)
    clear_bus(bus, pinctrl=pinctrl)
    pin = given_back[0]
    assert pinctrl.sets == [(pin, "op", "dl"), (pin, "ip", "pu")] * 9 + [given_back]


def test_the_pin_is_given_back_also_when_a_pulse_fails(said):
    pinctrl = Pinctrl()
    pinctrl.fails_at = 4
    with said.raises(OSError):
        clear_bus(1, pinctrl=pinctrl)
    assert pinctrl.sets[-1] == ("3", "a0", "pu")


@pytest.mark.parametrize(
    ("number", "state", "words"),
    [
        (4, "", "pins of I2C bus 4 are not known"),
        (1, " 3: op dl pu | lo // GPIO3 = output\n", "GPIO 3 is not a pin of I2C bus 1"),
        (1, "", "GPIO 3 is not a pin of I2C bus 1"),
    ],
)
def test_pins_of_something_else_are_left_alone(number, state, words):
    pinctrl = Pinctrl(state)
    with pytest.raises(OSError, match=words):
        clear_bus(number, pinctrl=pinctrl)
    assert pinctrl.sets == []


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_tool_is_a_program_of_the_system_and_says_why_it_fails(tmp_path, monkeypatch, said):
    monkeypatch.setattr(bus_clear, "_PINCTRL", os.fspath(tmp_path / "pinctrl"))
    with pytest.raises(FileNotFoundError):
        run_pinctrl("get", "3")
    script(tmp_path / "pinctrl", 'echo "$@"')
    assert run_pinctrl("get", "3") == "get 3\n"
    script(tmp_path / "pinctrl", "echo no access; exit 1")
    with said.raises(OSError):
        run_pinctrl("get", "3")
