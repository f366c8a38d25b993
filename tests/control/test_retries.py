from __future__ import annotations

import pytest

from growd.control.retries import Retries


def test_delays_double_up_to_the_limit():
    retries = Retries(60.0, lambda: 1.0)
    assert [retries.delay(5, failures) for failures in range(6)] == [5, 10, 20, 40, 60, 60]
    assert retries.delay(5, 1_000_000) == 60


def test_a_first_delay_above_the_limit_stays():
    assert Retries(60.0, lambda: 1.0).delay(3600, 3) == 3600


@pytest.mark.parametrize(("dice", "delay"), [(0.0, 10.0), (0.5, 15.0), (1.0, 20.0)])
def test_a_delay_is_between_a_half_and_the_whole(dice, delay):
    assert Retries(60.0, lambda: dice).delay(5, 2) == delay


def test_without_dice_of_its_own_the_delays_differ():
    assert len({Retries(60.0).delay(5, 2) for _ in range(20)}) > 1
