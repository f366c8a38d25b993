"""Atlas Scientific EZO circuits in I2C mode: pH, conductivity, temperature and dissolved oxygen of water.

Sources: the datasheets of EZO-pH, EZO-EC, EZO-RTD and EZO-DO, chapters "I2C mode" (addresses, status bytes,
processing delays, commands).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from growd_drivers.errors import (
    DeviceMissingError,
    DriverError,
    NotReadyError,
    SettingError,
    TransferError,
    WrongDeviceError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.i2c import I2CBus

ANSWER_LENGTH: Final = 40
"""Bytes of a read: the longest answer, its status and its end."""

_DONE, _SYNTAX_ERROR, _BUSY, _NO_DATA = 1, 2, 254, 255
_SHORT_S = 0.3
_ACID, _ALKALINE = 1, 2  # in the answer to Slope,?
WORN_BELOW_PERCENT: Final = 85.0
"""The slope below which a pH probe is usually replaced."""
_POLL_S = 0.1
_MOST_POLLS = 5


@dataclass(frozen=True)
class EzoSample:
    """pH, mS/cm, degrees Celsius or mg/l."""

    value: float


class Ezo:
    """One circuit. The first `read`, and the first one after it was missing, checks and sets it up.

    Its calibration and its settings are in the circuit and outlast a power cut; the temperature by which it
    compensates does not, and is sent before each reading. The constructor does not talk to the circuit.
    """

    PART: ClassVar[str]
    ANSWERS_AS: ClassVar[str]
    ADDRESS: ClassVar[int]
    PER_UNIT: ClassVar[float] = 1.0
    """What it answers for one unit of the sample."""
    READ_S: ClassVar[float] = 0.6
    CALIBRATE_S: ClassVar[float] = 0.6

    def __init__(self, bus: I2CBus, *, sleep: Callable[[float], None], address: int = 0) -> None:
        self._address = address or self.ADDRESS
        bus.label(self._address, self.PART)
        self._bus = bus
        self._sleep = sleep
        self._is_set_up = False
        self._water_degc: float | None = None

    def read(self) -> EzoSample:
        """Measure now. Blocks 0.6 to 0.9 s, with a temperature to compensate 0.3 s more.

        Raises `WrongDeviceError` for another circuit, `NotReadyError` if it has just been set up,
        `DeviceMissingError` or `TransferError` for a failed transfer or an answer that is no number.
        """
        try:
            if not self._is_set_up:
                self._set_up()
            if self._water_degc is not None:
                self._ask(f"T,{self._water_degc:.1f}")
            answer = self._ask("R", self.READ_S)
        except DeviceMissingError:
            self._is_set_up = False
            raise
        return EzoSample(self._number_in(answer))

    def compensate(self, degc: float | None) -> None:
        """Measure at this temperature of the water from now on; None is the circuit's own 25 degC."""
        self._water_degc = degc

    def calibrate(self, point: str, reference: float | None = None) -> None:
        """Calibrate permanently, at a `point` of the datasheet ("mid", ...) with its reference.

        Raises `SettingError` if the circuit refuses, and as `read`.
        """
        value = "" if reference is None else f"{reference * self.PER_UNIT:.6g}"
        self._ask(",".join(filter(None, ("Cal", point, value))), self.CALIBRATE_S)

    def settings(self) -> dict[str, tuple[str, str]]:
        """What must be in the answer to each question, and the command that sets it."""
        return {}

    def _set_up(self) -> None:
        found = self._ask("i").split(",")  # "?i,pH,1.98"; an EZO-DO is "DO" or "D.O.", by its firmware
        if [part.lower().replace(".", "") for part in found[:2]] != ["?i", self.ANSWERS_AS.lower()]:
            other = found[1] if len(found) > 1 else found[0]
            sentence = f"{self._name} is another circuit: it answers as {other!r}, not {self.ANSWERS_AS}"
            raise WrongDeviceError(sentence, device=self.PART, found=0, expected=self._address)
        changed = self._wanted()
        for command in changed:
            self._ask(command)
        self._is_set_up = True
        if changed:
            raise NotReadyError(f"{self._name} was set up: {', '.join(changed)}", device=self.PART)

    def _wanted(self) -> list[str]:
        """The commands that change settings."""
        return [
            command
            for question, (expected, command) in self.settings().items()
            if expected.lower() not in self._ask(question).lower().split(",")
        ]

    def _ask(self, command: str, processing_s: float = _SHORT_S) -> str:
        """The answer to a command, without its status."""
        self._bus.writeto(self._address, command.encode("ascii"))
        self._sleep(processing_s)
        answer = bytearray(ANSWER_LENGTH)
        for _ in range(_MOST_POLLS):
            self._bus.readfrom_into(self._address, answer)
            if answer[0] != _BUSY:
                break
            self._sleep(_POLL_S)
        if answer[0] == _SYNTAX_ERROR:
            raise SettingError(f"{self._name} refuses the command {command}", device=self.PART)
        if answer[0] != _DONE:
            reason = {_BUSY: "is still busy with", _NO_DATA: "has no answer to"}.get(
                answer[0], "sent no valid answer to"
            )
            raise self._failed(f"{reason} the command {command}")
        return bytes(answer[1:]).partition(b"\0")[0].decode("ascii", errors="replace")

    def _number_in(self, answer: str) -> float:
        try:
            return float(answer.partition(",")[0]) / self.PER_UNIT
        except ValueError:
            raise self._failed(f"sent {answer[:20]!r} instead of a number") from None

    @property
    def _name(self) -> str:
        return self._bus.name_of(self._address)

    def _failed(self, reason: str) -> TransferError:
        sentence = f"{self._name} {reason}"
        return TransferError(sentence, device=self.PART, address=self._address, errno=errno.EBADMSG)


class EzoPh(Ezo):
    """EZO-pH."""

    PART, ANSWERS_AS, ADDRESS = "EZO-pH", "pH", 0x63
    READ_S, CALIBRATE_S = 0.9, 0.9

    def calibrate_mid(self, reference: float) -> None:
        """The first point, near pH 7, which deletes the others."""
        self.calibrate("mid", reference)

    def calibrate_low(self, reference: float) -> str:
        """The acid point, after the middle (else `SettingError`); the slope of the probe, in words."""
        self._check_middle()
        self.calibrate("low", reference)
        return self._slope(_ACID)

    def calibrate_high(self, reference: float) -> str:
        """The alkaline point, as the acid one."""
        self._check_middle()
        self.calibrate("high", reference)
        return self._slope(_ALKALINE)

    def _check_middle(self) -> None:
        """Raise `SettingError` without a middle point, whose calibration would delete the others."""
        if self._ask("Cal,?").rpartition(",")[2] == "0":  # "?Cal,0"
            sentence = f"{self._name} has no middle point yet: calibrate it first, it deletes the others"
            raise SettingError(sentence, device=self.PART)

    def _slope(self, side: int) -> str:
        """How steep the probe is beside an ideal one, "" if the circuit does not say it."""
        try:
            percent = float(self._ask("Slope,?").split(",")[side])  # "?Slope,99.7,100.3,-0.89"
        except (DriverError, ValueError, IndexError):
            return ""  # the calibration is done all the same
        worn = ": it is worn, replace it" if percent < WORN_BELOW_PERCENT else ""
        return f"its probe has {percent:.0f} % of the slope of an ideal one{worn}"


class EzoEc(Ezo):
    """EZO-EC. It answers in uS/cm; the sample has mS/cm. `probe_k` is the cell constant of the probe."""

    PART, ANSWERS_AS, ADDRESS = "EZO-EC", "EC", 0x64
    PER_UNIT = 1000.0

    def __init__(
        self, bus: I2CBus, *, sleep: Callable[[float], None], address: int = 0, probe_k: float = 1.0
    ) -> None:
        super().__init__(bus, sleep=sleep, address=address)
        self._probe_k = f"{probe_k:.2f}"

    def settings(self) -> dict[str, tuple[str, str]]:
        """EC in the answer, where it is the first value, and the cell constant."""
        return {"O,?": ("EC", "O,EC,1"), "K,?": (self._probe_k, f"K,{self._probe_k}")}

    def calibrate_dry(self) -> None:
        """The dry probe, before the others."""
        self.calibrate("dry")

    def calibrate_low(self, reference: float) -> None:
        """The solution of the lower conductivity, in mS/cm."""
        self.calibrate("low", reference)

    def calibrate_high(self, reference: float) -> None:
        """The solution of the higher conductivity, in mS/cm."""
        self.calibrate("high", reference)


class EzoRtd(Ezo):
    """EZO-RTD."""

    PART, ANSWERS_AS, ADDRESS = "EZO-RTD", "RTD", 0x66

    def settings(self) -> dict[str, tuple[str, str]]:
        """The scale."""
        return {"S,?": ("c", "S,c")}

    def calibrate_temperature(self, reference: float) -> None:
        """One point, in degrees Celsius."""
        self.calibrate("", reference)


class EzoDo(Ezo):
    """EZO-DO. Its address is also that of an SCD30: one of them needs another bus or address."""

    PART, ANSWERS_AS, ADDRESS = "EZO-DO", "DO", 0x61
    CALIBRATE_S = 1.3

    def settings(self) -> dict[str, tuple[str, str]]:
        """mg/l in the answer, where it is the first value."""
        return {"O,?": ("mg", "O,mg,1")}

    def calibrate_air(self) -> None:
        """The probe in air."""
        self.calibrate("")

    def calibrate_no_oxygen(self) -> None:
        """The probe in a solution without oxygen, after the air."""
        self.calibrate("", 0.0)
