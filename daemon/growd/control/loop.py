"""The controller of any measured variable: from a set point to a demand for the outputs that move it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from growd.bus.fields import Field, Kind
from growd.control.controllers import Controller
from growd.control.loop_inputs import Applied
from growd.control.loop_laws import DOSE_SHARE, DosePlan, Hysteresis, Sides
from growd.control.pid import Gains, Pid
from growd.control.pumps import JointFlow
from growd.control.topics import measured
from growd.loops import loop_kind
from growd.runtime.sentence import Sentence, problem
from growd.variables import CARBON_DIOXIDE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.params import Parameter
    from growd.control.loop_inputs import LampShare

MOST_KP = 1_000.0


class DoseSize(msgspec.Struct, frozen=True):
    """A dose in one direction: `ml_per_unit` of the whole tank, by outputs of this joint flow."""

    ml_per_unit: float
    flow: JointFlow = msgspec.field(default_factory=JointFlow)
    longest_s: float = math.inf
    is_water: bool = False
    """Whether it is fresh water, which has no `most_ml`."""


class Doses(msgspec.Struct, frozen=True):
    """Doses of pumps that raise a variable, and that lower it."""

    raising: DoseSize
    lowering: DoseSize
    mixing_s: float = 300.0
    most_ml: float = 50.0

    def size(self, *, raises: bool) -> DoseSize:
        return self.raising if raises else self.lowering


class LoopSettings(msgspec.Struct, frozen=True):
    """How a variable is controlled; bands in its unit."""

    gains: Gains
    band: float
    lowers_band: float
    method: str = "pid"
    lowering: Gains | None = None
    """Gains of the outputs that lower it, if they differ."""
    night: Gains | None = None
    """Gains while the lamp is dark, if they differ."""
    feed_forward: float = 0.0
    """What the lamp at full light adds, as a share of the outputs that raise the variable."""
    doses: Doses | None = None


def usual_settings(variable: str) -> LoopSettings:
    """The settings of the table of loops."""
    kind = loop_kind(variable)
    gains = Gains(kind.kp, kind.ti_s, kind.td_s)
    return LoopSettings(
        gains,
        kind.band,
        kind.lowers_band,
        kind.method,
        lowering=None if kind.lowering_kp is None else msgspec.structs.replace(gains, kp=kind.lowering_kp),
        doses=Doses(DoseSize(1.0), DoseSize(1.0)) if kind.method == "dose" else None,
    )


class LoopController(Controller):
    """From `desired` of a variable to a demand, above 0 for the outputs that raise it, below 0 to lower it.

    With `pid` the demand is -1..1. `lowers_band` above the set point it changes to the outputs that lower the
    variable, and as far below it back (`Sides`). Of a variable that falls by itself (CO2) they only remove
    what is more than `lowers_band` too much. With `on_off` the demand is 1, 0 or -1 (`Hysteresis`). With
    doses (`DosePlan`) it is 1 or -1 for the length of a dose, and 0 while the water mixes.

    The PID gets the real level of the outputs (`raises`, `lowers`), so it knows of interlocks, overrides and
    doses still due. Outputs that lower the variable do not run for less than `floor()`. Without a set point,
    or a measured value that is ok and younger than `measured_stale_after_s`, nothing is commanded; the
    integral is held, and starts from 0 after a release of the set point. `remedy` ends the warning of gains
    that were never tuned, "" for no warning.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        variable: str,
        settings: LoopSettings | None = None,
        *,
        raises: Sequence[str] = (),
        lowers: Sequence[str] = (),
        floor: Callable[[], float] | None = None,
        lamp: LampShare | None = None,
        measured_stale_after_s: float = 30.0,
        remedy: str = "",
    ) -> None:
        self.variable = variable
        self._kind = loop_kind(variable)
        self.settings = settings = settings or usual_settings(variable)
        """As configured, before parameters change them."""
        self._applied = Applied(bus, environment, raises, lowers)
        self._measured_topic = measured(environment, variable)
        inputs = (self._measured_topic, *self._applied.topics)
        super().__init__(bus, environment, variable, more_inputs=inputs)
        self._declare(settings, has_lowering=bool(lowers))
        self._measured_stale_after = measured_stale_after_s
        self._has_lowering = bool(lowers)
        self._floor = floor or (lambda: self._kind.least)
        self._lamp = lamp
        self._pid = Pid(settings.gains, -1.0, 1.0, integral_minimum=0.0)
        self._sides = Sides(can_raise=bool(raises) or not lowers, can_lower=bool(lowers))
        self._hysteresis = Hysteresis(can_lower=bool(lowers), overshoot_goes=self._kind.overshoot_goes)
        self._doses = DosePlan()
        self._withheld = 0.0  # the part of the last demand that no device got
        self._desired: float | None = None
        self._measured: tuple[float, float] | None = None  # value, arrival
        self._computed: float | None = None  # time of the last PID update, None after a pause
        self._experiment: tuple[float, float] | None = None  # level, until when
        self._remedy = remedy
        if remedy:
            self.node.describe("problems", self._problems)

    @property
    def name(self) -> str:
        """The variable for people."""
        return self._kind.name or self.variable

    @property
    def set_point(self) -> float | None:
        """The set point in the unit of the variable."""
        return self._desired

    @property
    def measured_value(self) -> float | None:
        """The measured value, None if it is not ok or stale."""
        if self._measured is None or self._clock.monotonic() - self._measured[1] > self._measured_stale_after:
            return None
        return self._measured[0]

    def experiment(self, level: float | None, seconds: float = 0.0) -> None:
        """Command this level for `seconds` in place of control; None ends it."""
        self._experiment = None if level is None else (level, self._clock.monotonic() + seconds)
        self._nudge()

    def _declare(self, settings: LoopSettings, *, has_lowering: bool) -> None:
        unit, span = self._unit_and_span()
        on_off = Field("on_off", Kind.BOOL, default=settings.method == "on_off")
        lowers_band = "fan_band" if self.variable == CARBON_DIOXIDE else "lowers_band"
        if doses := settings.doses:
            ml_per_unit = doses.raising.ml_per_unit
            self._ml_per_unit = self._number("ml_per_unit", ml_per_unit, 0, 1e6, f"ml/{unit}")
            self._mixing = self._number("mixing", doses.mixing_s, 0, 86_400, "s")
            self._most_ml = self._number("most_ml", doses.most_ml, 0, 1e6, "ml")
            if has_lowering:
                ml_per_unit = doses.lowering.ml_per_unit
                self._lowering_ml = self._number("lowering_ml_per_unit", ml_per_unit, 0, 1e6, f"ml/{unit}")
        else:
            self._on_off = self.node.declare(f"{self.node.name}/on_off", on_off)
            self._gains = self._declare_gains("", settings.gains)
            self._weight = self._number("weight", settings.gains.weight, 0, 1, "fraction")
            self._night = self._declare_gains("night_", settings.night) if settings.night else None
            lowering = settings.lowering if has_lowering else None
            self._lowering = self._declare_gains("lowering_", lowering) if lowering else None
        self._feed_forward: Parameter | None = None
        if settings.feed_forward:
            self._feed_forward = self._number("feed_forward", settings.feed_forward, -1, 1, "fraction")
        self._band = self._number("band", settings.band, 0, span, unit)
        self._lowers_band = self._number(lowers_band, settings.lowers_band, 0, span, unit)

    def _unit_and_span(self) -> tuple[str, float]:
        known = VARIABLES[self.variable]
        span = 10_000.0 if self.variable == CARBON_DIOXIDE else known.maximum - known.minimum
        return known.unit, span

    def _declare_gains(self, prefix: str, gains: Gains) -> tuple[Parameter, Parameter, Parameter]:
        most = 100.0 if self.variable == CARBON_DIOXIDE else MOST_KP
        return (
            self._number(f"{prefix}kp", gains.kp, 0, most, f"1/{self._unit_and_span()[0]}"),
            self._number(f"{prefix}ti", gains.ti_s, 1, 864_000, "s"),
            self._number(f"{prefix}td", gains.td_s, 0, 3_600, "s"),
        )

    def _problems(self) -> list[dict[str, Any]]:
        """The default gains suit the simulated chamber; another one may overshoot far."""
        if not self._is_untuned():
            return []
        text = (
            f"the control of {self.variable} has the default gains and was never tuned, so {self.name} may "
            f"overshoot: {self._remedy}"
        )
        said = Sentence(text, "never_tuned", variable=self.variable)
        return [problem(said, name=f"{self.node.name}/autotune")]

    def _is_untuned(self) -> bool:
        usual = usual_settings(self.variable)
        if self.settings.doses is not None:
            doses, raising = self.settings.doses, self._ml_per_unit.value
            lowering = self._lowering_ml.value if self._has_lowering else doses.lowering.ml_per_unit
            return bool((raising, lowering) == (doses.raising.ml_per_unit, doses.lowering.ml_per_unit))
        if self._on_off.value:
            return False
        return self._gains_of(self._gains, 1.0) == msgspec.structs.replace(usual.gains, weight=1.0)

    def _take_input(self, message: Message) -> bool:
        value = message.known
        if message.topic == self._measured_topic:
            self._measured = None if value is None else (value, self._published_at(message))
        elif message.topic == self._desired_topic:
            if value != self._desired:
                self._hysteresis.step()
            if value is None or self._desired is None or abs(value - self._desired) > self._band.value:
                self._doses.step()
            self._desired = value
        else:
            self._applied.take(message, self._clock.monotonic())
        return True

    def _automatic(self) -> float | None:
        value = self.measured_value
        if self._experiment is not None and value is not None:
            level, until = self._experiment
            if self._clock.monotonic() < until:
                self._pause()
                return level
        self._experiment = None
        if value is None or self._desired is None:
            self._pause()
            if self._desired is None:
                self._pid.reset()
            return None
        if self.settings.doses is not None:
            return self._dosed(self.settings.doses, self._desired, value)
        if self._on_off.value:
            self._pause()
            bands = self._band.value, self._lowers_band.value
            reachable = max(self._desired, self._floor())
            return self._hysteresis.update(self._desired, reachable, value, bands, self._clock.monotonic())
        return self._controlled(self._desired, value)

    def _pause(self) -> None:
        self._pid.pause()
        self._computed = None
        self._withheld = 0.0
        self._applied.asks_for_lowering(False, self._clock.monotonic())
        self._doses.stop(self._clock.monotonic())

    def _controlled(self, desired: float, value: float) -> float:
        now = self._clock.monotonic()
        applied = self._applied.since_last(now)
        seconds = 0.0 if self._computed is None else now - self._computed
        self._computed = now
        side = self._side(desired, value)
        gains = self._present_gains(side)
        if gains != self._pid.gains:
            self._pid.gains = gains
        output = self._pid.update(
            desired,
            value,
            seconds,
            None if applied is None else applied + self._withheld,
            self._from_lamp(side),
        )
        self._hysteresis.stop()
        self._withheld = self._unassigned(
            output, side, value > max(desired, self._floor()) + self._lowers_band.value
        )
        demand = output - self._withheld
        self._applied.asks_for_lowering(demand < 0, now)
        self._sides.asked(demand, now)
        return demand

    def _side(self, desired: float, value: float) -> int:
        """1 for the outputs that raise the variable, -1 for those that lower it, 0 where they cannot help."""
        if not self._kind.lowers_by_integral:
            return 1
        now = self._clock.monotonic()
        side = self._sides.update(desired, self._floor(), value, self._lowers_band.value, now)
        self._pid.integral_limits = (0.0, 1.0) if side > 0 else (-1.0, 0.0)
        return side

    def _unassigned(self, output: float, side: int, is_too_much: bool) -> float:  # noqa: FBT001  its name says it
        """The part of the demand that no device gets now: that of the other side, or (0) all of it."""
        if self._has_lowering and not self._kind.lowers_by_integral and is_too_much:
            return 0.0
        if side == 0:
            return output
        return min(0.0, output) if side > 0 else max(0.0, output)

    def _present_gains(self, side: int) -> Gains:
        chosen = self._gains
        if self._lowering is not None and side <= 0:
            chosen = self._lowering
        elif self._night is not None and self._lamp is not None and self._lamp.is_night():
            chosen = self._night
        return self._gains_of(chosen, self._weight.value)

    def _gains_of(self, chosen: tuple[Parameter, Parameter, Parameter], weight: float) -> Gains:
        kp, ti, td = chosen
        return Gains(kp.value, ti.value, td.value, weight)

    def _from_lamp(self, side: int) -> float:
        """The feed-forward: what the lamp adds need not be given."""
        if self._feed_forward is None or self._lamp is None:
            return 0.0
        scale = 1.0
        if side <= 0 and self._lowering is not None and self._gains[0].value > 0:
            scale = self._lowering[0].value / self._gains[0].value
        return -float(self._feed_forward.value) * self._lamp.share() * scale

    def _dosed(self, doses: Doses, desired: float, value: float) -> float:
        now, error = self._clock.monotonic(), desired - value
        if self._applied.is_on:
            self._doses.gave(now, self._mixing.value)
        due = self._doses.is_due(now, error, (self._band.value, self._lowers_band.value))
        if self._sides.can_work(due):
            self._doses.begin(now, due, self._dose_s(doses, abs(error), due))
        return float(self._doses.direction(now))

    def _dose_s(self, doses: Doses, error: float, direction: int) -> float:
        """The length of a dose against an error."""
        ml_per_unit = self._ml_per_unit.value if direction > 0 else self._lowering_ml.value
        size = doses.size(raises=direction > 0)
        ml: float = DOSE_SHARE * min(error, self._kind.dose_step) * ml_per_unit
        if not size.is_water:
            ml = min(self._most_ml.value, ml)
        return min(size.longest_s, size.flow.seconds(ml))

    def _valid_s(self) -> float | None:
        left_s = self._doses.until_end(self._clock.monotonic())
        return None if math.isinf(left_s) else left_s

    def _until_edge(self) -> float:
        return self._doses.until_end(self._clock.monotonic())
