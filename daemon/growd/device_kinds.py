"""The table of device kinds: what growd knows of each kind of sensor and of output.

Configuration, checks, wiring, simulator and `growd check --hardware` read it. It imports no driver, so that
it is quick to import and works where a driver does not.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final

from growd.variables import (
    ACIDITY,
    AIR_PRESSURE,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    DISSOLVED_OXYGEN,
    HUMIDITY,
    ILLUMINANCE,
    PPFD,
    TEMPERATURE,
    WATER_TEMPERATURE,
)
from growd_drivers.kinds import CalibrationKind, OutputKind, SensorKind

NOT_OF_DRIVERS: Final = frozenset({"port", "variable", "confirms"})
"""Options of kinds of sensors that are no arguments of their drivers."""


def _scd30_interval_s(between_readings_s: float) -> int:
    """Half the time between readings, so that an early reading finds a new measurement.

    2 to 1800 s: SCD30 Interface Description 1.4.3.
    """
    return min(max(2, int(between_readings_s / 2)), 1800)


def _mhz19(part: str, driver: str) -> SensorKind:
    """An MH-Z19, or the MH-Z16, which has the same protocol (MH-Z19B manual 1.0, "Notes")."""
    steady_s = 1200.0
    return SensorKind(
        part,
        f"growd_drivers.mhz19:{driver}",
        {"carbon_dioxide_ppm": CARBON_DIOXIDE},
        opens="serial",
        options=("port", "range_ppm", "self_calibration"),
        ranges={"carbon_dioxide_ppm": (0, 10_000)},
        range_option="range_ppm",
        range_hint="set range_ppm to the range of the part, which may not know the command for another",
        same_for_s=14_400.0,
        warm_up_s=180.0,  # "Preheat time: 3 min"; the MH-Z19C needs 1 min
        # No manual has a status byte for it; seen in MH-Z19 libraries and by users of ESPHome and ESPEasy.
        warm_up_values=(388, 400, 410, 500, 505, 555),
        most_jump=30.0,  # T90 < 120 s
        calibrations=(
            CalibrationKind(
                "calibrate_zero",
                "calibrate_zero",
                "Calibrate the zero point in fresh air, permanently. "
                "The sensor must be in this air for 20 minutes before.",
                steady_s,
                reference=400.0,
            ),
            CalibrationKind(
                "calibrate_span",
                "calibrate_span",
                "Calibrate the span after the zero point, permanently. "
                "The sensor must be in this air for 20 minutes before.",
                steady_s,
                reference_range=(1000, 10_000),
                scales=True,
            ),
        ),
        self_calibration_method="set_self_calibration",
    )


def _probe(
    name: str, doc: str, unit: str, reference_range: tuple[float, float] | None, *limits: float
) -> CalibrationKind:
    """A calibration of a probe in water, which the circuit stores. `limits`: steady_within, most_off."""
    steady_within, most_off = (*limits, inf)[:2]
    return CalibrationKind(
        name,
        name,
        f"{doc} It is permanent, and the reading must have been steady for a minute.",
        steady_s=60.0,
        reference_range=reference_range,
        unit=unit,
        steady_within=steady_within,
        most_off=most_off,
    )


def _ezo(
    part: str,
    driver: str,
    variable: str,
    address: int,
    ends: tuple[float, float],
    *,
    read_s: float = 0.9,
    **more: Any,
) -> SensorKind:
    """An EZO circuit of Atlas Scientific, at its address in I2C mode. Its last digits are noise."""
    return SensorKind(
        part,
        f"growd_drivers.ezo:{driver}",
        {"value": variable},
        addresses=(address,),
        read_s=read_s,
        ranges={"value": ends},
        range_hint="is its probe connected?",
        same_for_s=86_400.0,
        **more,
    )


_AIR_RANGES: Final = {"temperature_degc": (-40.0, 125.0), "humidity_percent": (0.0, 100.0)}
"""Of SHT3x and SHT4x; their codes reach from -45 to 130 degC."""

SENSOR_KINDS: Final[dict[str, SensorKind]] = {
    "scd30": SensorKind(
        "SCD30",
        "growd_drivers.scd30:Scd30",
        {"carbon_dioxide_ppm": CARBON_DIOXIDE, "temperature_degc": TEMPERATURE, "humidity_percent": HUMIDITY},
        addresses=(0x61,),  # Interface Description 1.1
        slow_import="adafruit_scd30",  # with Blinka
        options=("altitude_m", "temperature_offset_degc", "self_calibration"),
        ranges=_AIR_RANGES | {"carbon_dioxide_ppm": (0, 40_000), "temperature_degc": (-40, 70)},
        same_for_s=0.0,
        measurement_interval_s=_scd30_interval_s,
        calibrations=(
            CalibrationKind(
                "calibrate",
                "recalibrate",
                "Forced recalibration, permanent. The air must have been steady for two minutes before.",
                steady_s=120.0,  # measured each 2 s: Interface Description 1.4.6
                most_interval_s=5.9,
                reference_range=(400, 2000),
            ),
        ),
        most_bus_hz=50_000,  # Interface Description 1.1
    ),
    "scd4x": SensorKind(
        "SCD4x",
        "growd_drivers.scd4x:Scd4x",
        {"carbon_dioxide_ppm": CARBON_DIOXIDE, "temperature_degc": TEMPERATURE, "humidity_percent": HUMIDITY},
        addresses=(0x62,),
        slow_import="adafruit_scd4x",  # with Blinka, as below
        options=("altitude_m", "temperature_offset_degc", "self_calibration"),
        ranges=_AIR_RANGES | {"carbon_dioxide_ppm": (0, 40_000), "temperature_degc": (-10, 60)},
        same_for_s=0.0,
        limits={"altitude_m": (0, 3000), "temperature_offset_degc": (0, 20)},
        takes_monotonic=True,
        calibrations=(
            CalibrationKind(
                "calibrate",
                "recalibrate",
                "Forced recalibration, permanent. The air must have been steady for three minutes before.",
                steady_s=180.0,  # datasheet 3.8.1
                reference_range=(400, 2000),
            ),
        ),
    ),
    "sht3x": SensorKind(
        "SHT3x",
        "growd_drivers.sht3x:Sht3x",
        {"temperature_degc": TEMPERATURE, "humidity_percent": HUMIDITY},
        addresses=(0x44, 0x45),
        slow_import="adafruit_sht31d",
        ranges=_AIR_RANGES,
        same_for_s=0.0,
    ),
    "sht4x": SensorKind(
        "SHT4x",
        "growd_drivers.sht4x:Sht4x",
        {"temperature_degc": TEMPERATURE, "humidity_percent": HUMIDITY},
        addresses=(0x44, 0x45, 0x46),
        slow_import="adafruit_sht4x",
        ranges=_AIR_RANGES,
        same_for_s=0.0,
    ),
    "bme280": SensorKind(
        "BME280",
        "growd_drivers.bme280:Bme280",
        {"temperature_degc": TEMPERATURE, "humidity_percent": HUMIDITY, "pressure_hpa": AIR_PRESSURE},
        addresses=(0x76, 0x77),
        slow_import="adafruit_bme280.basic",
        ranges=_AIR_RANGES | {"temperature_degc": (-40, 85), "pressure_hpa": (300, 1100)},
        same_for_s=0.0,
    ),
    "bh1750": SensorKind(
        "BH1750", "growd_drivers.bh1750:Bh1750", {"illuminance_lux": ILLUMINANCE}, addresses=(0x23, 0x5C)
    ),
    "tsl2591": SensorKind(
        "TSL2591", "growd_drivers.tsl2591:Tsl2591", {"illuminance_lux": ILLUMINANCE}, addresses=(0x29,)
    ),
    "as7341": SensorKind(
        "AS7341",
        "growd_drivers.as7341:As7341",
        {"ppfd_umol_m2_s": PPFD},
        addresses=(0x39,),
        slow_import="adafruit_as7341",
        options=("ppfd_factor",),
        takes_monotonic=True,
    ),
    "mhz19": _mhz19("MH-Z19", "Mhz19"),
    "mhz16": _mhz19("MH-Z16", "Mhz16"),
    "ezo_ph": _ezo(
        "EZO-pH",
        "EzoPh",
        ACIDITY,
        0x63,
        (0.001, 14.0),
        read_s=1.2,
        compensated_by=WATER_TEMPERATURE,
        calibrations=(
            _probe(
                "calibrate_mid", "Calibrate the middle point first, near pH 7.", "pH", (6.0, 8.0), 0.05, 1.5
            ),
            _probe("calibrate_low", "Calibrate the acid point, near pH 4.", "pH", (1.0, 6.0), 0.05, 1.5),
            _probe(
                "calibrate_high", "Calibrate the alkaline point, near pH 10.", "pH", (8.0, 13.0), 0.05, 1.5
            ),
        ),
    ),
    "ezo_ec": _ezo(
        "EZO-EC",
        "EzoEc",
        CONDUCTIVITY,
        0x64,
        (0.0, 500.0),
        options=("probe_k",),
        compensated_by=WATER_TEMPERATURE,
        calibrations=(
            _probe("calibrate_dry", "Calibrate the dry probe first, in air.", "mS/cm", None, 0.02, 0.2),
            _probe(
                "calibrate_low",
                "Calibrate the solution of the lower conductivity.",
                "mS/cm",
                (0.01, 20.0),
                0.1,
            ),
            _probe(
                "calibrate_high",
                "Calibrate the solution of the higher conductivity.",
                "mS/cm",
                (0.1, 200.0),
                0.5,
            ),
        ),
    ),
    "ezo_rtd": _ezo(
        "EZO-RTD",
        "EzoRtd",
        WATER_TEMPERATURE,
        0x66,
        (-126.0, 1254.0),  # without a probe it answers -1023
        read_s=0.6,
        options=("variable",),
        units=("degC",),
        calibrations=(
            _probe("calibrate_temperature", "Calibrate one temperature.", "degC", (-10.0, 100.0), 0.2, 10.0),
        ),
    ),
    "ezo_do": _ezo(
        "EZO-DO",
        "EzoDo",
        DISSOLVED_OXYGEN,
        0x61,
        (0.0, 100.0),
        compensated_by=WATER_TEMPERATURE,
        calibrations=(
            _probe("calibrate_air", "Calibrate the probe in air first.", "mg/L", None, 0.2),
            _probe("calibrate_no_oxygen", "Calibrate in a solution without oxygen.", "mg/L", None, 0.1, 2.0),
        ),
    ),
    "ads1115": SensorKind(
        "ADS1115",
        "growd_drivers.ads1115:Ads1115",
        {"value": ""},
        addresses=(0x48, 0x49, 0x4A, 0x4B),  # table 7-2
        options=("variable", "confirms", "channel", "points"),
        range_hint="points must be the ends of what the sensor can measure",
        needs=("points",),
        part_of_chip="channel",
    ),
    "ds18b20": SensorKind(
        "DS18B20",
        "growd_drivers.ds18b20:Ds18b20",
        {"temperature_degc": WATER_TEMPERATURE},
        opens="one_wire",
        read_s=0.75,
        options=("variable", "device", "pin"),
        ranges={"temperature_degc": (-55, 125)},
        warm_up_values=(85.0,),  # "Operation - Measuring Temperature"
        units=("degC",),
    ),
    "mqtt": SensorKind(
        "MQTT sensor",
        "",
        {"value": ""},
        opens="messages",
        options=("variable", "confirms", "topic", "key", "scale", "offset", "stale_after_s"),
        needs=("topic",),
    ),
    "topic": SensorKind(
        "posted value",
        "",
        {"value": ""},
        opens="messages",
        options=("variable", "confirms", "scale", "offset", "stale_after_s"),
    ),
    "gpio": SensorKind(
        "switch",
        "growd_drivers.gpio_input:GpioInput",
        {"is_active": ""},
        opens="gpio",
        options=("variable", "confirms", "pin", "active", "pull"),
        needs=("pin",),
        units=("switch",),
    ),
}


OUTPUT_KINDS: Final = ("relay", "ssr", "pwm", "hardware_pwm", "mqtt", "http", "topic")
"""How an output is driven: a pin on and off (mechanical or solid-state relay), a dimmed pin, a device in the
network, or a topic of the bus."""

OWN_OUTPUTS: Final[dict[str, OutputKind]] = {}
"""The kinds of outputs of other packages that the configuration names."""

LAMP_CHANNELS: Final = ("white", "red", "blue")

LUX_PER_UMOL: Final = {"white": 67.0, "red": 7.55, "blue": 6.9}
"""Illuminance for each umol/m2/s of the light of a channel. White LEDs: Sharakshane (2018, bioRxiv 215095).
One wavelength, 660 or 450 nm: 683 lm/W times the CIE 1924 luminosity function times 0.1196 J m / wavelength.
"""

PHOTONS: Final = {"white": 1.0, "red": 0.5, "blue": 0.27}
"""Photons of the channels at full level, relative to each other, of a lamp with 30, 14 and 7.5 W."""


def kinds_with(option: str) -> tuple[str, ...]:
    """The kinds of sensors that have an option of [[sensor]] which not all have."""
    return tuple(name for name, kind in SENSOR_KINDS.items() if option in kind.options)


def with_article(part: str) -> str:
    """A part or kind as "an SCD30" or "a bh1750". Capitals and names with digits are read by letters."""
    is_spelt = part[0].isupper() or any(each.isdigit() for each in part)
    return f"{'an' if part[0].upper() in ('AEFHILMNORSX' if is_spelt else 'AEIO') else 'a'} {part}"
