"""Ways between set points, and values held from earlier phases."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growd.recipes.plan import Point, Shape, Track, in_sequence

AIR = "air_temperature"
LIGHT = "light_illuminance"
VALUE = st.floats(-200_000, 200_000)
PART = st.floats(0, 1)


@pytest.mark.parametrize("shape", [Shape.RAMP, Shape.SINE])
@given(begin=VALUE, end=VALUE, part=PART, more=PART)
@example(begin=0.2, end=0.9, part=1.0, more=1.0)
def test_ways_are_exact_at_both_ends_and_monotonic(shape, begin, end, part, more):
    assert shape.between(begin, end, 0.0) == begin
    assert shape.between(begin, end, 1.0) == end
    first, second = (shape.between(begin, end, each) for each in sorted((part, more)))
    for value in (first, second):
        assert min(begin, end) <= value <= max(begin, end)
    rounding = 1e-9 * (1 + abs(begin) + abs(end))
    assert (second - first) * (1 if end > begin else -1) >= -rounding


def test_ramp_and_sine_meet_half_way():
    assert Shape.RAMP.between(100, 200, 0.5) == 150
    assert Shape.SINE.between(100, 200, 0.5) == pytest.approx(150)
    assert Shape.SINE.between(100, 200, 0.1) == pytest.approx(102.45, abs=0.01)
    assert Shape.HOLD.between(100, 200, 0.999) == 100


# --- Values held from earlier phases

LATE = Track([Point(20.0, 7.0)], 40.0)  # a phase of 10 s ends before it begins
TRACKS = st.sampled_from(
    [
        LATE,
        Track([Point(4.0, 1.0), Point(8.0, 2.0, Shape.RAMP)], 10.0),
        Track([Point(2.0, 3.0, Shape.SINE), Point(3.0, 4.0)], 5.0),
        Track([Point(0.0, None), Point(3.0, 4.0), Point(6.0, None)], 8.0),
        Track([Point(21_600.0, 5.0), Point(64_800.0, 6.0, Shape.RAMP)], 86_400.0, is_daily=True),
    ]
)
PHASES = st.lists(
    st.tuples(
        st.just(""),
        st.sampled_from([0.1, 10.0, 25.0]),
        st.dictionaries(st.sampled_from([AIR, LIGHT]), TRACKS),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


class Looked(dict):
    """Tracks that count look-ups."""

    times = 0

    def get(self, *arguments):
        Looked.times += 1
        return super().get(*arguments)

    def values(self):
        Looked.times += 1
        return super().values()


def walked_back(plan, variable, elapsed, time_of_day):
    """The value by a search through the phases in sequence."""
    position = min(elapsed, plan.duration)
    number = max(n for n, phase in enumerate(plan.phases) if n == 0 or phase.begin <= position)
    for phase in reversed(plan.phases[: number + 1]):
        if variable in phase.tracks:
            clock = time_of_day - (elapsed - position)
            track = phase.tracks[variable]
            value = track.value(position - phase.begin, phase.duration, clock)
            if value is not None or track.points[0].value is None:
                return value
        elif phase.releases:
            return None
        position = phase.begin
    return None


@given(PHASES, st.lists(st.floats(0, 1.2), min_size=1, max_size=10), st.floats(0, 86_400))
def test_a_value_comes_from_the_last_phase_that_sets_or_releases_it(phases, parts, time_of_day):
    plan = in_sequence(iter(phases))
    edges = [phase.begin for phase in plan.phases]
    for elapsed in [*edges, *(part * plan.duration for part in parts)]:
        for variable in (AIR, LIGHT, "air_humidity"):
            found = plan.value(variable, elapsed, time_of_day)
            assert found == walked_back(plan, variable, elapsed, time_of_day)


def test_a_value_from_a_thousand_phases_ago_is_found_fast():
    steady = Track([Point(0.0, 5.0)], 1.0)
    named = [{AIR: steady, LIGHT: steady}, *({AIR: steady} for _ in range(999))]
    plan = in_sequence(("", 1.0, Looked(tracks), False) for tracks in named)
    Looked.times = 0
    assert plan.value(LIGHT, 999.5) == 5.0
    assert not plan.goes_by_local_time
    assert Looked.times <= 2
