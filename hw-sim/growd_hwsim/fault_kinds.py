"""The kinds of faults: where each can be, and what it does to a message. docs/faults.md lists them."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from growd_hwsim import chips, i2c, uart  # noqa: F401  importing chips fills SENSORS
from growd_hwsim.actuators import ACTUATORS, DOOR, HELD_OPEN, WEAK, WELDED, WITHOUT_EFFECT
from growd_hwsim.chip import SENSORS
from growd_hwsim.errors import kernel_error
from growd_hwsim.i2c import NoAcknowledgeError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from growd_hwsim.actuators import Defect
    from growd_hwsim.i2c import Forward, I2CMessage
    from growd_hwsim.uart import Forward as SerialForward
    from growd_hwsim.uart import Query

BUS, ADDRESS, PORT, PIN, NETWORK = "bus", "address", "port", "pin", "network"
"""Places with a number or a path."""
ACTUATOR = "actuator"
"""Any of `ACTUATORS`. Other devices of faults are the door and kinds of sensors."""

PLACES: dict[str, tuple[str, ...]] = {
    BUS: ("absent", "nak", "bus_error", "timeout", "stuck", "hang"),
    ADDRESS: (*i2c.FAULTS, "bad_crc"),
    PORT: uart.FAULTS,
    PIN: ("hang", "refused"),
    NETWORK: ("absent",),
    ACTUATOR: (WITHOUT_EFFECT, WEAK, WELDED),
    DOOR: (HELD_OPEN,),
}
"""The kinds of faults that can be at each place."""

KINDS: dict[str, str] = {
    "absent": "Nothing answers. The wire of a switch is broken.",
    "nak": "The address answers, and refuses data.",
    "bus_error": "The adapter aborts the transfer.",
    "timeout": "The transfer fails after 1 s, because the clock is stretched for too long.",
    "stuck": "The data line is held low until nine clock pulses clear the bus.",
    "hang": "The call returns only when the fault is over, and fails; at a pin its keeper does not answer.",
    "bad_crc": "One bit of the checksum is wrong.",
    "wrong_order": "The checksum comes before the last byte, as on a bus that is too fast.",
    "frozen": "The last measurement repeats.",
    "noise": "Each measurement is too high or too low by the amount.",
    "drift": "The error of the measurement grows by the amount in each hour.",
    "saturated": "The measurement is at the end of the range.",
    "capped": "The measurement is at the end of a smaller range, which is the amount.",
    "short": "The answer ends too early.",
    "split": "The answer comes in two pieces.",
    "shifted": "The answer begins with a stray byte.",
    "doubled": "The answer comes twice.",
    "garbled": "All bytes of the answer are wrong.",
    "bad_checksum": "One bit of the checksum is wrong.",
    "warm_up": "The sensor answers with the constant of its warm-up.",
    "brown_out": "The sensor is silent for 5 s, then answers with a constant of its warm-up.",
    "partial": "The messages are about something else, such as the battery.",
    "unplugged": "The port is gone.",
    "renamed": "The port comes back under the next number.",
    "refused": "The pin cannot be used, as if another program holds it.",
    WITHOUT_EFFECT: "The part does nothing: an empty bottle or tank, a burnt-out heater, a dry pump.",
    WEAK: "The part works at this share of its level, as a pump with a worn tube.",
    WELDED: "The part works at its full level, whatever is commanded, as with a welded relay.",
    HELD_OPEN: "The door stays open.",
}
"""What each kind of fault does, in one sentence."""

WITH_AMOUNT = ("noise", "drift", "capped", WEAK)

_SILENT_S = 5.0
"""The silence of a brown-out."""

IN_CHAMBER = frozenset({WITHOUT_EFFECT, WEAK, WELDED, HELD_OPEN})
ON_MESSAGES = frozenset({*PLACES[BUS], *PLACES[ADDRESS], "wrong_order", "warm_up"}) - {"hang"}
ON_PLUGS = frozenset({"unplugged", "renamed"})
ON_QUERIES = frozenset(PLACES[PORT]) - ON_PLUGS
ON_PAYLOADS = frozenset({"absent", "garbled", "frozen", "partial"})
ON_SWITCHES = frozenset({"absent", "frozen"})


def unit_of_amount(place: str) -> str:
    """The unit of `amount` at a place or for a kind of sensor, "" if it depends on the device there."""
    form = SENSORS[place].measurement if place in SENSORS else None
    return "" if form is None else form.unit


def kinds_at(place: str) -> tuple[str, ...]:
    """The kinds of faults that can be at a place, or in a kind of sensor."""
    return SENSORS[place].faults if place in SENSORS else PLACES[place]


def place_without_number(device: str) -> str | None:
    """The place that a kind of sensor, an actuator or the door is; None for other devices."""
    if device in ACTUATORS:
        return ACTUATOR
    return device if device in SENSORS or device == DOOR else None


class Wires(Protocol):
    """Where messages pass."""

    def hold_the_clock(self) -> None:
        """Hold up the bus until its time limit."""

    def last_frame(self, message: I2CMessage | Query) -> bytes:
        """The last measurement from there."""

    def remember(self, message: I2CMessage | Query, frame: bytes) -> None:
        """Keep a measurement from there."""


@dataclass(frozen=True)
class Strike:
    """A fault that meets a message or query now, `since_s` seconds after it began."""

    wires: Wires
    fault: Defect
    since_s: float
    dice: random.Random


def struck_message(strike: Strike, message: I2CMessage, forward: Forward) -> bytes:
    """Pass a message on through a fault of `ON_MESSAGES`. Raises OSError as the kernel does."""
    kind = strike.fault.kind
    if kind == "absent" or (kind == "nak" and message.data != b""):
        raise NoAcknowledgeError
    if kind == "bus_error":
        raise kernel_error(errno.EIO)
    if kind in ("timeout", "stuck"):
        strike.wires.hold_the_clock()
        raise kernel_error(errno.ETIMEDOUT)
    answer = forward(message)
    if kind == "warm_up":
        return SENSORS[message.device].warm_up_answer
    if kind == "bad_crc":
        return _with_flipped_bit(answer)
    if kind == "wrong_order":
        return _in_wrong_order(answer)
    if kind == "frozen" and message.data is None:
        return _frozen(strike, message, answer)
    return _changed(strike, message.device, answer)


def struck_query(strike: Strike, query: Query, forward: SerialForward) -> list[bytes]:
    """Pass a query on through a fault of `ON_QUERIES`: the answer, in pieces."""
    kind = strike.fault.kind
    if kind == "absent" or (kind == "brown_out" and strike.since_s < _SILENT_S):
        return []
    answers = [answer for answer in forward(query) if answer]
    if kind in _DAMAGES:
        return [piece for answer in answers for piece in _DAMAGES[kind](answer) if piece]
    if kind == "warm_up":
        return [SENSORS[query.device].warm_up_answer for _ in answers]
    if kind == "brown_out":
        return [SENSORS[query.device].restart_answer or SENSORS[query.device].warm_up_answer for _ in answers]
    if kind == "frozen":
        return [_frozen(strike, query, b"".join(answers))] if answers else []
    return [_changed(strike, query.device, answer) for answer in answers]


def renamed(port: str) -> str:
    """As Linux names an adapter that comes back while its old name is still in use."""
    name = port.rstrip("0123456789")
    return f"{name}{int(port[len(name) :] or 0) + 1}"


def _with_flipped_bit(answer: bytes) -> bytes:
    """The last byte, which is a checksum, is wrong."""
    return answer[:-1] + bytes([answer[-1] ^ 0x01]) if answer else answer


_DAMAGES: dict[str, Callable[[bytes], list[bytes]]] = {
    "short": lambda answer: [answer[:5]],
    "split": lambda answer: [answer[:4], answer[4:]],
    "shifted": lambda answer: [b"\xff" + answer],  # a stray byte that looks like the start of a frame
    "doubled": lambda answer: [answer + answer],
    "garbled": lambda answer: [bytes(byte ^ 0x5A for byte in answer)],
    "bad_checksum": lambda answer: [_with_flipped_bit(answer)],
}


def _in_wrong_order(answer: bytes) -> bytes:
    """Each word with its checksum in the middle, as from an SCD30 on a bus that is too fast."""
    words = [answer[start : start + 3] for start in range(0, len(answer), 3)]
    return b"".join(word[:1] + word[:0:-1] for word in words)


def is_frame(device: str, answer: bytes, last: bytes) -> bool:
    """Whether an answer is a measurement: by its length, or for a chip without one its longest answer."""
    form = SENSORS[device].measurement if device in SENSORS else None
    return len(answer) >= len(last) if form is None else len(answer) == form.length


def _frozen(strike: Strike, message: I2CMessage | Query, answer: bytes) -> bytes:
    """The last measurement from there. Other answers, such as a status, pass as they are."""
    last = strike.wires.last_frame(message)
    if not is_frame(message.device, answer, last):
        return answer
    if len(answer) > len(last):
        strike.wires.remember(message, answer)  # none yet: repeat this one from now on
        return answer
    return last


def _changed(strike: Strike, device: str, answer: bytes) -> bytes:
    """The answer with its measurement changed, within the limits of the chip; unchanged without one."""
    form = SENSORS[device].measurement if device in SENSORS else None
    if form is None or len(answer) != form.length:
        return answer
    value, amount = form.decoded(answer), strike.fault.amount or 0.0
    changed = {
        "noise": value + strike.dice.choice((-1.0, 1.0)) * amount,
        "drift": value + amount * strike.since_s / 3600.0,
        "saturated": form.full_scale,
        "capped": amount,
    }.get(strike.fault.kind, value)
    return form.encoded(answer, min(max(changed, 0.0), form.full_scale))
