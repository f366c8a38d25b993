"""A simulated TI ADS1115. Source: ADS1115 datasheet (SBAS444E)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd_hwsim.chip import Measurement
from growd_hwsim.i2c import NoAcknowledgeError
from growd_hwsim.sensors import I2CSensor

if TYPE_CHECKING:
    from collections.abc import Callable

CONVERSION, CONFIG, LOW, HIGH = range(4)  # registers
POWER_ON = (0x0000, 0x8583, 0x8000, 0x7FFF)  # table 8-1 to 8-4
_READY, _SINGLE_SHOT = 0x8000, 0x0100
_PAIRS: Final = ((0, 1), (0, 3), (1, 3), (2, 3))
_RANGES_V: Final = (6.144, 4.096, 2.048, 1.024, 0.512, 0.256, 0.256, 0.256)
_RATES_HZ: Final = (8, 16, 32, 64, 128, 250, 475, 860)
_FULL_COUNT: Final = 0x7FFF


def _with_counts(answer: bytes, counts: float) -> bytes:
    """Another conversion. The configuration, whose highest bit is set when it is read, stays."""
    return answer if answer[0] & 0x80 else round(counts).to_bytes(2, "big")


class SimulatedAds1115(I2CSensor):
    """An ADS1115 whose inputs are connected by `connect`. A free input is at 0 V.

    Noise is one count, and conversions are rounded. Only single-shot conversions are simulated, which is all
    that the driver uses.
    """

    name = "ads1115"
    measurement = Measurement(
        2, _FULL_COUNT, lambda answer: int.from_bytes(answer, "big", signed=True), _with_counts
    )

    def __init__(self, truth: Callable[[], object], monotonic: Callable[[], float], *, seed: int = 0) -> None:
        super().__init__(truth, monotonic, seed=seed)
        self._inputs: dict[int, Callable[[], float]] = {}

    def connect(self, channel: str, volts: Callable[[], float]) -> None:
        """Apply a voltage to an input such as "0", or between two such as "0-1"."""
        first, _, second = channel.partition("-")
        self._inputs[int(first)] = volts
        if second:
            self._inputs.setdefault(int(second), lambda: 0.0)

    def power_cycle(self) -> None:
        """Lose and regain power."""
        self.registers = list(POWER_ON)
        self._pointer = 0
        self._done_at: float | None = None

    def on_write(self, data: bytes) -> None:
        """The pointer, and then two bytes for the register."""
        if data[0] > HIGH or len(data) not in (1, 3):
            raise NoAcknowledgeError
        self._pointer = data[0]
        if len(data) > 1 and self._pointer != CONVERSION:
            self._set(int.from_bytes(data[1:], "big"))

    def on_read(self, length: int) -> bytes:
        """The register of the pointer."""
        self._convert_if_done()
        value = self.registers[self._pointer]
        if self._pointer == CONFIG:
            value = value & ~_READY | (_READY if self._done_at is None else 0)
        return value.to_bytes(2, "big")[:length]

    def _set(self, value: int) -> None:
        self.registers[self._pointer] = value
        if self._pointer == CONFIG and value & _READY and value & _SINGLE_SHOT:
            self._done_at = self._monotonic() + 1 / _RATES_HZ[value >> 5 & 0b111]

    def _convert_if_done(self) -> None:
        if self._done_at is None or self._monotonic() < self._done_at:
            return
        self._done_at = None
        config = self.registers[CONFIG]
        mux, full_v = config >> 12 & 0b111, _RANGES_V[config >> 9 & 0b111]
        volts = self._volts(mux & 0b11) if mux & 0b100 else self._difference(mux)
        counts = round(volts / full_v * (_FULL_COUNT + 1) + self._noise.gauss(0.0, 0.5))
        self.registers[CONVERSION] = min(max(counts, -_FULL_COUNT - 1), _FULL_COUNT) & 0xFFFF

    def _difference(self, mux: int) -> float:
        first, second = _PAIRS[mux]
        return self._volts(first) - self._volts(second)

    def _volts(self, channel: int) -> float:
        return self._inputs[channel]() if channel in self._inputs else 0.0
