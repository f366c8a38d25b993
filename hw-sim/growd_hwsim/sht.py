"""What the simulated chips of SHT3x and SHT4x have in common."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar

from growd_hwsim.i2c import FAULTS, NoAcknowledgeError
from growd_hwsim.sensirion import TEMPERATURE_FRAME, temperature_word, with_crcs
from growd_hwsim.sensors import AirSensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_hwsim.chamber import Air


class ShtChip(AirSensor):
    """A chip in the air of `air()`, on the time of `monotonic`. It measures when asked, and answers once.

    Noise is Gaussian, cut off at the repeatability.
    """

    measurement = TEMPERATURE_FRAME
    faults = (*FAULTS, "bad_crc", "wrong_order")

    response_s: ClassVar[Air]
    """Response times (63 % of a step) in s of temperature and humidity."""
    reset_s: ClassVar[float]
    """The longest duration of a reset in s."""
    noise: ClassVar[tuple[tuple[float, float], tuple[float, float]]]
    """Standard deviation and limit of the noise, of temperature in degC and of humidity in percent."""

    def __init__(
        self,
        air: Callable[[], Air],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        response_s: Air | None = None,
    ) -> None:
        super().__init__(air, monotonic, response_s or self.response_s, seed=seed)
        self._busy_until = monotonic()  # it has had power for a while

    def power_cycle(self) -> None:
        """Lose and regain power, or be reset."""
        self._answer: bytes | None = None
        self._keep_busy(self.reset_s)

    def on_read(self, length: int) -> bytes:
        """The answer to the last command, once. A read that comes too early is not acknowledged."""
        if self._answer is None or self._is_busy():
            raise NoAcknowledgeError
        words, self._answer = self._answer, None
        return with_crcs(words)[:length]

    def _is_busy(self) -> bool:
        return self._monotonic() < self._busy_until

    def _keep_busy(self, seconds: float) -> None:
        self._busy_until = self._monotonic() + seconds

    def _measure(self, seconds: float) -> None:
        air = self._cell.air()
        degc, percent = (
            value + self._jitter(deviation, limit)
            for value, (deviation, limit) in zip(air[1:], self.noise, strict=True)
        )
        self._answer = struct.pack(">HH", temperature_word(degc), self._humidity_word(percent))
        self._keep_busy(seconds)

    def _humidity_word(self, percent: float) -> int:
        raise NotImplementedError
