"""The simulated pins: their history, refusals, and the end of leases in simulated time."""

import errno

import pytest

from growd_hwsim.gpio import HISTORY_LENGTH, SimulatedPins
from support.machine import SleepingTime

PIN = 18


class Bench:
    def __init__(self):
        self.clock = SleepingTime()
        self.heard = []
        self.refused = set()
        self.hanging = set()
        self.pins = SimulatedPins(
            self.clock.monotonic,
            on_change=lambda pin, high: self.heard.append((self.pins.moment, pin, high)),
            is_refused=self.refused.__contains__,
            hangs=self.hanging.__contains__,
        )


@pytest.fixture
def bench():
    bench = Bench()
    bench.pins.claim(PIN, 0)
    return bench


def test_changes_are_in_the_history_and_reported(bench):
    bench.clock.advance(1)
    bench.pins.write(PIN, 0.25, 100.0, 60.0)
    bench.clock.advance(1)
    bench.pins.write(PIN, 0.5, 100.0, 60.0)
    events = [(event.time, event.high, event.frequency_hz) for event in bench.pins.history]
    assert events == [(5000.0, 0.0, 0.0), (5001.0, 0.25, 100.0), (5002.0, 0.5, 100.0)]
    assert bench.heard == [(time, PIN, high) for time, high, _ in events]


def test_each_lease_ends_at_its_time_in_order_however_late_somebody_looks(bench):
    bench.pins.claim(17, 1)
    bench.pins.write(PIN, 1.0, 100.0, 2.25)
    bench.pins.write(17, 0.0, 100.0, 1.5)
    bench.clock.advance(3600)
    assert bench.pins.write(PIN, 1.0, 100.0, 2.0) == 2.25
    assert (bench.pins.high(PIN), bench.pins.high(17)) == (1, 1)
    assert bench.heard[-3:] == [(5001.5, 17, 1.0), (5002.25, PIN, 0.0), (8600.0, PIN, 1.0)]


def test_what_is_not_claimed_is_refused_as_by_real_pins_and_only_what_is_driven_is_claimed_on_request(bench):
    for misuse in (lambda: bench.pins.write(17, 1.0, 100.0, 1.0), lambda: bench.pins.input(17)):
        with pytest.raises(OSError, match="not set up") as caught:
            misuse()
        assert caught.value.errno == errno.EPERM
    assert not bench.pins.claim(17, 0, only_if_driven=True)
    assert bench.pins.claim(PIN, 0, only_if_driven=True)
    for number in range(HISTORY_LENGTH + 10):
        bench.pins.write(PIN, float(number % 2), 100.0, 60.0)
    assert len(bench.pins.history) == HISTORY_LENGTH


def test_a_refused_pin_keeps_its_level_and_others_work(bench):
    bench.pins.claim(17, 0)
    bench.pins.write(PIN, 0.5, 100.0, 60.0)
    bench.refused.add(PIN)
    for misuse in (
        lambda: bench.pins.write(PIN, 0.8, 100.0, 60.0),
        lambda: bench.pins.write(PIN, 1.0, 100.0, 60.0),
        lambda: bench.pins.claim(PIN, 0),
        lambda: bench.pins.claim_input(PIN, pull="up", debounce_s=0.0),
    ):
        with pytest.raises(OSError, match="in use by gpioset"):
            misuse()
    bench.pins.write(17, 1.0, 100.0, 60.0)
    assert (bench.pins.high(PIN), bench.pins.high(17)) == (0.5, 1)
    bench.refused.clear()
    bench.pins.write(PIN, 0.8, 100.0, 60.0)
    assert bench.pins.high(PIN) == pytest.approx(0.8)


def test_a_pin_that_hangs_has_no_answer_and_its_lease_ends(bench):
    bench.pins.write(PIN, 1.0, 100.0, 2.0)
    bench.hanging.add(PIN)
    with pytest.raises(OSError, match="does not answer") as caught:
        bench.pins.write(PIN, 1.0, 100.0, 60.0)
    assert caught.value.errno == errno.ETIMEDOUT
    bench.clock.advance(2)
    assert bench.pins.high(PIN) == 0
