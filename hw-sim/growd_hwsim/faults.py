"""Faults on the wire: what passes between bus and chip is refused, delayed, changed or repeated.

The chips know nothing of them. A faults file is TOML, with an entry for each fault:

    [[fault]]
    kind = "noise"
    device = "scd30"
    at = 60                 # seconds after the start (default 0)
    for = 30                # seconds (default: until the end)
    probability = 0.5       # of each message (default 1)
    seed = 7                # of the dice (default 0)
    amount = 200            # of noise and drift, which need it; the others have none

`device` is all chips of a kind, "scd30", "bh1750", "tsl2591", "mhz19" or "mhz16"; an address on an I2C bus,
"i2c-1:0x61"; a whole bus, "i2c-1"; a serial port, "/dev/serial0"; a pin (BCM), "gpio-18".

On I2C, for a chip, an address or a bus:

    absent          nothing acknowledges
    nak             the address acknowledges, so a probe finds the chip; data to or from it are refused
    bus_error       the adapter breaks the transfer off
    timeout         the clock is stretched past the limit: the transfer fails after 1 s
    hang            the call does not return before the fault is over, and fails then; meanwhile the bus is
                    free for other callers, unless it is the bus that hangs
    stuck           a bus alone: SDA is held low, every transfer fails after 1 s until nine clock pulses clear
                    the bus, which ends the fault

For a chip or an address:

    bad_crc         a flipped bit in the checksum (SCD30; the others send none)
    frozen          the last measurement comes again and again
    noise           spikes: each measurement with `probability` is off by `amount`, up or down by the dice
    drift           measurements are off by `amount` for each hour since the fault began; below 0: downward
    saturated       measurements are at full scale

For a sensor on a serial line, or its port: frozen, noise, drift, saturated, and

    absent          no answer
    short           an answer ends too early
    split           an answer comes in two pieces
    shifted         a stray byte comes before an answer
    doubled         an answer comes twice
    garbled         an answer of wrong bytes
    bad_checksum    a flipped bit in the checksum
    warm_up         the constant of the warm-up
    unplugged       the port is gone
    renamed         plugged in under the next number, such as /dev/ttyUSB1 for /dev/ttyUSB0

For a pin:

    refused         it can't be driven, as one that another program holds
    hang            the write does not return before the fault is over, and fails then

`amount` is in ppm of CO2 for the SCD30, MH-Z19 and MH-Z16. For the BH1750 and the TSL2591 it is in counts, as
the wire does not tell the range that the driver has chosen. Under growd's drivers a count of the BH1750 is
0.11 lux up to about 3 700 lux, 0.83 up to about 27 000 and 1.9 above; one of the TSL2591, of which channel 0
is changed, is 4.1 lux in bright light. Full scale is 40 000 ppm for the SCD30, 10 000 ppm for the MH-Z19 and
MH-Z16, whatever range they are set to, and 65 535 counts. No fault leads below 0.
"""

from __future__ import annotations

import errno
import math
import os
import random
import re
import threading
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from growd_hwsim.chip import SENSORS
from growd_hwsim.errors import FaultError, FaultFileError
from growd_hwsim.fault_kinds import (
    ADDRESS,
    BUS,
    KINDS,
    MESSAGE_FAULTS,
    PIN,
    PLUG_FAULTS,
    PORT,
    QUERY_FAULTS,
    WITH_AMOUNT,
    Strike,
    kinds_at,
)
from growd_hwsim.i2c import CLEARING_PULSES
from growd_hwsim.uart import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from pathlib import Path

    from growd_hwsim.fault_kinds import Forward
    from growd_hwsim.i2c import I2CMessage
    from growd_hwsim.uart import Forward as SerialForward

M = TypeVar("M")
A = TypeVar("A")

BUS_TIMEOUT_S = 1.0
"""After which the Pi's adapter gives up (i2c-bcm2835 leaves Linux's default of 1 s)."""

PAUSE_S = 0.02
"""Between two pieces of a frame: a moment in which pyserial's read finds nothing."""

_POLL_S = 0.005
"""Real seconds between two looks at the clock, which may be a test's, while a call hangs."""

_PLACES = {
    BUS: re.compile(r"i2c-\d+"),
    ADDRESS: re.compile(r"i2c-\d+:0x[0-9a-f]{2}"),
    PORT: re.compile(r"/dev/.+"),
    PIN: re.compile(r"gpio-\d+"),
}


@dataclass(frozen=True)
class Fault:
    """A fault of `kind` at `device` from `at` seconds on for `duration` seconds (None: until cleared).

    `at` counts from when the fault is injected, which is the start for those of a file. Each message meets it
    with `probability`, by dice of its own from `seed`. Only noise and drift have an `amount`, and need it.
    Raises `FaultError` where it makes no sense.
    """

    kind: str
    device: str
    at: float = 0.0
    duration: float | None = None
    probability: float = 1.0
    seed: int = 0
    amount: float | None = None

    def __post_init__(self) -> None:
        self._check_kind_and_device()
        if not 0 <= self.at < float("inf"):
            raise FaultError(f"at must be 0 or more seconds, not {self.at}", key="at")
        if self.duration is not None and not self.duration > 0:
            raise FaultError(f"for must be above 0 seconds, not {self.duration}", key="for")
        if not 0 < self.probability <= 1:
            raise FaultError(
                f"probability must be above 0, up to 1, not {self.probability}", key="probability"
            )
        self._check_amount()

    def _check_kind_and_device(self) -> None:
        if self.kind not in KINDS:
            raise FaultError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}", key="kind")
        place = _place_of(self.device)
        if place is None:
            known = f"{', '.join(SENSORS)} or a place such as i2c-1:0x61, i2c-1, /dev/serial0 or gpio-18"
            raise FaultError(f"device must be {known}, not {self.device!r}", key="device")
        if self.kind not in kinds_at(place):
            there = ", ".join(kinds_at(place))
            raise FaultError(f"kind {self.kind} can't be: for {self.device} there are {there}", key="kind")

    def _check_amount(self) -> None:
        if self.kind not in WITH_AMOUNT:
            if self.amount is not None:
                raise FaultError(f"amount can't be: kind {self.kind} has none", key="amount")
        elif self.amount is None:
            raise FaultError(f"amount is missing: kind {self.kind} needs it", key="amount")
        elif not math.isfinite(self.amount) or self.amount == 0:
            raise FaultError(f"amount must be a number other than 0, not {self.amount}", key="amount")


class Faults:
    """The faults of one simulated machine, and the wire that has them. Safe to use from several threads."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        faults: Iterable[Fault] = (),
    ) -> None:
        self._sleep = sleep
        self._monotonic = monotonic
        self._armed: list[_Armed] = []
        self._frames: dict[tuple[int, int] | str, bytes] = {}
        self._changed = threading.Condition()
        self._held: dict[threading.Thread, list[_Armed]] = {}
        self._is_closed = False
        for fault in faults:
            self.inject(fault)

    def inject(self, fault: Fault) -> None:
        """Add a fault; its time counts from now."""
        with self._changed:
            self._armed = [*self._not_over(), _Armed(fault, self._monotonic())]

    def clear(self, device: str | None = None) -> int:
        """Take away all faults, or those of one device as they name it. How many there were."""
        with self._changed:
            present = self._not_over()
            self._armed = [armed for armed in present if device not in (None, armed.fault.device)]
            self._changed.notify_all()
            return len(present) - len(self._armed)

    def active(self) -> list[Fault]:
        """The faults that are in force or will be."""
        with self._changed:
            return [armed.fault for armed in self._not_over()]

    def close(self) -> None:
        """End all calls that hang, and let none hang any more. Closing twice does nothing."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def hanging(self) -> int:
        """How many calls hang now."""
        return len(self._held)

    def hangs(self, thread: threading.Thread) -> bool:
        """Whether a call of this thread hangs and the fault is not over."""
        with self._changed:
            return self._keeps_hanging(self._held.get(thread, []))

    def wire(self, message: I2CMessage, forward: Forward) -> bytes:
        """Pass a message on through the faults that it meets. For `I2CAdapter`."""
        met = self._met_by(*_names(message), kinds=MESSAGE_FAULTS) if self._armed else []
        for strike in met:
            forward = _through(MESSAGE_FAULTS[strike.fault.kind], strike, forward)
        answer = forward(message)
        if not met and message.data is None and len(answer) >= len(self.last_frame(message)):
            self.remember(message, answer)
        return answer

    def serial_wire(self, query: Query, forward: SerialForward) -> list[bytes]:
        """Pass a command on, and its answer back, through the faults that it meets. For `SerialPorts`."""
        met = self._met_by(query.device, query.port, kinds=QUERY_FAULTS)
        for strike in met:
            forward = _through(QUERY_FAULTS[strike.fault.kind], strike, forward)
        pieces = forward(query)
        if not met and any(pieces):
            self.remember(query, b"".join(pieces))
        return pieces

    def plug(self, port: str, device: str) -> str | None:
        """The name by which a chip's port goes now, None while it is unplugged. For `SerialPorts`."""
        name: str | None = port
        for strike in self._met_by(device, port, kinds=PLUG_FAULTS):
            name = None if name is None else PLUG_FAULTS[strike.fault.kind](name)
        return name

    def is_refused(self, pin: int) -> bool:
        """Whether a write to a pin (BCM) meets a fault. For `SimulatedGpio`."""
        return bool(self._met_by(f"gpio-{pin}", kinds=("refused",)))

    def hold(self, message: I2CMessage) -> None:
        """Block while a message hangs; OSError (ETIMEDOUT) then. For `I2CAdapter`."""
        if self._armed:
            self._hold(*_names(message))

    def hold_pin(self, pin: int) -> None:
        """Block while a write to a pin (BCM) hangs; OSError (ETIMEDOUT) then. For `SimulatedGpio`."""
        self._hold(f"gpio-{pin}")

    def pulsed(self, bus: int, count: int) -> None:
        """Let nine clock pulses or more free a bus that is stuck. For `I2CAdapter`."""
        if count < CLEARING_PULSES:
            return
        with self._changed:
            now = self._monotonic()
            self._armed = [
                armed
                for armed in self._armed
                if (armed.fault.kind, armed.fault.device) != ("stuck", f"i2c-{bus}")
                or not armed.has_begun(now)
            ]

    def pause(self) -> None:
        """Let the time between two pieces of a frame pass."""
        self._sleep(PAUSE_S)

    def hold_the_clock(self) -> None:
        """Let the time pass after which the adapter gives up."""
        self._sleep(BUS_TIMEOUT_S)

    def last_frame(self, message: I2CMessage | Query) -> bytes:
        """The last measurement that came from there: from an address the longest answer. Empty before."""
        with self._changed:
            return self._frames.get(_place(message), b"")

    def remember(self, message: I2CMessage | Query, frame: bytes) -> None:
        """Take `frame` for the last measurement from there."""
        with self._changed:
            self._frames[_place(message)] = frame

    def _met_by(self, *names: str, kinds: Container[str]) -> list[Strike]:
        now = self._monotonic()
        return [
            Strike(self, armed.fault, now - armed.begin, armed.dice)
            for armed in self._struck(*names, kinds=kinds)
        ]

    def _struck(self, *names: str, kinds: Container[str]) -> list[_Armed]:
        with self._changed:
            now = self._monotonic()
            return [
                armed
                for armed in self._armed
                if armed.fault.device in names and armed.fault.kind in kinds and armed.strikes(now)
            ]

    def _hold(self, *names: str) -> None:
        met = self._struck(*names, kinds=("hang",))
        if not met:
            return
        with self._changed:
            self._held[threading.current_thread()] = met
            while self._keeps_hanging(met):
                self._changed.wait(_POLL_S)
            del self._held[threading.current_thread()]
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def _keeps_hanging(self, met: list[_Armed]) -> bool:
        return not self._is_closed and any(armed in met for armed in self._not_over())

    def _not_over(self) -> list[_Armed]:
        now = self._monotonic()
        return [armed for armed in self._armed if not armed.is_over(now)]


class _Armed:
    """A fault with the time it begins and its dice."""

    def __init__(self, fault: Fault, injected: float) -> None:
        self.fault = fault
        self.begin = injected + fault.at
        self.dice = random.Random(fault.seed)  # noqa: S311  a seed, not secrets
        self._end = None if fault.duration is None else self.begin + fault.duration

    def has_begun(self, now: float) -> bool:
        return now >= self.begin

    def is_over(self, now: float) -> bool:
        return self._end is not None and now >= self._end

    def strikes(self, now: float) -> bool:
        if not self.has_begun(now) or self.is_over(now):
            return False
        return self.dice.random() < self.fault.probability


def _through(
    manipulator: Callable[[Strike, M, Callable[[M], A]], A], strike: Strike, forward: Callable[[M], A]
) -> Callable[[M], A]:
    return lambda message: manipulator(strike, message, forward)


def _names(message: I2CMessage) -> tuple[str, str, str]:
    """The devices by which a fault meets it: chip, address, bus."""
    bus = f"i2c-{message.bus}"
    return message.device, f"{bus}:{message.address:#04x}", bus


def _place(message: I2CMessage | Query) -> tuple[int, int] | str:
    return message.port if isinstance(message, Query) else (message.bus, message.address)


def _place_of(device: str) -> str | None:
    """The place, or the kind of sensor, that a fault's device is; None if it is neither."""
    if device in SENSORS:
        return device
    return next((place for place, pattern in _PLACES.items() if pattern.fullmatch(device)), None)


_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "device": (str,),
    "at": (int, float),
    "for": (int, float),
    "probability": (int, float),
    "seed": (int,),
    "amount": (int, float),
}
_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number"}


def load_faults(path: Path) -> list[Fault]:
    """The faults of a file, in its order. Raises `FaultFileError` naming file, entry, key and reason."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FaultFileError(str(path), f"can't be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FaultFileError(str(path), f"is not TOML: {error}") from error
    entries = document.pop("fault", [])
    if document:
        unknown = ", ".join(document)
        raise FaultFileError(str(path), f"unknown key {unknown}; faults are [[fault]] entries", key=unknown)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise FaultFileError(str(path), "faults are [[fault]] entries", key="fault")
    return [_fault(str(path), number, entry) for number, entry in enumerate(entries, 1)]


def parse_fault(entry: Mapping[str, Any]) -> Fault:
    """A fault from the keys and values of an entry of a file. Raises `FaultError`."""
    for key, value in entry.items():
        if key not in _TYPES:
            raise FaultError(f"unknown key {key!r}; known are {', '.join(_TYPES)}", key=key)
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            raise FaultError(f"{key} must be {_TYPE_NAMES[_TYPES[key][-1]]}, not {value!r}", key=key)
    for key in ("kind", "device"):
        if key not in entry:
            raise FaultError(f"{key} is missing", key=key)
    return Fault(**{"duration" if key == "for" else key: value for key, value in entry.items()})


def _fault(path: str, number: int, entry: dict[str, Any]) -> Fault:
    try:
        return parse_fault(entry)
    except FaultError as error:
        raise FaultFileError(path, str(error), entry=number, key=error.key) from error
