"""TI ADS1115: voltages of four inputs, scaled to what a sensor there measures.

Source: ADS1115 datasheet (SBAS444E). Each reading is one conversion of one input, so several sensors of one
chip need nothing in common but the thread of their bus. Adafruit's library is not used: it waits for a
conversion without a time limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd_drivers.errors import OutOfRangeError, SettingError, TransferError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x48
"""With ADDR at GND; 0x49, 0x4A and 0x4B with it at VDD, SDA and SCL (table 7-2)."""

CHANNELS: Final = {"0-1": 0, "0-3": 1, "1-3": 2, "2-3": 3, "0": 4, "1": 5, "2": 6, "3": 7}
"""MUX of each input, alone or as a difference of two (table 8-3)."""

RANGES_MV: Final = {256: 5, 512: 4, 1024: 3, 2048: 2, 4096: 1, 6144: 0}
"""PGA of each range in mV. An input must stay below the supply voltage, also in a wider range."""

MARGIN = 0.05
"""Share of the span between the points within which a value beyond them counts as the nearest point."""

_CONVERSION, _CONFIG = 0, 1  # registers
_START, _SINGLE_SHOT, _COMPARATOR_OFF = 0x8000, 0x0100, 0x0003
_RATE_128 = 4 << 5
_CONVERSION_S = 0.009  # 1/128 s and 10 %, and 25 us to wake up
_POLL_S = 0.002
_MOST_POLLS = 5
_FULL_COUNT = 0x7FFF


@dataclass(frozen=True)
class Ads1115Sample:
    """The scaled value."""

    value: float


class Ads1115:
    """One input of an ADS1115. `points` are two pairs of volts and value, with a straight line between.

    A value a little beyond the points is the nearest one; further beyond, a wire is broken or the points are
    wrong. The chip measures in the smallest range with both points. The constructor does not talk to the
    chip. It raises `SettingError` for an invalid setting.
    """

    def __init__(
        self,
        bus: I2CBus,
        *,
        sleep: Callable[[float], None],
        address: int = ADDRESS,
        channel: str = "0",
        points: Sequence[Sequence[float]] = ((0.0, 0.0), (1.0, 1.0)),
    ) -> None:
        if channel not in CHANNELS:
            raise SettingError(f"ADS1115: channel must be one of {', '.join(CHANNELS)}", device="ADS1115")
        (self._volts, self._first), (volts, last) = points
        if volts == self._volts:
            raise SettingError(f"ADS1115: both points have {volts:g} V", device="ADS1115")
        widest_mv = 1000 * (max(abs(volts), abs(self._volts)) + MARGIN * abs(volts - self._volts))
        range_mv = next((each for each in RANGES_MV if each >= widest_mv), max(RANGES_MV))
        bus.label(address, "ADS1115")
        self._slope = (last - self._first) / (volts - self._volts)
        self._ends = sorted((self._first, last))
        self._bus = bus
        self._address = address
        self._sleep = sleep
        self._channel = channel
        self._full_scale_v = range_mv / 1000
        mux, gain = CHANNELS[channel] << 12, RANGES_MV[range_mv] << 9
        self._config = _START | mux | gain | _SINGLE_SHOT | _RATE_128 | _COMPARATOR_OFF

    def read(self) -> Ads1115Sample:
        """Measure now. Blocks 9 ms.

        Raises `OutOfRangeError` if the input is saturated or far beyond the points, `DeviceMissingError` or
        `TransferError` for a failed transfer, and if the chip does not convert this input.
        """
        self._bus.writeto(self._address, bytes([_CONFIG, *self._config.to_bytes(2, "big")]))
        self._sleep(_CONVERSION_S)
        self._wait()
        count = int.from_bytes(self._register(_CONVERSION), "big", signed=True)
        volts = count / (_FULL_COUNT + 1) * self._full_scale_v
        if not -_FULL_COUNT <= count < _FULL_COUNT:
            raise self._out_of_range(volts, f"is saturated at {volts:.3f} V")
        value = self._first + self._slope * (volts - self._volts)
        return Ads1115Sample(self._within(value, volts))

    def _wait(self) -> None:
        """Until the conversion of this input is complete."""
        for _ in range(_MOST_POLLS):
            config = int.from_bytes(self._register(_CONFIG), "big")
            if config == self._config:
                return
            self._sleep(_POLL_S)
        sentence = f"{self._name} did not convert: another program uses the chip, or it lost its power"
        raise TransferError(sentence, device="ADS1115", address=self._address, errno=None)

    def _within(self, value: float, volts: float) -> float:
        least, most = self._ends
        margin = MARGIN * (most - least)
        if not least - margin <= value <= most + margin:
            reason = f"is at {volts:.3f} V, which is {value:.4g}, beyond its points: is a wire broken?"
            raise self._out_of_range(value, reason)
        return min(max(value, least), most)

    def _register(self, register: int) -> bytearray:
        answer = bytearray(2)
        self._bus.writeto_then_readfrom(self._address, bytes([register]), answer)
        return answer

    @property
    def _name(self) -> str:
        return f"input {self._channel} of {self._bus.name_of(self._address)}"

    def _out_of_range(self, value: float, reason: str) -> OutOfRangeError:
        least, most = self._ends
        return OutOfRangeError(
            f"{self._name} {reason}", device="ADS1115", value=value, minimum=least, maximum=most
        )
