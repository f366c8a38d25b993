"""Switches on pins: levels, pulls, and what the kernel is asked for."""

from __future__ import annotations

import pytest

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.gpio_input import GpioInput
from growd_drivers.hardware import gpio_module
from growd_hwsim.faults import Fault, Faults
from growd_hwsim.gpio import SimulatedGpio
from support.lasting_pins import LastingPins
from support.machine import SleepingTime

PIN = 17


@pytest.fixture
def pins(tmp_path):
    return LastingPins(tmp_path)


@pytest.mark.parametrize(
    ("active", "pull", "level", "value"),
    [
        ("low", "up", None, 0),
        ("low", "up", False, 1),
        ("low", "down", None, 1),
        ("high", "down", None, 0),
        ("high", "down", True, 1),
        ("high", "up", None, 1),
        ("high", "none", True, 1),
    ],
)
def test_the_value_is_1_at_the_active_level(active, pull, level, value):
    gpio = SimulatedGpio(SleepingTime().monotonic, wires={PIN: lambda: level})
    assert GpioInput(gpio, PIN, active=active, pull=pull).read().is_active == value


def test_a_read_follows_the_switch():
    states = iter([None, False, None])
    gpio = SimulatedGpio(SleepingTime().monotonic, wires={PIN: lambda: next(states)})
    switch = GpioInput(gpio, PIN)
    assert [switch.read().is_active for _ in range(3)] == [0, 1, 0]


def test_the_kernel_gets_pull_and_debounce_once(pins):
    with pins.here():
        gpio = gpio_module()
        switch = GpioInput(gpio, PIN, pull="down", debounce_s=0.02)
        import gpiod  # noqa: PLC0415  the stand-in

        assert PIN not in gpiod.LineRequest.requested
        assert switch.read().is_active == 1
        (settings,) = [gpiod.LineRequest.requested.pop(PIN)]
        assert (settings.bias, settings.debounce_period.total_seconds()) == (gpiod.Bias.PULL_DOWN, 0.02)
        pins.left({PIN: 1})
        assert switch.read().is_active == 0
        assert gpiod.LineRequest.requested == {}
        with pytest.raises(OSError, match="not set up as an input"):
            gpio.input(5)


def test_a_refused_pin_is_claimed_again_at_the_next_read():
    clock = SleepingTime()
    faults = Faults(sleep=clock.sleep, monotonic=clock.monotonic)
    gpio = SimulatedGpio(clock.monotonic, is_refused=faults.is_refused)
    switch = GpioInput(gpio, PIN, name="door", active="high")
    faults.inject(Fault("refused", f"gpio-{PIN}"))
    with pytest.raises(HardwareUnavailableError, match=r"door: GPIO 17 can't be read: it is in use"):
        switch.read()
    faults.clear()
    assert switch.read().is_active == 1


def test_wrong_settings_are_refused():
    gpio = SimulatedGpio(SleepingTime().monotonic)
    with pytest.raises(SettingError, match=r"pin must be 0\.\.27"):
        GpioInput(gpio, 28)
    with pytest.raises(SettingError, match="active must be high or low, not on"):
        GpioInput(gpio, PIN, active="on")
    with pytest.raises(OSError, match="not set up as an input"):
        gpio.input(PIN)
