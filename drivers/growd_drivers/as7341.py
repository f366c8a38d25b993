"""ams AS7341: PPFD from eight colours of light, over Adafruit's driver.

Sources: AS7341 datasheet (ams, DS000504, v3-00) for gains, times, saturation, and for each colour its centre,
its width, its relative responsivity, and its typical count in the light of a warm white LED of 107.67 uW/cm2
at a gain of 64 in 27.8 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from growd_drivers.adafruit import AdafruitChip, check_setting, private_copy
from growd_drivers.errors import DriverError, NotReadyError, OutOfRangeError, WrongDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x39
"""Its only address, which some other light sensors have too."""

MINIMUM_FACTOR, MAXIMUM_FACTOR = 0.01, 100.0

_ID, _CHIP_ID = 0x92, 0x24
_STATUS_2, _SATURATED = 0xA3, 0x08  # ASAT_ANALOG; a full count shows the digital saturation of a colour
_ATIME, _ASTEP = 29, 599  # the recommended integration time
_TIME_MS = (_ATIME + 1) * (_ASTEP + 1) * 2.78 / 1000
_FULL_COUNT = (_ATIME + 1) * (_ASTEP + 1)
_PATIENCE_S = 3.0  # two waits of 1 s, and what else Adafruit's driver sleeps

_COLOURS = (  # F1 to F8: centre in nm, width in nm (half of its height), relative responsivity
    (415, 26, 0.161),
    (445, 30, 0.311),
    (480, 36, 0.402),
    (515, 39, 0.524),
    (555, 39, 0.678),
    (590, 40, 0.855),
    (630, 50, 0.854),
    (680, 52, 1.075),
)
_EDGES_NM = (400.0, 430.0, 462.5, 497.5, 535.0, 572.5, 610.0, 655.0, 700.0)
"""Between the centres, and at the ends of photosynthetically active radiation."""
_GAUSSIAN: Final = 1.064  # the area of a Gaussian curve, per height and width
_UMOL_PER_J_NM: Final = 1 / 119.6  # photons of 1 nm wavelength
_TYPICAL_COUNTS = (55, 110, 210, 390, 590, 840, 1350, 1070)
_TYPICAL_W_M2, _TYPICAL_GAIN_MS = 1.0767, 64 * 27.8


@dataclass(frozen=True)
class _Gain:
    bits: int
    factor: float

    @property
    def counts_per_rate(self) -> float:
        return self.factor * _TIME_MS


_GAINS = (  # from the finest to the widest; PPFD of white light
    _Gain(8, 128.0),  # up to 20 umol/m2/s
    _Gain(4, 8.0),  # up to 320
    _Gain(0, 0.5),  # up to 5000
)
_WIDEST = len(_GAINS) - 1
_FINER_BELOW = 0.5
"""Share of the finer range's full count: hysteresis between the ranges."""


def _irradiance_shares() -> tuple[float, ...]:
    """The irradiance in the band of each colour, per rate, up to a common factor."""
    bands = pairwise(_EDGES_NM)
    return tuple(
        (to - begin) / (responsivity * width * _GAUSSIAN)
        for (begin, to), (_, width, responsivity) in zip(bands, _COLOURS, strict=True)
    )


def _ppfd_per_rate() -> tuple[float, ...]:
    """PPFD in umol/m2/s per count in 1 ms at gain 1, for each colour."""
    shares = _irradiance_shares()
    typical = sum(
        share * count / _TYPICAL_GAIN_MS for share, count in zip(shares, _TYPICAL_COUNTS, strict=True)
    )
    w_m2 = _TYPICAL_W_M2 / typical
    return tuple(
        w_m2 * share * centre * _UMOL_PER_J_NM for share, (centre, _, _) in zip(shares, _COLOURS, strict=True)
    )


PPFD_PER_RATE: Final = _ppfd_per_rate()


@dataclass(frozen=True)
class As7341Sample:
    """PPFD in umol/m2/s."""

    ppfd_umol_m2_s: float


class As7341:
    """An AS7341 with automatic gain: PPFD up to some 5000 umol/m2/s in white light, 1800 in red light.

    The parts differ by some 25 %, and their covers more, so `ppfd_factor` is the PPFD of a quantum sensor
    beside it, divided by its own. Each reading waits for a measurement of its own. A chip that hangs with
    constant counts looks like one in steady light. The constructor does not talk to the chip.
    """

    def __init__(
        self,
        bus: I2CBus,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        address: int = ADDRESS,
        ppfd_factor: float = 1.0,
    ) -> None:
        check_setting("AS7341", "ppfd_factor", ppfd_factor, MINIMUM_FACTOR, MAXIMUM_FACTOR)
        self._bus = bus
        self._address = address
        self._factor = ppfd_factor
        self._sleep = sleep
        self._slept_s = 0.0
        self._chip = AdafruitChip(
            bus,
            address,
            "AS7341",
            load=partial(private_copy, "adafruit_as7341", sleep=self._wait, monotonic=monotonic),
            open_chip=self._set_up,
        )
        self._range = _WIDEST

    def read(self) -> As7341Sample:
        """Measure now. Blocks for 0.15 s, 0.45 s after a large change of the light.

        Raises `OutOfRangeError` if the widest range is saturated, `WrongDeviceError` if another chip answers,
        `NotReadyError` if it does not finish, as after a loss of power, `DeviceMissingError` or
        `TransferError` for a failed transfer.
        """
        self._slept_s = 0.0
        with self._chip.used() as chip:
            rates = self._measure(chip, self._range)
            if rates is None:
                self._range = _WIDEST
                rates = self._measure_widest(chip)
            finest = _finest_for(rates)
            if finest < self._range:
                finer = self._measure(chip, finest)
                if finer is not None:  # else the light increased meanwhile
                    self._range, rates = finest, finer
        weighted = (weight * rate for weight, rate in zip(PPFD_PER_RATE, rates, strict=True))
        return As7341Sample(self._factor * sum(weighted))

    def _set_up(self, adafruit: Any) -> Any:
        found = self._register(_ID) & 0xFC
        if found != _CHIP_ID:
            sentence = (
                f"{self._bus.name_of(self._address)} is another chip: it has the device id {found:#04x}, "
                f"an AS7341 {_CHIP_ID:#04x}"
            )
            raise WrongDeviceError(sentence, device="AS7341", found=found, expected=_CHIP_ID)
        chip = adafruit.AS7341(self._bus, self._address)
        chip.atime, chip.astep = _ATIME, _ASTEP
        return chip

    def _measure_widest(self, chip: Any) -> list[float]:
        rates = self._measure(chip, _WIDEST)
        if rates is None:
            most = 5_000.0 * self._factor
            raise OutOfRangeError(
                f"{self._bus.name_of(self._address)} is saturated: it measures up to some {most:.0f} "
                "umol/m2/s, and less in light of one colour; cover it with a diffuser",
                device="AS7341",
                value=most,
                minimum=0.0,
                maximum=most,
            )
        return rates

    def _measure(self, chip: Any, index: int) -> list[float] | None:
        """Counts per ms at gain 1 of the eight colours, None if one of them is saturated."""
        chosen = _GAINS[index]
        try:
            chip.gain = chosen.bits
            counts = chip.all_channels
        except RuntimeError as error:
            if isinstance(error, DriverError):
                raise
            raise self._unfinished() from error
        if max(counts) >= _FULL_COUNT or self._register(_STATUS_2) & _SATURATED:
            return None
        return [count / chosen.counts_per_rate for count in counts]

    def _register(self, number: int) -> int:
        answer = bytearray(1)
        self._bus.writeto_then_readfrom(self._address, bytes([number]), answer)
        return answer[0]

    def _wait(self, seconds: float) -> None:
        """Sleep for Adafruit's driver, which would wait for some flags without a limit."""
        self._slept_s += seconds
        if self._slept_s > _PATIENCE_S:
            raise self._unfinished()
        self._sleep(seconds)

    def _unfinished(self) -> NotReadyError:
        self._chip.forget()
        return self._chip.not_ready("has no finished measurement: did it lose power? It is set up again")


def _finest_for(rates: list[float]) -> int:
    """The finest range with room for more than this light."""
    for index, chosen in enumerate(_GAINS):
        if max(rates) * chosen.counts_per_rate < _FINER_BELOW * _FULL_COUNT:
            return index
    return _WIDEST
