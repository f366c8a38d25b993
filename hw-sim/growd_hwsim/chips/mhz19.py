"""A simulated Winsen MH-Z19B or MH-Z16. Source: "MH-Z19B CO2 Module User's Manual" 1.0."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_hwsim.chip import Measurement
from growd_hwsim.uart import UartSlave

if TYPE_CHECKING:
    from collections.abc import Callable

FRAME_LENGTH = 9
READ, ZERO, SPAN, SELF_CALIBRATION, RANGE = 0x86, 0x87, 0x88, 0x79, 0x99
ZERO_POINT_PPM = 400.0
WARM_UP_S = 180.0
FIRST_WARM_UP_PPM, WARM_UP_PPM = 388, 555
"""Observed answers of an MH-Z19B in the first seconds after power-on, and in the rest of its warm-up."""

_FIRST_WARM_UP_S = 10.0
_HEAD = b"\xff\x01"


def checksum(frame: bytes) -> int:
    """Of the bytes 1 to 7: their sum, inverted, plus 1."""
    return (0xFF - sum(frame[1:8]) % 0x100 + 1) & 0xFF


def reading(ppm: int) -> bytes:
    """The answer to READ."""
    frame = bytes([0xFF, READ, ppm >> 8, ppm & 0xFF, 0, 0, 0, 0])
    return frame + bytes([checksum(frame)])


@dataclass
class Mhz19Memory:
    """Non-volatile settings; `self_calibration` is on by default."""

    range_ppm: int = 2000
    self_calibration: bool = True
    offset_ppm: float = 0.0
    gain: float = 1.0


class SimulatedMhz19(UartSlave):
    """An MH-Z19B in air of `carbon_dioxide()` ppm, on the time of `monotonic`, switched on now.

    `error_ppm` is the error of this part before calibration (manual: 50 ppm + 5 %). Noise is Gaussian, within
    6 ppm. The automatic baseline has no effect on the reading.
    """

    name = "mhz19"
    senses = "carbon_dioxide_ppm"
    measurement = Measurement(  # in the widest range of the family
        FRAME_LENGTH,
        10_000,
        lambda frame: int.from_bytes(frame[2:4], "big"),
        lambda _, ppm: reading(round(ppm)),
        "ppm",
    )
    delivered_range_ppm = 2000
    warm_up_answer = reading(WARM_UP_PPM)
    restart_answer = reading(450)  # seen in parts that no list of constants knew

    def __init__(
        self,
        carbon_dioxide: Callable[[], float],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        error_ppm: float = 0.0,
        memory: Mhz19Memory | None = None,
    ) -> None:
        super().__init__()
        self.memory = memory or Mhz19Memory(range_ppm=self.delivered_range_ppm)
        self._carbon_dioxide = carbon_dioxide
        self._monotonic = monotonic
        self._noise = random.Random(f"{self.name} {seed}")  # noqa: S311  noise, not secrets
        self._error_ppm = error_ppm
        self.power_cycle()

    def power_cycle(self) -> None:
        """Lose and regain power: the memory stays, the warm-up starts again."""
        self._on_since = self._monotonic()

    def split(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Commands are 9 bytes from FF 01 to a right checksum; other bytes are ignored."""
        commands = []
        while len(data) >= FRAME_LENGTH or not _HEAD.startswith(data[:2]):
            frame = data[:FRAME_LENGTH]
            if frame[:2] == _HEAD and frame[8] == checksum(frame):
                commands.append(frame)
                data = data[FRAME_LENGTH:]
            else:
                data = data[1:]
        return commands, data

    def answer(self, command: bytes) -> bytes:
        """Only READ has an answer ("No return value" for the others)."""
        number, value = command[2], int.from_bytes(command[3:5], "big")
        if number == READ:
            return reading(self._ppm())
        if number == ZERO:
            self.memory.offset_ppm += (ZERO_POINT_PPM - self._measured()) / self.memory.gain
        elif number == SPAN:
            self.memory.gain *= value / self._measured()
        elif number == SELF_CALIBRATION:
            self.memory.self_calibration = command[3] == 0xA0  # noqa: PLR2004  the manual's value for on
        elif number == RANGE:
            self.memory.range_ppm = int.from_bytes(command[6:8], "big")
        return b""

    def _ppm(self) -> int:
        on_s = self._monotonic() - self._on_since
        if on_s < WARM_UP_S:
            return FIRST_WARM_UP_PPM if on_s < _FIRST_WARM_UP_S else WARM_UP_PPM
        noise = min(max(self._noise.gauss(0.0, 2.0), -6.0), 6.0)
        return round(min(max(self._measured() + noise, 0.0), self.memory.range_ppm))

    def _measured(self) -> float:
        true = self._carbon_dioxide() + self._error_ppm
        return (true + self.memory.offset_ppm) * self.memory.gain


class SimulatedMhz16(SimulatedMhz19):
    """An MH-Z16, which has the same protocol."""

    name = "mhz16"
    delivered_range_ppm = 10_000
