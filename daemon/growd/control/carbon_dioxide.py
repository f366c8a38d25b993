"""CO2 control: from a set point in ppm to doses of a valve, with an exhaust fan against too much CO2."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.controllers import OVERRIDE_S, PERIOD_S, Controller
from growd.control.dosing import Doser
from growd.control.pid import Gains, Pid
from growd.control.topics import SWITCH_STATE, commanded, measured, switch_state
from growd.variables import CARBON_DIOXIDE, FAN, VALVE

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Subscription
    from growd.runtime.clock import Cancellable

DIRECTIONS: Final = {VALVE: 1.0, FAN: -1.0}
"""The dosed switches, and the sign of the CO2 command that drives each."""

USUAL_GAINS: Final = Gains(kp=0.003, ti_s=2400.0, td_s=20.0)
"""For a chamber of 100 l with 1.5 air changes per hour, a valve of 50 ml/min and an SCD30 (response 20 s).
The autotune service finds the gains of other chambers."""

FRESH_AIR_PPM: Final = 420.0
"""CO2 of outside air (NOAA, Mauna Loa, 2023): a fan cannot reach less."""

IN_FLIGHT_S: Final = 120.0
"""The last dose may still raise readings for this long: six response times of an SCD30."""

COMMAND_STALE_S: Final = 5.0
SHORTEST_S: Final = 0.01  # between two checks of the same edge


class CarbonDioxideController(Controller):
    """CO2: from `desired` (ppm) to the valve's share of time on, 0..1, or the exhaust fan's, 0..-1.

    A PID (`growd.control.pid`), or with `on_off` hysteresis: on below the set point by `band`, off at it.
    The command is below 0 only from `fan_band` above the set point on, and only with fans; below that the
    chamber's own losses are enough, and the fan does not remove what the valve has just let in. With `on_off`
    the fan ignores the overshoot of the last dose. For the fan a set point below `FRESH_AIR_PPM` counts as
    fresh air, since it cannot reach less.

    The PID gets the real on-time of the valves (`valves`), so it knows of interlocks, overrides and doses
    still due. The on-time of fans (`fans`) counts only while this controller asks for it: a fan run by
    somebody else is a disturbance. Without a set point, or without a measured value that is ok and younger
    than `measured_stale_after_s`, nothing is commanded. The integral is held meanwhile, and starts from 0
    after a release of the set point.

    Parameters under `<environment>/controllers/air_carbon_dioxide/`, changeable at any time: `on_off`,
    `kp` (1/ppm), `ti`, `td` (s), `weight` of the set point, `band` and `fan_band` (ppm).
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        *,
        gains: Gains = USUAL_GAINS,
        on_off: bool = False,
        band_ppm: float = 20.0,
        fan_band_ppm: float = 30.0,
        valves: tuple[str, ...] = (),
        fans: tuple[str, ...] = (),
        measured_stale_after_s: float = 30.0,
        override_s: float = OVERRIDE_S,
        is_simulated: bool = False,
    ) -> None:
        self._applied = _Applied(bus, environment, valves, fans)
        self._measured_topic = measured(environment, CARBON_DIOXIDE)
        inputs = (self._measured_topic, *self._applied.topics)
        super().__init__(bus, environment, CARBON_DIOXIDE, override_s=override_s, more_inputs=inputs)
        self._on_off = self.node.declare(
            f"{self.node.name}/on_off", Field("on_off", Kind.BOOL, default=on_off)
        )
        self._kp = self._number("kp", gains.kp, 0, 100, "1/ppm")
        self._ti = self._number("ti", gains.ti_s, 1, 864_000, "s")
        self._td = self._number("td", gains.td_s, 0, 3_600, "s")
        self._weight = self._number("weight", gains.weight, 0, 1, "fraction")
        self._band = self._number("band", band_ppm, 0, 10_000, "ppm")
        self._fan_band = self._number("fan_band", fan_band_ppm, 0, 10_000, "ppm")
        self._measured_stale_after = measured_stale_after_s
        self._has_fan = bool(fans)
        self._pid = Pid(gains, -1.0, 1.0, integral_minimum=0.0)
        self._withheld = 0.0  # the part of the last output below 0 that the fan did not get
        self._desired: float | None = None
        self._measured: tuple[float, float] | None = None  # ppm, arrival
        self._computed: float | None = None  # time of the last PID update, None after a pause
        self._switched = 0.0  # state of the hysteresis: 1, 0 or -1
        self._dosed_at = -math.inf  # when the hysteresis last had the valve open
        self._overshoot = 0.0  # peak after that, in ppm
        self._experiment: tuple[float, float] | None = None  # level, until when
        if not is_simulated:
            self.node.describe("problems", self._problems)

    @property
    def set_point(self) -> float | None:
        """The set point in ppm."""
        return self._desired

    @property
    def measured_ppm(self) -> float | None:
        """The measured CO2, None if it is not ok or stale."""
        if self._measured is None or self._clock.monotonic() - self._measured[1] > self._measured_stale_after:
            return None
        return self._measured[0]

    def experiment(self, level: float | None, seconds: float = 0.0) -> None:
        """Command this level for `seconds` in place of control; None ends it."""
        self._experiment = None if level is None else (level, self._clock.monotonic() + seconds)

    def _problems(self) -> list[dict[str, Any]]:
        """The default gains suit the simulated chamber; another one may overshoot far."""
        gains = self._kp.value, self._ti.value, self._td.value
        if self._on_off.value or gains != (USUAL_GAINS.kp, USUAL_GAINS.ti_s, USUAL_GAINS.td_s):
            return []
        text = (
            f"{self.node.name} has the default gains and was never tuned, so CO2 may "
            f"overshoot; call the service {self.node.name}/autotune, or set the gains in [carbon_dioxide]"
        )
        return [{"text": text, "is_failure": False}]

    def _take_input(self, message: Message) -> None:
        value = message.value if message.quality is Quality.OK else None
        if message.topic == self._measured_topic:
            self._measured = None if value is None else (value, self._published_at(message))
        elif message.topic == self._desired_topic:
            if value != self._desired:
                self._dosed_at, self._overshoot = -math.inf, 0.0
            self._desired = value
        else:
            self._applied.take(message, self._clock.monotonic())

    def _automatic(self) -> float | None:
        ppm = self.measured_ppm
        if self._experiment is not None and ppm is not None:
            level, until = self._experiment
            if self._clock.monotonic() < until:
                self._pause()
                return level
        self._experiment = None
        if ppm is None or self._desired is None:
            self._pause()
            if self._desired is None:
                self._pid.reset()
            return None
        if self._on_off.value:
            self._pause()
            return self._hysteresis(self._desired, ppm)
        return self._controlled(self._desired, ppm)

    def _pause(self) -> None:
        self._pid.pause()
        self._computed = None
        self._withheld = 0.0
        self._applied.asks_for_fans(False, self._clock.monotonic())

    def _controlled(self, desired: float, ppm: float) -> float:
        now = self._clock.monotonic()
        applied = self._applied.since_last(now)
        seconds = 0.0 if self._computed is None else now - self._computed
        self._computed = now
        gains = Gains(self._kp.value, self._ti.value, self._td.value, self._weight.value)
        if gains != self._pid.gains:
            self._pid.gains = gains
        output = self._pid.update(
            desired, ppm, seconds, None if applied is None else applied + self._withheld
        )
        self._switched = 0.0
        is_fan_due = self._has_fan and ppm > max(desired, FRESH_AIR_PPM) + self._fan_band.value
        self._withheld = 0.0 if is_fan_due else min(0.0, output)
        self._applied.asks_for_fans(output < self._withheld, now)
        return output - self._withheld

    def _hysteresis(self, desired: float, ppm: float) -> float:
        fan_band: float = self._fan_band.value
        reachable = max(desired, FRESH_AIR_PPM)
        self._watch_overshoot(reachable + fan_band / 2, ppm)
        if ppm < desired - self._band.value:
            self._switched = 1.0
        elif ppm > max(reachable, self._overshoot) + fan_band and self._has_fan:
            self._switched = -1.0
        elif (self._switched > 0 and ppm >= desired) or (
            self._switched < 0 and ppm <= reachable + fan_band / 2
        ):
            self._switched = 0.0
        return self._switched

    def _watch_overshoot(self, much: float, ppm: float) -> None:
        """Track the peak of the valve's last dose, until CO2 is down to `much` ppm."""
        now = self._clock.monotonic()
        if self._switched > 0:
            self._dosed_at = now
        if now - self._dosed_at <= IN_FLIGHT_S:
            self._overshoot = max(self._overshoot, ppm)
        elif ppm <= much:
            self._overshoot = 0.0


class DosedSwitchController(Controller):
    """Turns the command for CO2 into doses of the valve (command above 0) or the exhaust fan (below 0).

    A set point of the switch itself (0 or 1) wins over the doses. Otherwise the fresh command for
    `air_carbon_dioxide` is the share of time on (see `growd.control.dosing`). Without either nothing is
    commanded, and no dose is due. Edges come when they are due, not at the next second.

    Parameters under `<environment>/controllers/<variable>/`: `minimum_on` and `minimum_off` (s).
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        variable: str,
        *,
        minimum_on_s: float = 4.0,
        minimum_off_s: float = 2.0,
        command_stale_after_s: float = COMMAND_STALE_S,
        override_s: float = OVERRIDE_S,
    ) -> None:
        self._command_topic = commanded(environment, CARBON_DIOXIDE)
        super().__init__(
            bus, environment, variable, override_s=override_s, more_inputs=(self._command_topic,)
        )
        self._minimum_on = self._number("minimum_on", minimum_on_s, 0.1, 3_600, "s")
        self._minimum_off = self._number("minimum_off", minimum_off_s, 0.1, 3_600, "s")
        self._direction = DIRECTIONS[variable]
        self._doser = Doser(minimum_on_s, minimum_off_s)
        self._command_stale_after = command_stale_after_s
        self._desired: float | None = None
        self._command: tuple[float, float] | None = None  # share of time, arrival
        self._demand: float | None = None  # of the doser, None while it is not dosing
        self._advanced = self._clock.monotonic()
        self._edge: Cancellable | None = None

    async def run(self) -> None:
        """Control until cancelled."""
        try:
            await super().run()
        finally:
            self._forget_edge()

    def end_dose(self) -> None:
        """End a dose and drop what is due: the switch is off from now on, for `minimum_off` at least."""
        self._doser.end()
        self._advanced = self._clock.monotonic()

    def _act(self, inbox: Subscription) -> None:
        super()._act(inbox)
        self._forget_edge()
        if self._demand is None or self.is_overridden:
            return
        wait = self._doser.until_edge(self._demand)
        if wait < PERIOD_S:
            self._edge = self._clock.call_later(max(wait, SHORTEST_S), lambda: self._act(inbox))

    def _forget_edge(self) -> None:
        if self._edge is not None:
            self._edge.cancel()
            self._edge = None

    def _take_input(self, message: Message) -> None:
        value = message.value if message.quality is Quality.OK else None
        if message.topic == self._desired_topic:
            self._desired = value
        elif value is None:
            self._command = None
        else:
            share = max(0.0, min(1.0, self._direction * value))
            self._command = (share, self._published_at(message))

    def _automatic(self) -> float | None:
        now = self._clock.monotonic()
        seconds, self._advanced = now - self._advanced, now
        demand = self._asked_for(now)
        if (
            demand is None or seconds > self._command_stale_after
        ):  # an override was active: restart dosing from zero
            self._doser.shut()
        elif self._demand is not None:
            self._doser.advance(self._demand, seconds)
        self._doser.minimum_on_s = self._minimum_on.value
        self._doser.minimum_off_s = self._minimum_off.value
        self._demand = demand
        if demand is None:
            return self._desired
        return float(self._doser.advance(demand, 0.0))

    def _asked_for(self, now: float) -> float | None:
        """The demand for doses; None if the switch has its own set point, or there is no command."""
        if self._desired is not None or self._command is None:
            return None
        share, came = self._command
        return share if now - came <= self._command_stale_after else None


class _Applied:
    """The real on-time of valves (counted as 1) and fans (-1), from their actuators.

    A fan counts only while this controller asks for it.
    """

    def __init__(self, bus: Bus, environment: str, valves: tuple[str, ...], fans: tuple[str, ...]) -> None:
        self._shares: dict[str, float] = {}
        self._are_fans_asked = False
        for names, sign in ((valves, 1.0), (fans, -1.0)):
            for name in names:
                topic = bus.topics.declare(switch_state(environment, name), SWITCH_STATE).name
                self._shares[topic] = sign / len(names)
        self._on = dict.fromkeys(self._shares, 0.0)
        self._since = self._asked = bus.clock.monotonic()
        self._sum = 0.0

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._shares)

    def take(self, message: Message, now: float) -> None:
        """Take the state of a switch. A failed one counts as off."""
        self._add_up(now)
        self._on[message.topic] = message.value if message.quality is Quality.OK else 0.0

    def asks_for_fans(self, asks: bool, now: float) -> None:  # noqa: FBT001  its name says it
        """Whether fans are asked for from now on."""
        self._add_up(now)
        self._are_fans_asked = asks

    def since_last(self, now: float) -> float | None:
        """The average since the last call; None without any switch."""
        self._add_up(now)
        seconds, given = now - self._asked, self._sum
        self._asked, self._sum = now, 0.0
        if not self._shares:
            return None
        return given / seconds if seconds > 0 else self._level()

    def _add_up(self, now: float) -> None:
        self._sum += self._level() * (now - self._since)
        self._since = now

    def _level(self) -> float:
        counted = {topic: share for topic, share in self._shares.items() if share > 0 or self._are_fans_asked}
        return math.fsum(share * self._on[topic] for topic, share in counted.items())
