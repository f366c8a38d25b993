"""Serial ports whose timeouts do not depend on the speed of this machine."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from growd_drivers.serial_line import SerialLine

PATIENT_S = 20.0  # for bytes that come
HASTY_S = 0.01  # for bytes that never come


class Impatient:
    """A port that waits for the first byte of an answer, and then reads only what is there."""

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
        """Use short timeouts on the open port of a line."""
        line._port = cls(line._port)

    @classmethod
    def off(cls, line: SerialLine) -> None:
        """Use long timeouts again."""
        line._port = line._port._port
        line._port.timeout = PATIENT_S
