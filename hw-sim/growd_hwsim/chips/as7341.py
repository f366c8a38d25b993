"""A simulated ams AS7341. Source: AS7341 datasheet (ams, DS000504, v3-00).

Its colours are Gaussian curves with the centres, widths and relative responsivities of the datasheet, scaled
to the typical counts in the light of a warm white LED.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from growd_hwsim.chip import Measurement
from growd_hwsim.sensors import I2CSensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENABLE, ATIME, ID, ASTATUS, STATUS_2, GAIN, SMUX_COMMAND, ASTEP = (
    *(0x80, 0x81, 0x92, 0x94, 0xA3, 0xAA, 0xAF, 0xCA),
)
DEVICE_ID = 0x24
POWER_ON, MEASURE, SMUX = 0x01, 0x02, 0x10  # in ENABLE
VALID, SATURATED = 0x40, 0x10  # in STATUS_2
_WRITE_SMUX = 0x10  # in SMUX_COMMAND: from RAM to the switch
_STEP_S = 2.78e-6
_SMUX_S = 0.0003

_PIXELS = (  # of the switch: the photodiode of the lower and of the upper half of each byte of its RAM
    *(("", "F3"), ("F1", ""), ("", ""), ("", "F8"), ("F6", ""), ("F2", "F4"), ("", "F5"), ("F7", "")),
    *(("", "clear"), ("", "F5"), ("F7", ""), ("", ""), ("", "F2"), ("F4", ""), ("F8", "F6"), ("", "F3")),
    *(("F1", ""), ("", "clear"), ("", "dark"), ("nir", "")),
)
_HALVES = 2.0  # each colour has two photodiodes
_COLOURS = {  # centre and width in nm; counts per ms at gain 1 in 1 W/m2 of the centre's wavelength
    "F1": (415, 26, 0.477),
    "F2": (445, 30, 0.922),
    "F3": (480, 36, 1.191),
    "F4": (515, 39, 1.553),
    "F5": (555, 39, 2.009),
    "F6": (590, 40, 2.534),
    "F7": (630, 50, 2.531),
    "F8": (680, 52, 3.186),
    "clear": (550, 260, 1.0),
}
SOURCES = {  # centre and width in nm of the bands of each light, with their shares of its photons
    "white": ((450, 22, 0.16), (585, 125, 0.84)),
    "red": ((660, 20, 1.0),),
    "blue": ((450, 20, 1.0),),
    "daylight": ((550, 400, 1.0),),
}
_RANGE_NM, _PAR_NM = range(380, 781, 2), (400, 700)
_J_NM_PER_UMOL = 119.6


class SimulatedAs7341(I2CSensor):
    """An AS7341 in light of `photons()`, PPFD in umol/m2/s by its source, on the time of `monotonic`.

    `gain` is the error of this part. Noise is 0.2 percent; counts are rounded down. Flicker, LED and
    interrupts are not simulated.
    """

    name = "as7341"
    senses = "photons_by_source"
    measurement = Measurement(  # ASTATUS and six channels, of which the first counts
        13,
        0xFFFF,
        lambda answer: int.from_bytes(answer[1:3], "little"),
        lambda answer, counts: answer[:1] + round(counts).to_bytes(2, "little") + answer[3:],
    )

    def __init__(
        self,
        photons: Callable[[], Mapping[str, float]],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        gain: float = 1.0,
    ) -> None:
        self._gain = gain
        self.device_id = DEVICE_ID
        super().__init__(photons, monotonic, seed=seed)

    def power_cycle(self) -> None:
        """Lose and regain power: powered down, all registers at their defaults."""
        self.registers = bytearray(0x100)
        self.registers[ID] = self.device_id
        self.registers[ASTEP : ASTEP + 2] = (999).to_bytes(2, "little")
        self.registers[GAIN] = 9
        self._wired: bytes = bytes(len(_PIXELS))
        self._register = 0
        self._done_at = self._switched_at = math.inf

    def on_write(self, data: bytes) -> None:
        """The number of a register, then bytes for the registers from it on."""
        self._go_on()
        self._register = data[0]
        for offset, value in enumerate(data[1:]):
            self._set((data[0] + offset) & 0xFF, value)

    def on_read(self, length: int) -> bytes:
        """Registers from the one that was named."""
        self._go_on()
        answer = bytes(self.registers[(self._register + each) & 0xFF] for each in range(length))
        self._register = (self._register + length) & 0xFF
        return answer

    def _set(self, number: int, value: int) -> None:
        before, self.registers[number] = self.registers[number], value
        if number != ENABLE:
            return
        if value & POWER_ON and value & SMUX and self._switched_at == math.inf:
            self._switched_at = self._monotonic() + _SMUX_S
        is_measuring = value & POWER_ON and value & MEASURE
        if not is_measuring:
            self._done_at = math.inf
            self.registers[STATUS_2] = 0
        elif before & (POWER_ON | MEASURE) != POWER_ON | MEASURE:
            self._done_at = self._monotonic() + self._integration_s()

    def _go_on(self) -> None:
        now = self._monotonic()
        if now >= self._switched_at:
            self._switched_at = math.inf
            self.registers[ENABLE] &= ~SMUX
            if self.registers[SMUX_COMMAND] & _WRITE_SMUX:
                self._wired = bytes(self.registers[: len(_PIXELS)])
        if now >= self._done_at:
            self._convert()
            self._done_at = now + self._integration_s()

    def _steps(self) -> int:
        return (self.registers[ATIME] + 1) * (int.from_bytes(self.registers[ASTEP : ASTEP + 2], "little") + 1)

    def _integration_s(self) -> float:
        return self._steps() * _STEP_S

    def _convert(self) -> None:
        full = min(self._steps(), 0xFFFF)
        noise = self._gain * (1.0 + self._noise.gauss(0.0, 0.002))
        scale = noise * 2.0 ** (self.registers[GAIN] - 1) * self._integration_s() * 1000.0
        rates = self._rates()
        channels = [0.0] * 6
        for byte, pixels in zip(self._wired, _PIXELS, strict=True):
            for converter, pixel in zip((byte & 0x0F, byte >> 4), pixels, strict=True):
                if pixel and converter:
                    channels[converter - 1] += rates.get(pixel, 0.0) / _HALVES
        counts = [min(int(rate * scale), full) for rate in channels]
        data = b"".join(count.to_bytes(2, "little") for count in counts)
        self.registers[ASTATUS + 1 : ASTATUS + 1 + len(data)] = data
        self.registers[STATUS_2] = VALID | (SATURATED if max(counts) >= full else 0)

    def _rates(self) -> dict[str, float]:
        """Counts per ms at gain 1 of each colour."""
        light = [(ppfd, counts_per_umol(source)) for source, ppfd in self._truth().items() if ppfd > 0]
        return {colour: sum(ppfd * each[colour] for ppfd, each in light) for colour in _COLOURS}


@functools.cache
def counts_per_umol(source: str) -> dict[str, float]:
    """Counts per ms at gain 1 of each colour in 1 umol/m2/s of that light."""
    photons = {
        nm: sum(share * _band(nm, centre, width) / width for centre, width, share in SOURCES[source])
        for nm in _RANGE_NM
    }
    active = sum(each for nm, each in photons.items() if _PAR_NM[0] <= nm <= _PAR_NM[1])
    watts = {nm: each / active * _J_NM_PER_UMOL / nm for nm, each in photons.items()}
    return {
        colour: sum(watts[nm] * _band(nm, centre, width) for nm in _RANGE_NM) * responsivity
        for colour, (centre, width, responsivity) in _COLOURS.items()
    }


def _band(nm: float, centre: float, width: float) -> float:
    """A Gaussian curve of height 1, `width` wide at half of it."""
    return math.exp(-4.0 * math.log(2.0) * ((nm - centre) / width) ** 2)
