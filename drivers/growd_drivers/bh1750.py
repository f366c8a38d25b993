"""ROHM BH1750FVI: illuminance. Source: BH1750FVI technical note (ROHM 11046EDT01)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_drivers.errors import OutOfRangeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x23
"""With the ADDR pin low; 0x5C with it high."""

_POWER_ON = 0x01
_ONE_TIME_HIGH_RESOLUTION = 0x20
_ONE_TIME_HIGH_RESOLUTION_2 = 0x21
_MEASUREMENT_TIME_HIGH_BITS = 0x40  # 01000_MT[7,6,5]
_MEASUREMENT_TIME_LOW_BITS = 0x60  # 011_MT[4..0]
_DEFAULT_MEASUREMENT_TIME = 69
_LONGEST_CONVERSION_S = 0.180  # "H-resolution mode: max. 180 ms", at the default measurement time
_COUNTS_PER_LUX = 1.2
_FULL_COUNT = 0xFFFF


@dataclass(frozen=True)
class Bh1750Sample:
    """Illuminance in lux."""

    illuminance_lux: float


@dataclass(frozen=True)
class _Range:
    """A measurement time register value (31..254) with one of the two high resolution modes."""

    command: int
    measurement_time: int

    @property
    def lux_per_count(self) -> float:
        halves = 2 if self.command == _ONE_TIME_HIGH_RESOLUTION_2 else 1
        return _DEFAULT_MEASUREMENT_TIME / self.measurement_time / _COUNTS_PER_LUX / halves

    @property
    def full_scale_lux(self) -> float:
        return _FULL_COUNT * self.lux_per_count

    @property
    def conversion_s(self) -> float:
        return _LONGEST_CONVERSION_S * self.measurement_time / _DEFAULT_MEASUREMENT_TIME


_RANGES = (  # from the finest to the widest
    _Range(_ONE_TIME_HIGH_RESOLUTION_2, 254),  # 0.11 lx steps up to 7 417 lx, 663 ms
    _Range(_ONE_TIME_HIGH_RESOLUTION, 69),  # 0.83 lx steps up to 54 612 lx, 180 ms
    _Range(_ONE_TIME_HIGH_RESOLUTION, 31),  # 1.9 lx steps up to 121 556 lx, 81 ms
)
_FINER_BELOW = 0.5
"""Share of the finer range's full scale: hysteresis between the ranges."""

MAXIMUM_LUX = _RANGES[-1].full_scale_lux


class Bh1750:
    """A BH1750 with automatic measurement time: 0.11 lx to 121 556 lx.

    Every reading is a "one time" measurement that sends all settings again, since a chip that lost power
    would answer 0 lx. A chip that hangs with constant counts looks like one in steady light. The constructor
    does not talk to the chip.
    """

    def __init__(self, bus: I2CBus, *, sleep: Callable[[float], None], address: int = ADDRESS) -> None:
        bus.label(address, "BH1750")
        self._bus = bus
        self._address = address
        self._sleep = sleep
        self._range = len(_RANGES) - 1

    def read(self) -> Bh1750Sample:
        """Measure now. Blocks 0.08 s in full light, 0.7 s in the dark, 1 s after a large change of the light.

        Raises `OutOfRangeError` if the widest range is saturated, `DeviceMissingError` or `TransferError` for
        a failed transfer.
        """
        lux = self._measure_unsaturated()
        while self._range > 0 and lux < _FINER_BELOW * _RANGES[self._range - 1].full_scale_lux:
            self._range -= 1
            finer = self._measure()
            if finer is None:  # the light increased meanwhile
                self._range += 1
                break
            lux = finer
        return Bh1750Sample(lux)

    def _measure_unsaturated(self) -> float:
        while (lux := self._measure()) is None:
            if self._range == len(_RANGES) - 1:
                raise OutOfRangeError(
                    f"{self._bus.name_of(self._address)} is saturated: more than {MAXIMUM_LUX:.0f} lux",
                    device="BH1750",
                    value=MAXIMUM_LUX,
                    minimum=0.0,
                    maximum=MAXIMUM_LUX,
                )
            self._range += 1
        return lux

    def _measure(self) -> float | None:
        """Illuminance in the present range, None if it is saturated."""
        chosen = _RANGES[self._range]
        self._send(_POWER_ON)
        self._send(_MEASUREMENT_TIME_HIGH_BITS | chosen.measurement_time >> 5)
        self._send(_MEASUREMENT_TIME_LOW_BITS | chosen.measurement_time & 0x1F)
        self._send(chosen.command)
        self._sleep(chosen.conversion_s)
        answer = bytearray(2)
        self._bus.readfrom_into(self._address, answer)
        count = int.from_bytes(answer, "big")
        return None if count == _FULL_COUNT else count * chosen.lux_per_count

    def _send(self, command: int) -> None:
        self._bus.writeto(self._address, bytes([command]))
