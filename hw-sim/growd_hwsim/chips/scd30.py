"""A simulated Sensirion SCD30.

Source: "Interface Description Sensirion SCD30 Sensor Module", sections given below; noise (repeatability) and
lags (response times) from the SCD30 datasheet, section 1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_hwsim.chamber import Air
from growd_hwsim.chip import Measurement
from growd_hwsim.i2c import FAULTS, NoAcknowledgeError
from growd_hwsim.sensirion import decoded, with_crcs
from growd_hwsim.sensors import AirSensor

if TYPE_CHECKING:
    from collections.abc import Callable

START_CONTINUOUS = 0x0010  # 1.4.1, with ambient pressure in hPa or 0
STOP_CONTINUOUS = 0x0104  # 1.4.2
INTERVAL = 0x4600  # 1.4.3
DATA_READY = 0x0202  # 1.4.4
READ_MEASUREMENT = 0x0300  # 1.4.5
SELF_CALIBRATION = 0x5306  # 1.4.6
FORCED_RECALIBRATION = 0x5204  # 1.4.6
TEMPERATURE_OFFSET = 0x5403  # 1.4.7, in steps of 0.01 degC
ALTITUDE = 0x5102  # 1.4.8
FIRMWARE_VERSION = 0xD100  # 1.4.9
SOFT_RESET = 0xD304  # 1.4.10

FIRMWARE = 0x0342  # 3.66, the description's example
_ANSWER_AFTER_S = 0.003  # "a delay of more than 3 ms between write and read"
MAXIMUM_CO2_PPM = 40_000.0
RESPONSE_S = Air(20.0, 10.0, 8.0)
"""Response times (63 % of a step) in s of CO2, temperature ("> 10 s") and humidity: datasheet, section 1."""
_ARGUMENT_RANGES = {
    START_CONTINUOUS: (700, 1400),
    INTERVAL: (2, 1800),
    SELF_CALIBRATION: (0, 1),
    FORCED_RECALIBRATION: (400, 2000),
    TEMPERATURE_OFFSET: (0, 0xFFFF),
    ALTITUDE: (0, 0xFFFF),
}


def _ppm_in(answer: bytes) -> float:
    """CO2 in the answer to READ MEASUREMENT: two words with their CRCs are its float (1.4.5)."""
    (ppm,) = struct.unpack(">f", answer[0:2] + answer[3:5])
    return float(ppm)


def _with_ppm(answer: bytes, ppm: float) -> bytes:
    return with_crcs(struct.pack(">f", ppm)) + answer[6:]


@dataclass
class Scd30Memory:
    """Non-volatile settings."""

    interval_s: int = 2
    self_calibration: int = 0
    forced_recalibration_ppm: int = 400
    calibration_ppm: float = 0.0
    temperature_offset: int = 0
    altitude_m: int = 0
    measuring: bool = False


class SimulatedScd30(AirSensor):
    """An SCD30 in the air of `air()`, on the time of `monotonic`.

    `error_ppm` is the error of this part before recalibration (datasheet: 30 ppm + 3 %). Noise is Gaussian,
    cut off at the datasheet's repeatability (10 ppm, 0.1 degC, 0.1 percent). `response_s` has the time
    constant of each value.
    """

    name = "scd30"
    measurement = Measurement(18, MAXIMUM_CO2_PPM, _ppm_in, _with_ppm, "ppm")
    faults = (*FAULTS, "bad_crc", "wrong_order")

    def __init__(
        self,
        air: Callable[[], Air],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        error_ppm: float = 0.0,
        response_s: Air = RESPONSE_S,
        memory: Scd30Memory | None = None,
    ) -> None:
        self.memory = memory or Scd30Memory()
        self._error_ppm = error_ppm
        super().__init__(air, monotonic, response_s, seed=seed)

    def power_cycle(self) -> None:
        """Lose and regain power. The memory stays; a running measurement starts again."""
        self.ambient_pressure_hpa = 0
        self._command: int | None = None
        self._command_at = 0.0
        self._ready = False
        self._measurement = bytes(12)
        self._begin()

    def on_write(self, data: bytes) -> None:
        """A command word, with an argument word and its CRC where the command has one (1.1.2)."""
        self._measure_if_due()
        command, argument = decoded(data)
        self._command, self._command_at = command, self._monotonic()
        if argument is not None:
            self._set(command, argument)
        elif command == STOP_CONTINUOUS:
            self.memory.measuring = False
        elif command == SOFT_RESET:
            self.power_cycle()

    def on_read(self, length: int) -> bytes:
        """The answer to the last command. A read that comes too early is not acknowledged."""
        self._measure_if_due()
        early = self._monotonic() - self._command_at < _ANSWER_AFTER_S
        if self._command is None or early:
            raise NoAcknowledgeError
        return with_crcs(self._answer(self._command))[:length]

    def _answer(self, command: int) -> bytes:
        if command == READ_MEASUREMENT:
            self._ready = False
            return self._measurement
        words = {
            START_CONTINUOUS: self.ambient_pressure_hpa,
            INTERVAL: self.memory.interval_s,
            DATA_READY: int(self._ready),
            SELF_CALIBRATION: self.memory.self_calibration,
            FORCED_RECALIBRATION: self.memory.forced_recalibration_ppm,
            TEMPERATURE_OFFSET: self.memory.temperature_offset,
            ALTITUDE: self.memory.altitude_m,
            FIRMWARE_VERSION: FIRMWARE,
        }
        if command not in words:
            raise NoAcknowledgeError
        return struct.pack(">H", words[command])

    def _set(self, command: int, argument: int) -> None:
        minimum, maximum = _ARGUMENT_RANGES.get(command, (0, -1))
        pressure_off = command == START_CONTINUOUS and argument == 0
        if not (minimum <= argument <= maximum or pressure_off):
            raise NoAcknowledgeError
        if command == START_CONTINUOUS:
            self._start(argument)
        elif command == INTERVAL:
            self.memory.interval_s = argument
            self._begin()
        elif command == SELF_CALIBRATION:
            self.memory.self_calibration = argument
        elif command == FORCED_RECALIBRATION:
            self._recalibrate(argument)
        elif command == TEMPERATURE_OFFSET:
            self.memory.temperature_offset = argument
        else:
            self.memory.altitude_m = argument

    def _start(self, pressure_hpa: int) -> None:
        self.ambient_pressure_hpa = pressure_hpa
        if not self.memory.measuring:
            self.memory.measuring = True
            self._begin()

    def _recalibrate(self, reference_ppm: int) -> None:
        self.memory.forced_recalibration_ppm = reference_ppm
        self.memory.calibration_ppm = reference_ppm - self._cell.air().carbon_dioxide_ppm - self._error_ppm

    def _begin(self) -> None:
        self._due = self._monotonic() + self.memory.interval_s

    def _measure_if_due(self) -> None:
        now = self._monotonic()
        if not self.memory.measuring or now < self._due:
            return
        interval = self.memory.interval_s
        self._measurement = self._measured()
        self._due += interval * ((now - self._due) // interval + 1)
        self._ready = True

    def _measured(self) -> bytes:
        air = self._cell.air()
        offset_degc = self.memory.temperature_offset / 100
        ppm = air.carbon_dioxide_ppm + self._error_ppm + self.memory.calibration_ppm + self._jitter(3.0, 10.0)
        temperature = air.temperature_degc - offset_degc + self._jitter(0.03, 0.1)
        humidity = air.humidity_percent + self._jitter(0.03, 0.1)
        return struct.pack(
            ">fff", min(max(ppm, 1.0), MAXIMUM_CO2_PPM), temperature, min(max(humidity, 0.0), 100.0)
        )
