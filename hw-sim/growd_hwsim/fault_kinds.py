"""The kinds of faults: where each can be, and what it does to what passes there. `faults` has the words."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_hwsim import chips, i2c, uart  # noqa: F401  chips: importing it fills SENSORS
from growd_hwsim.chip import SENSORS
from growd_hwsim.i2c import NoAcknowledgeError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from growd_hwsim.faults import Fault, Faults
    from growd_hwsim.i2c import I2CMessage
    from growd_hwsim.uart import Forward as SerialForward
    from growd_hwsim.uart import Query

    Forward = Callable[[I2CMessage], bytes]

BUS, ADDRESS, PORT, PIN = "bus", "address", "port", "pin"
"""Places that have a number or a path; the others are kinds of sensors."""

PLACES: dict[str, tuple[str, ...]] = {
    BUS: ("absent", "nak", "bus_error", "timeout", "stuck", "hang"),
    ADDRESS: (*i2c.FAULTS, "bad_crc"),
    PORT: uart.FAULTS,
    PIN: ("hang", "refused"),
}
KINDS = tuple(dict.fromkeys(kind for kinds in PLACES.values() for kind in kinds))
"""All kinds of faults."""


def kinds_at(place: str) -> tuple[str, ...]:
    """The kinds of faults that can be at a place, or in a kind of sensor."""
    return SENSORS[place].faults if place in SENSORS else PLACES[place]


WITH_AMOUNT = ("noise", "drift")


@dataclass(frozen=True)
class Strike:
    """A fault that meets what passes now, `since_s` seconds after it began."""

    faults: Faults
    fault: Fault
    since_s: float
    dice: random.Random

    @property
    def amount(self) -> float:
        """Of the fault; 0 where it has none."""
        return self.fault.amount or 0.0


def _absent(_strike: Strike, _message: I2CMessage, _forward: Forward) -> bytes:
    raise NoAcknowledgeError


def _nak(_strike: Strike, message: I2CMessage, forward: Forward) -> bytes:
    if message.data != b"":
        raise NoAcknowledgeError
    return forward(message)


def _bus_error(_strike: Strike, _message: I2CMessage, _forward: Forward) -> bytes:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _timeout(strike: Strike, _message: I2CMessage, _forward: Forward) -> bytes:
    strike.faults.hold_the_clock()
    raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


def _bad_crc(_strike: Strike, message: I2CMessage, forward: Forward) -> bytes:
    answer = forward(message)
    return answer[:-1] + bytes([answer[-1] ^ 0x01]) if answer else answer


def _frozen(strike: Strike, message: I2CMessage, forward: Forward) -> bytes:
    answer = forward(message)
    frame = strike.faults.last_frame(message)
    if message.data is None and len(answer) > len(frame):
        strike.faults.remember(message, answer)  # there was none to repeat: repeat this one from now on
    return frame if message.data is None and len(answer) == len(frame) else answer


def _noise(strike: Strike, value: float, _full_scale: float) -> float:
    return value + strike.dice.choice((-1.0, 1.0)) * strike.amount


def _drift(strike: Strike, value: float, _full_scale: float) -> float:
    return value + strike.amount * strike.since_s / 3600.0


def _saturated(_strike: Strike, _value: float, full_scale: float) -> float:
    return full_scale


def _on_bus(
    change: Callable[[Strike, float, float], float],
) -> Callable[[Strike, I2CMessage, Forward], bytes]:
    def manipulator(strike: Strike, message: I2CMessage, forward: Forward) -> bytes:
        return _changed(strike, message.device, forward(message), change)

    return manipulator


def _on_line(
    change: Callable[[Strike, float, float], float],
) -> Callable[[Strike, Query, SerialForward], list[bytes]]:
    def manipulator(strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
        return [_changed(strike, query.device, piece, change) for piece in forward(query)]

    return manipulator


def _changed(
    strike: Strike, device: str, answer: bytes, change: Callable[[Strike, float, float], float]
) -> bytes:
    """The answer with its measurement changed, within what the chip can send; as it is where it has none."""
    form = SENSORS[device].measurement if device in SENSORS else None
    if form is None or len(answer) != form.length:
        return answer
    value = change(strike, form.decoded(answer), form.full_scale)
    return form.encoded(answer, min(max(value, 0.0), form.full_scale))


MESSAGE_FAULTS: dict[str, Callable[[Strike, I2CMessage, Forward], bytes]] = {
    "absent": _absent,
    "nak": _nak,
    "bus_error": _bus_error,
    "timeout": _timeout,
    "stuck": _timeout,
    "bad_crc": _bad_crc,
    "frozen": _frozen,
    "noise": _on_bus(_noise),
    "drift": _on_bus(_drift),
    "saturated": _on_bus(_saturated),
}


def _no_answer(_strike: Strike, _query: Query, _forward: SerialForward) -> list[bytes]:
    return []


def _short(_strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    return [piece[:5] for piece in forward(query)]


def _split(_strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    return [part for piece in forward(query) for part in (piece[:4], piece[4:]) if part]


def _shifted(_strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    """A stray byte before the frame: the worst one, which looks like its start."""
    return [b"\xff" + piece for piece in forward(query) if piece]


def _doubled(_strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    return [piece + piece for piece in forward(query)]


def _garbled(_strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    return [bytes(byte ^ 0x5A for byte in piece) for piece in forward(query)]


def _bad_checksum(_strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    return [piece[:-1] + bytes([piece[-1] ^ 0x01]) for piece in forward(query) if piece]


def _frozen_line(strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    frame = b"".join(forward(query))
    if frame and not strike.faults.last_frame(query):
        strike.faults.remember(query, frame)  # there was none to repeat: repeat this one from now on
    return [strike.faults.last_frame(query)] if frame else []


def _warm_up(_strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    return [SENSORS[query.device].warm_up_answer for piece in forward(query) if piece]


QUERY_FAULTS: dict[str, Callable[[Strike, Query, SerialForward], list[bytes]]] = {
    "absent": _no_answer,
    "short": _short,
    "split": _split,
    "shifted": _shifted,
    "doubled": _doubled,
    "garbled": _garbled,
    "bad_checksum": _bad_checksum,
    "frozen": _frozen_line,
    "noise": _on_line(_noise),
    "drift": _on_line(_drift),
    "saturated": _on_line(_saturated),
    "warm_up": _warm_up,
}


def _unplugged(_port: str) -> str | None:
    return None


def _renamed(port: str) -> str | None:
    """As Linux names an adapter that comes back while its old name is still held open."""
    name = port.rstrip("0123456789")
    return f"{name}{int(port[len(name) :] or 0) + 1}"


PLUG_FAULTS: dict[str, Callable[[str], str | None]] = {"unplugged": _unplugged, "renamed": _renamed}
