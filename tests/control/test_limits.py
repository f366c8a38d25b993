"""Limits of single outputs, the mixing pause and conditions, second by second."""

from growd.control.interlocks.conditions import Threshold, WhileBeyond
from growd.control.interlocks.exclusions import JOIN_S, MixingPause
from growd.control.interlocks.limits import Use, UseLimit, Words
from growd.control.interlocks.on_times import OnTimes

PUMP = "nutrient_a"


def use_limit(times, limit=100.0):
    use = Use(times.total, "{:.0f} s".format)
    return UseLimit("limit", [PUMP], times, use=use, limit=limit, words=Words("pump"))


def saved(limit, now):
    limit.state(now)
    limit.mark_saved()


def test_a_limit_holds_while_what_was_given_is_not_saved():
    times = OnTimes()
    limit = use_limit(times)
    limit.restore(None, 0.0, 0.0, was_clean=True)
    times.wrote("pump", 1.0, 0.0)
    limit.update(29.0, 0.0)
    assert not limit.reason
    limit.update(31.0, 0.0)
    assert limit.reason
    assert limit.held_level("pump", 1.0, 0.0) == 0.0
    times.wrote("pump", 0.0, 31.0)
    saved(limit, 31.0)
    limit.update(32.0, 0.0)
    assert not limit.reason


def test_a_limit_releases_below_nine_tenths_only():
    times = OnTimes()
    limit = use_limit(times)
    limit.restore(None, 0.0, 0.0, was_clean=True)
    for begin, end in ((0, 5), (200, 298)):  # 5 s, and later 98 s
        times.wrote("pump", 1.0, float(begin))
        for now in range(begin, end + 1):
            limit.update(float(now), 0.0)
            saved(limit, float(now))
        times.wrote("pump", 0.0, float(end))
    limit.update(298.0, 0.0)
    assert limit.reason
    limit.update(3_700.0, 0.0)  # without the first 5 s
    assert limit.reason, "98 s are below the limit, and above nine tenths of it"
    limit.update(4_000.0, 0.0)
    assert not limit.reason


def mixing(times):
    groups = dict.fromkeys(times, ("water_electrical_conductivity", "raises"))
    pause = MixingPause(times, groups, pause_s=300.0, longest_s=30.0)
    pause.restore(None, 0.0, 0.0, was_clean=True)
    pause.update(0.0, 0.0)
    return pause


def test_a_pump_gives_one_dose_in_a_round_and_another_one_may_join():
    times = {PUMP: OnTimes(), "nutrient_b": OnTimes()}
    pause = mixing(times)
    assert pause.held_level(PUMP, 1.0, 0.0) == 1.0
    pause.on_permitted("a", PUMP, 1.0, 0.0)
    times[PUMP].wrote("a", 1.0, 0.0)
    pause.update(5.0, 5.0)
    times[PUMP].wrote("a", 0.0, 5.0)
    pause.on_permitted("a", PUMP, 0.0, 5.0)
    pause.update(10.0, 10.0)
    assert pause.held_level(PUMP, 1.0, 0.0) == 0.0, "it has dosed"
    assert pause.held_level("nutrient_b", 1.0, 0.0) == 1.0
    pause.update(JOIN_S + 1, 0.0)
    assert pause.held_level("nutrient_b", 1.0, 0.0) == 0.0, "the round has begun too long ago"


def test_a_condition_waits_anew_after_its_variable_came_back():
    value = 0.0
    door = Threshold("door_open", lambda _: value, above=0.5, unit="switch")
    condition = WhileBeyond("door", ["air_heater"], [door], after_s=600.0)
    for now in range(1_200):
        value = float(now != 500)  # the door is shut for a second
        condition.update(float(now), 0.0)
        assert bool(condition.reason) == (now >= 1_101), now


def test_a_value_that_was_known_is_unknown_and_not_new():
    values = [None, 60.0, None]
    condition = WhileBeyond(
        "humid", ["fan"], [Threshold("air_humidity", lambda now: values[int(now)], above=85)]
    )
    reasons = []
    for now in range(3):
        condition.update(float(now), 0.0)
        reasons.append((condition.reason, condition.is_quiet))
    assert reasons == [
        ("air_humidity has not been measured yet", True),
        ("", False),
        ("air_humidity is unknown", False),
    ]
