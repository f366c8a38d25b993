from __future__ import annotations

import pytest

from growd_drivers.pwm_light import PwmLight
from growd_drivers.switched_gpio import SwitchedGpio
from growd_hwsim.gpio import SimulatedGpio


class Levels:
    """A board that notes each level of a pin, and has no PWM."""

    OUT = SimulatedGpio.OUT

    def __init__(self) -> None:
        self.levels: list[tuple[int, int]] = []

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        assert direction == self.OUT
        self.levels.append((channel, initial))

    def output(self, channel: int, value: int, /) -> None:
        self.levels.append((channel, value))

    def PWM(self, channel: int, frequency: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        pytest.fail("a relay was pulsed")


@pytest.mark.parametrize("inverted", [False, True])
def test_a_lamp_on_a_relay_is_on_or_off_and_never_pulsed(inverted):
    board = Levels()
    light = PwmLight(SwitchedGpio(board), {"white": 24}, inverted=inverted)
    on, off = (0, 1) if inverted else (1, 0)
    assert {level for _, level in board.levels} == {off}
    for level, pin in ((1.0, on), (0.6, on), (0.4, off), (0.0, off), (1.0, on)):
        light.set("white", level)
        assert board.levels[-1] == (24, pin)
    light.close()
    assert board.levels[-1] == (24, off)
    assert {pin for pin, _ in board.levels} == {24}
