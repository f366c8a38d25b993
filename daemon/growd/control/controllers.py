"""Controllers: from set points to commands, with a manual override by whoever else commands."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.topics import EVENT, LIGHT_CHANNELS, commanded, desired, events, measured

if TYPE_CHECKING:
    from growd.bus import Bus, Node
    from growd.bus.messages import Message
    from growd.bus.params import Parameter
    from growd.bus.topics import Subscription
    from growd.clock import Clock

PERIOD_S: Final = 1.0
OVERRIDE_S: Final = 600.0
STEP: Final = 0.02  # of full scale: a set point that moves by more makes the trim wait for the filter
SETTLE_S: Final = 20.0

_LIGHT_FIELDS: Final = {f"light_intensity_{channel}": field for channel, field in LIGHT_CHANNELS.items()}


@dataclass(frozen=True)
class Need:
    """A measured variable without which an output must not be driven, and when it is stale, in seconds."""

    variable: str
    stale_after_s: float


class Controller(ABC):
    """What every controller has: one output, published at least each second, and the manual override.

    A message on the output's topic from any other node (a client's slider) is held and published in place of
    the automatic value until `<environment>/controllers/<variable>/override` seconds have passed, or until a
    message that is not ok takes it back. Without a value to command, one message of quality stale says so,
    and then nothing is published.

    A controller with `needs`, a measured variable and the seconds after which that is stale, commands nothing
    without it, neither by itself nor by hand: its output is safe then.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        variable: str,
        *,
        override_s: float,
        more_inputs: tuple[str, ...],
        needs: Need | None = None,
    ) -> None:
        self.node: Node = bus.node(f"{environment}/controllers/{variable}")
        self._bus = bus
        self._clock = bus.clock
        self._output = self.node.publisher(commanded(environment, variable))
        self._events = self.node.advertise(events(environment), EVENT)
        self._desired_topic = desired(environment, variable)
        self._needed = _Needed(environment, needs, self._clock) if needs else None
        needed = (self._needed.topic,) if self._needed else ()
        self._inputs = tuple(dict.fromkeys((self._desired_topic, *more_inputs, *needed)))
        self._override_time = self._number("override", override_s, 0, 86_400, "s")
        self._override: tuple[float, float] | None = None  # value, when it began
        self._commanding = False

    async def run(self) -> None:
        """Control until cancelled."""
        with self.node.subscribe(self._output.topic.name, *self._inputs) as inbox:
            self._catch_up()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tick(inbox), name=f"{self.node.name}: tick")
                async for message in inbox:
                    if self._take(message):
                        self._act(inbox)

    @abstractmethod
    def _automatic(self) -> float | None:
        """The value without an override, None if there is none to command."""

    @abstractmethod
    def _take_input(self, message: Message) -> None:
        """Note a message of one of the inputs."""

    def _override_by(self, value: float | None) -> None:
        """Hold this value from now on, or none any more."""
        self._override = None if value is None else (value, self._clock.monotonic())

    def _number(self, name: str, default: float, minimum: float, maximum: float, unit: str) -> Parameter:
        field = Field(name, Kind.FLOAT64, minimum, maximum, unit, default=default)
        return self.node.declare(f"{self.node.name}/{name}", field)

    def _catch_up(self) -> None:
        """Hear what was said while nobody listened: this run may follow one that failed.

        That is the set point, and that an input is not known any more; a value may be old.
        """
        for topic in self._inputs:
            last = self._bus.topics.get(topic).last
            if last is not None and (topic == self._desired_topic or last.quality is not Quality.OK):
                self._take(last)

    async def _tick(self, inbox: Subscription) -> None:
        while True:
            self._act(inbox)
            await self._clock.sleep(PERIOD_S)

    def _take(self, message: Message) -> bool:
        """Note a message; False for this controller's own command, which comes back and is no news."""
        if self._needed is not None and message.topic == self._needed.topic:
            self._needed.take(message)
        if message.topic != self._output.topic.name:
            self._take_input(message)
        elif message.node != self.node.name:
            self._override_by(_value(message))
        else:
            return False
        return True

    def _act(self, inbox: Subscription) -> None:
        """Publish once for all messages that wait: none of them is answered with a value from before it."""
        while (message := inbox.get_nowait()) is not None:
            self._take(message)
        value = self._overridden()
        if value is None:
            value = self._automatic()
        if self._needed is not None and not self._needed.is_known():
            self._commanding |= self._override is not None  # by hand: the output obeyed it and has to be told
            self._hold_back(value)
            self._override = value = None
        if value is not None:
            self._output.publish(value)
        elif self._commanding:
            self._output.publish(None, Quality.STALE)
        self._commanding = value is not None

    def _hold_back(self, value: float | None) -> None:
        """Tell, once, of a command that is not given, where the output was on."""
        if value and self._commanding and self._needed is not None:
            message = f"off, for {self._needed.variable} is not known"
            source = self._output.topic.name.rpartition("/")[2]
            self._events.publish({"kind": "interlock", "source": source, "message": message})

    def _overridden(self) -> float | None:
        if self._override is None:
            return None
        value, began = self._override
        if self._clock.monotonic() - began < self._override_time.value:
            return value
        self._override = None
        return None


class _Needed:
    """Whether a needed variable is known now."""

    def __init__(self, environment: str, need: Need, clock: Clock) -> None:
        self.variable = need.variable
        self.topic = measured(environment, need.variable)
        self._stale_after = need.stale_after_s
        self._clock = clock
        self._known_at: float | None = None

    def take(self, message: Message) -> None:
        self._known_at = self._clock.monotonic() if message.quality is Quality.OK else None

    def is_known(self) -> bool:
        return self._known_at is not None and self._clock.monotonic() - self._known_at <= self._stale_after


class LightController(Controller):
    """Illuminance: `desired` (lux) to a share of full light, 0..1.

    Feed-forward (desired / `full_scale`) and on top a slow trim, the integral of the error over `trim_time`
    seconds, within +-`trim_limit` and never further than the output can follow. The trim waits after a step
    of the set point, for the filter lags behind. Without a measured value that is ok and younger than
    `measured_stale_after_s` it is feed-forward alone. A set point of 0 or none is 0, whatever is measured.

    Parameters under `<environment>/controllers/light_illuminance/`.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        *,
        full_scale_lux: float = 20_000.0,
        trim_time_s: float = 60.0,
        trim_limit: float = 0.2,
        measured_stale_after_s: float = 30.0,
        override_s: float = OVERRIDE_S,
        needs: Need | None = None,
    ) -> None:
        variable = "light_illuminance"
        self._measured_topic = measured(environment, variable)
        is_measured = self._measured_topic in bus.topics.names()  # not in a chamber without a light sensor
        inputs = (self._measured_topic,) if is_measured else ()
        super().__init__(bus, environment, variable, override_s=override_s, more_inputs=inputs, needs=needs)
        self._full_scale = self._number("full_scale", full_scale_lux, 1, 1_000_000, "lux")
        self._trim_time = self._number("trim_time", trim_time_s, 1, 86_400, "s")
        self._trim_limit = self._number("trim_limit", trim_limit, 0, 1, "fraction")
        self._measured_stale_after = measured_stale_after_s
        self._desired: float | None = None
        self._measured: tuple[float, float] | None = None  # lux, when it came
        self._trim = 0.0
        self._trim_from = 0.0
        self._computed = self._clock.monotonic()

    def _take_input(self, message: Message) -> None:
        value = _value(message)
        now = self._clock.monotonic()
        if message.topic == self._measured_topic:
            self._measured = None if value is None else (value, now)
            return
        if abs((value or 0.0) - (self._desired or 0.0)) > STEP * self._full_scale.value:
            self._trim_from = now + SETTLE_S
        self._desired = value

    def _automatic(self) -> float:
        now = self._clock.monotonic()
        elapsed = min(now - self._computed, 2 * PERIOD_S)  # after a pause (an override) it goes on softly
        self._computed = now
        if not self._desired:
            self._trim = 0.0
            return 0.0
        feed_forward = self._desired / self._full_scale.value
        self._update_trim(feed_forward, elapsed, now)
        return _clamp(feed_forward + self._trim, 0.0, 1.0)

    def _update_trim(self, feed_forward: float, elapsed: float, now: float) -> None:
        if self._measured is None or now - self._measured[1] > self._measured_stale_after:
            self._trim = 0.0
            return
        if now >= self._trim_from:
            error = feed_forward - self._measured[0] / self._full_scale.value
            self._trim += error * elapsed / self._trim_time.value
        limit: float = self._trim_limit.value
        # anti-windup: no trim beyond the output that it asks for (there is none left above full light)
        self._trim = _clamp(self._trim, max(-limit, -feed_forward), min(limit, max(0.0, 1.0 - feed_forward)))


class DirectController(Controller):
    """The set point of a variable is the command: a light channel (0..1), or a switch (0 or 1).

    A light channel is overridden also by a command of all channels at once, on
    `<environment>/commanded/light_channels`. Without a set point nothing is commanded.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        variable: str,
        *,
        override_s: float = OVERRIDE_S,
        needs: Need | None = None,
    ) -> None:
        self._field = _LIGHT_FIELDS.get(variable)
        self._all_channels_topic = commanded(environment, "light_channels")
        all_channels = () if self._field is None else (self._all_channels_topic,)
        super().__init__(
            bus, environment, variable, override_s=override_s, more_inputs=all_channels, needs=needs
        )
        self._desired: float | None = None

    def _take_input(self, message: Message) -> None:
        if message.topic == self._desired_topic:
            self._desired = _value(message)
        elif message.topic == self._all_channels_topic:
            levels = message.value if message.quality is Quality.OK else None
            self._override_by(None if levels is None else levels[self._field])

    def _automatic(self) -> float | None:
        return self._desired


def _value(message: Message) -> float | None:
    return message.value if message.quality is Quality.OK else None


def _clamp(value: float, lowest: float, highest: float) -> float:
    return max(lowest, min(highest, value))
