"""Each fault at each device: the states shown, the points stored, the outputs, and the times.

Each row of `TABLE` is played in a chamber without other faults: a fault affects a device for `lasts_s`. The
set point of the light changes when it begins. The columns:

    kind, device    of `growd_hwsim.faults`
    state           of the device during the fault, from `told_s` on, in its diagnostics and its node
    quality         of the device's variables in `raw` and `measured` at that time
    stored          the points of these variables at that time: NOTHING, the TRUTH, an OLD value until the
                    fault is detected and then nothing, or a LIE that a single sensor cannot show (see
                    `test_three_sensors_outvote_one_with_wrong_values`)
    output          the state of the output that depends on the device, see `OUTPUTS`
    told_s          time from the beginning of the fault until it is detected, at most
    recovers_s      time from the end of the fault until all is normal again, at most
    words           part of the device's diagnostics or of its last error

In each row all other devices stay ok and keep their schedule, and their outputs follow the set points. No
stored point is false, except for a LIE during the fault. An outage and its end are logged once each.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from growd.bus.messages import Quality
from growd.control.actuation import PERIOD_S
from growd.control.actuation import RETRIES as OUTPUT_RETRIES
from growd.control.plausibility import AT_END_S
from growd.control.sampling import NOT_READY_LIMIT_S, RETRIES, SECOND_TRY_S, SILENCE_S
from growd.device_kinds import SENSOR_KINDS
from growd.wiring.chamber import DEVICE_TIMEOUT_S
from growd_drivers.mhz19 import WARM_UP_S
from growd_drivers.scd4x import MEASURES_EVERY_S
from growd_hwsim.chip import SENSORS
from growd_hwsim.fault_kinds import ADDRESS, BUS, PIN, PORT
from growd_hwsim.faults import BUS_TIMEOUT_S, Fault
from support.fault_places import PLACES_OF
from support.scene import (
    FULL_LUX,
    INTERVAL_S,
    LAG_S,
    THEN_LUX,
    VALVE,
    VALVE_PIN,
    WHITE_PIN,
    chamber_of,
    sensor,
    steady_scene,
)

OK, DEGRADED, FAILED, WARM = "ok", "degraded", "failed", "warm-up"
NOTHING, TRUTH, OLD, LIE = "nothing", "the truth", "an old value", "a lie"

OPEN_LOOP = THEN_LUX / FULL_LUX
OUTPUTS = {
    "open": lambda moment: moment.is_valve_open,
    "shut": lambda moment: not moment.is_valve_open,
    "trimmed": lambda moment: abs(moment.lamp - OPEN_LOOP) < 0.05,
    "open loop": lambda moment: moment.lamp == pytest.approx(OPEN_LOOP),
    "misled": lambda _: True,
    "not known": lambda _: True,
}
"""The valve is open as requested, or shut because the air is unknown. The lamp is trimmed to the measured
light, lit open loop, or misled by wrong measurements. An output that cannot be written is not known."""

READ_S = 2.0
"""The longest conversion (1.1 s), or the second without new data of an SCD30, and the next look."""

FAILS_S = INTERVAL_S + SECOND_TRY_S + READ_S
TIMES_OUT_S = FAILS_S + 2 * BUS_TIMEOUT_S
HANGS_S = FAILS_S + DEVICE_TIMEOUT_S
SILENT_S = SILENCE_S + FAILS_S
BROWN_S = 5.0 + SILENT_S
FROZEN_S = NOT_READY_LIMIT_S + FAILS_S
CAPPED_S = AT_END_S + FAILS_S
STUCK_S = 600.0 + FAILS_S  # the least that `stuck_after_s` can be; 4 h by default

FIRST_S = INTERVAL_S + READ_S
AGAIN_S = RETRIES.longest_s + FIRST_S
SLOWLY_S = FAILS_S + 2 * MEASURES_EVERY_S
SLOW_S = AGAIN_S + MEASURES_EVERY_S
WARM_S = WARM_UP_S + FIRST_S
WARM_AGAIN_S = RETRIES.longest_s + WARM_S
UNSENT_S = 60.0 + FAILS_S
WRITTEN_S = OUTPUT_RETRIES.longest_s + DEVICE_TIMEOUT_S + 2 * PERIOD_S


@dataclass(frozen=True)
class Row:
    """One row; the module describes the columns."""

    kind: str
    device: str
    state: str
    quality: Quality | None
    stored: str
    output: str
    told_s: float
    recovers_s: float
    words: str = ""
    lasts_s: float = 150.0
    by_itself: bool = False  # the fault has a duration, else it is cleared
    probability: float = 1.0
    seed: int = 0
    amount: float | None = None

    @property
    def id(self):
        return f"{self.kind}-{self.device}{f'-for-{self.lasts_s:g}-s' if self.by_itself else ''}"

    @property
    def fault(self):
        duration = self.lasts_s if self.by_itself else None
        return Fault(
            self.kind,
            self.device,
            duration=duration,
            probability=self.probability,
            seed=self.seed,
            amount=self.amount,
        )


_FAULT, _WARM, _OK, _STALE = Quality.FAULT, Quality.WARM_UP, Quality.OK, Quality.STALE
_GONE = "does not answer: check its wiring"
_BROKEN = "broke off the transfer"
_HELD = "held the clock for too long"
_HANGS = "has not answered for"
_SILENT = "the pin keeper does not answer"
_CRC = "wrong checksum"
_NEW = "has had no new reading for"
_RANGE = "the end of its range"
_FULL = "is saturated"
_SAME = "it is frozen"
_ABSURD = "beyond its range"
_OPTION = "the end of its range: set range_ppm"
_OTHER = "is another chip"
_FRAME = "sent no whole frame"
_PORT = "is not there: plug it in"
_BUSY = "can't be driven: it is in use by gpioset"

_UNREAD = "can't be read: it is in use by gpioset"

_UNSENT = "no value has come on MQTT topic tank/sensor for 60 s"
_UNSAID = f"{_UNSENT}: its messages have no door.0.open"
_NAN = "the payload is not JSON: 'nan'"

_STOPS = "did not convert"
_NO_WIRE = "is not on the 1-wire bus of GPIO 4"
_EIO = "can't be read: Input/output error"

BRIDGE = "i2c-1:0x4d"

EZO_AMOUNTS = {
    "ezo_ph": (0.04, 12.0),
    "ezo_ec": (20.0, 20_000.0),
    "ezo_rtd": (0.2, 60.0),
    "ezo_do": (0.1, 30.0),
}
"""Noise and drift of each circuit, in its unit."""


# fmt: off
def bus_rows(kind, output, again_s = AGAIN_S):
    """A chip on the I2C bus that does not answer as the bus demands."""
    return (
        Row("absent",    kind, FAILED, _FAULT, NOTHING, output, FAILS_S,     again_s, _GONE),
        Row("nak",       kind, FAILED, _FAULT, NOTHING, output, FAILS_S,     again_s, _GONE),
        Row("bus_error", kind, FAILED, _FAULT, NOTHING, output, FAILS_S,     again_s, _BROKEN),
        Row("timeout",   kind, FAILED, _FAULT, NOTHING, output, TIMES_OUT_S, again_s, _HELD),
        Row("hang",      kind, FAILED, _FAULT, NOTHING, output, HANGS_S,     again_s, _HANGS),
    )


def crc_rows(kind, output, again_s = AGAIN_S):
    """A chip whose answers have checksums."""
    kinds = ("bad_crc", "wrong_order")
    return tuple(Row(each, kind, FAILED, _FAULT, NOTHING, output, FAILS_S, again_s, _CRC) for each in kinds)


def air_rows(kind, noise, drift):
    """A sensor of temperature and humidity, which alone holds no output back."""
    return (
        Row("frozen",    kind, FAILED, _FAULT, NOTHING, "open", FROZEN_S, AGAIN_S, _NEW),
        Row("saturated", kind, FAILED, _FAULT, NOTHING, "open", FAILS_S,  AGAIN_S, _ABSURD),
        Row("noise",     kind, OK,     _OK,    TRUTH,   "open", FAILS_S,  FIRST_S, probability=0.03,
            amount=noise),
        Row("drift",     kind, OK,     _OK,    LIE,     "open", FAILS_S,  LAG_S, amount=drift),
    )


def ppm_rows(kind):
    """The values of an MH-Z19 or MH-Z16. Whole ppm may repeat for a while."""
    return (
        Row("frozen",    kind, FAILED, _FAULT, OLD,     "shut", STUCK_S, AGAIN_S, _SAME, lasts_s=900.0),
        Row("noise",     kind, OK,     _OK,    TRUTH,   "open", FAILS_S, FIRST_S, probability=0.03,
            amount=300.0),
        Row("drift",     kind, OK,     _OK,    LIE,     "open", FAILS_S, LAG_S, amount=3_000.0),
        Row("saturated", kind, FAILED, _FAULT, NOTHING, "shut", FAILS_S, AGAIN_S, _RANGE),
    )


def serial_rows(kind):
    """An MH-Z19 or MH-Z16 on a serial line. After "split" and the like the driver reads on.

    A jump to a constant of the warm-up counts as one; after a missed answer a jump to any value that stays.
    """
    begun = "no reading yet"
    found = tuple(Row(each, kind, OK, _OK, TRUTH, "open", FAILS_S, FIRST_S) for each in
                  ("split", "shifted", "doubled"))
    lost = tuple(Row(each, kind, FAILED, _FAULT, NOTHING, "shut", FAILS_S, AGAIN_S, _FRAME) for each in
                 ("short", "garbled", "bad_checksum"))
    return (
        *found, *lost, *ppm_rows(kind),
        Row("absent",    kind, FAILED, _FAULT, NOTHING, "shut", FAILS_S, WARM_AGAIN_S, _GONE),
        Row("unplugged", kind, FAILED, _FAULT, NOTHING, "shut", FAILS_S, WARM_AGAIN_S, _PORT),
        Row("warm_up",   kind, WARM, _WARM, NOTHING, "shut", SILENT_S, WARM_S, begun, lasts_s=120.0),
        Row("brown_out", kind, WARM, _WARM, NOTHING, "shut", BROWN_S,  WARM_S, begun, lasts_s=120.0),
    )


ON_I2C = (
    ("scd30", "shut"), ("bh1750", "open loop"), ("tsl2591", "open loop"), ("i2c-1", "shut"),
    ("as7341", "open"), ("scd4x", "shut", SLOW_S), ("sht3x", "open"), ("sht4x", "open"), ("bme280", "open"),
    ("ads1115", "open"),
)
WITH_CRC = (("scd30", "shut"), ("scd4x", "shut", SLOW_S), ("sht3x", "open"), ("sht4x", "open"))
OF_AIR = (("sht3x", 20.0, 60.0), ("sht4x", 20.0, 60.0), ("bme280", 60_000.0, 200_000.0))


def ezo_rows(kind, noise, drift):
    """A circuit in the water. One that repeats its value cannot be told from one in steady water."""
    return (
        *bus_rows(kind, "open"),
        Row("frozen",    kind, OK,     _OK,    TRUTH,   "open", FAILS_S,     FIRST_S),
        Row("noise",     kind, OK,     _OK,    TRUTH,   "open", FAILS_S,     FIRST_S, amount=noise),
        Row("drift",     kind, OK,     _OK,    LIE,     "open", FAILS_S,     LAG_S, amount=drift),
        Row("saturated", kind, FAILED, _FAULT, NOTHING, "open", FAILS_S,     AGAIN_S, _RANGE),
    )


TABLE = (
    #    kind          device    state    quality stored   output       told_s       recovers_s    words
    *(row for each in ON_I2C for row in bus_rows(*each)),
    Row("stuck",       "i2c-1",   OK,     _OK,    TRUTH,   "open",      TIMES_OUT_S, FIRST_S,      _HELD),
    # Longer than its lease, and the lamp would go dark.
    Row("hang",        "gpio-12", FAILED, None,   TRUTH,   "not known", FAILS_S,     WRITTEN_S,    _SILENT,
        lasts_s=25.0),
    Row("hang",        "gpio-21", FAILED, None,   TRUTH,   "not known", FAILS_S,     WRITTEN_S,    _SILENT),
    Row("refused",     "gpio-12", FAILED, None,   TRUTH,   "not known", FAILS_S,     WRITTEN_S,    _BUSY),
    Row("refused",     "gpio-21", FAILED, None,   TRUTH,   "not known", FAILS_S,     WRITTEN_S,    _BUSY),
    # An SCD30's floats never repeat, and counts of light always may.
    Row("frozen",      "scd30",   FAILED, _FAULT, NOTHING, "shut",      FROZEN_S,    AGAIN_S,      _NEW),
    Row("frozen",      "bh1750",  OK,     _OK,    LIE,     "misled",    FAILS_S,     LAG_S),
    Row("frozen",      "tsl2591", OK,     _OK,    LIE,     "misled",    FAILS_S,     LAG_S),
    # The filter drops single spikes, not two equal ones in a row.
    Row("noise",       "scd30",   OK,     _OK,    TRUTH,   "open",      FAILS_S,     FIRST_S,
        probability=0.03, amount=300.0),
    Row("noise",       "bh1750",  OK,     _OK,    TRUTH,   "trimmed",   LAG_S,       FIRST_S,
        probability=0.03, amount=9_000.0, seed=3),
    Row("noise",       "tsl2591", OK,     _OK,    TRUTH,   "trimmed",   LAG_S,       FIRST_S,
        probability=0.03, amount=1_500.0),
    Row("drift",       "scd30",   OK,     _OK,    LIE,     "open",      FAILS_S,     LAG_S, amount=3_000.0),
    Row("drift",       "bh1750",  OK,     _OK,    LIE,     "misled",    FAILS_S,     LAG_S, amount=60_000.0),
    Row("drift",       "tsl2591", OK,     _OK,    LIE,     "misled",    FAILS_S,     LAG_S, amount=12_000.0),
    Row("saturated",   "scd30",   FAILED, _FAULT, NOTHING, "shut",      FAILS_S,     AGAIN_S,      _RANGE),
    Row("saturated",   "bh1750",  FAILED, _FAULT, NOTHING, "open loop", FAILS_S,     AGAIN_S,      _FULL),
    Row("saturated",   "tsl2591", FAILED, _FAULT, NOTHING, "open loop", FAILS_S,     AGAIN_S,      _FULL),
    # A part that ignores the command for its range.
    Row("capped",      "mhz19",   FAILED, _FAULT, OLD,     "shut",      CAPPED_S,    AGAIN_S, _OPTION,
        amount=2_000.0),
    Row("capped",      "mhz16",   FAILED, _FAULT, OLD,     "shut",      CAPPED_S,    AGAIN_S, _OPTION,
        amount=5_000.0),
    # A pattern (/dev/ttyUSB*) finds it under its new name, after a power cut.
    Row("renamed",     "mhz19",   FAILED, _FAULT, NOTHING, "shut",      FAILS_S,     WARM_AGAIN_S, _PORT),
    Row("renamed",     "mhz16",   WARM,   _WARM,  NOTHING, "shut",      SILENT_S,    WARM_S, "no reading yet",
        lasts_s=120.0),

    *(row for each in ("mhz19", "mhz16") for row in serial_rows(each)),

    # An SCD4x measures each 5 s. Sensors of temperature, humidity or PPFD alone hold no output back.
    Row("saturated", "as7341", FAILED, _FAULT, NOTHING, "open", FAILS_S, AGAIN_S, _FULL),
    Row("frozen", "as7341", OK, _OK, LIE, "open", FAILS_S, LAG_S),
    Row("noise", "as7341", OK, _OK, TRUTH, "open", LAG_S, FIRST_S, probability=0.03, amount=12_000.0),
    Row("drift", "as7341", OK, _OK, LIE, "open", FAILS_S, LAG_S, amount=60_000.0),
    Row("frozen", "scd4x", FAILED, _FAULT, NOTHING, "shut", FROZEN_S + MEASURES_EVERY_S, SLOW_S, _NEW),
    Row("saturated", "scd4x", FAILED, _FAULT, NOTHING, "shut", SLOWLY_S, SLOW_S, _RANGE),
    Row("noise", "scd4x", OK, _OK, TRUTH, "open", FAILS_S, FIRST_S, probability=0.03, amount=300.0),
    Row("drift", "scd4x", OK, _OK, LIE, "open", FAILS_S, 2 * LAG_S, amount=6_000.0),

    *(row for each in OF_AIR for row in air_rows(*each)),
    *(row for each in WITH_CRC for row in crc_rows(*each)),

    # An MH-Z16 behind an SC16IS750 bridge: silence may be a power cut, a failing bus is not.
    Row("absent",      BRIDGE,    FAILED, _FAULT, NOTHING, "shut",      FAILS_S,     WARM_AGAIN_S, _GONE),
    Row("nak",         BRIDGE,    FAILED, _FAULT, NOTHING, "shut",      FAILS_S,     WARM_AGAIN_S, _GONE),
    Row("bus_error",   BRIDGE,    FAILED, _FAULT, NOTHING, "shut",      FAILS_S,     AGAIN_S,      _BROKEN),
    Row("timeout",     BRIDGE,    FAILED, _FAULT, NOTHING, "shut",      TIMES_OUT_S, AGAIN_S,      _HELD),
    Row("hang",        BRIDGE,    FAILED, _FAULT, NOTHING, "shut",      HANGS_S,     AGAIN_S,      _HANGS),
    Row("bad_crc",     BRIDGE,    FAILED, _FAULT, NOTHING, "shut",      FAILS_S,     WARM_AGAIN_S, _OTHER),
    *ppm_rows(BRIDGE),

    # A switch with a broken wire looks open, and so does one that hangs in its position.
    Row("absent",      "gpio",    OK,     _OK,    LIE,     "open",      FAILS_S,     FIRST_S),
    Row("frozen",      "gpio",    OK,     _OK,    LIE,     "open",      FAILS_S,     FIRST_S),
    Row("hang",        "gpio",    FAILED, _FAULT, NOTHING, "open",      FAILS_S,     AGAIN_S,      _SILENT),
    Row("refused",     "gpio",    FAILED, _FAULT, NOTHING, "open",      FAILS_S,     AGAIN_S,      _UNREAD),

    # A DS18B20 in water: a file that is missing, or whose line has no valid checksum, or 85 degC.
    Row("absent",      "ds18b20", FAILED, _FAULT, NOTHING, "open",      FAILS_S,     AGAIN_S,      _NO_WIRE),
    Row("bus_error",   "ds18b20", FAILED, _FAULT, NOTHING, "open",      FAILS_S,     AGAIN_S,      _EIO),
    Row("hang",        "ds18b20", FAILED, _FAULT, NOTHING, "open",      HANGS_S,     AGAIN_S,      _HANGS),
    Row("bad_crc",     "ds18b20", FAILED, _FAULT, NOTHING, "open",      FAILS_S,     AGAIN_S,      _CRC),
    Row("warm_up",     "ds18b20", FAILED, _FAULT, NOTHING, "open",      FROZEN_S,    AGAIN_S,      _NEW),
    Row("frozen",      "ds18b20", OK,     _OK,    TRUTH,   "open",      FAILS_S,     FIRST_S),
    Row("noise",       "ds18b20", OK,     _OK,    TRUTH,   "open",      FAILS_S,     FIRST_S,
        probability=0.03, amount=20.0),
    Row("drift",       "ds18b20", OK,     _OK,    LIE,     "open",      FAILS_S,     LAG_S, amount=60.0),
    Row("saturated",   "ds18b20", FAILED, _FAULT, NOTHING, "open",      FAILS_S,     AGAIN_S,      _RANGE),

    # An ADS1115 with a sensor of soil moisture, 0.12 V of whose signal are 7.5 %.
    Row("frozen",      "ads1115", FAILED, _FAULT, NOTHING, "open",      FAILS_S,     AGAIN_S,     _STOPS),
    Row("noise",       "ads1115", OK,     _OK,    TRUTH,   "open",      FAILS_S,     FIRST_S,
        probability=0.03, amount=20.0),
    Row("drift",       "ads1115", OK,     _OK,    LIE,     "open",      FAILS_S,     LAG_S, amount=30_000.0),
    Row("saturated",   "ads1115", FAILED, _FAULT, NOTHING, "open",      FAILS_S,     AGAIN_S,      _FULL),

    *(row for kind, amounts in EZO_AMOUNTS.items() for row in ezo_rows(kind, *amounts)),

    # What others send: silence, a payload that is no number, an old value.
    Row("absent",      "mqtt",    FAILED, _STALE, NOTHING, "open",      UNSENT_S,    FIRST_S,      _UNSENT),
    Row("garbled",     "mqtt",    FAILED, _FAULT, NOTHING, "open",      UNSENT_S,    FIRST_S,      _NAN),
    Row("frozen",      "mqtt",    OK,     _OK,    LIE,     "open",      FAILS_S,     FIRST_S),
    Row("partial",     "mqtt",    FAILED, _STALE, NOTHING, "open",      UNSENT_S,    FIRST_S,      _UNSAID),

    # After a short outage the device recovers soon: retries are no further apart than it lasted.
    Row("absent",      "scd30",   FAILED, _FAULT, NOTHING, "shut",      FAILS_S, 20.0 + FIRST_S,   _GONE,
        lasts_s=20.0, by_itself=True),
    Row("timeout",     "bh1750",  FAILED, _FAULT, NOTHING, "open loop", TIMES_OUT_S, 20.0 + FIRST_S, _HELD,
        lasts_s=20.0, by_itself=True),
    Row("short",       "mhz19",   FAILED, _FAULT, NOTHING, "shut",      FAILS_S, 20.0 + FIRST_S,   _FRAME,
        lasts_s=20.0, by_itself=True),
    Row("timeout",     "i2c-1",   FAILED, _FAULT, NOTHING, "shut",      TIMES_OUT_S, 20.0 + FIRST_S, _HELD,
        lasts_s=20.0, by_itself=True),
    Row("refused",     "gpio-21", FAILED, None,   TRUTH,   "not known", FAILS_S,     WRITTEN_S,    _BUSY,
        lasts_s=20.0, by_itself=True),
)
# fmt: on


def rows(*chosen):
    """Parameters of a test: the first row of each kind of fault, and as nightly ones the others."""
    kinds = set()
    parameters = []
    for row in chosen:
        marks = [pytest.mark.nightly] if row.kind in kinds else []
        parameters.append(pytest.param(row, id=row.id, marks=marks))
        kinds.add(row.kind)
    return parameters


OF_PINS = {f"gpio-{WHITE_PIN}": "light", f"gpio-{VALVE_PIN}": "valve"}
STRUCK = "struck"


@pytest.mark.long
@pytest.mark.parametrize("row", rows(*TABLE))
async def test_a_fault_has_the_effects_of_its_row_and_ends(row, caplog):
    caplog.set_level(logging.INFO, "growd")
    async with steady_scene(config_of(row.device)) as scene:
        before = counters_of(scene)
        began = scene.now
        await play(scene, row)
        ended = scene.now
        check_told(scene, row, scene.seen(began + row.told_s, ended))
        check_others(scene, row, before, scene.seen(began, ended))
        took = await scene.until(lambda moment: is_well(row, moment), within=row.recovers_s)
        assert took <= row.recovers_s
        await scene.watch(LAG_S)
        check_stored(scene, row, began, ended)
    check_log(row, [record.getMessage() for record in caplog.records])


def config_of(device, **options):
    """A chamber with this device, or a sensor that depends on it, and another sensor on another bus."""
    kind = kind_at(device) or "scd30"
    other = "scd30" if kind in LIGHT_SENSORS else "bh1750"
    more = {"stuck_after_s": 600.0} if kind.startswith("mhz") else {}
    bridged = {"port": None, "address": 0x4D} if device == BRIDGE else {}
    more |= OF_ANY_VARIABLE.get(kind, {})
    return chamber_of(sensor(kind, STRUCK, **more, **bridged), sensor(other, "other", bus=2), **options)


def kind_at(device):
    """The kind of the sensor that a fault of `device` affects; None for a pin."""
    return device if device in SENSOR_KINDS else {BRIDGE: "mhz16", "i2c-1": "scd30"}.get(device)


OF_ANY_VARIABLE = {
    **{kind: {} for kind in EZO_AMOUNTS},
    "gpio": {"pin": 17, "variable": "door_open"},
    "ads1115": {"variable": "soil_moisture", "points": ((2.8, 0.0), (1.2, 100.0))},
    "ds18b20": {},
    "mqtt": {"topic": "tank/sensor", "key": "door.0.open", "variable": "door_open"},
}
LIGHT_SENSORS = ("bh1750", "tsl2591")


async def play(scene, row):
    """Inject the fault, let it last, and end it. Faults of outputs meet a write that changes the output."""
    scene.strike(row.fault)
    scene.want("light_illuminance", THEN_LUX)
    if row.device in OF_ANY_VARIABLE:
        scene.rig.machine.chamber.set_door(True)
    if row.device == f"gpio-{VALVE_PIN}":
        scene.want(VALVE, 0)
    await scene.watch(row.lasts_s)
    scene.rig.machine.chamber.set_door(False)
    if not row.by_itself:
        await scene.clear()


def struck(row):
    return OF_PINS.get(row.device, STRUCK)


def variables(row):
    """The variables of the affected sensor."""
    return list(config_of(row.device).sensor[0].variables) if kind_at(row.device) else []


def check_told(scene, row, moments):
    told = scene.device(struck(row))
    diagnostics = scene.rig.last(f"diagnostics/{struck(row)}").value["message"]
    assert {moment.states[struck(row)] for moment in moments} == {row.state}
    assert row.words in f"{diagnostics} {told['counters']['last_error']}"
    for variable in variables(row):
        assert {moment.raw[variable] for moment in moments} == {row.quality}
        assert moments[0].measured[variable] is row.quality
        is_known = row.stored in (TRUTH, LIE)
        assert all((moment.measured[variable] is Quality.OK) == is_known for moment in moments)
    if row.output == "not known":
        topic = "light_channels" if struck(row) == "light" else "switches/valve"
        assert scene.rig.last(topic).quality is Quality.FAULT
    assert all(OUTPUTS[row.output](moment) for moment in moments)


def check_others(scene, row, before, moments):
    """The others are ok and on schedule, and their outputs follow the set points."""
    others = set(moments[0].states) - {struck(row)}
    assert {moment.states[name] for moment in moments for name in others} == {"ok"}
    elapsed = moments[-1].at - moments[0].at
    for name in others - {"light", "valve"}:
        assert counters_of(scene)[name] - before[name] >= elapsed // INTERVAL_S - 1
    if row.device not in LIGHT_SENSORS and struck(row) != "light":
        assert OUTPUTS["trimmed"](moments[-1])
    if row.device in LIGHT_SENSORS or struck(row) == "light":
        assert all(moment.is_valve_open for moment in moments)


def counters_of(scene):
    """How often each sensor was read."""
    return {
        sensor.name: scene.device(sensor.name)["counters"]["successes"] for sensor in scene.rig.config.sensor
    }


def is_well(row, moment):
    return (
        set(moment.states.values()) == {"ok"}
        and set(moment.measured.values()) == {Quality.OK}
        and moment.is_valve_open == (row.device != f"gpio-{VALVE_PIN}")
        and OUTPUTS["misled" if row.stored == LIE or struck(row) == "light" else "trimmed"](moment)
    )


def check_stored(scene, row, began, ended):
    for variable in variables(row):
        stored = scene.stored(variable, began + row.told_s, ended)
        least = 0.8 * row.lasts_s / measured_every_s(row) if row.stored in (TRUTH, LIE) else 0
        assert bool(stored) == bool(least)
        assert len(stored) >= least
    false = {OLD: (began, began + row.told_s), LIE: (began, ended + row.recovers_s)}.get(row.stored)
    if false is None:
        assert scene.false_points() == []
    else:
        assert scene.false_points(*false)
        assert scene.false_points(0.0, false[0]) == scene.false_points(false[1]) == []


def measured_every_s(row):
    return MEASURES_EVERY_S if row.device == "scd4x" else INTERVAL_S


def check_log(row, lines):
    """An outage is logged in one line, and its end in another with the length."""
    failures = [line for line in lines if " has failed: " in line]
    recoveries = [line for line in lines if " works again after " in line]
    if row.state != FAILED and row.kind != "brown_out":  # which begins with an outage
        assert failures == recoveries == []
        return
    (failure,), (recovery,) = failures, recoveries
    assert failure.startswith(f"environment_1/{struck(row)} has failed: ")
    found = re.fullmatch(f"environment_1/{struck(row)} works again after ([0-9.]+) s", recovery)
    assert row.lasts_s - row.told_s <= float(found[1]) <= row.lasts_s + row.recovers_s


@pytest.mark.long
@pytest.mark.parametrize("row", rows(*(row for row in TABLE if row.output == "open loop")))
async def test_a_lamp_that_needs_its_sensor_is_dark_during_its_faults(row):
    async with steady_scene(config_of(row.device, needs_sensor=True)) as scene:
        began = scene.now
        await play(scene, replace(row, lasts_s=min(row.lasts_s, 60.0)))
        assert {moment.lamp for moment in scene.seen(began + row.told_s, scene.now)} == {0.0}
        await scene.until(lambda moment: is_well(row, moment), within=row.recovers_s)


AT_ANY_PLACE = frozenset({BRIDGE, *OF_ANY_VARIABLE})


@pytest.mark.long
@pytest.mark.parametrize(
    "row", rows(*(row for row in TABLE if row.stored == LIE and row.device not in AT_ANY_PLACE))
)
async def test_three_sensors_outvote_one_with_wrong_values(row):
    ports = {"first": "/dev/serial0", "second": "/dev/ttyAMA1", "third": "/dev/ttyAMA2"}
    is_serial = row.device.startswith("mhz")
    sensors = [
        sensor(row.device, name, **({"port": port} if is_serial else {"bus": bus}))
        for bus, (name, port) in enumerate(ports.items(), start=1)
    ]
    place = ports["first"] if is_serial else f"i2c-1:{SENSOR_KINDS[row.device].addresses[0]:#04x}"
    config = chamber_of(*sensors, combine=dict.fromkeys(variables(row), "median"))
    async with steady_scene(config) as scene:
        await play(scene, replace(row, device=place))
        elapsed = scene.now - scene.steady_at
        assert len(
            scene.stored(variables(row)[0], scene.steady_at, scene.now)
        ) > 0.8 * elapsed / measured_every_s(row)
        assert scene.false_points() == []
        assert set(scene.moments[-1].states.values()) == {"ok"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "failures", "outages", "gap_s"),
    [
        (("absent", "scd30", 0.02), 10, 4, 10.0),
        (("bus_error", "bh1750", 0.02), 10, 4, 10.0),
        (("timeout", "i2c-1", 0.02), 10, 4, 10.0),
        (("bad_crc", "scd30", 0.05), 10, 4, 10.0),
        (("bad_checksum", "mhz19", 0.3), 30, 25, 20.0),
    ],
)
async def test_a_sporadic_fault_is_counted_and_seldom_an_outage(fault, failures, outages, gap_s, caplog):
    """In 300 s; the probability is that of each message, and a reading has four of them or more."""
    kind, device, probability = fault
    caplog.set_level(logging.INFO, "growd")
    variable = "light_illuminance" if device in LIGHT_SENSORS else "air_carbon_dioxide"
    async with steady_scene(config_of(device)) as scene:
        scene.strike(Fault(kind, device, probability=probability, seed=1))
        await scene.watch(300.0)
        counters = scene.device(STRUCK)["counters"]
        times = [scene.time_of(point) for point in scene.stored(variable, scene.steady_at, scene.now)]
        assert counters["failures"] >= failures
        assert counters["outages"] <= outages  # two failures in a row
        assert max(after - before for before, after in pairwise(times)) <= gap_s
        assert scene.false_points() == []
    told = [record for record in caplog.records if " has failed: " in record.getMessage()]
    assert len(told) == counters["outages"]


def test_the_table_has_every_kind_of_fault_at_each_of_its_devices():
    places = {BUS: ("i2c-1",), PIN: tuple(OF_PINS), ADDRESS: (BRIDGE,), PORT: ()}  # a port names its sensor
    devices = {row.device for row in TABLE}
    possible = {
        (kind, device)
        for kind, there in PLACES_OF.items()
        for place in there
        for device in places.get(place, (place,))
        if device in devices
    }
    assert {kind for kind, _ in possible} == set(PLACES_OF)
    assert devices >= set(SENSORS)
    assert {(row.kind, row.device) for row in TABLE} == possible
