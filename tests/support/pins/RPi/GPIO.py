"""The package RPi.GPIO on the pins of `pins_file`. It refuses what RPi.GPIO 0.7.1 refuses."""

import warnings

from pins_file import chips, drive, level_of

BCM = 11
OUT, IN = 0, 1
PUD_OFF, PUD_DOWN, PUD_UP = 20, 21, 22
_PINS = range(28)

_functions = {}  # of the pins that this process has set up
_pulls = {}
_settings = {"mode": 0, "warnings": True}

if not chips():
    raise RuntimeError("This module can only be run on a Raspberry Pi!")


def setmode(mode):
    _settings["mode"] = mode


def setwarnings(enabled):
    _settings["warnings"] = enabled


def gpio_function(channel):
    _check(channel)
    return _functions.get(channel, IN if level_of(channel) is None else OUT)


def setup(channel, direction, pull_up_down=PUD_OFF, initial=None):
    _check(channel)
    if _settings["warnings"] and gpio_function(channel) != IN and channel not in _functions:
        warnings.warn("This channel is already in use, continuing anyway.", RuntimeWarning, stacklevel=2)
    _functions[channel], _pulls[channel] = direction, pull_up_down
    if direction == OUT and initial is not None:
        drive(channel, initial)


def output(channel, value):
    _check(channel)
    if _functions.get(channel) != OUT:
        raise RuntimeError("The GPIO channel has not been set up as an OUTPUT")
    drive(channel, value)


def input(channel):  # noqa: A001  as the real one
    _check(channel)
    if channel not in _functions:
        raise RuntimeError("You must setup() the GPIO channel first")
    level = level_of(channel)
    return int(_pulls[channel] == PUD_UP) if level is None else level


def _check(channel):
    if _settings["mode"] != BCM:
        raise RuntimeError("Please set pin numbering mode using GPIO.setmode(GPIO.BOARD)")
    if channel not in _PINS:
        raise ValueError("The channel sent is invalid on a Raspberry Pi")
    if "refused" in chips().values():
        raise RuntimeError("No access to /dev/mem.  Try running as root!")
