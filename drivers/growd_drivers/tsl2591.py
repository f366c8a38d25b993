"""ams TSL2591: illuminance from two photodiodes, one for all light and one for infrared.

Sources: TSL2591 datasheet (ams, v2-04) for registers, gains and times; for lux the published coefficients of
Adafruit's TSL2591 libraries (constants LUX_DF, LUX_COEFB, LUX_COEFC, LUX_COEFD).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_drivers.errors import NotReadyError, OutOfRangeError, WrongDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x29
"""Its only address, which some time-of-flight and colour sensors have too."""

_COMMAND = 0xA0  # "Command Register": a normal operation; the lower five bits are the register
_ENABLE, _CONTROL, _ID, _STATUS = 0x00, 0x01, 0x12, 0x13  # "Register Description"
_DEVICE_ID = 0x50
_OFF, _MEASURE = 0x00, 0x03  # ENABLE: nothing; PON and AEN
_VALID = 0x01  # STATUS: AVALID, a cycle is complete since AEN was set
_STEP_MS = 100
_LONGEST_STEP_S = 0.108  # "Operating Characteristics": an integration time step, at most
_FULL_COUNT_OF_ONE_STEP, _FULL_COUNT = 36_863, 0xFFFF  # the first in 100 ms

_LUX_PER_RATE = 408.0  # of Adafruit's: counts per ms at gain 1 into lux
_INFRARED_IN_VISIBLE = 1.64
_VISIBLE_OF_WARM, _INFRARED_OF_WARM = 0.59, 0.86  # for light that is rich in infrared


@dataclass(frozen=True)
class Tsl2591Sample:
    """Illuminance in lux."""

    illuminance_lux: float


@dataclass(frozen=True)
class _Range:
    """A gain (bits of CONTROL, each channel's typical factor) with a number of integration steps (1..6)."""

    gain_bits: int
    gains: tuple[float, float]
    steps: int

    @property
    def control(self) -> int:
        return self.gain_bits | self.steps - 1

    @property
    def full_count(self) -> int:
        return _FULL_COUNT_OF_ONE_STEP if self.steps == 1 else _FULL_COUNT

    def counts_per_rate(self, channel: int) -> float:
        return self.gains[channel] * self.steps * _STEP_MS


_RANGES = (  # from the finest to the widest; gains of "Operating Characteristics"; lux without infrared
    _Range(0x30, (9200.0, 9900.0), 6),  # 0.000 07 lx steps up to 4.8 lx, 648 ms
    _Range(0x20, (400.0, 400.0), 3),  # 0.0034 lx steps up to 223 lx, 324 ms
    _Range(0x10, (24.5, 24.5), 2),  # 0.083 lx steps up to 5 457 lx, 216 ms
    _Range(0x00, (1.0, 1.0), 1),  # 4.1 lx steps up to 150 401 lx, 108 ms
)
_WIDEST = len(_RANGES) - 1
_FINER_BELOW = 0.5
"""Share of the finer range's full count: hysteresis between the ranges."""

MAXIMUM_LUX = _FULL_COUNT_OF_ONE_STEP / _STEP_MS * _LUX_PER_RATE
"""Without infrared, which takes some of the range: 109 000 lx for a white LED with 17 % infrared."""


class Tsl2591:
    """A TSL2591 with automatic gain and integration time: from starlight to full sun.

    Every reading identifies the chip before it writes, and sends all settings again, since the chip may have
    lost power. A chip that hangs with constant counts looks like one in steady light. The constructor does
    not talk to the chip.
    """

    def __init__(self, bus: I2CBus, *, sleep: Callable[[float], None], address: int = ADDRESS) -> None:
        bus.label(address, "TSL2591")
        self._bus = bus
        self._address = address
        self._sleep = sleep
        self._range = _WIDEST

    def read(self) -> Tsl2591Sample:
        """Measure now. Blocks 0.1 s in full light, 0.7 s in the dark, 1.1 s after a large change.

        Raises `OutOfRangeError` if a channel is saturated in the widest range, `WrongDeviceError` if another
        chip answers, `NotReadyError` if the chip lost power while it measured, `DeviceMissingError` or
        `TransferError` for a failed transfer.
        """
        self._identify()
        rates = self._measure(self._range)
        if rates is None:
            self._range = _WIDEST
            rates = self._measure_widest()
        finest = _finest_for(rates)
        if finest < self._range:
            finer = self._measure(finest)
            if finer is not None:  # else the light increased meanwhile
                self._range, rates = finest, finer
        return Tsl2591Sample(_lux(*rates))

    def _identify(self) -> None:
        found = self._read(_ID, 1)[0]
        if found != _DEVICE_ID:
            sentence = (
                f"{self._bus.name_of(self._address)} is another chip: it has the device id {found:#04x}, "
                f"a TSL2591 {_DEVICE_ID:#04x}"
            )
            raise WrongDeviceError(sentence, device="TSL2591", found=found, expected=_DEVICE_ID)

    def _measure_widest(self) -> tuple[float, float]:
        rates = self._measure(_WIDEST)
        if rates is None:
            raise OutOfRangeError(
                f"{self._bus.name_of(self._address)} is saturated: it measures up to {MAXIMUM_LUX:.0f} lux, "
                "and less in light with infrared",
                device="TSL2591",
                value=MAXIMUM_LUX,
                minimum=0.0,
                maximum=MAXIMUM_LUX,
            )
        return rates

    def _measure(self, index: int) -> tuple[float, float] | None:
        """Counts per ms at gain 1 of both channels in that range, None if one of them is saturated."""
        chosen = _RANGES[index]
        self._write(_ENABLE, _OFF)  # clears AVALID too
        self._write(_CONTROL, chosen.control)
        self._write(_ENABLE, _MEASURE)
        self._sleep(chosen.steps * _LONGEST_STEP_S)
        status, *channels = self._read(_STATUS, 5)  # STATUS, and both channels of one cycle
        if not status & _VALID:
            raise NotReadyError(
                f"{self._bus.name_of(self._address)} has no finished measurement: did it lose power?",
                device="TSL2591",
            )
        self._write(_ENABLE, _OFF)
        counts = [int.from_bytes(channels[place : place + 2], "little") for place in (0, 2)]
        if max(counts) >= chosen.full_count:
            return None
        return counts[0] / chosen.counts_per_rate(0), counts[1] / chosen.counts_per_rate(1)

    def _read(self, register: int, length: int) -> bytes:
        answer = bytearray(length)
        self._bus.writeto_then_readfrom(self._address, bytes([_COMMAND | register]), answer)
        return bytes(answer)

    def _write(self, register: int, value: int) -> None:
        self._bus.writeto(self._address, bytes([_COMMAND | register, value]))


def _finest_for(rates: tuple[float, float]) -> int:
    """The finest range with room for more than this light."""
    for index, chosen in enumerate(_RANGES):
        highest = max(rate * chosen.counts_per_rate(channel) for channel, rate in enumerate(rates))
        if highest < _FINER_BELOW * chosen.full_count:
            return index
    return _WIDEST


def _lux(full: float, infrared: float) -> float:
    """Lux from the rates of both channels. Nearly pure infrared would be below 0, and counts as dark."""
    visible = full - _INFRARED_IN_VISIBLE * infrared
    warm = _VISIBLE_OF_WARM * full - _INFRARED_OF_WARM * infrared
    return _LUX_PER_RATE * max(visible, warm, 0.0)
