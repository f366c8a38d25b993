"""A simulated ROHM BH1750FVI. Source: BH1750FVI technical note (ROHM 11046EDT01)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_hwsim.chip import Measurement
from growd_hwsim.i2c import NoAcknowledgeError
from growd_hwsim.sensors import I2CSensor

if TYPE_CHECKING:
    from collections.abc import Callable

POWER_DOWN, POWER_ON, RESET = 0x00, 0x01, 0x07
DEFAULT_MEASUREMENT_TIME, MINIMUM_MEASUREMENT_TIME, MAXIMUM_MEASUREMENT_TIME = 69, 31, 254
_ONE_TIME = 0x20
_HIGH_BITS, _LOW_BITS = 0b01000, 0b011
_FULL_COUNT = 0xFFFF


@dataclass(frozen=True)
class _Mode:
    counts_per_lux: float
    conversion_s: float  # typical, at the default measurement time


_HIGH = _Mode(1.2, 0.120)
_HIGH_2 = _Mode(2.4, 0.120)
_LOW = _Mode(1.2, 0.016)
_MODES = {0x10: _HIGH, 0x11: _HIGH_2, 0x13: _LOW, 0x20: _HIGH, 0x21: _HIGH_2, 0x23: _LOW}


class SimulatedBh1750(I2CSensor):
    """A BH1750 in light of `illuminance()` lux, on the time of `monotonic`.

    `gain` is the error of this part (0.96 to 1.44 times 1.2 counts per lux). Noise is 0.2 percent; counts are
    rounded down.
    """

    name = "bh1750"
    senses = "illuminance_lux"
    measurement = Measurement(
        2,
        _FULL_COUNT,
        lambda answer: int.from_bytes(answer, "big"),
        lambda _, counts: round(counts).to_bytes(2, "big"),
    )

    def __init__(
        self,
        illuminance: Callable[[], float],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        gain: float = 1.0,
    ) -> None:
        self._gain = gain
        super().__init__(illuminance, monotonic, seed=seed)

    def power_cycle(self) -> None:
        """Lose and regain power: powered down, register 0, default measurement time."""
        self.powered = False
        self.measurement_time = DEFAULT_MEASUREMENT_TIME
        self._register = 0
        self._command: int | None = None
        self._done_at = 0.0

    def on_write(self, data: bytes) -> None:
        """One opcode per write."""
        self._convert_if_done()
        if len(data) != 1:
            raise NoAcknowledgeError
        opcode = data[0]
        if opcode in _MODES:
            self._begin(opcode)
        elif opcode >> 3 == _HIGH_BITS:
            self._set_measurement_time((opcode & 0b111) << 5 | self.measurement_time & 0b11111)
        elif opcode >> 5 == _LOW_BITS:
            self._set_measurement_time(self.measurement_time & 0b11100000 | opcode & 0b11111)
        else:
            self._control(opcode)

    def on_read(self, length: int) -> bytes:
        """The data register: the last finished conversion."""
        self._convert_if_done()
        return self._register.to_bytes(2, "big")[:length]

    def _control(self, opcode: int) -> None:
        if opcode == POWER_DOWN:
            self.powered, self._command = False, None
        elif opcode == POWER_ON:
            self.powered = True
        elif opcode == RESET and self.powered:  # "Reset command is not acceptable in power down mode"
            self._register = 0

    def _begin(self, opcode: int) -> None:
        self.powered = True
        self._command = opcode
        self._done_at = self._monotonic() + self._conversion_s(opcode)

    def _set_measurement_time(self, value: int) -> None:
        self.measurement_time = value  # between the two halves it may be out of range

    def _conversion_s(self, opcode: int) -> float:
        return _MODES[opcode].conversion_s * self.measurement_time / DEFAULT_MEASUREMENT_TIME

    def _convert_if_done(self) -> None:
        if self._command is None or self._monotonic() < self._done_at:
            return
        command = self._command
        self._register = self._converted(command)
        if command & 0xF0 == _ONE_TIME:
            self.powered, self._command = False, None
        else:
            self._done_at = self._monotonic() + self._conversion_s(command)

    def _converted(self, command: int) -> int:
        bounded = min(max(self.measurement_time, MINIMUM_MEASUREMENT_TIME), MAXIMUM_MEASUREMENT_TIME)
        counts_per_lux = _MODES[command].counts_per_lux * bounded / DEFAULT_MEASUREMENT_TIME
        noise = 1.0 + self._noise.gauss(0.0, 0.002)
        return min(int(self._truth() * self._gain * counts_per_lux * noise), _FULL_COUNT)
