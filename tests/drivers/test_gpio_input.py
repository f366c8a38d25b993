"""Switches on pins: levels and pulls."""

import pytest

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.gpio_input import GpioInput
from growd_hwsim.faults import Fault, Faults
from growd_hwsim.gpio import SimulatedPins
from support.machine import SleepingTime

PIN = 17


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
    pins = SimulatedPins(SleepingTime().monotonic, wires={PIN: lambda: level})
    assert GpioInput(pins, PIN, active=active, pull=pull).read().is_active == value


def test_a_read_follows_the_switch_and_the_first_alone_claims_the_pin():
    class Counting(SimulatedPins):
        claims = 0

        def claim_input(self, *arguments, **options):
            self.claims += 1
            super().claim_input(*arguments, **options)

    states = iter([None, False, None])
    pins = Counting(SleepingTime().monotonic, wires={PIN: lambda: next(states)})
    switch = GpioInput(pins, PIN)
    assert pins.claims == 0
    assert [switch.read().is_active for _ in range(3)] == [0, 1, 0]
    assert pins.claims == 1


def test_a_refused_pin_is_claimed_again_at_the_next_read(said):
    clock = SleepingTime()
    faults = Faults(sleep=clock.sleep, monotonic=clock.monotonic)
    pins = SimulatedPins(clock.monotonic, is_refused=faults.is_refused)
    switch = GpioInput(pins, PIN, name="door", active="high")
    faults.inject(Fault("refused", f"gpio-{PIN}"))
    with said.raises(HardwareUnavailableError):
        switch.read()
    faults.clear()
    assert switch.read().is_active == 1


def test_wrong_settings_are_refused(said):
    pins = SimulatedPins(SleepingTime().monotonic)
    with said.raises(SettingError):
        GpioInput(pins, 28)
    with said.raises(SettingError):
        GpioInput(pins, PIN, active="on")
    with said.raises(OSError):
        pins.input(PIN)
