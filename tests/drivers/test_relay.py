from __future__ import annotations

import errno

import pytest

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.relay import Relay
from growd_hwsim.gpio import SimulatedGpio
from support.machine import SleepingTime

PIN = 23


class RefusingGpio(SimulatedGpio):
    """Refuses the next `refusals` writes."""

    refusals = 0

    def output(self, channel, value):
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EBUSY, "it is in use by gpioset")
        super().output(channel, value)


@pytest.fixture
def gpio():
    return RefusingGpio(SleepingTime().monotonic)


def levels(gpio):
    return [event.high for event in gpio.history if event.pin == PIN]


@pytest.mark.parametrize("active_high", [True, False])
@pytest.mark.parametrize("safe_on", [True, False])
def test_it_is_safe_from_the_first_moment_and_after_close(gpio, active_high, safe_on):
    safe = float(safe_on == active_high)
    relay = Relay(gpio, PIN, active_high=active_high, safe_on=safe_on)
    assert (levels(gpio), relay.is_on) == ([safe], safe_on)
    relay.set(not safe_on)
    assert (gpio.high(PIN), relay.is_on) == (1 - safe, not safe_on)
    relay.close()
    assert (levels(gpio), relay.is_on) == ([safe, 1 - safe, safe], safe_on)
    gpio.output(PIN, 0)  # still an output: this would be refused of a pin given back


def test_an_unchanged_state_is_not_written_again(gpio):
    relay = Relay(gpio, PIN)
    for on in (False, True, True, True, False, False):
        relay.set(on)
    relay.close()
    relay.close()
    assert levels(gpio) == [0, 1, 0, 0]


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize(("refusals", "after"), [(1, (0, False)), (2, (1, None))], ids=["safe", "unknown"])
def test_after_a_failed_write_the_relay_is_made_safe_if_possible_and_can_be_switched_again(
    gpio, on, refusals, after
):
    relay = Relay(gpio, PIN)
    relay.set(True)
    gpio.refusals = refusals
    with pytest.raises(
        HardwareUnavailableError, match="relay: GPIO 23 can't be driven: it is in use by gpioset"
    ):
        relay.set(False)
    assert (gpio.high(PIN), relay.is_on) == after
    relay.set(on)
    assert (gpio.high(PIN), relay.is_on) == (on, on)


def test_a_failed_close_is_reported_and_can_be_repeated(gpio):
    relay = Relay(gpio, PIN)
    relay.set(True)
    gpio.refusals = 1
    with pytest.raises(HardwareUnavailableError):
        relay.close()
    assert gpio.high(PIN) == 1
    relay.close()
    assert gpio.high(PIN) == 0


def test_a_closed_relay_is_not_switched(gpio):
    relay = Relay(gpio, PIN, name="valve")
    relay.close()
    with pytest.raises(SettingError, match="valve is closed"):
        relay.set(True)
    assert gpio.high(PIN) == 0


def test_a_pin_that_is_not_on_the_header_is_refused_before_it_is_touched(gpio):
    with pytest.raises(SettingError, match=r"fan: pin must be 0\.\.27 \(BCM\), not 28"):
        Relay(gpio, 28, name="fan")
    assert not gpio.history


def test_a_pin_in_use_elsewhere_is_one_clear_sentence():
    class BusyGpio(SimulatedGpio):
        def setup(self, channel, direction, *, initial=None):
            raise OSError(errno.EBUSY, "it is in use by gpioset")

    with pytest.raises(
        HardwareUnavailableError, match="fan: GPIO 23 can't be driven: it is in use by gpioset"
    ):
        Relay(BusyGpio(SleepingTime().monotonic), PIN, name="fan")
