"""What pumps give: together, in doses, and counted."""

import pytest

from growd.control.interlocks.on_times import OnTimes
from growd.control.pumps import GivenVolume, JointFlow, PumpFlow, Volumes


def of(ml_min, dead_s=0.0):
    flow = PumpFlow(ml_min)
    flow.dead_s = dead_s
    return flow


def test_pumps_together_give_a_dose_of_the_sum_of_their_volumes():
    both = JointFlow([of(60, 0.5), of(120)])
    seconds = both.seconds(6.0)
    assert 1 * (seconds - 0.5) + 2 * seconds == pytest.approx(6.0)
    assert both.ml(seconds) == pytest.approx(6.0)
    assert JointFlow().seconds(3.0) == 3.0


@pytest.mark.parametrize("dead_s", [0.0, 0.4])
@pytest.mark.parametrize("wanted", [0.0, 0.05, 0.5, 1.0])
def test_a_set_point_in_ml_per_hour_allows_for_the_dead_time_of_each_dose(wanted, dead_s):
    shortest_s = 4.0
    share = of(60, dead_s).share(3600 * wanted, shortest_s)
    dose_s = shortest_s / (1 - share) if share < 1 else 1e9  # see growd.control.dosing
    assert share * (dose_s - dead_s) / dose_s == pytest.approx(wanted)
    assert of(60, dead_s).share(900, 0.0) == 0.25  # a dimmed pump has no doses


def test_given_volume_leaves_out_the_dead_time_of_each_start():
    given = GivenVolume(of(60, 0.5))
    given.start()
    total = sum(given.ml(seconds) for seconds in (0.2, 0.2, 0.6))  # counted in parts
    assert total == pytest.approx(0.5)
    given.start()
    assert given.ml(0.4) == 0.0
    early = GivenVolume(of(60, -0.2))  # it runs on
    early.start()
    assert early.ml(1.0) == pytest.approx(1.2)


def test_a_new_calibration_does_not_change_the_volume_that_was_counted():
    times, flow = OnTimes(), of(60)
    volumes = Volumes([(times, lambda: flow.ml_s)])
    times.wrote("acid", 1.0, 0.0)
    times.wrote("acid", 0.0, 10.0)
    assert volumes.total(10.0) == pytest.approx(10.0)
    flow.ml_min = 30.0
    assert volumes.total(20.0) == pytest.approx(10.0)
    times.wrote("acid", 1.0, 20.0)
    assert volumes.total(23.0) == pytest.approx(11.5)
