"""The kinds of faults: where each can be, and what it does to what passes there. `faults` has the words."""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_hwsim.chips.mhz19 import FRAME_LENGTH, WARM_UP_PPM, reading
from growd_hwsim.chips.scd30 import MAXIMUM_CO2_PPM, with_crcs
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
"""Places that have a number or a path; the others are kinds of chips, `DEVICES`."""

DEVICES = ("scd30", "bh1750", "tsl2591", "mhz19", "mhz16")
_ON_I2C = ("scd30", "bh1750", "tsl2591", ADDRESS)
_ON_LINES = ("mhz19", "mhz16", PORT)

KINDS: dict[str, tuple[str, ...]] = {
    "absent": (*_ON_I2C, BUS, *_ON_LINES),
    "nak": (*_ON_I2C, BUS),
    "bus_error": (*_ON_I2C, BUS),
    "timeout": (*_ON_I2C, BUS),
    "stuck": (BUS,),
    "hang": (*_ON_I2C, BUS, PIN),
    "refused": (PIN,),
    "bad_crc": ("scd30", ADDRESS),  # the other chips on I2C send no checksum
    "short": _ON_LINES,
    "split": _ON_LINES,
    "shifted": _ON_LINES,
    "doubled": _ON_LINES,
    "garbled": _ON_LINES,
    "bad_checksum": _ON_LINES,
    "frozen": (*_ON_I2C, *_ON_LINES),
    "noise": (*_ON_I2C, *_ON_LINES),
    "drift": (*_ON_I2C, *_ON_LINES),
    "saturated": (*_ON_I2C, *_ON_LINES),
    "warm_up": _ON_LINES,
    "unplugged": _ON_LINES,
    "renamed": _ON_LINES,
}
"""Each kind with the places where it can be."""

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


@dataclass(frozen=True)
class _Measurement:
    """How a measurement stands in an answer of `length` bytes: 0..`full_scale`, in the unit of `amount`."""

    length: int
    full_scale: float
    decoded: Callable[[bytes], float]
    encoded: Callable[[bytes, float], bytes]
    """The answer with another value, and a right checksum."""


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
    form = _MEASUREMENTS.get(device)
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
    return [reading(WARM_UP_PPM) for piece in forward(query) if piece]


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


def _scd30_ppm(answer: bytes) -> float:
    """Of READ MEASUREMENT (1.4.5): two words with their CRCs are the float of CO2, four more follow."""
    (ppm,) = struct.unpack(">f", answer[0:2] + answer[3:5])
    return float(ppm)


def _with_scd30_ppm(answer: bytes, ppm: float) -> bytes:
    return with_crcs(struct.pack(">f", ppm)) + answer[6:]


def _with_bh1750_counts(_answer: bytes, counts: float) -> bytes:
    return round(counts).to_bytes(2, "big")


def _with_tsl2591_counts(answer: bytes, counts: float) -> bytes:
    return answer[:1] + round(counts).to_bytes(2, "little") + answer[3:]


def _with_mhz19_ppm(_answer: bytes, ppm: float) -> bytes:
    return reading(round(ppm))


_SCD30 = _Measurement(18, MAXIMUM_CO2_PPM, _scd30_ppm, _with_scd30_ppm)
_BH1750 = _Measurement(2, 0xFFFF, lambda answer: int.from_bytes(answer, "big"), _with_bh1750_counts)
_TSL2591 = _Measurement(  # STATUS and both channels in one: the channel of all light is changed
    5, 0xFFFF, lambda answer: int.from_bytes(answer[1:3], "little"), _with_tsl2591_counts
)
_MHZ19 = _Measurement(  # the widest range that one of the family has
    FRAME_LENGTH, 10_000, lambda answer: int.from_bytes(answer[2:4], "big"), _with_mhz19_ppm
)
_MEASUREMENTS = {"scd30": _SCD30, "bh1750": _BH1750, "tsl2591": _TSL2591, "mhz19": _MHZ19, "mhz16": _MHZ19}
