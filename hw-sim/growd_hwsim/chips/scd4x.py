"""A simulated Sensirion SCD41.

Source: SCD4x datasheet (Sensirion, version 1.7), sections given below; noise (repeatability) and lags
(response times) from its tables 1 to 3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_hwsim.chamber import Air
from growd_hwsim.chip import Measurement
from growd_hwsim.i2c import FAULTS, NoAcknowledgeError
from growd_hwsim.sensirion import FULL_WORD, decoded, humidity_word, temperature_word, with_crcs
from growd_hwsim.sensors import AirSensor

if TYPE_CHECKING:
    from collections.abc import Callable

START, READ_MEASUREMENT, STOP, DATA_READY = 0x21B1, 0xEC05, 0x3F86, 0xE4B8  # 3.6
TEMPERATURE_OFFSET, GET_TEMPERATURE_OFFSET = 0x241D, 0x2318  # 3.7, in steps of 175 / 65535 degC
ALTITUDE, GET_ALTITUDE = 0x2427, 0x2322
PRESSURE = 0xE000  # hPa; a write with an argument sets it, a read after the command gets it
RECALIBRATE, SELF_CALIBRATION, GET_SELF_CALIBRATION = 0x362F, 0x2416, 0x2313  # 3.8
PERSIST, REINIT, SERIAL_NUMBER, VARIANT = 0x3615, 0x3646, 0x3682, 0x202F  # 3.10

MEASURES_EVERY_S = 5.0
MAXIMUM_CO2_PPM = 40_000.0
SELF_HEATING_DEGC = 4.0
"""What the factory's temperature offset subtracts."""
RESPONSE_S = Air(60.0, 120.0, 90.0)
"""Response times (63 % of a step) in s of CO2, temperature and humidity: tables 1 to 3."""
_EXECUTION_S = {START: 0.0, STOP: 0.5, RECALIBRATE: 0.4, PERSIST: 0.8, REINIT: 0.03}  # table 9; others 1 ms
_POWER_UP_S = 0.03
_WHILE_MEASURING = {READ_MEASUREMENT, STOP, DATA_READY, PRESSURE}
_ARGUMENT_RANGES = {
    TEMPERATURE_OFFSET: (0, FULL_WORD),
    ALTITUDE: (0, 3000),
    PRESSURE: (700, 1200),
    RECALIBRATE: (0, FULL_WORD),
    SELF_CALIBRATION: (0, 1),
}
_NEEDS_S = 180.0  # of measurements before a recalibration
_RECALIBRATION_BIAS, _RECALIBRATION_FAILED = 0x8000, 0xFFFF
_SERIAL = bytes.fromhex("f896319f07c2")
_SCD41 = 0x1440


@dataclass
class Scd4xSettings:
    """What PERSIST keeps; the factory's values."""

    self_calibration: int = 1
    temperature_offset: int = 1498  # 4 degC
    altitude_m: int = 0


class SimulatedScd4x(AirSensor):
    """An SCD41 in the air of `air()`, on the time of `monotonic`.

    `error_ppm` is the error of this part before recalibration (table 1: 50 ppm + 5 %). Noise is Gaussian, cut
    off at the repeatability (10 ppm, 0.1 degC, 0.4 percent). `response_s` has the time constants.
    """

    name = "scd4x"
    measurement = Measurement(
        9,
        MAXIMUM_CO2_PPM,
        lambda answer: int.from_bytes(answer[:2], "big"),
        lambda answer, ppm: with_crcs(round(ppm).to_bytes(2, "big")) + answer[3:],
        "ppm",
    )
    faults = (*FAULTS, "bad_crc", "wrong_order")

    def __init__(
        self,
        air: Callable[[], Air],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        error_ppm: float = 0.0,
        response_s: Air = RESPONSE_S,
    ) -> None:
        self._error_ppm = error_ppm
        self.kept = Scd4xSettings()
        self.calibration_ppm = 0.0
        """The sum of all recalibrations. It outlasts a loss of power without PERSIST (3.8)."""
        super().__init__(air, monotonic, response_s, seed=seed)
        self._busy_until = monotonic()  # it has had power for a while

    def power_cycle(self) -> None:
        """Lose and regain power: idle, with the settings that were kept."""
        self.settings = Scd4xSettings(**vars(self.kept))
        self.pressure_hpa = 1013
        self.is_measuring = False
        self._began_at = self._due = 0.0
        self._measured_s = 0.0
        self._ready = False
        self._measurement = bytes(6)
        self._answer_words: bytes | None = None
        self._busy_until = self._monotonic() + _POWER_UP_S

    def on_write(self, data: bytes) -> None:
        """A command word, with an argument word and its CRC where the command has one (3.4)."""
        self._measure_if_due()
        command, argument = decoded(data)
        if self._monotonic() < self._busy_until or (self.is_measuring and command not in _WHILE_MEASURING):
            raise NoAcknowledgeError
        self._answer_words = None
        if argument is None:
            self._run(command)
        else:
            self._set(command, argument)
        self._busy_until = self._monotonic() + _EXECUTION_S.get(command, 0.001)

    def on_read(self, length: int) -> bytes:
        """The answer to the last command, once; none before the command is done."""
        if self._answer_words is None or self._monotonic() < self._busy_until:
            raise NoAcknowledgeError
        words, self._answer_words = self._answer_words, None
        return with_crcs(words)[:length]

    def _run(self, command: int) -> None:
        if command == START:
            self.is_measuring, self._began_at = True, self._monotonic()
            self._due = self._began_at + MEASURES_EVERY_S
        elif command == STOP:
            self._stop()
        elif command == PERSIST:
            self.kept = Scd4xSettings(**vars(self.settings))
        elif command == REINIT:
            self.power_cycle()
        elif command == READ_MEASUREMENT:
            self._answer_words = self._measurement if self._ready else None
            self._ready = False
        else:
            self._answer_words = self._word(command)

    def _word(self, command: int) -> bytes:
        words = {
            DATA_READY: 0x8000 | (0x06 if self._ready else 0),  # only the lower 11 bits count
            GET_TEMPERATURE_OFFSET: self.settings.temperature_offset,
            GET_ALTITUDE: self.settings.altitude_m,
            PRESSURE: self.pressure_hpa,
            GET_SELF_CALIBRATION: self.settings.self_calibration,
            VARIANT: _SCD41,
        }
        if command == SERIAL_NUMBER:
            return _SERIAL
        if command not in words:
            raise NoAcknowledgeError
        return struct.pack(">H", words[command])

    def _set(self, command: int, argument: int) -> None:
        minimum, maximum = _ARGUMENT_RANGES.get(command, (0, -1))
        if not minimum <= argument <= maximum:
            raise NoAcknowledgeError
        if command == TEMPERATURE_OFFSET:
            self.settings.temperature_offset = argument
        elif command == ALTITUDE:
            self.settings.altitude_m = argument
        elif command == PRESSURE:
            self.pressure_hpa = argument
        elif command == SELF_CALIBRATION:
            self.settings.self_calibration = argument
        else:
            self._recalibrate(argument)

    def _stop(self) -> None:
        if self.is_measuring:
            self._measured_s = self._monotonic() - self._began_at
        self.is_measuring = False
        self._ready = False

    def _recalibrate(self, reference_ppm: int) -> None:
        """The answer is the correction, or 0xffff after less than three minutes of measurements."""
        word = _RECALIBRATION_FAILED
        if self._measured_s >= _NEEDS_S:
            read = self._cell.air().carbon_dioxide_ppm + self._error_ppm + self.calibration_ppm
            self.calibration_ppm += reference_ppm - read
            word = round(reference_ppm - read) + _RECALIBRATION_BIAS
        self._answer_words = struct.pack(">H", word)

    def _measure_if_due(self) -> None:
        now = self._monotonic()
        if not self.is_measuring or now < self._due:
            return
        self._measurement = self._measured()
        self._due += MEASURES_EVERY_S * ((now - self._due) // MEASURES_EVERY_S + 1)
        self._ready = True

    def _measured(self) -> bytes:
        air = self._cell.air()
        ppm = air.carbon_dioxide_ppm + self._error_ppm + self.calibration_ppm + self._jitter(3.0, 10.0)
        offset_degc = self.settings.temperature_offset * 175.0 / FULL_WORD
        degc = air.temperature_degc + SELF_HEATING_DEGC - offset_degc + self._jitter(0.03, 0.1)
        percent = air.humidity_percent + self._jitter(0.1, 0.4)
        return struct.pack(
            ">HHH",
            round(min(max(ppm, 1.0), MAXIMUM_CO2_PPM)),
            temperature_word(degc),
            humidity_word(percent),
        )
