"""The actuator of a lamp: from levels and commands for its channels to what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

from growd.control.actuation import DECIMALS, SAFE_LEVEL, Actuator
from growd.control.topics import CHANNEL_LEVELS, LIGHT_CHANNELS, commanded, light_channels
from growd.output_roles import ON_FROM, PATIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Publisher
    from growd.control.actuation import ActuatorOptions
    from growd.runtime.worker import Worker


class Ramp:
    """A level that takes `full_swing_s` seconds from 0 to 1, and proportionally less for smaller steps.

    It starts at 0. `now` is monotonic seconds. With `full_swing_s` 0 it jumps.
    """

    def __init__(self, full_swing_s: float) -> None:
        self._full_swing = full_swing_s
        self._begin = self._target = 0.0
        self._since = 0.0

    def send(self, target: float, now: float) -> None:
        """Start moving to `target`."""
        if target != self._target:
            self._begin, self._since, self._target = self.at(now), now, target

    def jump(self, level: float) -> None:
        """Set the level at once."""
        self._begin = self._target = level

    def at(self, now: float) -> float:
        """The level at `now`, which must not be before the last `send`."""
        way = self._target - self._begin
        if abs(way) * self._full_swing <= now - self._since:
            return self._target
        gone = (now - self._since) / self._full_swing
        return self._begin + (gone if way > 0 else -gone)

    def is_moving(self, now: float) -> bool:
        """Whether it has not reached its target."""
        return self.at(now) != self._target


DEFAULT_MIX: Final = {"white": 1.0, "red": 0.5, "blue": 0.5}


class LightActuator(Actuator):
    """Sets the level of each channel of a light, 0..1.

    A channel follows its own fresh command (`light_intensity_<channel>`, or its field of `light_channels`),
    else its share (`mix`) of the command for `light_illuminance`. `ramp_s` is the time from dark to full.
    Without a command, or without permission of the guard, a channel is dark at once. A channel that is
    `switched` is fully on or dark. The guard judges each channel, and "light_illuminance", the command for
    all channels.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        *,
        write: Callable[[str, float, float], float | None],
        worker: Worker,
        mix: Mapping[str, float] = DEFAULT_MIX,
        ramp_s: float = 0.0,
        switched: Collection[str] = (),
        **options: Unpack[ActuatorOptions],
    ) -> None:
        options.setdefault("lease", PATIENT)
        self._mix = dict(mix)
        self._switched = frozenset(switched)
        self._ramps = {channel: Ramp(ramp_s) for channel in self._mix}
        self._illuminance_topic = commanded(environment, "light_illuminance")
        self._all_channels_topic = commanded(environment, "light_channels")
        self._channel_topics = {commanded(environment, f"light_intensity_{name}"): name for name in self._mix}
        super().__init__(
            bus,
            environment,
            "light",
            write=write,
            worker=worker,
            safe=dict.fromkeys(self._mix, SAFE_LEVEL),
            commands=(self._illuminance_topic, self._all_channels_topic, *self._channel_topics),
            **options,
        )
        self._channels = self.node.advertise(light_channels(environment), CHANNEL_LEVELS)
        self.node.open(self._all_channels_topic)

    @property
    def _outputs(self) -> tuple[Publisher, ...]:
        return (self._channels,)

    def _state(self) -> dict[str, float]:
        return {field: self._written.get(name, SAFE_LEVEL) for name, field in LIGHT_CHANNELS.items()}

    def _take(self, message: Message) -> None:
        if message.topic == self._all_channels_topic:
            for channel in self._mix:
                self._hold(channel, message.known and message.known[LIGHT_CHANNELS[channel]])
        else:
            name = self._channel_topics.get(message.topic, "light_illuminance")
            self._hold(name, message.known)

    def _target(self, channel: str) -> float:
        level = self._commanded(channel)
        is_dark = self._is_held_dark(channel)  # asked without a command too, for the status
        now = self._clock.monotonic()
        ramp = self._ramps[channel]
        if level is None or is_dark:
            ramp.jump(SAFE_LEVEL)
        else:
            level = float(level >= ON_FROM) if channel in self._switched else level
            ramp.send(max(0.0, min(1.0, level)), now)
        return round(ramp.at(now), DECIMALS)

    def _commanded(self, channel: str) -> float | None:
        level = self._held(channel)
        whole = self._held("light_illuminance")
        if level is not None or whole is None or self._is_held_dark("light_illuminance"):
            return level
        return whole * self._mix[channel]

    def _is_held_dark(self, output: str) -> bool:
        return self._permitted(output, 1.0) < 1.0

    def _is_moving(self) -> bool:
        now = self._clock.monotonic()
        return any(ramp.is_moving(now) for ramp in self._ramps.values())
