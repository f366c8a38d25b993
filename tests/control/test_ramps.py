import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growd.control.lamp import Ramp


@given(
    sends=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 30)), min_size=1, max_size=8),
    full_swing=st.floats(0.5, 60),
)
@example(sends=[(0.0, 24.0), (1.0, 0.0)], full_swing=0.6679225881017419)
def test_a_ramp_is_never_faster_than_its_rate_and_arrives_in_time(sends, full_swing):
    ramp, now = Ramp(full_swing), 1_000.0
    for target, seconds in sends:
        before = ramp.at(now)
        ramp.send(target, now)
        assert ramp.at(now) == pytest.approx(before)
        now += seconds
        assert 0 <= ramp.at(now) <= 1
        assert abs(ramp.at(now) - before) <= seconds / full_swing + 1e-9
    moment = 1e-6  # s: `now + full_swing` may round down
    assert ramp.at(now + full_swing + moment) == sends[-1][0]
