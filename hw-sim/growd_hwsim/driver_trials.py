"""A table of faults that the driver of a sensor must stand, played on its simulated chip.

`growd driver test` plays it with drivers of other packages, and growd's tests with growd's own. A trial runs
the driver on a simulated bus or line, whose time passes only in sleeps.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd_hwsim.chip import SENSORS
from growd_hwsim.driver_bench import (
    BETWEEN_S,
    BUS_NUMBER,
    DEVICE_ERRORS,
    DISTURBED_S,
    PORT,
    DriverBench,
    TrialChamber,
    TrialFailedError,
    TrialResult,
)
from growd_hwsim.fault_kinds import BUS, KINDS, PLACES, WITH_AMOUNT
from growd_hwsim.faults import Fault, Faults
from growd_hwsim.i2c import I2CSlave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from growd_drivers.kinds import CalibrationKind
    from growd_hwsim.driver_bench import Bench, Subject, TrialSubject


TRIAL_S: Final = 60.0
"""The time limit of a trial in real seconds. Most take less than one."""

_HANGS_S: Final = 0.2
_GARBLED: Final = 200

_MUST_FAIL: Final = frozenset(
    {"absent", "nak", "bus_error", "timeout", "hang", "bad_crc", "wrong_order", "short", "garbled"}
    | {"bad_checksum", "unplugged"}
)
"""Faults during which a reading would be invented."""

_MUST_BE_TRUE: Final = frozenset({"split", "shifted", "doubled", "renamed", "stuck"})
"""Faults during which a reading is true, if there is one."""

_ADVICE: Final = {
    "absent": "Let the errors of the bus pass, or raise DeviceMissingError.",
    "bad_crc": "Compare the checksum of each answer, and raise TransferError if it is wrong.",
    "wrong_order": "Compare the checksum of each answer, and raise TransferError if it is wrong.",
    "bad_checksum": "Compare the checksum of each frame, and raise TransferError if it is wrong.",
    "short": "Check the length of an answer before you take values from it.",
    "garbled": "Look for the beginning of a frame, and compare its checksum.",
    "frozen": "Raise NotReadyError if the chip has no new measurement.",
    "saturated": "Declare the `ranges` of the kind, or raise OutOfRangeError.",
}


@dataclass(frozen=True)
class Trial:
    """One row of the table. `play` raises `TrialFailedError`, or what the driver raises."""

    name: str
    play: Callable[[Any], None]
    advice: str = ""

    def result(self, subject: Subject, limit_s: float = TRIAL_S) -> TrialResult:
        """Play it with a new chip and a new driver, in a thread that is given up after `limit_s`."""
        results: list[TrialResult] = []
        thread = threading.Thread(
            target=lambda: results.append(self._played(subject)), name="trial", daemon=True
        )
        thread.start()
        thread.join(limit_s)
        if not results:
            return TrialResult(self.name, f"it did not end within {limit_s:g} s", _ON_HANG, has_hung=True)
        return results[0]

    def _played(self, subject: Subject) -> TrialResult:
        try:
            with subject.bench() as made:
                self.play(made)
        except TrialFailedError as error:
            return TrialResult(self.name, str(error), self.advice)
        except BaseException as error:  # noqa: BLE001  whatever the driver raises
            return TrialResult(self.name, f"it raised {_words(error)}", self.advice or _ON_CRASH)
        return TrialResult(self.name)


def results_until_hung(
    trials: Iterable[Trial], subject: Subject, limit_s: float = TRIAL_S
) -> Iterator[TrialResult]:
    """The result of each trial. After one that hangs the others are left out, since they would hang too."""
    for trial in trials:
        result = trial.result(subject, limit_s)
        yield result
        if result.has_hung:
            return


_ON_HANG: Final = (
    "Use the `sleep` that the driver gets, and give each wait a limit. The other trials are left out."
)
_ON_CRASH: Final = "Raise an error of growd_drivers.errors for whatever the device does."


def _opens(made: Bench) -> None:
    """The constructor does not need the device."""
    with made.subject.bench() as other:
        device = PORT if made.is_serial else made.subject.name
        other.hardware.faults.inject(Fault("unplugged" if made.is_serial else "absent", device))
        other.opened()
    made.opened()
    if made.chip.received if made.is_serial else made.chip.written:
        raise TrialFailedError("its constructor talks to the device")


def _options(made: Bench) -> None:
    """The driver works with the ends of each option."""
    for option in made.subject.kind.own_options:
        ends: tuple[Any, ...] = option.choices or tuple(
            each for each in (option.least, option.most) if each is not None
        )
        for value in (False, True) if option.kind is bool else ends:
            with made.subject.bench() as other:
                other.opened(**{option.name: value if option.choices else option.kind(value)})
                other.expect_works()


OPENS: Final = Trial("opens without its device", _opens, "Do not talk to the device in the constructor.")
OPTIONS: Final = Trial("takes the ends of its options", _options, "Accept each value that it declares.")


def trials_of(subject: TrialSubject) -> list[Trial]:
    """The rows that fit the kind of a sensor."""
    rows = [
        OPENS,
        Trial("reads the truth", _reads_truth, "Compare your formula and its units with the datasheet."),
        OPTIONS,
    ]
    rows += [Trial(f"fault {kind}", partial(_fault, subject.name, kind), _ADVICE.get(kind, "")) for kind in
             SENSORS[subject.name].faults]  # fmt: skip
    rows.append(Trial("power lost for a minute", partial(_power_lost, 60.0), _SET_UP))
    rows.append(Trial("power lost between two readings", partial(_power_lost, 0.0), _SET_UP))
    if subject.kind.opens == "i2c":
        rows += [
            Trial(f"fault {kind} of the bus", partial(_fault, f"i2c-{BUS_NUMBER}", kind))
            for kind in PLACES[BUS]
        ]
        distorted: tuple[tuple[str, Callable[[int], bytes], int], ...] = (
            ("a line that nothing drives", lambda length: b"\xff" * length, 3),
            ("a line held low", bytes, 3),
            (f"{_GARBLED} random answers", random.Random(1).randbytes, _GARBLED),  # noqa: S311  reproducible
        )
        rows += [
            Trial(name, partial(_answers, answer, number), _CHECKSUM) for name, answer, number in distorted
        ]
    rows += [
        Trial(f"calibration {each.name}", partial(_calibration, each)) for each in subject.kind.calibrations
    ]
    return rows


_SET_UP: Final = "Set the chip up again after an error, or before each reading."
_CHECKSUM: Final = "Check each answer before you take values from it."


def _reads_truth(made: DriverBench) -> None:
    for level in (0, 1, 2):
        made.chamber.scene = level
        made.expect_truth()


def _fault(device: str, kind: str, made: DriverBench) -> None:
    made.expect_truth()
    amount = 1.0 if kind in WITH_AMOUNT else None
    made.limit_s = DISTURBED_S
    made.hardware.faults.inject(Fault(kind, device, amount=amount))
    if kind == "hang":
        hang(made.hardware.faults, made.read)
    else:
        for _ in range(3):
            made.time.sleep(BETWEEN_S)
            reading = made.read()
            if reading is not None and kind in _MUST_FAIL:
                raise TrialFailedError(f"it gave a reading: {_shown(reading)}. {KINDS[kind]}")
            if kind in _MUST_BE_TRUE:
                made.check(reading)
    made.hardware.faults.clear()
    made.chamber.scene = 1
    made.expect_truth()


def hang(faults: Faults, call: Callable[[], object]) -> None:
    """Call while the bus hangs; the call fails when the fault is over. Raises what it raises."""
    outcome: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  it is raised below
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_HANGS_S)
    faults.clear()
    thread.join()
    if outcome:
        raise outcome[0]


def _power_lost(seconds: float, made: DriverBench) -> None:
    """The chip begins again with the settings of its power-on; a chip's `memory` is non-volatile."""
    made.expect_truth()
    made.limit_s = DISTURBED_S
    chip = made.chip
    fresh = type(chip)(partial(_truth, made.chamber, chip.senses), made.time.monotonic, seed=1)
    fresh.follow_at_once()
    if hasattr(chip, "memory"):
        fresh.memory = chip.memory
    if made.is_serial:
        made.hardware.serial_ports.detach(PORT)
    else:
        made.hardware.adapters[BUS_NUMBER].detach(made.address)
    if seconds:
        for _ in range(3):
            made.time.sleep(seconds / 3)
            if made.read() is not None:
                raise TrialFailedError("it gave a reading without its device")
    if made.is_serial:
        made.hardware.serial_ports.attach(PORT, fresh)
    else:
        made.hardware.adapters[BUS_NUMBER].attach(made.address, fresh)
    made.chamber.scene = 1
    made.expect_truth()


def _truth(chamber: TrialChamber, senses: str) -> Any:
    return getattr(chamber, senses)()


class _Distorted(I2CSlave):
    """A chip whose answers are replaced."""

    def __init__(self, chip: I2CSlave, answer: Callable[[int], bytes]) -> None:
        super().__init__()
        self._chip = chip
        self._answer = answer

    def on_write(self, data: bytes) -> None:
        self._chip.receive(data)

    def on_read(self, length: int) -> bytes:
        self._chip.on_read(length)
        return self._answer(length)


def _answers(answer: Callable[[int], bytes], number: int, made: DriverBench) -> None:
    """So many answers are replaced. A chip without a checksum can't help a wrong value."""
    made.expect_truth()
    made.limit_s = DISTURBED_S
    made.hardware.adapters[BUS_NUMBER].attach(made.address, _Distorted(made.chip, answer))
    for _ in range(number):
        made.time.sleep(BETWEEN_S)
        made.read()
    made.hardware.adapters[BUS_NUMBER].attach(made.address, made.chip)
    made.chamber.scene = 1
    made.expect_truth()


def _calibration(wanted: CalibrationKind, made: DriverBench) -> None:
    """After steady air for as long as it needs; on I2C it fails without the device."""
    call = getattr(made.opened(), wanted.method)
    for reference in wanted.reference_range or (None,):
        made.first()
        end = made.time.now + wanted.steady_s + BETWEEN_S
        while made.time.now < end:
            made.time.sleep(BETWEEN_S)
            made.read()
        call(*(() if reference is None else (reference,)))
        if reference is not None:
            made.expect_reference(reference)
    if made.is_serial:
        return
    made.hardware.faults.inject(Fault("absent", made.subject.name))
    try:
        call(*(wanted.reference_range or ())[:1])
    except DEVICE_ERRORS:
        return
    raise TrialFailedError("it calibrates without its device")


def _shown(reading: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in reading.items())


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
