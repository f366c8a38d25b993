"""The alerts that wait for one channel: bounded, and never an end before its start."""

from __future__ import annotations

from typing import Final

import msgspec

from growd_alerts.messages import Alert, AlertMessage, Entry
from growd_alerts.rules import AlertPhase

MOST_WAITING: Final = 200
_DISPENSABLE: Final = (AlertPhase.REPEAT, AlertPhase.OVER, AlertPhase.NOTICE)
"""The phases that are dropped to make room, in this order."""

_ENDS: Final = (AlertPhase.END, AlertPhase.OVER)
_AFTER: Final = {
    (AlertPhase.START, AlertPhase.END): AlertPhase.OVER,
    (AlertPhase.REPEAT, AlertPhase.END): AlertPhase.END,
}
"""What is to be reported after the end of an alert whose start or repeat waits."""


class SavedBacklog(msgspec.Struct):
    """A backlog as it is saved. `told` has the open alerts whose start was delivered."""

    entries: list[Entry] = []
    told: list[str] = []
    left_out: int = 0
    late_since: float | None = None


class SavedAlerts(msgspec.Struct):
    """All alerts that survive a restart: those that are open, and the backlog of each channel."""

    open: list[Alert] = []
    channels: dict[str, SavedBacklog] = {}


class Backlog:
    """What waits for a channel, oldest first, of at most about `most` alerts.

    When it is full, repeats are dropped first, then alerts that are over, then notices. If only starts and
    ends wait, a new start is left out; it is delivered with its next repeat. An end is never delivered
    without its start. `left_out` counts what was dropped since the last message. `late_since` is when the
    delivery of what waits first failed (UNIX seconds).
    """

    def __init__(self, saved: SavedBacklog | None = None, most: int = MOST_WAITING) -> None:
        saved = SavedBacklog() if saved is None else saved
        self._entries = {each.alert.id: each for each in saved.entries}
        self._started = set(saved.told)
        self._most = most
        self._on_the_way: frozenset[str] = frozenset()  # alerts whose start is in the message being sent
        self.left_out = saved.left_out
        self.late_since = saved.late_since

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, phase: AlertPhase, alert: Alert) -> None:
        """Add news of an alert."""
        waiting = self._entries.get(alert.id)
        if waiting is not None:
            phase = _AFTER.get((waiting.phase, phase), waiting.phase)
        elif alert.id not in self._started:
            if phase is AlertPhase.END:
                return  # its start was left out
            if phase is AlertPhase.REPEAT:
                phase = AlertPhase.START
        if waiting is None and not self._has_room(phase):
            self.left_out += 1
            return
        self._entries[alert.id] = Entry(phase, msgspec.structs.replace(alert))  # as it is now

    def batch(self) -> AlertMessage | None:
        """All that waits as one message; None if nothing does."""
        entries = tuple(self._entries.values())
        self._on_the_way = frozenset(each.alert.id for each in entries if each.phase is AlertPhase.START)
        return AlertMessage(entries, self.late_since, self.left_out) if entries else None

    def delivered(self, batch: AlertMessage) -> None:
        """Remove what this message has delivered."""
        self.left_out -= batch.left_out
        self.late_since = None
        self._on_the_way = frozenset()
        for entry in batch.entries:
            self._remove(entry)

    def saved(self) -> SavedBacklog:
        """The backlog to be saved."""
        entries = list(self._entries.values())
        return SavedBacklog(entries, sorted(self._started), self.left_out, self.late_since)

    def _remove(self, sent: Entry) -> None:
        alert_id = sent.alert.id
        if sent.phase is AlertPhase.START:
            self._started.add(alert_id)
        elif sent.phase is AlertPhase.END:
            self._started.discard(alert_id)
        waiting = self._entries.get(alert_id)
        if waiting is None:
            return  # dropped meanwhile
        if waiting.phase in _ENDS and sent.phase not in _ENDS:  # it has ended meanwhile
            self._entries[alert_id] = Entry(AlertPhase.END, waiting.alert)
        else:
            del self._entries[alert_id]

    def _has_room(self, phase: AlertPhase) -> bool:
        """Whether there is room for one more, after dropping something less important if there is not."""
        ended = {alert_id for alert_id, each in self._entries.items() if each.phase in _ENDS}
        if len(self._entries) - len(ended & self._on_the_way) < self._most:
            return True
        if phase is AlertPhase.REPEAT:
            return False
        for dispensable in _DISPENSABLE:
            for alert_id, each in self._entries.items():
                if each.phase is dispensable and alert_id not in self._on_the_way:
                    del self._entries[alert_id]
                    self.left_out += 1
                    return True
        return phase is AlertPhase.END  # as many at most as starts were delivered
