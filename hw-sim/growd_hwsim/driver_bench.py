"""A driver on its simulated chip, on time that passes only in sleeps."""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from growd_hwsim.chamber import Air, SimulatedChamber
from growd_hwsim.hardware import SimulatedHardware, WiredChip, Wiring
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.tank import Water

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from growd_drivers.kinds import SensorKind

READ_S: Final = 2.0
"""The time limit of a read in growd."""

DISTURBED_S: Final = 10.0
"""The same while the device misbehaves; a thread that hangs for longer is abandoned."""

RECOVERS_S: Final = 120.0
BETWEEN_S: Final = 2.5
PORT: Final = "/dev/serial0"
BUS_NUMBER: Final = 1
DEVICE_ERRORS: Final = (OSError, RuntimeError, ValueError)
SHARE: Final = 0.05
"""How far a reading may be from the truth: this share of it, and a hundredth of the variable's range."""


class TrialFailedError(Exception):
    """What the driver did wrong."""


@dataclass(frozen=True)
class TrialResult:
    """One row: the trial, and what the driver did wrong with what to do about it, "" if it passed."""

    name: str
    failure: str = ""
    advice: str = ""
    has_hung: bool = False


class TrialChamber(SimulatedChamber):
    """A chamber whose values are set, and stay."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__(monotonic, ChamberParameters())
        self.scene = 0

    def air(self) -> Air:
        return (Air(800, 22, 55), Air(450, 12, 35), Air(2_500, 33, 85))[self.scene]

    def carbon_dioxide_ppm(self) -> float:
        return self.air().carbon_dioxide_ppm

    def illuminance_lux(self) -> float:
        return (8_000.0, 200.0, 40_000.0)[self.scene]

    def ppfd_umol_m2_s(self) -> float:
        return (150.0, 20.0, 800.0)[self.scene]

    def photons_by_source(self) -> dict[str, float]:
        return {"daylight": self.ppfd_umol_m2_s()}

    def water(self) -> Water:
        return (
            Water(20, 6.0, 1.6, 70, 14, 8.0),
            Water(14, 5.2, 0.8, 30, 6, 6.0),
            Water(27, 7.4, 2.6, 95, 19, 9.5),
        )[self.scene]

    def soil_moisture_percent(self) -> float:
        return (50.0, 20.0, 80.0)[self.scene]

    def is_door_open(self) -> bool:
        return self.scene == 1


@dataclass(frozen=True)
class Subject:
    """A driver: the name of its kind, the kind, and how growd opens it on some hardware.

    `open_driver` takes values of the kind's own options by name.
    """

    name: str
    kind: Any
    open_driver: Callable[..., Any]

    @property
    def address(self) -> int:
        """Where the chip is on I2C."""
        return next(iter(self.kind.addresses), 0)

    def new_bench(self) -> Bench:
        """A new driver on a new simulated chip."""
        raise NotImplementedError

    @contextmanager
    def bench(self) -> Iterator[Any]:
        """The same, for the body."""
        made = self.new_bench()
        try:
            yield made
        finally:
            made.hardware.close()


@dataclass(frozen=True)
class TrialSubject(Subject):
    """The driver of a sensor.

    `truths` has the true value of a variable in a chamber, `ranges` the lowest and highest that growd takes.
    `prepare` changes the hardware before.
    """

    kind: SensorKind
    truths: Mapping[str, Callable[[SimulatedChamber], float]]
    ranges: Mapping[str, tuple[float, float]]
    prepare: Callable[[SimulatedHardware], object] = lambda _: None
    share: float = SHARE

    def new_bench(self) -> DriverBench:
        return DriverBench(self)


@dataclass
class TrialTime:
    """Time that passes only in sleeps."""

    now: float = 5_000.0
    slept: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.now += max(0.0, seconds)
            self.slept += max(0.0, seconds)

    def monotonic(self) -> float:
        return self.now


class Bench:
    """A driver on its simulated chip, on time that passes only in sleeps."""

    def __init__(self, subject: Subject, time: TrialTime, chamber: SimulatedChamber, wiring: Wiring) -> None:
        self.subject = subject
        self.time = time
        self.is_serial = subject.kind.opens == "serial"
        self.address = subject.address
        self.hardware = SimulatedHardware(chamber, sleep=time.sleep, monotonic=time.monotonic, wiring=wiring)
        self.driver: Any = None

    @property
    def chip(self) -> Any:
        """The simulated chip."""
        chips = self.hardware.serial_chips if self.is_serial else self.hardware.chips
        return next(iter(chips.values()))

    def opened(self, **options: Any) -> Any:
        """The driver, opened as growd does; for a test with other values of its options."""
        if self.driver is None:
            self.driver = self.subject.open_driver(self.hardware, **options)
        return self.driver

    def expect_works(self) -> None:
        """The driver does something. Raises `TrialFailedError`."""
        raise NotImplementedError


class DriverBench(Bench):
    """The driver of a sensor."""

    subject: TrialSubject

    def __init__(self, subject: TrialSubject) -> None:
        time = TrialTime()
        self.chamber = TrialChamber(time.monotonic)
        is_serial = subject.kind.opens == "serial"
        wiring = Wiring(
            i2c=() if is_serial else (WiredChip(subject.name, BUS_NUMBER, subject.address),),
            serial={PORT: subject.name} if is_serial else {},
            lamp_pins={},
        )
        super().__init__(subject, time, self.chamber, wiring)
        subject.prepare(self.hardware)
        self.chip.follow_at_once()
        self.limit_s = READ_S

    def expect_works(self) -> None:
        self.first()

    def read(self) -> dict[str, float] | None:
        """A reading by variable; None if the driver raises an error of the device.

        Raises `TrialFailedError` for a value that is no number, or a read that takes too long.
        """
        self.time.slept = 0.0
        try:
            sample = self.opened().read()
        except DEVICE_ERRORS:
            return None
        finally:
            self._check_time()
        return {name: _number(sample, part, name) for part, name in self.subject.kind.variables.items()}

    def first(self, within_s: float = RECOVERS_S) -> dict[str, float]:
        """The first reading within a time after the warm-up. Raises `TrialFailedError`."""
        end = self.time.now + within_s + self.subject.kind.warm_up_s
        last = None
        while self.time.now < end:
            last = self.read()
            if last is not None:
                return last
            self.time.sleep(BETWEEN_S)
        raise TrialFailedError(f"it has no reading {within_s:g} s after the fault")

    def expect_truth(self, within_s: float = RECOVERS_S) -> None:
        """The driver reads the truth, after some time. Raises `TrialFailedError`."""
        end = self.time.now + within_s + self.subject.kind.warm_up_s
        while True:
            reading = self.first(within_s)
            wrong = list(self._wrong(reading))
            if not wrong:
                return
            if self.time.now >= end:
                raise TrialFailedError("; ".join(wrong))
            self.time.sleep(BETWEEN_S)

    def expect_reference(self, reference: float, within_s: float = RECOVERS_S) -> None:
        """After a calibration the driver reads the reference, after some time. Raises `TrialFailedError`."""
        end = self.time.now + within_s
        while True:
            values = self.first(within_s).values()
            if any(abs(value - reference) <= self.subject.share * abs(reference) + 0.1 for value in values):
                return
            if self.time.now >= end:
                shown = ", ".join(f"{value:.6g}" for value in values)
                raise TrialFailedError(f"it reads {shown} after a calibration to {reference:g}")
            self.time.sleep(BETWEEN_S)

    def check(self, reading: Mapping[str, float] | None) -> None:
        """A reading is true, if there is one. Raises `TrialFailedError`."""
        if reading is not None and (wrong := list(self._wrong(reading))):
            raise TrialFailedError("; ".join(wrong))

    def _wrong(self, reading: Mapping[str, float]) -> Iterator[str]:
        for variable, value in reading.items():
            if variable not in self.subject.truths:
                continue
            truth = float(self.subject.truths[variable](self.chamber))
            least, most = self.subject.ranges[variable]
            if not abs(value - truth) <= self.subject.share * abs(truth) + 0.01 * min(most - least, 100):
                yield f"{variable} is {value:.6g}, and the truth is {truth:.6g}"

    def _check_time(self) -> None:
        if self.time.slept > self.limit_s:
            raise TrialFailedError(f"one read takes {self.time.slept:.3g} s; growd waits {self.limit_s:g} s")


def _number(sample: object, part: str, variable: str) -> float:
    try:
        value = getattr(sample, part)
    except AttributeError:
        raise TrialFailedError(f"its sample has no {part}") from None
    if isinstance(value, bool | str) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TrialFailedError(f"{variable} is {value!r:.60}, and no number")
    return float(value)
