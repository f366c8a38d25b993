"""The alerts that wait for one channel: bounded, and never an end before its start."""

from __future__ import annotations

from typing import Final

import msgspec

from growd_alerts.messages import Alert, AlertMessage, Entry
from growd_alerts.rules import AlertPhase

MOST_WAITING: Final = 200
_DISPENSABLE: Final = (AlertPhase.REPEAT, AlertPhase.OVER, AlertPhase.NOTICE)
"""The phases that are dropped to make room, in this order."""


class Item(msgspec.Struct):
    """What is not yet delivered of one alert."""

    alert: Alert
    start: bool = False
    repeat: bool = False
    end: bool = False
    notice: bool = False

    @property
    def phase(self) -> AlertPhase | None:
        """The phase in the next message."""
        if self.notice:
            return AlertPhase.NOTICE
        if self.start:
            return AlertPhase.OVER if self.end else AlertPhase.START
        if self.end:
            return AlertPhase.END
        return AlertPhase.REPEAT if self.repeat else None


class SavedBacklog(msgspec.Struct):
    """A backlog as it is saved. `told` has the open alerts whose start was delivered."""

    items: list[Item] = []
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
        self._items = {item.alert.id: item for item in saved.items}
        self._started = set(saved.told)
        self._most = most
        self._on_the_way: frozenset[str] = frozenset()  # alerts whose start is in the message being sent
        self.left_out = saved.left_out
        self.late_since = saved.late_since

    def __len__(self) -> int:
        return len(self._items)

    def put(self, phase: AlertPhase, alert: Alert) -> None:
        """Add news of an alert."""
        alert = msgspec.structs.replace(alert)  # as it is now
        item = self._items.get(alert.id)
        is_started = alert.id in self._started
        if item is not None:
            item.alert = alert
            item.end |= phase is AlertPhase.END
            item.repeat |= phase is AlertPhase.REPEAT
        elif phase is AlertPhase.END and not is_started:
            return  # its start was left out
        elif self._has_room(phase):
            is_start = phase is AlertPhase.START or (phase is AlertPhase.REPEAT and not is_started)
            self._items[alert.id] = Item(
                alert,
                start=is_start,
                repeat=phase is AlertPhase.REPEAT and not is_start,
                end=phase is AlertPhase.END,
                notice=phase is AlertPhase.NOTICE,
            )
        else:
            self.left_out += 1

    def batch(self) -> AlertMessage | None:
        """All that waits as one message; None if nothing does."""
        entries = [
            Entry(phase, msgspec.structs.replace(item.alert))
            for item in self._items.values()
            if (phase := item.phase) is not None
        ]
        self._on_the_way = frozenset(each.alert.id for each in entries if each.phase is AlertPhase.START)
        if not entries:
            return None
        return AlertMessage(tuple(entries), self.late_since, self.left_out)

    def delivered(self, batch: AlertMessage) -> None:
        """Remove what this message has delivered."""
        self.left_out -= batch.left_out
        self.late_since = None
        self._on_the_way = frozenset()
        for entry in batch.entries:
            self._remove(entry)

    def saved(self) -> SavedBacklog:
        """The backlog to be saved."""
        return SavedBacklog(list(self._items.values()), sorted(self._started), self.left_out, self.late_since)

    def _remove(self, entry: Entry) -> None:
        alert_id = entry.alert.id
        if entry.phase is AlertPhase.START:
            self._started.add(alert_id)
        elif entry.phase is AlertPhase.END:
            self._started.discard(alert_id)
        item = self._items.get(alert_id)
        if item is None:
            return  # dropped meanwhile
        item.start = item.repeat = False
        if entry.phase not in {AlertPhase.START, AlertPhase.REPEAT}:
            item.end = item.notice = False
        if item.phase is None:
            del self._items[alert_id]

    def _has_room(self, phase: AlertPhase) -> bool:
        """Whether there is room for one more, after dropping something less important if there is not."""
        leaving = [each for each in self._on_the_way if each in self._items and self._items[each].end]
        if len(self._items) - len(leaving) < self._most:
            return True
        if phase is AlertPhase.REPEAT:
            return False
        for dispensable in _DISPENSABLE:
            for alert_id, item in self._items.items():
                if item.phase is dispensable and alert_id not in self._on_the_way:
                    del self._items[alert_id]
                    self.left_out += 1
                    return True
        return phase is AlertPhase.END  # as many at most as starts were delivered
