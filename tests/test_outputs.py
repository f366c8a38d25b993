"""Outputs as the configuration says, on pins that may refuse."""

from __future__ import annotations

import pytest

from growd.config import Channel, Light, Relay
from growd.outputs import light_device, relay_device
from growd_drivers.errors import HardwareUnavailableError
from growd_hwsim.faults import Fault
from support.machine import SleepingTime, simulated

LAMP = Light(
    channel=(Channel(name="white", pin=12),), frequency_hz=500, minimum_duty=0.1, gamma=2.0, inverted=True
)


@pytest.fixture
def machine():
    machine = simulated(SleepingTime())
    yield machine
    machine.close()


def test_the_lamp_is_what_the_configuration_says(machine):
    lamp = light_device(machine, LAMP)
    lamp.use().set("white", 0.5)
    event = machine.gpio.history[-1]
    assert (event.pin, event.high, event.frequency_hz) == (12, pytest.approx(1 - (0.1 + 0.9 / 4)), 500)
    lamp.close()
    assert machine.gpio.high(12) == 1


@pytest.mark.parametrize(("active", "safe", "levels"), [("high", "off", [0, 1, 0]), ("low", "on", [0, 1, 0])])
def test_a_relay_is_what_the_configuration_says(machine, active, safe, levels):
    settings = Relay(name="fan", pin=24, variable="air_flush_on", active=active, safe=safe)
    relay = relay_device(machine, settings)
    relay.use().set(safe == "off")
    relay.close()
    assert [event.high for event in machine.gpio.history] == levels


def test_an_output_that_could_not_be_opened_is_opened_at_a_later_use(machine):
    lamp = light_device(machine, LAMP)
    machine.faults.inject(Fault("refused", "gpio-12"))
    for _ in range(2):
        with pytest.raises(HardwareUnavailableError, match="GPIO 12 can't be driven"):
            lamp.use()
    with pytest.raises(HardwareUnavailableError):
        lamp.close()
    machine.faults.clear()
    lamp.use().set("white", 1.0)
    assert machine.gpio.high(12) == 0
    lamp.close()
    assert machine.gpio.high(12) == 1


def test_an_output_that_was_never_used_is_not_touched_at_the_end(machine):
    relay_device(machine, Relay(name="fan", pin=24, variable="air_flush_on")).close()
    assert not machine.gpio.history
