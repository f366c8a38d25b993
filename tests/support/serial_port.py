"""How long tests wait on a serial port, in real seconds, without counting on how fast this machine is."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from growd_drivers.serial_line import SerialLine

PATIENT_S = 20.0  # for what does come
HASTY_S = 0.01  # for what never comes


class Impatient:
    """A port that waits until an answer has begun, and then not for more than is there."""

    def __init__(self, port) -> None:
        self._port = port
        self.read = port.read
        self.reset_input_buffer = port.reset_input_buffer
        self.close = port.close

    def write(self, data: bytes) -> None:
        self._port.write(data)
        select.select([self._port.fileno()], [], [], PATIENT_S)
        self._port.timeout = HASTY_S

    @classmethod
    def on(cls, line: SerialLine) -> None:
        """Make the open port of a line impatient."""
        line._port = cls(line._port)

    @classmethod
    def off(cls, line: SerialLine) -> None:
        """Make it patient again."""
        line._port = line._port._port
        line._port.timeout = PATIENT_S
