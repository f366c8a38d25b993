"""When alerts start, are repeated and end, compared with a model that reads the whole course."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from growd.alerts.rules import AlertPhase, AlertTrack, Level, Terms, advance, band_level

LEVELS = st.sampled_from(list(Level))
COURSES = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0, 5.0, 60.0]), LEVELS, st.booleans()), max_size=60)
TERMS = st.builds(
    Terms,
    for_s=st.sampled_from([0.0, 1.0, 3.0, 10.0, 60.0]),
    repeat_s=st.sampled_from([0.0, 2.0, 7.0, 100.0]),
)
BOUNDS = st.floats(-100, 100)


def phases_by_rules(course: list[tuple[float, Level, bool]], terms: Terms) -> list[AlertPhase | None]:
    track, reported = AlertTrack(), []
    for at, level, is_silenced in course:
        track, phase = advance(track, terms, level, at, is_silenced=is_silenced)
        reported.append(phase)
    return reported


def phases_by_model(course: list[tuple[float, Level, bool]], terms: Terms) -> list[AlertPhase | None]:
    """Judge each look by all earlier looks."""
    reported: list[AlertPhase | None] = []
    for index, (at, level, is_silenced) in enumerate(course):
        last_start = max((i for i in range(index) if reported[i] is AlertPhase.START), default=-1)
        last_end = max((i for i in range(index) if reported[i] is AlertPhase.END), default=-1)
        if last_start > last_end:  # open
            last_told = max(i for i in range(index) if reported[i] in (AlertPhase.START, AlertPhase.REPEAT))
            is_due = terms.repeat_s > 0 and at - course[last_told][0] >= terms.repeat_s
            if level is Level.CLEAR:
                reported.append(AlertPhase.END)
            else:
                reported.append(AlertPhase.REPEAT if is_due and not is_silenced else None)
            continue
        breaks = [i for i in range(index) if i <= last_end or course[i][1] in (Level.CLEAR, Level.BETWEEN)]
        since = [
            when for when, seen, _ in course[max(breaks, default=-1) + 1 : index + 1] if seen is Level.RAISED
        ]
        is_long = level is Level.RAISED and at - since[0] >= terms.for_s
        reported.append(AlertPhase.START if is_long else None)
    return reported


@given(COURSES, TERMS)
def test_the_phases_agree_with_a_model_of_the_whole_course(
    steps: list[tuple[float, Level, bool]], terms: Terms
):
    now, course = 1_000.0, []
    for wait, level, is_silenced in steps:
        now += wait
        course.append((now, level, is_silenced))
    reported = phases_by_rules(course, terms)
    assert reported == phases_by_model(course, terms)
    ends = [phase for phase in reported if phase in (AlertPhase.START, AlertPhase.END)]
    assert ends == ([AlertPhase.START, AlertPhase.END] * len(ends))[: len(ends)]


@given(st.floats(-200, 200), BOUNDS, st.floats(1, 100), st.floats(0, 0.49))
def test_a_value_is_clear_inside_its_band_by_the_hysteresis(
    value: float, low: float, width: float, part: float
):
    high, hysteresis = low + width, part * width
    level = band_level(value, low, high, hysteresis)
    assert (level is Level.RAISED) == (not low <= value <= high)
    assert (level is Level.CLEAR) == (low + hysteresis <= value <= high - hysteresis)


def test_one_bound_is_enough():
    assert band_level(5.0, 6.0, None, 1.0) is Level.RAISED
    assert band_level(6.5, 6.0, None, 1.0) is Level.BETWEEN
    assert band_level(1e9, 6.0, None, 1.0) is Level.CLEAR
    assert band_level(7.0, None, 6.0, 1.0) is Level.RAISED
    assert band_level(-1e9, None, 6.0, 1.0) is Level.CLEAR


def test_a_value_that_swings_around_its_limit_starts_no_alert():
    terms = Terms(for_s=10.0)
    swinging = [
        (float(at), Level.RAISED if at % 4 < 2 else Level.BETWEEN, False) for at in range(0, 1_000, 2)
    ]
    assert phases_by_rules(swinging, terms) == [None] * len(swinging)
    staying = [(0.0, Level.RAISED, False), (10.0, Level.RAISED, False)]
    assert (
        phases_by_rules(staying + [(10.0 + each[0], *each[1:]) for each in swinging], terms).count(
            AlertPhase.START
        )
        == 1
    )
