"""A new pin keeper, which may not get the pins of the last one at once."""

from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING

import pytest

from growd_drivers.pins import KeptPins
from support.lasting_pins import LastingPins
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

VALVE, HEATER = 23, 25


def test_a_pin_that_a_new_keeper_was_refused_rests_as_soon_as_it_is_free(tmp_path: Path):
    pins = LastingPins(tmp_path)
    with pins.here():
        kept = KeptPins()
        try:
            for pin in (VALVE, HEATER):
                kept.claim(pin, 0)
                kept.write(pin, 1.0, 1.0, 3_600.0)
            keeper = kept.process
            assert keeper is not None
            with (tmp_path / f"pins.{VALVE}").open("a") as taken:
                os.kill(keeper, signal.SIGKILL)
                fcntl.flock(taken, fcntl.LOCK_EX)  # another program has the line
                wait_until(lambda: has_new_keeper(kept, keeper))
                assert pins.levels() == {VALVE: 1, HEATER: 0}
                with pytest.raises(OSError, match="it is not set up as an output"):
                    kept.write(VALVE, 1.0, 1.0, 3_600.0)
            kept.ping()
            assert pins.levels() == {VALVE: 0, HEATER: 0}
            kept.write(VALVE, 1.0, 1.0, 3_600.0)
            assert pins.levels() == {VALVE: 1, HEATER: 0}
        finally:
            kept.close()


def has_new_keeper(kept: KeptPins, before: int) -> bool:
    try:
        kept.ping()
    except OSError:
        return False
    return kept.process not in {None, before}
