"""The way from one set point to the next."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growd.recipes.plan import Shape

VALUE = st.floats(-200_000, 200_000)
PART = st.floats(0, 1)


@pytest.mark.parametrize("shape", [Shape.RAMP, Shape.SINE])
@given(begin=VALUE, end=VALUE, part=PART, more=PART)
@example(begin=0.2, end=0.9, part=1.0, more=1.0)
def test_a_way_meets_both_ends_exactly_and_never_turns_back(shape, begin, end, part, more):
    assert shape.between(begin, end, 0.0) == begin
    assert shape.between(begin, end, 1.0) == end
    first, second = (shape.between(begin, end, each) for each in sorted((part, more)))
    for value in (first, second):
        assert min(begin, end) <= value <= max(begin, end)
    rounding = 1e-9 * (1 + abs(begin) + abs(end))
    assert (second - first) * (1 if end > begin else -1) >= -rounding


def test_half_way_both_are_half_way_and_a_sine_begins_more_softly():
    assert Shape.RAMP.between(100, 200, 0.5) == 150
    assert Shape.SINE.between(100, 200, 0.5) == pytest.approx(150)
    assert Shape.SINE.between(100, 200, 0.1) == pytest.approx(102.45, abs=0.01)
    assert Shape.HOLD.between(100, 200, 0.999) == 100
