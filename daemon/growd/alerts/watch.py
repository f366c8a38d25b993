"""The rules at work: looks at the world at a steady pace, and knows what is open."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Final

from growd.alerts.messages import Alert, Place
from growd.alerts.observations import Observation
from growd.alerts.rules import AlertPhase, AlertTrack, Level, Terms, advance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from growd.alerts.observations import World
    from growd.bus import Bus, Node
    from growd.bus.topics import Subscription
    from growd.config import alerts as settings

PERIOD_S: Final = 2.0
QUIET_S: Final = 30.0
"""For so long after the start nothing begins: sensors warm up, and the database comes."""

GONE_S: Final = 300.0
"""What has not been seen for so long is not there any more: its alert ends."""

_log = logging.getLogger(__name__)


class Watch:
    """All rules, and the alerts that are open. Times are seconds of the bus's clock.

    `tell(phase, alert)` is called for each thing to tell.
    """

    def __init__(
        self,
        bus: Bus,
        node: Node,
        world: World,
        rules: Sequence[settings.AlertOptions],
        *,
        environments: Iterable[str],
        opened: Iterable[Alert],
        tell: Callable[[AlertPhase, Alert], None],
    ) -> None:
        self._clock = bus.clock
        self._bus = bus
        self._node = node
        self._world = world
        self._rules = {rule.name: rule for rule in rules}
        self._ends = [f"{name}/desired/recipe_end" for name in environments]
        self._tell = tell
        self._tracks: dict[tuple[str, str], AlertTrack] = {}
        self._seen_at: dict[tuple[str, str], float] = {}
        self.open: dict[tuple[str, str], Alert] = {}
        for alert in opened:
            self._take_up(alert)

    async def run(self) -> None:
        """Look until cancelled; without a rule there is nothing to do."""
        self._withdraw()
        if not self._rules:
            return
        with self._node.inbox(*self._known(self._ends), depth=64) as ends:
            await self._clock.sleep(QUIET_S)
            while True:
                self._hear(ends)
                await self._world.prepare(self._rules.values())
                self.look()
                await self._clock.sleep(PERIOD_S)

    def look(self) -> None:
        """One look at all that the rules watch."""
        now = self._clock.monotonic()
        for rule in self._rules.values():
            for observation in self._world.look(rule):
                self._judge(rule, observation, now)
        for key in [key for key in self.open if now - self._seen_at[key] > GONE_S]:
            self._end(key, "it is not there any more")

    def _known(self, topics: Iterable[str]) -> list[str]:
        names = set(self._bus.topics.names())
        return [topic for topic in topics if topic in names]

    def _take_up(self, alert: Alert) -> None:
        """Go on with an alert that was open when growd ended."""
        now, wall = self._clock.monotonic(), self._clock.time()
        key = (alert.rule, alert.subject)
        since, told = (now - max(0.0, wall - at) for at in (alert.since, alert.told_at))
        self.open[key] = alert
        self._tracks[key] = AlertTrack(since, is_open=True, told_at=told)
        self._seen_at[key] = now

    def _withdraw(self) -> None:
        """End what no rule watches any more."""
        for key in [key for key in self.open if key[0] not in self._rules]:
            self._end(key, "its rule is gone from the configuration")

    def _judge(self, rule: settings.AlertOptions, observation: Observation, now: float) -> None:
        key = (rule.name, observation.subject)
        self._seen_at[key] = now
        alert = self.open.get(key)
        before = self._tracks.get(key, AlertTrack())
        is_silenced = alert is not None and alert.acknowledged_by is not None
        terms = Terms(rule.for_s, rule.repeat_s)
        track, phase = advance(before, terms, observation.level, now, is_silenced=is_silenced)
        if phase is AlertPhase.END:
            self._end(key, observation.text)
            return
        self._tracks[key] = track
        if phase is AlertPhase.START:
            since = self._clock.time() - (now - (track.raised_at or now))
            self._begin(key, _made(rule, observation, since, self._clock.time()))
        elif phase is AlertPhase.REPEAT and alert is not None:
            if observation.level is not Level.UNKNOWN:
                alert.text, alert.place = observation.text, observation.place
            alert.told_at = self._clock.time()
            self._tell(phase, alert)

    def _begin(self, key: tuple[str, str], alert: Alert) -> None:
        self.open[key] = alert
        _log.warning("alert %s: %s", alert.rule, alert.text)
        self._tell(AlertPhase.START, alert)

    def _end(self, key: tuple[str, str], now: str) -> None:
        """It is over; `now` says how it is since."""
        alert, track = self.open.pop(key), self._tracks.pop(key)
        del self._seen_at[key]
        alert.ended, alert.now = self._clock.time(), now
        if track.raised_at is not None:
            alert.lasted_s = self._clock.monotonic() - track.raised_at
        _log.info("alert %s is over: %s", alert.rule, now)
        self._tell(AlertPhase.END, alert)

    def _hear(self, ends: Subscription) -> None:
        """Tell of the recipes that have ended since the last look."""
        rules = [rule for rule in self._rules.values() if rule.kind == "recipe_ended"]
        while (message := ends.get_nowait()) is not None:
            environment = message.topic.partition("/")[0]
            text = f"{environment}: the recipe {message.value} has ended"
            seen = Observation(environment, Level.RAISED, text, Place(environment=environment))
            for rule in rules:
                if rule.environment in ("", environment):
                    self._tell(AlertPhase.NOTICE, _made(rule, seen, message.time, self._clock.time()))


def _made(rule: settings.AlertOptions, seen: Observation, since: float, now: float) -> Alert:
    return Alert(
        id=secrets.token_hex(6),
        rule=rule.name,
        kind=rule.kind,
        severity=rule.severity,
        subject=seen.subject,
        text=seen.text,
        since=since,
        told_at=now,
        place=seen.place,
        channels=rule.channels,
    )
