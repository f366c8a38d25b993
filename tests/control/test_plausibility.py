"""What is no measurement: constants after power-on, ends of ranges, values that stay."""

import errno
from math import inf, nan

import pytest

from growd.control.plausibility import AT_END_S, CONSTANT_S, SILENCE_S, Plausibility, Spikes
from growd.device_kinds import SENSOR_KINDS
from growd.variables import (
    ACIDITY,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    DISSOLVED_OXYGEN,
    HUMIDITY,
    ILLUMINANCE,
    PPFD,
    SOIL_MOISTURE,
    TEMPERATURE,
    WATER_LEVEL,
    WATER_TEMPERATURE,
)
from growd_drivers.errors import DeviceMissingError, NotReadyError, OutOfRangeError, StuckError, TransferError

OK, WARM, END, FROZEN = "ok", "warm-up", "end", "frozen"
WARM_UP_S = SENSOR_KINDS["mhz19"].warm_up_s
STUCK_S = SENSOR_KINDS["mhz19"].same_for_s
FIXED = ("mqtt", "topic")


def missing(number=errno.ETIMEDOUT):
    return DeviceMissingError("away", device="part", address=None, errno=number)


GARBLED = TransferError("garbled", device="part", address=None, errno=errno.EBADMSG)


class Judged:
    """Readings of a kind of sensor, each two seconds after the last one."""

    def __init__(self, kind="mhz19", variable="", **options):
        self.kind = SENSOR_KINDS[kind] if isinstance(kind, str) else kind
        fields = {name: variable or each for name, each in self.kind.variables.items()}
        self.names = list(fields.values())
        self.now = 1_000.0
        self.restarts = 0
        self.judge = Plausibility(self.kind, fields, on_restart=self.count, **options)
        self.words = ""

    def count(self):
        self.restarts += 1

    def says(self, *values, after=2.0):
        self.now += after
        try:
            self.judge.check(dict(zip(self.names, values, strict=True)), self.now)
        except (NotReadyError, OutOfRangeError, StuckError) as error:
            self.words = str(error)
            return {NotReadyError: WARM, OutOfRangeError: END, StuckError: FROZEN}[type(error)]
        return OK

    def misses(self, error=None, after=2.0):
        self.now += after
        self.judge.missed(self.now, error)

    def warm(self):
        assert self.says(800) == WARM
        assert self.says(801, after=WARM_UP_S) == OK
        return self


@pytest.fixture
def warm():
    return Judged().warm()


# after power-on


def test_there_is_no_reading_during_the_warm_up():
    judged = Judged()
    for _ in range(int(WARM_UP_S / 10)):
        assert judged.says(800, after=10) == WARM
    assert judged.says(800, after=10) == OK
    assert judged.restarts == 0


def test_a_longer_warm_up_is_known_by_its_constant():
    judged = Judged()
    for second in range(0, 400, 20):
        assert judged.says(388 if second < 20 else 555, after=20) == WARM
    assert judged.says(800) == OK
    assert [judged.says(ppm) for ppm in (790, 800, 790)] == [OK] * 3


def test_a_jump_onto_a_constant_of_the_warm_up_is_a_restart():
    for constant in (388, 400, 410, 500, 505, 555):
        warm = Judged().warm()
        assert [warm.says(constant), warm.says(constant)] == [WARM] * 2
        assert warm.restarts == 1
        assert warm.says(800, after=WARM_UP_S - 3) == WARM
        assert warm.says(800, after=1) == OK


def test_a_part_that_is_read_seldom_goes_from_one_constant_to_another(warm):
    assert [warm.says(388, after=60), warm.says(555, after=60), warm.says(800, after=30)] == [WARM] * 3
    assert warm.restarts == 1


def test_air_that_only_passes_or_drifts_over_such_a_value_is_read(warm):
    said = [warm.says(ppm, after=60) for ppm in (500, 506, 555, 700, 500, 800)]
    assert said == [WARM, OK] * 3
    assert warm.restarts == 0
    assert [warm.says(ppm) for ppm in range(800, 370, -10)] == [OK] * 43


@pytest.mark.parametrize("miss", [None, missing(), GARBLED])
def test_after_a_missed_answer_a_jump_to_a_value_that_stays_is_a_restart(warm, miss):
    warm.misses(miss)
    assert [warm.says(623) for _ in range(5)] == [WARM] * 5
    assert warm.restarts == 1
    assert warm.says(623, after=WARM_UP_S) == WARM  # a constant, whatever the number
    assert warm.says(700) == OK


def test_a_part_that_is_switched_on_sends_several_constants(warm):
    warm.misses(missing())
    said = [warm.says(ppm) for ppm in (431, 623, 623, 623)]
    assert said == [WARM] * 4
    assert warm.restarts == 1


def test_a_value_out_of_range_is_a_missed_answer(warm):
    assert warm.says(0) == END
    assert [warm.says(623) for _ in range(3)] == [WARM] * 3


def test_after_a_missed_answer_steady_air_is_read_at_once_and_other_air_from_its_second_value(warm):
    warm.misses(GARBLED)
    assert [warm.says(ppm) for ppm in (805, 805, 805)] == [OK] * 3
    warm.misses(GARBLED)
    assert [warm.says(ppm) for ppm in (900, 903, 903, 903)] == [WARM, OK, OK, OK]
    assert warm.restarts == 0


def test_a_part_that_was_silent_for_long_or_lost_its_port_warms_up_and_none_that_sent_garbage(warm):
    for _ in range(20):
        warm.misses(GARBLED)
    assert warm.says(800) == OK
    warm.misses()
    assert warm.says(800, after=SILENCE_S) == WARM
    assert warm.says(800, after=WARM_UP_S) == OK
    warm.misses(missing(errno.ENODEV))
    assert warm.says(800) == WARM


def test_a_calibration_may_move_the_reading_anywhere(warm):
    warm.judge.expect_jump()
    assert [warm.says(400), warm.says(400)] == [OK, OK]


def test_the_value_of_a_ds18b20_after_power_on_is_none():
    judged = Judged("ds18b20")
    assert [judged.says(degc) for degc in (85.0, 85.0, 21.0, 85.0, 21.0)] == [WARM, WARM, OK, WARM, OK]
    assert [judged.says(21.0) for _ in range(3)] == [OK] * 3


@pytest.mark.parametrize("kind", FIXED)
def test_unknown_co2_sensors_may_send_a_constant_after_an_outage(kind):
    judged = Judged(kind, CARBON_DIOXIDE)
    assert judged.says(950) == OK
    judged.misses()
    assert [judged.says(500, after=60), judged.says(500, after=60)] == [WARM, WARM]
    assert judged.says(951, after=60) == OK
    judged.misses()
    assert [judged.says(500), judged.says(500, after=CONSTANT_S)] == [WARM, OK]  # then it is believed


def test_what_repeats_by_nature_is_read_after_an_outage():
    for kind, variable, values in (
        ("mqtt", TEMPERATURE, (21.5, 26.0)),
        ("ads1115", SOIL_MOISTURE, (20.0, 80.0)),
        ("bh1750", ILLUMINANCE, (0.0, 9_000.0)),
        ("gpio", "door_open", (0, 1)),
    ):
        judged = Judged(kind, variable)
        assert judged.says(values[0]) == OK
        judged.misses(missing())
        assert [judged.says(values[1], after=60) for _ in range(3)] == [OK] * 3


# ends of ranges


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("scd30", (0, 22, 50), (40_000, 22, 50)),
        ("scd30", (500, -40, 50), (500, 70, 50)),
        ("scd4x", (500, -10, 50), (500, 60, 50)),
        ("sht3x", (-40, 50), (125, 50)),
        ("sht4x", (20, 0), (20, 101)),
        ("bme280", (20, 50, 300), (20, 50, 1_100)),
        ("ds18b20", (-55,), (125,)),
        ("ezo_ph", (0,), (14,)),
        ("ezo_ec", (-1,), (500,)),
        ("ezo_do", (-1,), (100,)),
        ("ezo_rtd", (-1_023,), (1_254,)),
    ],
)
def test_the_ends_of_what_a_part_measures_are_no_readings(kind, low, high):
    judged = Judged(kind)
    assert [judged.says(*low), judged.says(*high)] == [END, END]
    assert judged.says(*[nan] * len(low)) == END
    assert judged.says(*[inf] * len(low)) == END


def test_the_range_of_an_mhz19_follows_its_option():
    judged = Judged(range_end=2_000).warm()
    assert judged.says(1_999) == OK
    assert judged.says(2_000) == END
    assert "range_ppm" in judged.words
    assert Judged().warm().says(10_000) == END


@pytest.mark.parametrize("ppm", [2_000, 5_000])
@pytest.mark.parametrize("kind", ["mhz19", "mhz16", *FIXED])
def test_the_end_of_another_range_is_no_reading_after_a_minute(kind, ppm):
    judged = Judged(kind, CARBON_DIOXIDE)
    judged.says(ppm - 5)
    judged.says(ppm - 4, after=WARM_UP_S)
    assert [judged.says(ppm) for _ in range(int(AT_END_S / 2))] == [OK] * 30
    assert judged.says(ppm) == END
    assert ("range_ppm" in judged.words) == kind.startswith("mhz")
    assert judged.says(ppm - 3) == OK
    assert judged.says(ppm) == OK


def test_a_part_that_stays_at_an_end_is_at_fault_during_its_warm_up_too():
    judged = Judged()
    assert [judged.says(2_000, after=30) for _ in range(3)] == [WARM, WARM, END]
    assert [judged.says(0) for _ in range(5)] == [WARM] * 5  # as some parts do in their warm-up


@pytest.mark.parametrize(
    ("variable", "value", "is_a_reading"),
    [
        (CARBON_DIOXIDE, 0, False),
        (TEMPERATURE, -40, False),
        (TEMPERATURE, 85, False),
        (HUMIDITY, 0, False),
        (HUMIDITY, 100, True),  # fog
        (ILLUMINANCE, 0, True),  # the night
        (ILLUMINANCE, 54_612.5, False),
        (PPFD, 0, True),
        (PPFD, 5_000, False),
        (ACIDITY, 0, False),
        (ACIDITY, 14, False),
        (CONDUCTIVITY, 0, True),  # a dry probe
        (CONDUCTIVITY, 20, False),
        (DISSOLVED_OXYGEN, 0, True),
        (SOIL_MOISTURE, 0, True),
        (SOIL_MOISTURE, 100, True),
        (WATER_LEVEL, 100, True),
        (WATER_TEMPERATURE, 60, False),
        ("door_open", 1, True),
        ("air_vapour_pressure_deficit", 0, True),  # as in fog
        ("light_photoperiod", 24, True),
        ("plant_count", 0, True),
        ("harvest_fresh_mass", 0, True),  # an empty scale
    ],
)
def test_each_variable_has_ends_where_it_may_stay(variable, value, is_a_reading):
    judged = Judged("mqtt", variable, stuck_after_s=600)
    said = [judged.says(value, after=60) for _ in range(10)]
    assert (END in said) == (not is_a_reading)
    assert FROZEN not in said


def test_the_points_of_a_scale_are_ends_where_the_variable_cannot_stay():
    judged = Judged("ads1115", ACIDITY, ends=(4.0, 7.0))
    assert [judged.says(7.0, after=60) for _ in range(3)] == [OK, END, END]
    assert "points" in judged.words
    level = Judged("ads1115", WATER_LEVEL, ends=(0.0, 80.0))
    assert [level.says(80.0, after=60) for _ in range(3)] == [OK] * 3


# values that stay


@pytest.mark.parametrize("kind", [name for name, kind in SENSOR_KINDS.items() if not kind.same_for_s])
def test_a_part_with_noise_never_repeats_a_measurement(kind):
    judged = Judged(kind)
    values = {CARBON_DIOXIDE: 700.5, TEMPERATURE: 21.5, HUMIDITY: 50.1, "air_pressure": 1_000.2}
    same = [values[name] for name in judged.names]
    assert [judged.says(*same), judged.says(*same)] == [OK, WARM]
    assert judged.says(*same[:-1], same[-1] + 0.1) == OK


def test_a_value_that_never_moves_is_frozen(warm):
    for _ in range(4):
        assert warm.says(700, after=STUCK_S / 4) == OK
    assert warm.says(700, after=STUCK_S / 4) == FROZEN
    assert warm.says(701) == OK


@pytest.mark.parametrize("kind", FIXED)
def test_how_long_a_value_may_stay_can_be_chosen_for_any_kind(kind):
    judged = Judged(kind, TEMPERATURE, stuck_after_s=600)
    assert [judged.says(21.5, after=300) for _ in range(4)] == [OK, OK, FROZEN, FROZEN]
    unlimited = Judged(kind, TEMPERATURE)
    assert [unlimited.says(21.5, after=86_400) for _ in range(4)] == [OK] * 4


def test_a_dry_probe_may_read_zero_for_days():
    judged = Judged("ezo_ec")
    assert [judged.says(0.0, after=86_400) for _ in range(4)] == [OK] * 4
    assert [judged.says(1.5, after=86_400) for _ in range(2)] == [OK, FROZEN]


# kinds of other packages


def test_a_sample_that_jumps_has_to_be_confirmed():
    spikes = Spikes(CARBON_DIOXIDE)
    assert [spikes.accepts(ppm, 0.0) for ppm in (800, 5_000, 805, 5_000, 5_010)] == [
        True,
        False,
        True,
        False,
        True,
    ]
