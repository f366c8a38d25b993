"""One moment has one number: times are whole microseconds, which everything behind the clocks keeps."""

import time

import pytest

from growd.runtime.clock import RealClock
from growd_simulation.simulated_clock import SimulatedClock

SEVENTEEN_DIGITS = 1795879237.6751914


@pytest.mark.parametrize("clock", [RealClock(), SimulatedClock(7.0, SEVENTEEN_DIGITS)])
def test_clocks_give_whole_microseconds(clock, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: SEVENTEEN_DIGITS)
    shown = clock.time()
    assert shown == round(shown * 1e6) / 1e6
