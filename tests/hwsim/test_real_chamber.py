"""The simulated chamber beside recordings of a real one: how far and how fast light warms it.

The recording is that of a food computer with a lamp of 257 umol/m2/s, over 260 days. Its thermometer reads
whole degrees, and its room differs, so that only amplitudes and time constants can be compared.
"""

import pytest

from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.parameters import ChamberParameters
from support.machine import SleepingTime

PPFD = 257.0
MINUTE_S = 60.0

# Of the recording: K after the lamp went on, by minutes (the median); the range within a day, from the 10th
# to the 90th percentile of days.
RISE_K = {10: 0.6, 30: 1.0, 120: 1.0}
WITHIN_A_DAY_K = (2.0, 4.0)


def test_the_lamp_warms_the_chamber_as_far_and_as_fast_as_a_real_one():
    clock = SleepingTime()
    chamber = SimulatedChamber(clock.monotonic, ChamberParameters(daylight_lux=0.0))
    clock.advance(6 * 3600)
    before = chamber.air().temperature_degc
    chamber.set_lamp("white", PPFD / 300.0)
    assert chamber.ppfd_umol_m2_s() == pytest.approx(PPFD)
    rise = {}
    for minute in range(1, 121):
        clock.advance(MINUTE_S)
        rise[minute] = chamber.air().temperature_degc - before
    assert 0.5 * RISE_K[30] < rise[120] < 3.5 * RISE_K[120]
    assert rise[10] / rise[120] == pytest.approx(RISE_K[10] / RISE_K[120], abs=0.25)
    assert rise[30] / rise[120] > 0.8


def test_a_day_has_the_range_of_a_real_one():
    clock = SleepingTime()
    chamber = SimulatedChamber(clock.monotonic, time_of_day_s=0.0)
    degc = []
    for minute in range(3 * 24 * 60):
        chamber.set_lamp("white", PPFD / 300.0 if 360 <= minute % 1440 < 1320 else 0.0)
        degc.append(chamber.air().temperature_degc)
        clock.advance(MINUTE_S)
    low, high = WITHIN_A_DAY_K
    assert low <= range_of(degc[1440:]) <= high


def range_of(values):
    """From the 5th to the 95th percentile."""
    ordered = sorted(values)
    return ordered[int(0.95 * len(ordered))] - ordered[int(0.05 * len(ordered))]
