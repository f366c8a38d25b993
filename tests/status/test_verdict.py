"""The verdict of a status, and effects below their causes."""

from msgspec.structs import replace

from growd.host.hold import Hold, Holder
from growd.host.machine import MachineStatus
from growd.status.model import (
    AttainmentStatus,
    DeviceStatus,
    InterlockStatus,
    OpenAlert,
    Problem,
    Reading,
    VariableStatus,
)
from growd.status.notices import notices_of
from growd.status.summary import verdict_of
from growd.store.database_node import DatabaseStatus
from support.status import EMPTY, NEVER

CO2 = "air_carbon_dioxide"
GONE = Reading(None, "fault", 1.0, "filter")
WARM = Reading(21.0, "ok", 1.0, "filter")
MACHINE = MachineStatus("0.1.0", "3.11.2", 60.0, clock_synchronised=True)


def variable(name, measured, state="unknown"):
    return VariableStatus("e", name, "ppm", measured, None, None, 0.0, is_sensed=True, state=state)


ABSENT = replace(
    EMPTY,
    devices=[DeviceStatus("e/scd30", "failed", 1.0, "no answer", NEVER, [CO2, "air_humidity"], "i2c-1")],
    variables=[variable(CO2, GONE), variable("air_humidity", GONE)],
    interlocks=[
        InterlockStatus(
            f"e/interlocks/{CO2}_unknown", True, "unknown", False, 2.0, holds=["valve"], reads=[CO2]
        )
    ],
    attainment=[
        AttainmentStatus(
            *("e", CO2, "missed", "missed", None, 800.0),
            is_lasting=True,
            reason={"code": "variable_unknown", "fields": {"variable": CO2}, "text": "unknown"},
        )
    ],
    alerts=[
        OpenAlert(
            *("a1", "devices", "critical", "failed", "2026-11-22 07:00:05+01:00", None),
            kind="device_failed",
            about=("device", "e/scd30"),
        )
    ],
)


def verdict(status):
    return verdict_of(status, notices_of(status))


def test_an_absent_sensor_is_one_notice_with_its_effects_and_its_alert():
    (cause,) = notices_of(ABSENT)
    assert (cause.code, cause.alerts) == ("device_failed", ["a1"])
    effects = ["variable_unknown", "variable_unknown", "interlock", "set_point_missed"]
    assert [each.code for each in cause.effects] == effects
    found = verdict(ABSENT)
    assert (found.state, found.code, found.problems, found.effects) == ("trouble", "device_failed", 1, 4)
    assert found.remedy
    # its sentences have names in place of ids
    texts = " ".join(each.text for each in (cause, *cause.effects))
    assert not [each for each in ("air_", "e/") if each in texts]


def test_a_set_point_from_which_another_one_follows_is_no_second_cause():
    deficit = "air_vapour_pressure_deficit"
    driven = AttainmentStatus("e", "air_humidity", "missed", "too dry", 30.0, 60.0, is_lasting=True)
    follows = {"code": "set_point_follows", "fields": {"variable": "air_humidity"}, "text": "it follows"}
    away = AttainmentStatus("e", deficit, "missed", "far", 2.0, 1.0, is_lasting=True, reason=follows)
    plan = Problem("no plan", code="plan_not_followed", fields={"environment": "e", "variable": deficit})
    status = replace(EMPTY, attainment=[driven, away], problems=[plan])
    (cause,) = notices_of(status)
    assert (cause.code, len(cause.effects)) == ("plan_not_followed", 2)
    held = replace(driven, reason={"code": "output_failed", "fields": {"device": "fogger"}, "text": "failed"})
    found = notices_of(replace(status, attainment=[held, away]))
    assert [(each.name, len(each.effects)) for each in found] == [("e/air_humidity", 0), (plan.key, 1)]
    (cause,) = notices_of(replace(status, problems=[]))
    assert (cause.name, len(cause.effects)) == ("e/air_humidity", 1)
    unknown = {"code": "variable_unknown", "fields": {"variable": deficit}, "text": "unknown"}
    status = replace(
        ABSENT,
        attainment=[replace(away, value=None, reason=unknown)],
        problems=[plan],
        variables=[*ABSENT.variables, variable(deficit, GONE)],
    )
    (cause,) = notices_of(status)
    assert cause.code == "device_failed"


def test_all_devices_of_a_line_that_fail_are_one_notice_of_the_line():
    two = replace(
        ABSENT, devices=[*ABSENT.devices, DeviceStatus("e/bh1750", "failed", 1.0, "no", NEVER, [], "i2c-1")]
    )
    (cause,) = notices_of(two)
    assert (cause.code, cause.fields["line"], len(cause.effects)) == ("line_failed", "i2c-1", 6)


def test_an_error_of_the_bus_is_the_sentence_and_the_remedy_of_its_line():
    off = "I2C bus 1 is not there: switch I2C on with `growd setup-pi`"
    devices = [DeviceStatus(f"e/{name}", "failed", 1.0, off, NEVER, [], "i2c-1") for name in ("a", "b")]
    (cause,) = notices_of(replace(EMPTY, devices=devices))
    assert (cause.code, cause.fields["devices"]) == ("line_unusable", ["a", "b"])
    assert cause.text == "I2C bus 1 is not there (a, b)"
    assert cause.remedy == "Switch I2C on with `growd setup-pi`."


def test_sensors_that_hear_nothing_since_the_broker_is_away_are_its_effects():
    away = Problem("no MQTT broker at b:1883", is_failure=True, code="broker_away")
    silent = replace(NEVER, last_error=f"no value has come for 30 s: {away.text}")
    devices = [DeviceStatus(f"e/{name}", "failed", 1.0, "no value", silent) for name in ("a", "b")]
    other = DeviceStatus("e/c", "failed", 1.0, "no answer", NEVER)
    found = notices_of(replace(EMPTY, devices=[*devices, other], problems=[away]))
    assert [(each.code, len(each.effects)) for each in found] == [("device_failed", 0), ("broker_away", 2)]


def test_what_a_person_must_end_is_no_effect():
    (lock,) = ABSENT.interlocks
    for change in ({"needs_reset": True}, {"is_failure": True, "stays_on": True}):
        status = replace(ABSENT, interlocks=[replace(lock, **change)])
        assert [each.kind for each in notices_of(status)] == ["device", "interlock"]


def test_an_output_that_stays_on_is_not_called_held():
    (lock,) = ABSENT.interlocks
    for change, code, lead in (
        ({}, "interlock", "valve held: "),
        ({"stays_on": True}, "interlock_reason", ""),
    ):
        (notice,) = notices_of(replace(EMPTY, interlocks=[replace(lock, reads=[], **change)]))
        assert (notice.code, notice.text) == (code, f"{lead}unknown")


def test_the_channels_of_a_lamp_are_the_lamp():
    (lock,) = ABSENT.interlocks
    lit = replace(lock, reads=[], holds=["blue", "red", "white", "air_flush_on"])
    (notice,) = notices_of(replace(EMPTY, interlocks=[lit]))
    assert notice.text == "Lamp and Fan held: unknown"


def test_a_hold_is_a_state_of_its_own_unless_an_output_is_not_safe():
    held = replace(ABSENT, holds=[Hold(Holder.PERSON, "cleaning", "ann", 5.0)])
    assert (verdict(held).state, verdict(held).code) == ("held", "held")
    assert verdict(replace(held, unsafe=["e/actuators/heater"])).state == "trouble"


def test_a_start_is_calm_until_a_sensor_has_answered():
    warming = replace(
        EMPTY,
        variables=[variable("air_temperature", None), variable(CO2, Reading(None, "warm-up", 1.0, "filter"))],
        problems=[Problem("the gains are those of another chamber")],
        interlocks=[
            InterlockStatus(f"e/interlocks/{CO2}_unknown", True, "not yet", False, 1.0, is_quiet=True)
        ],
    )
    assert verdict(warming).state == "starting"
    assert verdict(replace(warming, variables=[variable("air_temperature", WARM)])).state == "attention"
    assert verdict(replace(warming, problems=[Problem("no disk", is_failure=True)])).state == "trouble"


def test_a_full_disk_is_the_cause_of_what_is_not_saved_and_of_a_database_that_cannot_start():
    nearly = replace(EMPTY, machine=replace(MACHINE, disk_bytes=100_000_000_000, disk_free_bytes=2_000_000))
    assert (verdict(nearly).state, verdict(nearly).code) == ("attention", "disk_full")
    reason = "no database is running: can't open the data folder: No space left on device"
    away = replace(
        EMPTY,
        machine=replace(MACHINE, disk_bytes=1_000_000, disk_free_bytes=0),
        database=DatabaseStatus("embedded", reachable=False, reason=reason),
    )
    assert (verdict(away).state, verdict(away).code, verdict(away).effects) == ("trouble", "disk_full", 1)
    full = replace(away, database=None)
    unsaved = Problem("set points can't be saved", is_failure=True, code="set_points_not_saved")
    found = verdict(replace(full, problems=[unsaved]))
    assert (found.state, found.code, found.effects) == ("trouble", "disk_full", 1)


def test_a_database_has_time_to_start_and_is_neither_well_nor_away_meanwhile():
    fresh = replace(
        EMPTY,
        machine=replace(MACHINE, growd_uptime_s=3.0),
        database=DatabaseStatus("embedded", reachable=False, reason="no database is running"),
        variables=[variable("air_temperature", WARM, "at_set_point")],
    )
    assert (verdict(fresh).state, verdict(fresh).problems) == ("starting", 0)
    later = replace(fresh, machine=replace(MACHINE, growd_uptime_s=60.0))
    assert (verdict(later).state, verdict(later).code) == ("attention", "database_away")
    there = replace(fresh, database=replace(fresh.database, reachable=True))
    assert verdict(there).state == "well"


def test_a_reason_without_a_code_has_no_cause():
    (missed,) = ABSENT.attainment
    nameless = {"code": "", "fields": {}, "text": "?"}
    for reason in (None, nameless, nameless | {"code": "output_held", "fields": {"by": "?"}}):
        status = replace(EMPTY, attainment=[replace(missed, reason=reason)])
        assert [each.code for each in notices_of(status)] == ["set_point_missed"]


def test_all_is_well_counts_the_values_at_their_set_points():
    states = {"air_temperature": "at_set_point", "air_humidity": "approaching", "air_pressure": "free"}
    status = replace(EMPTY, variables=[variable(name, WARM, state) for name, state in states.items()])
    assert verdict(status).fields == {"at_set_point": 1, "with_set_point": 2}
    assert verdict(status).state == "well"
    not_yet = replace(variable(CO2, None), desired=Reading(800.0, "ok", 1.0, "recipe"))
    status = replace(EMPTY, variables=[variable("air_pressure", WARM, "free"), not_yet])
    assert verdict(status).fields == {"at_set_point": 0, "with_set_point": 1}


def test_a_set_point_that_needs_no_output_is_in_force_and_one_that_follows_from_another_counts_once():
    def reading(value, by="recipe"):
        return Reading(value, "ok", 1.0, by)

    def status(*variables):
        return replace(EMPTY, variables=[*variables])

    dark = replace(variable("light_illuminance", reading(0.0, "filter"), "free"), desired=reading(0.0))
    assert verdict(status(dark)).code == "all_well_nothing_to_reach"
    assert verdict(status(replace(dark, desired=reading(None)))).code == "all_well_no_set_points"
    planned = replace(dark, desired=reading(8_000.0, "e/planners/light_illuminance"), state="at_set_point")
    ppfd = replace(variable("light_ppfd", reading(119.0, "derived"), "at_set_point"), desired=reading(120.0))
    assert verdict(status(planned, ppfd)).fields == {"at_set_point": 1, "with_set_point": 1}
