"""When alerts start, are repeated and end, compared with a model that reads the whole course."""

from hypothesis import given
from hypothesis import strategies as st

from growd_alerts.rules import AlertPhase, AlertTrack, Level, advance, band_level

LEVELS = st.sampled_from(list(Level))
COURSES = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0, 5.0, 60.0]), LEVELS, st.booleans()), max_size=60)
FOR_S = st.sampled_from([0.0, 1.0, 3.0, 10.0, 60.0])
REPEAT_S = st.sampled_from([0.0, 2.0, 7.0, 100.0])
BOUNDS = st.floats(-100, 100)


def phases_by_rules(course, for_s, repeat_s):
    track, reported = AlertTrack(), []
    for at, level, is_silenced in course:
        track, phase = advance(track, level, at, for_s, 0.0 if is_silenced else repeat_s)
        reported.append(phase)
    return reported


def phases_by_model(course, for_s, repeat_s):
    """Judge each look by all earlier looks."""
    reported = []
    for index, (at, level, is_silenced) in enumerate(course):
        last_start = max((i for i in range(index) if reported[i] is AlertPhase.START), default=-1)
        last_end = max((i for i in range(index) if reported[i] is AlertPhase.END), default=-1)
        if last_start > last_end:  # open
            last_told = max(i for i in range(index) if reported[i] in (AlertPhase.START, AlertPhase.REPEAT))
            is_due = repeat_s > 0 and at - course[last_told][0] >= repeat_s
            if level is Level.CLEAR:
                reported.append(AlertPhase.END)
            else:
                reported.append(AlertPhase.REPEAT if is_due and not is_silenced else None)
            continue
        breaks = [i for i in range(index) if i <= last_end or course[i][1] in (Level.CLEAR, Level.BETWEEN)]
        since = [
            when for when, seen, _ in course[max(breaks, default=-1) + 1 : index + 1] if seen is Level.RAISED
        ]
        is_long = level is Level.RAISED and at - since[0] >= for_s
        reported.append(AlertPhase.START if is_long else None)
    return reported


@given(COURSES, FOR_S, REPEAT_S)
def test_the_phases_agree_with_a_model_of_the_whole_course(steps, for_s, repeat_s):
    now, course = 1_000.0, []
    for wait, level, is_silenced in steps:
        now += wait
        course.append((now, level, is_silenced))
    reported = phases_by_rules(course, for_s, repeat_s)
    assert reported == phases_by_model(course, for_s, repeat_s)
    ends = [phase for phase in reported if phase in (AlertPhase.START, AlertPhase.END)]
    assert ends == ([AlertPhase.START, AlertPhase.END] * len(ends))[: len(ends)]


@given(st.floats(-200, 200), BOUNDS, st.floats(1, 100), st.floats(0, 0.49))
def test_a_value_is_clear_inside_its_band_by_the_hysteresis(value, low, width, part):
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
