"""Controllers: from set points to commands, with a manual override."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.light_curve import CurveField, LightCurve, power_curve
from growd.control.topics import LIGHT_CHANNELS, commanded, desired, light_channels, measured
from growd.runtime.clock import until_beat
from growd.runtime.text import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd.bus import Bus, Node
    from growd.bus.messages import Message
    from growd.bus.params import Parameter
    from growd.bus.topics import Subscription
    from growd.control.hold import OutputHold
    from growd.runtime.clock import Cancellable

PERIOD_S: Final = 1.0
SHORTEST_S: Final = 0.01  # between two checks of the same edge
OVERRIDE_S: Final = 600.0
STEP: Final = 0.02  # of full scale: after a larger step the trim waits for the filter
SETTLE_S: Final = 20.0
TRIM_TIME_S: Final = 30.0  # default of the parameter
FOLLOWED: Final = 0.02  # of full level: a lamp this near its command follows it
FAR: Final = 0.1  # of full level: a larger gap is not the trim's own movement

_LIGHT_FIELDS: Final = {f"light_intensity_{channel}": field for channel, field in LIGHT_CHANNELS.items()}


class Controller(ABC):
    """Base of all controllers: one output, and the manual override. It rests while it has no value.

    A value is published when it changes, and at least each second; without one, one message of quality stale.
    An edge that comes sooner (`_until_edge`) is published when it is due.

    A message of another node (a client) on the output's topic is an override for the seconds of the parameter
    `override`, or until a message that is not ok, the release of the set point, the end of a recipe or a hold
    of all outputs ends it. While the outputs are held there is none: a release carries out no old command.
    """

    def __init__(self, bus: Bus, environment: str, variable: str, *, more_inputs: tuple[str, ...]) -> None:
        self.node: Node = bus.node(f"{environment}/controllers/{variable}")
        self._bus = bus
        self._clock = bus.clock
        self._output = self.node.publisher(commanded(environment, variable))
        self._desired_topic = desired(environment, variable)
        self.node.open(self._output.topic.name)
        self.node.open(self._desired_topic)
        self._end_topic = desired(environment, "recipe_end")
        self._inputs = tuple(dict.fromkeys((self._desired_topic, *more_inputs)))
        self._override_time = self._number("override", OVERRIDE_S, 0, 86_400, "s")
        left = Field("override_left", Kind.FLOAT64, 0, 86_400, "s", default=0.0)
        self._override_left = self.node.declare(f"{self.node.name}/override_left", left, read_only=True)
        self._override: tuple[float, float, float] | None = None  # value, start, for how long
        self._output.topic.remarks.append(self._remark)
        self._commanding = False
        self._is_held: Callable[[], bool] = bool
        self._timer: Cancellable | None = None
        self._inbox: Subscription | None = None

    async def run(self) -> None:
        """Control until cancelled."""
        topics = (self._output.topic.name, self._end_topic, *self._inputs)
        try:
            with (
                self.node.inbox(*topics, of_others=True) as inbox,
                self._bus.liveness.heartbeat(self.node.name, is_idle=lambda: not inbox.is_due) as heart,
            ):
                if not inbox.is_resumed:
                    self._catch_up()
                self._inbox = inbox
                self._nudge()
                while True:
                    is_due = await inbox.turn()
                    heart.beat()
                    if self._take_waiting(inbox) or is_due:
                        self._act()
        finally:
            self._inbox = None
            self._stop_timer()

    @property
    def is_overridden(self) -> bool:
        """Whether there is a manual override."""
        return self._overridden() is not None

    def heed(self, hold: OutputHold) -> None:
        """Have no override while `hold` is set."""
        self._is_held = lambda: bool(hold.reason)
        hold.watch(lambda: self._override_by(None))

    def _remark(self, message: Message) -> str:
        """A remark for a client: how long its override holds, or that there was none to release."""
        if message.quality is not Quality.OK:
            return "" if self.is_overridden else "there was no command by hand to release"
        if self._is_held():
            return ""
        limit = duration(self._override_time.value)
        return f"holds for {limit}, or until you release it: growd topic release {message.topic}"

    @abstractmethod
    def _automatic(self) -> float | None:
        """The value without an override, None for no command."""

    def _valid_s(self) -> float | None:
        """Seconds for which the automatic value holds, such as the rest of a dose; None for no end."""
        return None

    @abstractmethod
    def _take_input(self, message: Message) -> bool:
        """Take a message of an input. Returns whether it may change the command before the next tick."""

    def _override_by(self, value: float | None, valid_s: float | None = None) -> None:
        """Hold this value from now on, for a time if it has one; None ends the override."""
        self._override = None
        if value is not None and not self._is_held():
            self._override = value, self._clock.monotonic(), math.inf if valid_s is None else valid_s
        self._commanding |= value is not None  # the output follows it already, so its end has to be published

    def _number(self, name: str, default: float, minimum: float, maximum: float, unit: str) -> Parameter:
        field = Field(name, Kind.FLOAT64, minimum, maximum, unit, default=default)
        return self.node.declare(f"{self.node.name}/{name}", field)

    def _catch_up(self) -> None:
        """Take set points and invalid inputs published before the first run. Other values may be old."""
        for topic in self._inputs:
            last = self._bus.topics.get(topic).last
            if last is not None and (topic == self._desired_topic or last.quality is not Quality.OK):
                self._take(last)

    def _nudge(self) -> None:
        """Let it act now, although there is no message."""
        if self._inbox is not None:
            self._inbox.nudge()

    def _take_waiting(self, inbox: Subscription) -> bool:
        """Take all waiting messages. Returns whether one may change the command."""
        is_news = False
        while (message := inbox.get_nowait()) is not None:
            is_news |= bool(self.node.attempt(self._take, message))
        return is_news

    def _take(self, message: Message) -> bool:
        """Take a message. Returns whether it may change the command."""
        if message.topic == self._end_topic:
            self._override_by(None)
        elif message.topic == self._output.topic.name:
            self._override_by(message.known, message.valid_s)
        elif message.topic == self._desired_topic and message.quality is not Quality.OK:
            self._take_input(message)
            self._override_by(None)
        else:
            return self._take_input(message)
        return True

    def _published_at(self, message: Message) -> float:
        """The monotonic time of a message, which may have waited in the inbox."""
        return self._clock.monotonic() - max(0.0, self._clock.time() - message.time)

    def _act(self) -> None:
        """Publish once, and again in a second, or at the next edge. Without a value only news changes it."""
        value, valid_s = self._overridden(), self._override_valid_s()
        if value is None:
            value, valid_s = self._automatic(), self._valid_s()
        if value is not None:
            self._output.publish(value, valid_s=valid_s)
        elif self._commanding:
            self._output.publish(None, Quality.STALE)
        self._commanding = value is not None
        self._stop_timer()
        if self._commanding:
            edge = self._override_valid_s() or math.inf if self._override is not None else self._until_edge()
            wait = min(edge, until_beat(self._clock, PERIOD_S))
            self._timer = self._clock.call_later(max(wait, SHORTEST_S), self._nudge)

    def _until_edge(self) -> float:
        """Seconds until the automatic value changes by itself; infinity if that is not known."""
        return math.inf

    def _override_valid_s(self) -> float | None:
        """Seconds for which an override with a length still holds; None for another one."""
        if self._override is None or math.isinf(self._override[2]):
            return None
        return max(0.0, self._override[1] + self._override[2] - self._clock.monotonic())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _overridden(self) -> float | None:
        value, left = None, 0.0
        if self._override is not None:
            held, began, valid_s = self._override
            lasts_s = min(self._override_time.value, valid_s)
            left = max(0.0, began + lasts_s - self._clock.monotonic())
            value = held if left > 0 else None
        if value is None:
            self._override = None
        if self._override_left.value != round(left):
            self._override_left.show(round(left))
        return value


class LightController(Controller):
    """Illuminance: from `desired` (lux) to a share of full light, 0..1.

    The output is the level for `desired - elsewhere` on the lamp's curve: the one measured by
    `calibrate_light` (`curve`), else the one of `gamma` and `minimum_duty` up to `full_scale`. `elsewhere` is
    other light, and the error of the curve: the measured minus the expected light, averaged over `trim_time`,
    or at once while the lamp is dark. This is internal model control, which does not wind up.

    The average waits after a step of the set point, because the filter lags, and while the lamp (whose
    channels take `mix` of the command) does not follow its command. Without a fresh measured value, and for a
    lamp that `is_switched`, control is feed-forward only.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        *,
        full_scale_lux: float = 20_000.0,
        gamma: float = 1.0,
        minimum_duty: float = 0.0,
        is_switched: bool = False,
        measured_stale_after_s: float = 30.0,
        mix: Mapping[str, float] | None = None,
    ) -> None:
        variable = "light_illuminance"
        self._measured_topic = measured(environment, variable)
        is_measured = not bus.topics.get(self._measured_topic).is_open  # in a chamber with a light sensor
        inputs = (self._measured_topic,) if is_measured and not is_switched else ()
        super().__init__(bus, environment, variable, more_inputs=inputs)
        self._full_scale = self._number("full_scale", full_scale_lux, 1, 1_000_000, "lux")
        self._trim_time = self._number("trim_time", TRIM_TIME_S, 1, 86_400, "s")
        self._saved_curve = self.node.declare(f"{self.node.name}/curve", CurveField("curve"))
        self._gamma = gamma
        self._minimum_duty = minimum_duty
        self._measured_stale_after = measured_stale_after_s
        self._lamp = bus.topics.get(light_channels(environment))
        self._mix = dict(mix or {})
        self._desired: float | None = None
        self._driven: float | None = None
        self._level = 0.0  # the last automatic command
        self._measured: tuple[float, float] | None = None  # lux, arrival
        self._elsewhere = 0.0
        self._trim_from = 0.0
        self._computed = self._clock.monotonic()
        self.node.describe("elsewhere_lux", lambda: self._elsewhere)
        self.node.describe("full_lux", lambda: self._curve().full_lux)

    def drive(self, level: float | None) -> None:
        """Command this level in place of the automatic value, for a calibration; None ends it."""
        self._driven = level
        self._trim_from = self._clock.monotonic() + SETTLE_S
        if level is not None:
            self._level = level

    @property
    def full_lux(self) -> float:
        """The light of the lamp at full level, by its curve."""
        return self._curve().full_lux

    async def save_curve(self, points: list[list[float]]) -> None:
        """Use this curve from now on. Raises OSError if it cannot be saved."""
        await self._saved_curve.set(points)

    def is_followed(self) -> bool:
        """Whether all channels follow the last automatic command."""
        return self._gap() <= FOLLOWED

    def _gap(self) -> float:
        """The largest gap of a channel to the last command; infinity if it is unknown."""
        last = self._lamp.last
        if last is None:  # no lamp
            return 0.0
        if last.quality is not Quality.OK:
            return math.inf
        shares = self._mix.items()
        gaps = (abs(last.value[LIGHT_CHANNELS[name]] - self._level * share) for name, share in shares)
        return max(gaps, default=0.0)

    def _take_input(self, message: Message) -> bool:
        value, now = message.known, self._clock.monotonic()
        if message.topic == self._measured_topic:
            self._measured = None if value is None else (value, self._published_at(message))
            return True
        if abs((value or 0.0) - (self._desired or 0.0)) > STEP * self._curve().full_lux:
            self._trim_from = now + SETTLE_S
        self._desired = value
        return True

    def _automatic(self) -> float:
        if self._driven is not None:
            return self._driven
        self._level = self._controlled()
        return self._level

    def _controlled(self) -> float:
        now = self._clock.monotonic()
        elapsed = min(now - self._computed, 2 * PERIOD_S)  # limited after an override
        self._computed = now
        curve = self._curve()
        self._update_elsewhere(curve.lux(self._level), elapsed, now)
        if not self._desired:
            return 0.0
        # anti-windup: a lamp at full light cannot give more
        self._elsewhere = max(self._elsewhere, min(0.0, self._desired - curve.full_lux))
        return curve.level(self._desired - self._elsewhere)

    def _curve(self) -> LightCurve:
        points = self._saved_curve.value
        if points:
            return LightCurve(points, self._minimum_duty)
        return power_curve(self._full_scale.value, self._gamma, self._minimum_duty)

    def _update_elsewhere(self, expected_lux: float, elapsed: float, now: float) -> None:
        if self._measured is None or now - self._measured[1] > self._measured_stale_after:
            self._elsewhere = 0.0
            return
        gap = self._gap()
        if gap > FAR:
            self._trim_from = max(self._trim_from, now + SETTLE_S)
        if gap <= FOLLOWED and now >= self._trim_from:
            share = min(1.0, elapsed / self._trim_time.value) if expected_lux else 1.0
            self._elsewhere += share * (self._measured[0] - expected_lux - self._elsewhere)


class DirectController(Controller):
    """Passes the set point on as the command, for a light channel (0..1) or a switch (0 or 1).

    A command for all channels on `<environment>/commanded/light_channels` overrides a light channel too.
    """

    def __init__(self, bus: Bus, environment: str, variable: str) -> None:
        self._field = _LIGHT_FIELDS.get(variable)
        self._all_channels_topic = commanded(environment, "light_channels")
        all_channels = () if self._field is None else (self._all_channels_topic,)
        super().__init__(bus, environment, variable, more_inputs=all_channels)
        self._desired: float | None = None

    def _take_input(self, message: Message) -> bool:
        if message.topic == self._desired_topic:
            self._desired = message.known
        elif message.topic == self._all_channels_topic:
            levels = message.known
            self._override_by(None if levels is None else levels[self._field])
        return True

    def _automatic(self) -> float | None:
        return self._desired
