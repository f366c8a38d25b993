"""Simulated Atlas Scientific EZO circuits in I2C mode. Sources: datasheets of EZO-pH, -EC, -RTD, -DO."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from growd_hwsim.chip import Measurement
from growd_hwsim.sensors import I2CSensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_hwsim.tank import Water

DONE, SYNTAX_ERROR, BUSY, NO_DATA = 1, 2, 254, 255
LENGTH = 40
_SHORT_S = 0.3
_OUTPUTS = {"EC": ("EC", "TDS", "S", "SG"), "DO": ("mg", "%")}


def _number_in(answer: bytes) -> float:
    """The first number of an answer, 0 for another answer."""
    text = answer[1:].partition(b"\0")[0].partition(b",")[0]
    try:
        return float(text)
    except ValueError:
        return 0.0


def _with_number(answer: bytes, number: float) -> bytes:
    text = answer[1:].partition(b"\0")[0]
    if not text or not text[:1].isdigit():
        return answer  # no measurement
    rest = text.partition(b",")
    return (answer[:1] + f"{number:.3f}".encode() + rest[1] + rest[2]).ljust(LENGTH, b"\0")


def _measurement(full_scale: float, unit: str) -> Measurement:
    return Measurement(LENGTH, full_scale, _number_in, _with_number, unit)


class SimulatedEzo(I2CSensor):
    """A circuit with its probe in the water of `water()`, on the time of `monotonic`.

    `error` is added by the probe until it is calibrated. A calibration of any point corrects all readings.
    `known_points` are those that it has been calibrated at, `slopes_percent` those of a pH probe in acid and
    in alkaline solutions.
    """

    senses = "water"
    answers_as: ClassVar[str]
    noise: ClassVar[float]
    read_s: ClassVar[float] = 0.6
    calibrate_s: ClassVar[float] = 0.6
    points: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        water: Callable[[], Water],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        error: float = 0.0,
    ) -> None:
        super().__init__(water, monotonic, seed=seed)
        self._error = error
        self.correction = 0.0
        self.known_points: set[str] = {"mid"}
        self.identity = self.answers_as
        self.slopes_percent = (99.7, 100.3)
        self.calibrated: list[str] = []
        self.outputs = list(_OUTPUTS.get(self.answers_as, ()))[:1]
        self.scale = "c"
        self.cell_constant = 1.0

    def power_cycle(self) -> None:
        """Lose and regain power. Calibration and settings stay, the temperature does not."""
        self.water_degc = 25.0
        self._answer = bytes([NO_DATA])
        self._ready_at = 0.0

    def on_write(self, data: bytes) -> None:
        """A command in ASCII."""
        name, *arguments = data.decode("ascii", errors="replace").strip("\0\r").lower().split(",")
        takes_s = {"r": self.read_s, "cal": self.calibrate_s}.get(name, _SHORT_S)
        self._ready_at = self._monotonic() + (_SHORT_S if arguments == ["?"] else takes_s)
        try:
            text = self._carried_out(name, arguments)
        except (ValueError, IndexError):
            self._answer = bytes([SYNTAX_ERROR])
        else:
            self._answer = bytes([DONE]) + text.encode()

    def on_read(self, length: int) -> bytes:
        """The status and the answer, once."""
        if self._monotonic() < self._ready_at:
            return bytes([BUSY]).ljust(length, b"\0")
        answer, self._answer = self._answer, bytes([NO_DATA])
        return answer.ljust(length, b"\0")[:length]

    def true(self, water: Water) -> float:
        """What the circuit would answer without error and noise."""
        raise NotImplementedError

    def _carried_out(self, name: str, arguments: list[str]) -> str:
        """The text of the answer. Raises ValueError or IndexError for a syntax error."""
        if name == "r" and not arguments:
            return f"{self._measured():.3f}"
        if name == "i":
            return f"?i,{self.identity},2.10"
        if name == "t":
            self.water_degc = float(arguments[0])
        elif name == "cal" and arguments == ["?"]:
            return f"?Cal,{len(self.known_points)}"
        elif name == "cal":
            self._calibrate(arguments)
        else:
            return self._setting(name, arguments)
        return ""

    def _setting(self, name: str, arguments: list[str]) -> str:
        """The answer to a question or a change of what this circuit alone has."""
        if name == "k" and self.answers_as == "EC":
            if arguments[0] == "?":
                return f"?K,{self.cell_constant:.2f}"
            self.cell_constant = float(arguments[0])
        elif name == "s" and self.answers_as == "RTD":
            if arguments[0] == "?":
                return f"?S,{self.scale}"
            self.scale = {"c": "c", "k": "k", "f": "f"}[arguments[0]]
        elif name == "slope" and self.answers_as == "pH" and arguments == ["?"]:
            return f"?Slope,{self.slopes_percent[0]},{self.slopes_percent[1]},-0.89"
        elif name == "o" and self.answers_as in _OUTPUTS:
            return self._output(arguments)
        else:
            raise ValueError(name)
        return ""

    def _output(self, arguments: list[str]) -> str:
        if arguments[0] == "?":
            return ",".join(("?O", *self.outputs))
        known = {each.lower(): each for each in _OUTPUTS[self.answers_as]}
        chosen = (
            {*self.outputs, known[arguments[0]]}
            if arguments[1] == "1"
            else set(self.outputs) - {known[arguments[0]]}
        )
        self.outputs = [each for each in _OUTPUTS[self.answers_as] if each in chosen]
        return ""

    def _calibrate(self, arguments: list[str]) -> None:
        point, *reference = arguments if arguments and arguments[0].isalpha() else ("", *arguments)
        if point not in self.points:
            raise ValueError(point)
        self.calibrated.append(",".join(arguments))
        self.known_points = {point} if point == "mid" else self.known_points | {point}
        if reference:
            self.correction = float(reference[0]) - self.true(self._truth()) - self._error

    def _measured(self) -> float:
        value = self.true(self._truth()) + self._error + self.correction
        return max(0.0, value + self._noise.gauss(0.0, self.noise))


class SimulatedEzoPh(SimulatedEzo):
    """EZO-pH."""

    name, answers_as, noise = "ezo_ph", "pH", 0.002
    measurement = _measurement(14.0, "pH")
    read_s = calibrate_s = 0.9
    points = ("mid", "low", "high")

    def true(self, water: Water) -> float:
        """PH."""
        return water.potential_hydrogen


class SimulatedEzoEc(SimulatedEzo):
    """EZO-EC."""

    name, answers_as, noise = "ezo_ec", "EC", 2.0
    measurement = _measurement(500_000.0, "uS/cm")
    points = ("dry", "low", "high")

    def true(self, water: Water) -> float:
        """uS/cm, for a probe whose cell constant is that of the setting."""
        return 1000.0 * water.conductivity_ms_cm


class SimulatedEzoRtd(SimulatedEzo):
    """EZO-RTD."""

    name, answers_as, noise = "ezo_rtd", "RTD", 0.005
    measurement = _measurement(1254.0, "degC")
    points = ("",)

    def true(self, water: Water) -> float:
        """In the scale that is set."""
        degc = water.temperature_degc
        return {"c": degc, "k": degc + 273.15, "f": 32.0 + 1.8 * degc}[self.scale]


class SimulatedEzoDo(SimulatedEzo):
    """EZO-DO."""

    name, answers_as, noise = "ezo_do", "DO", 0.01
    measurement = _measurement(100.0, "mg/l")
    calibrate_s = 1.3
    points = ("",)

    def true(self, water: Water) -> float:
        """mg/l."""
        return water.dissolved_oxygen_mg_l
