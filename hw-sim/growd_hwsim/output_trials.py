"""A table of faults that the driver of an output must stand, as `growd_hwsim.driver_trials` for sensors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.chip import SENSORS
from growd_hwsim.driver_bench import (
    BUS_NUMBER,
    DEVICE_ERRORS,
    DISTURBED_S,
    READ_S,
    Bench,
    Subject,
    TrialFailedError,
    TrialTime,
)
from growd_hwsim.driver_trials import OPENS, OPTIONS, Trial, hang
from growd_hwsim.fault_kinds import BUS, PLACES
from growd_hwsim.faults import Fault
from growd_hwsim.hardware import WiredChip, Wiring

if TYPE_CHECKING:
    from growd_drivers.kinds import OutputKind

_MOVES: Final = "heater"
_MUST_FAIL: Final = ("absent", "nak", "bus_error", "timeout")
_OFF_BY: Final = 0.05
VALID_S: Final = 600.0  # longer than any other trial
_RETRY_S: Final = 2.5
_RETRIES: Final = 5


class OutputSubject(Subject):
    """The driver of outputs."""

    kind: OutputKind

    def new_bench(self) -> OutputBench:
        return OutputBench(self)


class OutputBench(Bench):
    """The driver of an output, which drives `level`."""

    def __init__(self, subject: OutputSubject) -> None:
        time = TrialTime()
        self.chamber = SimulatedChamber(time.monotonic)
        wired = WiredChip(subject.name, BUS_NUMBER, subject.address, _MOVES)
        super().__init__(subject, time, self.chamber, Wiring(i2c=(wired,), lamp_pins={}))

    @property
    def level(self) -> float:
        """What the chip drives now."""
        return self.chamber.level(_MOVES)

    def expect_works(self) -> None:
        self.expect(1.0)

    def write(self, level: float, limit_s: float = READ_S) -> bool:
        """Whether the driver wrote the level; False for an error of the device."""
        self.time.slept = 0.0
        try:
            self.opened().write(*((level, VALID_S) if self.subject.kind.takes_valid_s else (level,)))
        except DEVICE_ERRORS:
            return False
        finally:
            if self.time.slept > limit_s:
                raise TrialFailedError(f"one write takes {self.time.slept:.3g} s; growd waits {limit_s:g} s")
        return True

    def expect(self, level: float) -> None:
        """The driver reaches the level, after some tries as growd makes them."""
        for _ in range(_RETRIES):
            if self.write(level, DISTURBED_S) and abs(self.level - level) <= _OFF_BY:
                return
            self.time.sleep(_RETRY_S)
        raise TrialFailedError(f"the output is at {self.level:.3g} after write({level:g})")


def trials_of_output(subject: OutputSubject) -> list[Trial]:
    """The rows that fit the kind of an output on I2C."""
    faults = [kind for kind in SENSORS[subject.name].faults if kind in PLACES[BUS]]
    rows = [
        OPENS,
        Trial("drives on and off", _on_and_off),
        OPTIONS,
        Trial("stays off when it is closed", _closes, "Do not change the output in close()."),
        *[Trial(f"fault {kind}", partial(_fault, subject.name, kind), _ON_ERRORS) for kind in faults],
        *[
            Trial(f"fault {kind} of the bus", partial(_fault, f"i2c-{BUS_NUMBER}", kind), _ON_ERRORS)
            for kind in PLACES[BUS]
        ],
        Trial("power lost between two writes", _power_lost, _WHOLE),
    ]
    if subject.kind.can_dim:
        rows.append(Trial("dims", _dims))
    if subject.kind.timer_s is not None or subject.kind.takes_valid_s:
        rows.append(
            Trial("becomes safe by its own timer", _timer, "Start the timer of the device in each write.")
        )
    return rows


_ON_ERRORS: Final = "Let the errors of the bus pass."
_WHOLE: Final = "Write the whole state each time, with the set-up of the device."


def _on_and_off(made: OutputBench) -> None:
    for level in (0.0, 1.0, 0.0, 1.0, 1.0, 0.0):
        if not made.write(level):
            raise TrialFailedError(f"write({level:g}) failed without a fault")
        made.expect(level)


def _dims(made: OutputBench) -> None:
    for level in (0.25, 0.75, 0.5, 0.0):
        made.expect(level)


def _closes(made: OutputBench) -> None:
    made.expect(1.0)
    made.expect(0.0)
    made.opened().close()
    if made.level > _OFF_BY:
        raise TrialFailedError(f"the output is at {made.level:.3g} after close()")


def _fault(device: str, kind: str, made: OutputBench) -> None:
    made.expect(1.0)
    made.hardware.faults.inject(Fault(kind, device))
    if kind == "hang":
        hang(made.hardware.faults, lambda: made.write(0.0, DISTURBED_S))
    elif made.write(0.0, DISTURBED_S) and kind in _MUST_FAIL:
        raise TrialFailedError("write() raised no error, and the device did not answer")
    made.hardware.faults.clear()
    made.expect(0.0)
    made.expect(1.0)


def _power_lost(made: OutputBench) -> None:
    made.expect(1.0)
    chip = made.chip
    made.chamber.set_actuator(_MOVES, 0.0)
    fresh: Any = type(chip)
    drive = partial(made.chamber.set_actuator, _MOVES)
    made.hardware.adapters[BUS_NUMBER].detach(made.address)
    made.hardware.adapters[BUS_NUMBER].attach(made.address, fresh(drive, made.time.monotonic, seed=1))
    made.expect(1.0)
    made.expect(0.0)


def _timer(made: OutputBench) -> None:
    made.expect(1.0)
    made.time.sleep((made.subject.kind.timer_s or VALID_S) + 1.0)
    if made.level > _OFF_BY:
        raise TrialFailedError(f"the output is at {made.level:.3g} after its time without a write")
