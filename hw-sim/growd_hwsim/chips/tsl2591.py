"""A simulated ams TSL2591. Source: TSL2591 datasheet (ams, v2-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd_hwsim.chip import Measurement
from growd_hwsim.i2c import NoAcknowledgeError
from growd_hwsim.sensors import I2CSensor

if TYPE_CHECKING:
    from collections.abc import Callable

ENABLE, CONTROL, ID, STATUS, DATA = 0x00, 0x01, 0x12, 0x13, 0x14
DEVICE_ID = 0x50
POWER_ON, MEASURE = 0x01, 0x02  # PON and AEN, in ENABLE
VALID = 0x01  # AVALID, in STATUS
_RESET = 0x80  # SRESET, in CONTROL
_COMMAND, _NORMAL, _SPECIAL = 0x80, 0x20, 0x60  # CMD and the two transactions, in the command register
_TRANSACTION, _REGISTER = 0x60, 0x1F
_READ_ONLY = range(0x11, 0x18)
_REGISTERS = 0x20
_STEP_S = 0.1  # typical, as is the gain
_GAINS = ((1.0, 1.0), (24.5, 24.5), (400.0, 400.0), (9200.0, 9900.0))
_FULL_COUNT_OF_ONE_STEP, _FULL_COUNT = 36_863, 0xFFFF

WHITE_LED_INFRARED_SHARE = 1003 / 6024
"""Channel 1 to channel 0 at one gain in a white LED's light (the responsivities of both channels)."""
_RATE_PER_LUX = 1.0 / 408.0 / (1.0 - 1.64 * WHITE_LED_INFRARED_SHARE)
"""Channel 0, counts per ms at gain 1, to fit Adafruit's coefficients in a white LED's light."""


class SimulatedTsl2591(I2CSensor):
    """A TSL2591 in light of `illuminance()` lux, on the time of `monotonic`.

    `infrared_share` is the ratio of channel 1 to channel 0 at one gain. Noise is 0.2 percent; counts are
    rounded down. The interrupt pin is not simulated.
    """

    name = "tsl2591"
    senses = "illuminance_lux"
    measurement = Measurement(  # STATUS, and channel 0, the one of all light, of both channels
        5,
        _FULL_COUNT,
        lambda answer: int.from_bytes(answer[1:3], "little"),
        lambda answer, counts: answer[:1] + round(counts).to_bytes(2, "little") + answer[3:],
    )

    def __init__(
        self,
        illuminance: Callable[[], float],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        infrared_share: float = WHITE_LED_INFRARED_SHARE,
    ) -> None:
        self.infrared_share = infrared_share
        super().__init__(illuminance, monotonic, seed=seed)

    def power_cycle(self) -> None:
        """Lose and regain power: powered down, all registers 0."""
        self.registers = bytearray(_REGISTERS)
        self.registers[ID] = DEVICE_ID
        self._address = 0
        self._done_at = 0.0

    def on_write(self, data: bytes) -> None:
        """The command register, then bytes for the registers from the named one."""
        self._convert_if_done()
        command, values = data[0], data[1:]
        transaction = command & _TRANSACTION
        if not command & _COMMAND or transaction not in {_NORMAL, _SPECIAL}:
            raise NoAcknowledgeError
        if transaction == _NORMAL:
            self._address = command & _REGISTER
            for value in values:
                self._set(self._next_address(), value)

    def on_read(self, length: int) -> bytes:
        """Registers from the one that the last command named."""
        self._convert_if_done()
        return bytes(self.registers[self._next_address()] for _ in range(length))

    @property
    def is_measuring(self) -> bool:
        """Both PON and AEN are set."""
        return self.registers[ENABLE] & (POWER_ON | MEASURE) == POWER_ON | MEASURE

    def _next_address(self) -> int:
        address = self._address
        self._address = (address + 1) % _REGISTERS
        return address

    def _set(self, address: int, value: int) -> None:
        if address in _READ_ONLY:
            return
        if address == CONTROL and value & _RESET:
            self.power_cycle()
            return
        was_measuring = self.is_measuring
        self.registers[address] = value
        if not self.is_measuring:
            self.registers[STATUS] &= ~VALID
        elif not was_measuring or address == CONTROL:
            self._done_at = self._monotonic() + self._cycle_s()

    def _steps(self) -> int:
        return (self.registers[CONTROL] & 0b111) + 1

    def _cycle_s(self) -> float:
        return self._steps() * _STEP_S

    def _convert_if_done(self) -> None:
        now = self._monotonic()
        if not self.is_measuring or now < self._done_at:
            return
        self.registers[DATA : DATA + 4] = b"".join(count.to_bytes(2, "little") for count in self._converted())
        self.registers[STATUS] |= VALID
        cycle = self._cycle_s()
        self._done_at += cycle * ((now - self._done_at) // cycle + 1)

    def _converted(self) -> tuple[int, int]:
        steps = self._steps()
        full_count = _FULL_COUNT_OF_ONE_STEP if steps == 1 else _FULL_COUNT
        noise = 1.0 + self._noise.gauss(0.0, 0.002)
        full = self._truth() * _RATE_PER_LUX * steps * _STEP_S * 1000.0 * noise
        gains = _GAINS[self.registers[CONTROL] >> 4 & 0b11]
        return (
            min(int(full * gains[0]), full_count),
            min(int(full * gains[1] * self.infrared_share), full_count),
        )
