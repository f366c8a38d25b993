"""Applies the rules to a status every few seconds, and knows which alerts are open."""

from __future__ import annotations

import logging
import secrets
from math import inf
from typing import TYPE_CHECKING, Final

from growd.runtime.clock import whole_microseconds
from growd.status.notices import People
from growd_alerts.folding import Seen, below_their_causes
from growd_alerts.messages import Alert, Place
from growd_alerts.observations import Observation, observe
from growd_alerts.rules import AlertPhase, AlertTrack, Level, advance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from growd.config.alerts import AlertOptions
    from growd.runtime.clock import Clock
    from growd.status.model import RecipeEnd, Status
    from growd.status.status_node import StatusNode

PERIOD_S: Final = 2.0
QUIET_S: Final = 30.0
"""No alert begins in this time after the start: sensors warm up, and the database starts."""

GONE_S: Final = 300.0
"""What has not been observed for this long no longer exists: its alert ends."""

URGENT_S: Final = 1_800.0
"""What is urgent is repeated this often until somebody acknowledges it, if the rule repeats at all."""

MACHINE_S: Final = 60.0
"""Disk and temperature are read this often, if a rule needs them."""

_OUTSIDE: Final = ("outbox", "database", "replication")
"""Their times are real also in a simulation, where a second of a slow disk may be an hour."""

_OF_MACHINE: Final = ("disk_full", "too_hot")
_CLEAR: Final = AlertTrack()
_log = logging.getLogger(__name__)


class Watch:
    """All rules, and the open alerts by rule and subject.

    `report(phase, alert)` is called when an alert begins, is repeated or ends. Intervals are of the clock;
    those of the database are of `real`.
    """

    def __init__(
        self,
        clock: Clock,
        source: StatusNode,
        rules: Sequence[AlertOptions],
        *,
        opened: Iterable[Alert],
        report: Callable[[AlertPhase, Alert], None],
        real: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock
        self._real = real or clock.monotonic
        self._source = source
        self._rules = {rule.name: rule for rule in rules}
        self._report = report
        self._tracks: dict[tuple[str, str], AlertTrack] = {}
        self._seen_at: dict[tuple[str, str], float] = {}
        self._is_started = False
        self._machine_at = -inf
        self._updates: dict[str, tuple[int, float]] = {}  # of recipe states, with the time of the last change
        self._ends: dict[str, int] = {}  # the number of the last recipe end that was reported
        self.open: dict[tuple[str, str], Alert] = {}
        for alert in opened:
            self._resume(alert)

    async def run(self) -> None:
        """Look until cancelled; without a rule there is nothing to do."""
        self._withdraw()
        if not self._rules:
            return
        if not self._is_started:
            self._new_ends(self._source.snapshot())  # earlier ones are not reported
            self._is_started = True
        await self._clock.sleep(QUIET_S)
        while True:
            await self._look_up_machine()
            self.look(self._source.snapshot())
            await self._clock.sleep(PERIOD_S)

    def look(self, status: Status) -> None:
        """Apply all rules to a status."""
        silent_s = self._silences(status, self._clock.monotonic())
        ends = self._new_ends(status)
        seen = []
        for rule in self._rules.values():
            found = {each.subject: each for each in observe(rule, status, silent_s)}
            if rule.kind == "problem":
                found |= self._solved_problems(rule.name, found)
            seen += [Seen(rule, each) for each in found.values()]
            if rule.kind == "recipe_ended":
                self._report_ends(rule, ends, People(status))
        for each in below_their_causes(status, seen):
            self._judge(each, self._now(each.rule.name))
        for key in [key for key, at in self._seen_at.items() if self._now(key[0]) - at > GONE_S]:
            if key in self.open:
                self._end(key, "it is no longer there")
            else:
                self._forget(key)

    def _now(self, name: str) -> float:
        """The monotonic time for a rule."""
        rule = self._rules.get(name)
        is_outside = rule is not None and rule.kind in _OUTSIDE
        return self._real() if is_outside else self._clock.monotonic()

    async def _look_up_machine(self) -> None:
        now = self._clock.monotonic()
        is_watched = any(rule.kind in _OF_MACHINE for rule in self._rules.values())
        if is_watched and now - self._machine_at >= MACHINE_S:
            self._machine_at = now
            await self._source.look_up_machine()

    def _silences(self, status: Status, now: float) -> dict[str, float]:
        """For how long the recipe runner of each environment has published nothing."""
        for recipe in status.recipes:
            if self._updates.get(recipe.environment, (0, 0.0))[0] != recipe.updates:
                self._updates[recipe.environment] = recipe.updates, now
        return {environment: now - at for environment, (_, at) in self._updates.items()}

    def _new_ends(self, status: Status) -> list[RecipeEnd]:
        """The recipes that have ended since the last call."""
        new = [end for end in status.recipe_ends if end.number > self._ends.get(end.environment, 0)]
        self._ends |= {end.environment: end.number for end in new}
        return new

    def _report_ends(self, rule: AlertOptions, ends: Iterable[RecipeEnd], people: People) -> None:
        for end in ends:
            if rule.environment in ("", end.environment):
                text = people.said(f"{end.environment}: the recipe {end.recipe_id} has ended")
                seen = Observation(end.environment, Level.RAISED, text, Place(environment=end.environment))
                self._report(AlertPhase.NOTICE, _alert(Seen(rule, seen), end.time, self._clock.time()))

    def _solved_problems(self, rule: str, found: Iterable[str]) -> dict[str, Observation]:
        """A problem that is solved is no longer listed: an observation for each."""
        gone = {subject for name, subject in self._tracks if name == rule} - set(found)
        texts = {subject: self.open[rule, subject].text for subject in gone if (rule, subject) in self.open}
        return {
            subject: Observation(subject, Level.CLEAR, f"solved: {texts.get(subject, subject)}")
            for subject in gone
        }

    def _resume(self, alert: Alert) -> None:
        """Continue an alert that was open when growd ended."""
        now, wall = self._now(alert.rule), self._clock.time()
        key = (alert.rule, alert.subject)
        since, told = (now - max(0.0, wall - at) for at in (alert.since, alert.told_at))
        self.open[key] = alert
        self._tracks[key] = AlertTrack(since, is_open=True, told_at=told)
        self._seen_at[key] = now

    def _withdraw(self) -> None:
        """End the alerts whose rule is gone."""
        for key in [key for key in self.open if key[0] not in self._rules]:
            self._end(key, "its rule is gone from the configuration")

    def _judge(self, seen: Seen, now: float) -> None:
        rule, observation = seen.rule, seen.observation
        key = (rule.name, observation.subject)
        alert = self.open.get(key)
        before = self._tracks.get(key, _CLEAR)
        repeat_s = min(rule.repeat_s, URGENT_S) if observation.is_urgent else rule.repeat_s
        if alert is not None and alert.acknowledged_by is not None:
            repeat_s = 0.0  # but its end is reported
        track, phase = advance(before, observation.level, now, rule.for_s, repeat_s)
        if phase is AlertPhase.END:
            self._end(key, observation.text)
            return
        if track == _CLEAR:
            self._forget(key)
            return
        self._tracks[key], self._seen_at[key] = track, now
        if alert is not None and observation.level is Level.RAISED:
            alert.text, alert.place = observation.text, observation.place
            alert.effects = seen.effects
        if phase is AlertPhase.START:
            since = whole_microseconds(self._clock.time() - (now - (track.raised_at or now)))
            self._begin(key, _alert(seen, since, self._clock.time()))
        elif phase is AlertPhase.REPEAT and alert is not None:
            if observation.level is Level.BETWEEN:
                alert.text, alert.place = observation.text, observation.place
            alert.told_at = self._clock.time()
            self._report(phase, alert)

    def _begin(self, key: tuple[str, str], alert: Alert) -> None:
        self.open[key] = alert
        _log.warning("alert %s: %s", alert.rule, alert.text)
        self._report(AlertPhase.START, alert)

    def _end(self, key: tuple[str, str], now: str) -> None:
        """`now` describes the state at the end."""
        alert, track = self.open.pop(key), self._tracks[key]
        self._forget(key)
        alert.ended, alert.now = self._clock.time(), now
        if track.raised_at is not None:
            alert.lasted_s = self._now(key[0]) - track.raised_at
        _log.info("alert %s has ended: %s", alert.rule, now)
        self._report(AlertPhase.END, alert)

    def _forget(self, key: tuple[str, str]) -> None:
        self._tracks.pop(key, None)
        self._seen_at.pop(key, None)


def _alert(found: Seen, since: float, now: float) -> Alert:
    rule, seen = found.rule, found.observation
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
        remedy=seen.remedy,
        effects=found.effects,
    )
