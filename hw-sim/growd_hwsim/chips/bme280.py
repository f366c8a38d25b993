"""A simulated Bosch BME280. Source: BME280 datasheet (Bosch Sensortec, revision 1.23)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_hwsim.chamber import Air
from growd_hwsim.chip import Measurement
from growd_hwsim.sensors import AirSensor

if TYPE_CHECKING:
    from collections.abc import Callable

CALIBRATION, ID, RESET, CALIBRATION_2 = 0x88, 0xD0, 0xE0, 0xE1  # table 18
CTRL_HUM, STATUS, CTRL_MEAS, CONFIG, DATA = 0xF2, 0xF3, 0xF4, 0xF5, 0xF7
CHIP_ID = 0x60
_RESET_WORD = 0xB6
_NORMAL_MODE = 0b11  # in ctrl_meas; 0b01 and 0b10 are the forced mode
_MEASURING, _COPIES_CALIBRATION = 0x08, 0x01
_START_UP_S = 0.002
_OVERSAMPLING = (0, 1, 2, 4, 8, 16, 16, 16)
_NOTHING = bytes.fromhex("8000008000008000")
_FULL_20, _FULL_16 = 0xF_FFFF, 0xFFFF
PRESSURE_HPA = 1013.25
"""Of the air, which does not change in the simulation."""
RESPONSE_S = Air(0.0, 1.0, 1.0)
"""Response times (63 % of a step) in s; that of humidity is in table 2."""


@dataclass(frozen=True)
class Coefficients:
    """Of one part: dig_T1 to dig_P9 of the example in Bosch's BMP280 datasheet, and a typical humidity."""

    t: tuple[int, int, int] = (27504, 26435, -1000)
    p: tuple[int, ...] = (36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000)
    h: tuple[int, ...] = (75, 362, 0, 313, 50, 30)

    def temperature(self, raw: int) -> float:
        """t_fine, which is 5120 times the temperature in degC (4.2.3)."""
        t1, t2, t3 = self.t
        rough = raw / 131072.0 - t1 / 8192.0
        return (raw / 16384.0 - t1 / 1024.0) * t2 + rough * rough * t3

    def pressure(self, raw: int, t_fine: float) -> float:
        """The pressure in Pa (the formula for floating point in Bosch's driver)."""
        p1, p2, p3, p4, p5, p6, p7, p8, p9 = self.p
        one = t_fine / 2.0 - 64000.0
        two = one * one * p6 / 32768.0 + one * p5 * 2.0
        two = two / 4.0 + p4 * 65536.0
        one = (1.0 + (p3 * one * one / 524288.0 + p2 * one) / 524288.0 / 32768.0) * p1
        value = (1048576.0 - raw - two / 4096.0) * 6250.0 / one
        return value + (p9 * value * value / 2147483648.0 + value * p8 / 32768.0 + p7) / 16.0

    def humidity(self, raw: int, t_fine: float) -> float:
        """The relative humidity in percent, not limited (the formula for floating point, as above)."""
        h1, h2, h3, h4, h5, h6 = self.h
        fine = t_fine - 76800.0
        value = raw - (h4 * 64.0 + h5 / 16384.0 * fine)
        value *= h2 / 65536.0 * (1.0 + h6 / 67108864.0 * fine * (1.0 + h3 / 67108864.0 * fine))
        return value * (1.0 - h1 * value / 524288.0)

    def registers(self) -> tuple[bytes, bytes]:
        """The registers from 0x88 to 0xA1, and those from 0xE1 to 0xE7 (table 16)."""
        h1, h2, h3, h4, h5, h6 = self.h
        nibbles = h4 & 0x0F | (h5 & 0x0F) << 4
        first = struct.pack("<Hhh", *self.t) + struct.pack("<H8h", *self.p) + bytes([0, h1])
        return first, struct.pack("<hBbBbb", h2, h3, h4 >> 4, nibbles, h5 >> 4, h6)


class SimulatedBme280(AirSensor):
    """A BME280 in the air of `air()` at `pressure_hpa`, on the time of `monotonic`.

    Noise is Gaussian (0.005 degC, 0.02 percent, 1.3 Pa: tables 2 to 4). The filter is not simulated.
    """

    name = "bme280"
    measurement = Measurement(  # STATUS to the last register; the raw temperature, of 20 bits
        12,
        _FULL_20,
        lambda answer: int.from_bytes(answer[7:10], "big") >> 4,
        lambda answer, raw: answer[:7] + (round(raw) << 4).to_bytes(3, "big") + answer[10:],
    )

    def __init__(
        self,
        air: Callable[[], Air],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        pressure_hpa: float = PRESSURE_HPA,
        response_s: Air = RESPONSE_S,
        coefficients: Coefficients | None = None,
    ) -> None:
        self.pressure_hpa = pressure_hpa
        self.chip_id = CHIP_ID
        self._coefficients = coefficients or Coefficients()
        super().__init__(air, monotonic, response_s, seed=seed)
        self._started_at = monotonic()  # it has had power for a while

    def power_cycle(self) -> None:
        """Lose and regain power, or be reset: asleep, without a measurement, oversampling off."""
        self.registers = bytearray(0x100)
        first, second = self._coefficients.registers()
        self.registers[CALIBRATION : CALIBRATION + len(first)] = first
        self.registers[CALIBRATION_2 : CALIBRATION_2 + len(second)] = second
        self.registers[ID] = self.chip_id
        self.registers[DATA : DATA + len(_NOTHING)] = _NOTHING
        self._humidity_oversampling = 0
        self._register = 0
        self._done_at: float | None = None
        self._started_at = self._monotonic() + _START_UP_S

    def on_write(self, data: bytes) -> None:
        """The number of a register, then pairs of a value and the number of the next one (6.2.1)."""
        self._convert_if_done()
        self._register = data[0]
        for number, value in zip(data[::2], data[1::2], strict=False):
            self._set(number, value)

    def on_read(self, length: int) -> bytes:
        """Registers from the one that was named."""
        self._convert_if_done()
        self.registers[STATUS] = self._status()
        answer = bytes(self.registers[(self._register + each) & 0xFF] for each in range(length))
        self._register = (self._register + length) & 0xFF
        return answer

    def _set(self, number: int, value: int) -> None:
        if number == RESET and value == _RESET_WORD:
            self.power_cycle()
        elif number in (CTRL_HUM, CONFIG):
            self.registers[number] = value
        elif number == CTRL_MEAS:
            self.registers[number] = value
            self._humidity_oversampling = self.registers[CTRL_HUM] & 0b111  # 5.4.3: effective only now
            if value & _NORMAL_MODE:
                self._done_at = self._monotonic() + self._conversion_s()

    def _conversion_s(self) -> float:
        """9.1, the typical time."""
        temperature, pressure, humidity = self._oversampling()
        times = (1.0, 2.0 * temperature, pressure and 2.0 * pressure + 0.5, humidity and 2.0 * humidity + 0.5)
        return sum(times) / 1000.0

    def _oversampling(self) -> tuple[int, int, int]:
        control = self.registers[CTRL_MEAS]
        chosen = (control >> 5, control >> 2 & 0b111, self._humidity_oversampling)
        temperature, pressure, humidity = (_OVERSAMPLING[each] for each in chosen)
        return temperature, pressure, humidity

    def _status(self) -> int:
        starting = _COPIES_CALIBRATION if self._monotonic() < self._started_at else 0
        return starting | (_MEASURING if self._done_at is not None else 0)

    def _convert_if_done(self) -> None:
        if self._done_at is None or self._monotonic() < self._done_at:
            return
        self.registers[DATA : DATA + len(_NOTHING)] = self._measured()
        is_forced = self.registers[CTRL_MEAS] & _NORMAL_MODE != _NORMAL_MODE
        if is_forced:
            self.registers[CTRL_MEAS] &= ~_NORMAL_MODE
        self._done_at = None if is_forced else self._monotonic() + self._conversion_s()

    def _measured(self) -> bytes:
        air, part = self._cell.air(), self._coefficients
        t_fine = 5120.0 * (air.temperature_degc + self._noise.gauss(0.0, 0.005))
        pascal = 100.0 * self.pressure_hpa + self._noise.gauss(0.0, 1.3)
        percent = air.humidity_percent + self._noise.gauss(0.0, 0.02)
        temperature = _solved(part.temperature, t_fine, _FULL_20)
        pressure = _FULL_20 - _solved(lambda raw: part.pressure(_FULL_20 - raw, t_fine), pascal, _FULL_20)
        humidity = _solved(lambda raw: part.humidity(raw, t_fine), percent, _FULL_16)
        measured = zip(
            self._oversampling(), (temperature, pressure, humidity), (0x80000, 0x80000, 0x8000), strict=True
        )
        temperature, pressure, humidity = (raw if times else skipped for times, raw, skipped in measured)
        return (
            (pressure << 4).to_bytes(3, "big")
            + (temperature << 4).to_bytes(3, "big")
            + humidity.to_bytes(2, "big")
        )


def _solved(value_of: Callable[[int], float], wanted: float, full: int) -> int:
    """The raw value whose value, which rises with it, is next to the wanted one."""
    low, high = 0, full
    while low < high:
        middle = (low + high) // 2
        if value_of(middle) < wanted:
            low = middle + 1
        else:
            high = middle
    return low
