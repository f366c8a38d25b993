"""What the outputs of a control loop really did."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from growd.bus.messages import Quality
from growd.control.topics import OUTPUT_LEVEL, output_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.bus import Bus
    from growd.bus.messages import Message


class Applied:
    """The real level of the outputs that raise a variable (counted up to 1) and lower it (-1).

    What lowers it counts only while the loop asks for it: run by somebody else it is a disturbance.
    """

    def __init__(self, bus: Bus, environment: str, raises: Sequence[str], lowers: Sequence[str]) -> None:
        self._shares: dict[str, float] = {}
        self._asks_for_lowering = False
        for names, sign in ((raises, 1.0), (lowers, -1.0)):
            for name in names:
                topic = bus.topics.declare(output_level(environment, name), OUTPUT_LEVEL).name
                self._shares[topic] = sign / len(names)
        self._levels = dict.fromkeys(self._shares, 0.0)
        self._since = self._asked = bus.clock.monotonic()
        self._sum = 0.0

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose messages it takes."""
        return tuple(self._shares)

    @property
    def is_on(self) -> bool:
        """Whether any of the outputs is on, whoever asked for it."""
        return any(self._levels.values())

    def take(self, message: Message, now: float) -> None:
        """Take the level of an output. A failed one counts as off."""
        self._add_up(now)
        self._levels[message.topic] = message.value if message.quality is Quality.OK else 0.0

    def asks_for_lowering(self, asks: bool, now: float) -> None:  # noqa: FBT001  its name says it
        """Whether the loop asks for the outputs that lower it from now on."""
        self._add_up(now)
        self._asks_for_lowering = asks

    def since_last(self, now: float) -> float | None:
        """The average since the last call; None without any output."""
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
        counted = {topic: each for topic, each in self._shares.items() if each > 0 or self._asks_for_lowering}
        return math.fsum(share * self._levels[topic] for topic, share in counted.items())
