"""Lux to PPFD, by the channels that are lit."""

import pytest

from growd.config.lamp_light import ChannelLight, LampLight
from growd_hwsim.chamber import ChamberParameters, SimulatedChamber
from support.clock import ManualClock

LAMP = LampLight(
    {
        "white": ChannelLight(1.0, 67.0),
        "red": ChannelLight(0.5, 7.55, mix=0.5),
        "blue": ChannelLight(0.27, 6.9, mix=0.5),
    }
)
ALL = {"white": 1.0, "red": 0.5, "blue": 0.5}


@pytest.mark.parametrize(
    ("levels", "factor"),
    [
        ({"white": 0.3}, 67.0),
        ({"red": 1.0}, 7.55),
        ({"white": 1.0, "red": 1.0}, (67.0 + 0.5 * 7.55) / 1.5),
        ({}, 54.0),
        ({"white": 0.0}, 54.0),
    ],
)
def test_the_factor_is_that_of_the_lit_channels(levels, factor):
    assert LAMP.lux_per_umol(levels) == pytest.approx(factor)


def test_the_levels_count_as_light_and_not_as_commands():
    seen_by_eyes = LampLight(LAMP.channels, gamma=2.0)
    assert seen_by_eyes.lux_per_umol({"white": 0.5, "red": 1.0}) == pytest.approx(
        (0.25 * 67.0 + 0.5 * 7.55) / 0.75
    )


def test_daylight_has_a_factor_of_its_own():
    white = {"white": 1.0}
    assert LAMP.ppfd(6_700 + 540, 540, white) == pytest.approx(110)
    assert LAMP.ppfd(540, 10_000, white) == pytest.approx(10)  # never more than there is
    assert LAMP.ppfd(6_700, -300, white) == pytest.approx(100)


@pytest.mark.parametrize("levels", [ALL, {"white": 1.0}, {"red": 0.7, "blue": 0.2}, {}])
def test_the_simulated_chamber_has_the_calculated_light(levels):
    clock = ManualClock()
    chamber = SimulatedChamber(clock.monotonic, ChamberParameters(), time_of_day_s=12 * 3600.0)
    for channel, level in levels.items():
        chamber.set_lamp(channel, level)
    found = LAMP.ppfd(chamber.illuminance_lux(), 300, levels)
    assert found == pytest.approx(chamber.ppfd_umol_m2_s(), rel=0.03)
