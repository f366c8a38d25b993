from __future__ import annotations

from growd.control.retries import Retries


def test_delays_double_up_to_the_limit():
    retries = Retries(60.0, lambda: 1.0)
    assert [retries.delay(5, failures) for failures in range(6)] == [5, 10, 20, 40, 60, 60]
    assert retries.delay(5, 1_000_000) == 60
    assert retries.delay(3600, 3) == 3600  # the first delay is above the limit


def test_a_delay_is_random_between_half_and_whole():
    delays = {Retries(60.0).delay(5, 2) for _ in range(20)}
    assert len(delays) > 1
    assert all(10 <= delay <= 20 for delay in delays)
