"""A simulated NXP SC16IS750. Source: SC16IS740/750/760 datasheet (NXP, rev. 7)."""

from __future__ import annotations

import termios
from collections import deque
from typing import TYPE_CHECKING

from growd_hwsim.errors import NothingRecordedError
from growd_hwsim.i2c import I2CSlave, NoAcknowledgeError
from growd_hwsim.uart import Query

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_hwsim.uart import Forward, UartSlave

THR, RHR, FCR, LCR, MCR, LSR, SPR = 0x00, 0x00, 0x02, 0x03, 0x04, 0x05, 0x07
TXLVL, RXLVL, IOCONTROL = 0x08, 0x09, 0x0E
DLL, DLH = 0x00, 0x01
FIFO_LENGTH = 64
OVERRUN = 0x02  # in LSR
_DATA_READY, _THR_EMPTY, _ALL_SENT = 0x01, 0x20, 0x40  # in LSR
_FIFO_ON, _FORGET_RECEIVED, _FORGET_UNSENT = 0x01, 0x02, 0x04  # in FCR
_LATCH, _EIGHT_N_ONE = 0x80, 0x03  # in LCR
_LCR_AFTER_RESET = 0x1D
_SOFTWARE_RESET = 0x08  # in IOControl
_READ_ONLY = (LSR, 0x06, TXLVL, RXLVL)
_TOLERANCE = 0.03
_SPEEDS = {getattr(termios, f"B{baud}"): baud for baud in (1200, 2400, 4800, 9600, 19_200, 38_400, 115_200)}


class SimulatedSc16is750(I2CSlave):
    """A bridge with `slave` at its serial side; `port` is its place.

    `wire` is as that of `growd_hwsim.uart.SerialPorts`. Bytes take no time: written bytes are sent at once,
    unless the crystal has stopped (`is_running` False); each piece of an answer arrives after a read that
    found nothing. At another speed or format the slave receives noise. `acknowledges_reset` is for a part
    that acknowledges its reset.
    """

    name = "sc16is750"

    def __init__(
        self,
        slave: UartSlave,
        *,
        port: str = "i2c-1:0x4d",
        wire: Callable[[Query, Forward], list[bytes]] = lambda query, forward: forward(query),
        crystal_hz: int = 14_745_600,
        acknowledges_reset: bool = False,
    ) -> None:
        super().__init__()
        self.slave = slave
        self.is_running = True
        self._port = port
        self._wire = wire
        self._crystal_hz = crystal_hz
        self._acknowledges_reset = acknowledges_reset
        self.power_cycle()

    def power_cycle(self) -> None:
        """Lose and regain power: SPR, the divisor and received data are lost too."""
        self._coming: deque[bytes] = deque()
        self._kept = {SPR: 0xFF}
        self.divisor = 0xFFFF
        self.reset()

    def reset(self) -> None:
        """As the RESET pin does: SPR and the divisor stay ("Register reset values")."""
        self._registers = bytearray(0x10)
        self._registers[LCR] = _LCR_AFTER_RESET
        self._unsent = b""
        self._received = bytearray()
        self._has_overrun = False
        self._pointer = 0

    def on_write(self, data: bytes) -> None:
        """A subaddress, and bytes for the register it names."""
        self._pointer = data[0] >> 3 & 0x0F
        if self._is_normal and self._pointer == THR:
            self._send(data[1:])
        else:
            for value in data[1:]:
                self._set(self._pointer, value)

    def on_read(self, length: int) -> bytes:
        """The register that was named last, `length` times."""
        return bytes(self._get(self._pointer) for _ in range(length))

    @property
    def baud(self) -> float:
        """The speed of its serial side."""
        return self._crystal_hz / (16 * max(self.divisor, 1))

    @property
    def _is_normal(self) -> bool:
        return not self._registers[LCR] & _LATCH

    @property
    def _room(self) -> int:
        return (FIFO_LENGTH if self._registers[FCR] & _FIFO_ON else 1) - len(self._unsent)

    def _set(self, register: int, value: int) -> None:
        if register == LCR:
            self._registers[LCR] = value
        elif register in (DLL, DLH) and not self._is_normal:
            shift = 8 * register
            self.divisor = self.divisor & ~(0xFF << shift) | value << shift
        elif register == SPR:
            self._kept[SPR] = value
        elif register == IOCONTROL and value & _SOFTWARE_RESET:
            self.reset()
            if not self._acknowledges_reset:
                raise NoAcknowledgeError
        elif register not in _READ_ONLY:
            self._registers[register] = value
            if register == FCR:
                self._forget(value)

    def _forget(self, control: int) -> None:
        self._registers[FCR] = control & ~(_FORGET_RECEIVED | _FORGET_UNSENT)  # they clear themselves
        if control & _FORGET_RECEIVED:
            self._received.clear()
        if control & _FORGET_UNSENT:
            self._unsent = b""

    def _get(self, register: int) -> int:
        if register in (DLL, DLH) and not self._is_normal:
            return self.divisor >> 8 * register & 0xFF
        special = {
            RHR: self._next_received,
            FCR: lambda: 0xC1 if self._registers[FCR] & _FIFO_ON else 0x01,  # IIR: nothing pending
            LSR: self._line_status,
            SPR: lambda: self._kept[SPR],
            TXLVL: lambda: self._room,
            RXLVL: self._received_level,
        }
        return special[register]() if register in special else self._registers[register]

    def _send(self, data: bytes) -> None:
        taken = data[: self._room]  # more than there is room for is lost
        if not self.is_running:
            self._unsent += taken
            return
        for command in self.slave.receive(taken if self._is_understood else b""):
            query = Query(self._port, self.slave.name, command)
            self._coming.extend(self._wire(query, self._forward))

    @property
    def _is_understood(self) -> bool:
        speed = _SPEEDS[self.slave.speed]
        return self._registers[LCR] == _EIGHT_N_ONE and abs(self.baud / speed - 1) < _TOLERANCE

    def _forward(self, query: Query) -> list[bytes]:
        try:
            return [self.slave.answer(query.command)]
        except NothingRecordedError:
            return []

    def _received_level(self) -> int:
        level = len(self._received)
        if not level and self._coming:
            self._arrive(self._coming.popleft())
        return level

    def _arrive(self, piece: bytes) -> None:
        if not self._is_understood:
            return
        room = (FIFO_LENGTH if self._registers[FCR] & _FIFO_ON else 1) - len(self._received)
        self._received += piece[:room]
        self._has_overrun |= len(piece) > room

    def _next_received(self) -> int:
        return self._received.pop(0) if self._received else 0

    def _line_status(self) -> int:
        status = 0 if self._unsent else _THR_EMPTY | _ALL_SENT
        status |= _DATA_READY if self._received else 0
        status |= OVERRUN if self._has_overrun else 0
        self._has_overrun = False  # reading clears it
        return status
