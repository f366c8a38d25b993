"""Faults on the wire: messages between bus and chip are refused, delayed, changed or repeated.

The chips do not know of them. docs/faults.md describes the kinds, the devices and the faults file.
"""

from __future__ import annotations

import errno
import math
import random
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from growd_hwsim.actuators import NO_FAULTS, WEAK
from growd_hwsim.chip import SENSORS
from growd_hwsim.errors import FaultError, kernel_error
from growd_hwsim.fault_kinds import (
    ADDRESS,
    BUS,
    IN_CHAMBER,
    KINDS,
    NETWORK,
    ON_MESSAGES,
    ON_PAYLOADS,
    ON_PLUGS,
    ON_QUERIES,
    ON_SWITCHES,
    PIN,
    PORT,
    WITH_AMOUNT,
    Strike,
    is_frame,
    kinds_at,
    place_without_number,
    renamed,
    struck_message,
    struck_query,
)
from growd_hwsim.i2c import CLEARING_PULSES
from growd_hwsim.uart import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from growd_hwsim.actuators import Defect
    from growd_hwsim.i2c import Forward, I2CMessage
    from growd_hwsim.uart import Forward as SerialForward

M = TypeVar("M")
A = TypeVar("A")

BUS_TIMEOUT_S = 1.0
"""The time limit of the Pi's adapter (i2c-bcm2835 has Linux's default of 1 s)."""

PAUSE_S = 0.02
"""Between two pieces of a frame, in which pyserial's read finds nothing."""

_POLL_S = 0.005
"""Real seconds between two looks whether a call still hangs."""

_PLACES = {
    BUS: re.compile(r"i2c-\d+"),
    ADDRESS: re.compile(r"i2c-\d+:0x[0-9a-f]{2}"),
    PORT: re.compile(r"/dev/.+"),
    PIN: re.compile(r"gpio-\d+"),
    NETWORK: re.compile(r"network:.+"),
}


@dataclass(frozen=True)
class Fault:
    """A fault of `kind` at `device`, which begins `at` seconds after it is injected.

    It lasts `duration` seconds (None: until cleared). It meets each message with `probability`, by its own
    random generator from `seed`. `WITH_AMOUNT` need an `amount`; other kinds have none. Raises `FaultError`
    for an invalid combination.
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
        place = place_of(self.device)
        if place is None:
            known = f"{', '.join(SENSORS)}, an actuator such as heater or a place such as i2c-1:0x61, gpio-18"
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
        elif self.kind == WEAK and not 0 < self.amount < 1:
            raise FaultError(f"amount must be a share between 0 and 1, not {self.amount}", key="amount")


def wait_a_moment() -> None:
    """Wait in a call that hangs, in real time."""
    time.sleep(_POLL_S)


class Faults:
    """The faults of one simulated machine, and its wires. Safe to use from several threads.

    `hang` waits a moment in a call that hangs.
    """

    def __init__(
        self,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        hang: Callable[[], None] = wait_a_moment,
        faults: Iterable[Fault] = (),
    ) -> None:
        self._sleep = sleep
        self._hang = hang
        self._monotonic = monotonic
        self._armed: list[_Armed] = []
        self._frames: dict[tuple[int, int] | str, bytes] = {}
        self._levels: dict[int, bool | None] = {}  # of switches, by pin
        self._lock = threading.Lock()
        self._held: dict[threading.Thread, list[_Armed]] = {}
        self._is_closed = False
        for fault in faults:
            self.inject(fault)

    def inject(self, fault: Fault) -> None:
        """Add a fault. Its time counts from now."""
        with self._lock:
            self._armed = [*self._not_over(), _Armed(fault, self._monotonic())]

    def clear(self, device: str | None = None, kind: str | None = None) -> int:
        """Remove all faults, or those of one device or kind; returns how many."""
        with self._lock:
            present = self._not_over()
            self._armed = [
                armed
                for armed in present
                if device not in (None, armed.fault.device) or kind not in (None, armed.fault.kind)
            ]
            return len(present) - len(self._armed)

    def active(self) -> list[Fault]:
        """The faults that are not over."""
        with self._lock:
            return [armed.fault for armed in self._not_over()]

    def timed(self) -> list[tuple[Fault, float, float | None]]:
        """The same, each with the seconds until it begins, and those until it is over (None: never)."""
        with self._lock:
            now = self._monotonic()
            return [(armed.fault, *armed.times(now)) for armed in self._not_over()]

    def close(self) -> None:
        """End all hanging calls, and let no further call hang. Closing twice does nothing."""
        with self._lock:
            self._is_closed = True

    @property
    def hanging(self) -> int:
        """The number of calls that hang now."""
        return len(self._held)

    def hangs(self, thread: threading.Thread) -> bool:
        """Whether a call of this thread hangs, and its fault is not over."""
        return self._keeps_hanging(self._held.get(thread, []))

    def wire(self, message: I2CMessage, forward: Forward) -> bytes:
        """Pass a message on through its faults. For `I2CAdapter`."""
        met = self._met_by(*_names(message), kinds=ON_MESSAGES) if self._armed else []
        for strike in met:
            forward = _through(struck_message, strike, forward)
        answer = forward(message)
        if not met and message.data is None and is_frame(message.device, answer, self.last_frame(message)):
            self.remember(message, answer)
        return answer

    def serial_wire(self, query: Query, forward: SerialForward) -> list[bytes]:
        """Pass a command and its answer through its faults. For `SerialPorts`."""
        met = self._met_by(query.device, query.port, kinds=ON_QUERIES)
        for strike in met:
            forward = _through(struck_query, strike, forward)
        pieces = forward(query)
        if not met and any(pieces):
            self.remember(query, b"".join(pieces))
        return pieces

    def plug(self, port: str, device: str) -> str | None:
        """The present name of a chip's port, None while it is unplugged. For `SerialPorts`."""
        name = port
        for strike in self._met_by(device, port, kinds=ON_PLUGS):
            if strike.fault.kind == "unplugged":
                return None
            name = renamed(name)
        return name

    def is_refused(self, pin: int) -> bool:
        """Whether the use of a pin (BCM) meets a fault. For `SimulatedPins`."""
        return bool(self._met_by(*self._names_of_pin(pin), kinds=("refused",)))

    def switch(self, pin: int, level: Callable[[], bool | None]) -> bool | None:
        """The level of a switch on a pin (BCM), through its faults: None while it is open.

        For the `wires` of `SimulatedPins`; from its first call on, faults of the kind "gpio" meet the pin.
        """
        kinds = [met.fault.kind for met in self._met_by(*self._names_of_pin(pin), kinds=ON_SWITCHES)]
        if "absent" in kinds:
            return None
        if "frozen" not in kinds or pin not in self._levels:
            self._levels[pin] = level()
        return self._levels[pin]

    def in_chamber(self) -> Mapping[str, Defect]:
        """The faults of actuators and door now, by device. For `SimulatedChamber`."""
        if not self._armed:
            return NO_FAULTS
        with self._lock:
            now = self._monotonic()
            present = [armed for armed in self._armed if armed.has_begun(now) and not armed.is_over(now)]
        return {each.fault.device: each.fault for each in present if each.fault.kind in IN_CHAMBER}

    def hold(self, message: I2CMessage) -> None:
        """Block while a message hangs, then raise OSError (ETIMEDOUT). For `I2CAdapter`."""
        if self._armed:
            self._hold(*_names(message))

    def hangs_at_pin(self, pin: int) -> bool:
        """Whether the use of a pin (BCM) hangs. For `SimulatedPins`, which does not wait."""
        return bool(self._met_by(*self._names_of_pin(pin), kinds=("hang",)))

    def pulsed(self, bus: int, count: int) -> None:
        """Free a stuck bus after nine clock pulses or more. For `I2CAdapter`."""
        if count < CLEARING_PULSES:
            return
        with self._lock:
            now = self._monotonic()
            self._armed = [
                armed
                for armed in self._armed
                if (armed.fault.kind, armed.fault.device) != ("stuck", f"i2c-{bus}")
                or not armed.has_begun(now)
            ]

    def pause(self) -> None:
        """Sleep for the time between two pieces of a frame."""
        self._sleep(PAUSE_S)

    def hold_the_clock(self) -> None:
        """Sleep for the time limit of the adapter."""
        self._sleep(BUS_TIMEOUT_S)

    def last_frame(self, message: I2CMessage | Query) -> bytes:
        """The last measurement from there, empty before the first."""
        with self._lock:
            return self._frames.get(_place(message), b"")

    def remember(self, message: I2CMessage | Query, frame: bytes) -> None:
        """Save `frame` as the last measurement from there."""
        with self._lock:
            self._frames[_place(message)] = frame

    def payload(self, topic: str, body: bytes) -> bytes | None:
        """What a sensor of the kind "mqtt" publishes, through its faults: None for nothing."""
        kinds = [met.fault.kind for met in self._met_by("mqtt", kinds=ON_PAYLOADS)]
        if "absent" in kinds:
            return None
        if "garbled" in kinds:
            return b"nan"
        if "partial" in kinds:
            return b'{"battery": 91}'
        if "frozen" not in kinds or topic not in self._frames:
            self._frames[topic] = body
        return self._frames[topic]

    def is_away(self, place: str) -> bool:
        """Whether the device in the network at a place does not answer. For `SimulatedNetwork`."""
        return bool(self._met_by(network_place(place), kinds=("absent",)))

    def _names_of_pin(self, pin: int) -> tuple[str, ...]:
        return (f"gpio-{pin}", "gpio") if pin in self._levels else (f"gpio-{pin}",)

    def _met_by(self, *names: str, kinds: Container[str]) -> list[Strike]:
        now = self._monotonic()
        return [
            Strike(self, armed.fault, now - armed.begin, armed.dice)
            for armed in self._struck(*names, kinds=kinds)
        ]

    def _struck(self, *names: str, kinds: Container[str]) -> list[_Armed]:
        with self._lock:
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
        self._held[threading.current_thread()] = met
        while self._keeps_hanging(met):
            self._hang()
        del self._held[threading.current_thread()]
        raise kernel_error(errno.ETIMEDOUT)

    def _keeps_hanging(self, met: list[_Armed]) -> bool:
        with self._lock:
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

    def times(self, now: float) -> tuple[float, float | None]:
        return max(0.0, self.begin - now), None if self._end is None else self._end - now

    def strikes(self, now: float) -> bool:
        if not self.has_begun(now) or self.is_over(now):
            return False
        return self.dice.random() < self.fault.probability


def _through(
    manipulator: Callable[[Strike, M, Callable[[M], A]], A], strike: Strike, forward: Callable[[M], A]
) -> Callable[[M], A]:
    return lambda message: manipulator(strike, message, forward)


def _names(message: I2CMessage) -> tuple[str, str, str]:
    """The devices that a fault may name for it: chip, address, bus."""
    bus = f"i2c-{message.bus}"
    return message.device, f"{bus}:{message.address:#04x}", bus


def _place(message: I2CMessage | Query) -> tuple[int, int] | str:
    return message.port if isinstance(message, Query) else (message.bus, message.address)


def network_place(place: str) -> str:
    """How faults name the device in the network at an address or an MQTT topic."""
    return f"network:{place}"


def place_of(device: str) -> str | None:
    """The place, or the kind of sensor, that a fault's device is; None if it is neither."""
    if (named := place_without_number(device)) is not None:
        return named
    return next((place for place, pattern in _PLACES.items() if pattern.fullmatch(device)), None)
