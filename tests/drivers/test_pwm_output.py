"""A dimmed output on a pin."""

from __future__ import annotations

import pytest

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.pwm_output import PwmOutput
from growd_hwsim.faults import Fault
from support.machine import SleepingTime, simulated


@pytest.fixture
def machine():
    machine = simulated(SleepingTime())
    yield machine
    machine.close()


def pump_on(machine, **options) -> PwmOutput:
    return PwmOutput(machine.gpio, 17, name="pump", **options)


def test_a_level_is_a_duty_cycle_of_the_frequency(machine):
    pump = pump_on(machine, frequency_hz=500.0)
    assert machine.gpio.high(17) == 0
    pump.write(0.25)
    event = machine.gpio.history[-1]
    assert (event.pin, event.high, event.frequency_hz) == (17, 0.25, 500)
    pump.close()
    assert machine.gpio.high(17) == 0


def test_a_motor_begins_at_its_minimum(machine):
    pump = pump_on(machine, minimum_duty=0.3)
    pump.write(0.5)
    assert machine.gpio.high(17) == pytest.approx(0.65)
    pump.write(0.0)
    assert machine.gpio.high(17) == 0


@pytest.mark.parametrize(("active_high", "safe_on", "safe"), [(1, 0, 0), (0, 0, 1), (1, 1, 1), (0, 1, 0)])
def test_it_is_safe_at_the_begin_and_the_end(machine, active_high, safe_on, safe):
    pump = pump_on(machine, active_high=bool(active_high), safe_on=bool(safe_on))
    assert machine.gpio.high(17) == safe
    pump.write(0.5)
    assert machine.gpio.high(17) == 0.5
    pump.close()
    pump.close()
    assert machine.gpio.high(17) == safe


def test_an_unchanged_level_is_not_written_again(machine):
    pump = pump_on(machine)
    pump.write(0.5)
    written = len(machine.gpio.history)
    pump.write(0.5)
    assert len(machine.gpio.history) == written


def test_after_a_refused_write_any_level_is_written_again(machine):
    pump = pump_on(machine)
    pump.write(0.5)
    machine.faults.inject(Fault("refused", "gpio-17"))
    with pytest.raises(HardwareUnavailableError, match=r"pump: GPIO 17 can't be driven"):
        pump.write(0.7)
    with pytest.raises(HardwareUnavailableError):
        pump.close()
    machine.faults.clear()
    machine.gpio.output(17, 0)  # by whoever held the pin
    pump.write(0.5)
    assert machine.gpio.high(17) == 0.5


@pytest.mark.parametrize("level", [-0.1, 1.1, float("nan")])
def test_a_level_out_of_range_is_refused(machine, level):
    with pytest.raises(SettingError, match=r"level must be 0\.\.1"):
        pump_on(machine).write(level)


def test_a_closed_output_takes_no_level_and_a_wrong_pin_no_output(machine):
    pump = pump_on(machine)
    pump.close()
    with pytest.raises(SettingError, match="pump is closed"):
        pump.write(1.0)
    with pytest.raises(SettingError, match="pump"):
        PwmOutput(machine.gpio, 99, name="pump")
