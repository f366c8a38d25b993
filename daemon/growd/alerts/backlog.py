"""What waits to be told on one channel: bounded, and an end never goes before its begin."""

from __future__ import annotations

from typing import Final

import msgspec

from growd.alerts.messages import Alert, AlertMessage, Entry
from growd.alerts.rules import AlertPhase

MOST_WAITING: Final = 200


class Item(msgspec.Struct):
    """What is still to be told of one alert."""

    alert: Alert
    start: bool = False
    repeat: bool = False
    end: bool = False
    notice: bool = False

    @property
    def phase(self) -> AlertPhase | None:
        """What the next message says of it."""
        if self.notice:
            return AlertPhase.NOTICE
        if self.start:
            return AlertPhase.OVER if self.end else AlertPhase.START
        if self.end:
            return AlertPhase.END
        return AlertPhase.REPEAT if self.repeat else None


class KeptBacklog(msgspec.Struct):
    """What outlasts a restart; `told` has the open alerts whose begin was told, with the message's name."""

    items: list[Item] = []
    told: dict[str, str] = {}
    left_out: int = 0
    late_since: float | None = None


_ROOM_IS_MADE_OF: Final = (AlertPhase.REPEAT, AlertPhase.OVER, AlertPhase.NOTICE)


class Backlog:
    """What waits, oldest first, for `most` alerts.

    Where there is no room for one more, repeats go first, then what is over, then notices. Where all that
    waits are begins and ends, the new one is left out; a begin that was left out is told with its next
    repeat, and no end without a begin. `left_out` counts what was not told, since the last message.
    `late_since` is when the first message failed that is still to be told (UNIX seconds).
    """

    def __init__(self, kept: KeptBacklog | None = None, most: int = MOST_WAITING) -> None:
        kept = KeptBacklog() if kept is None else kept
        self._items = {item.alert.id: item for item in kept.items}
        self._told = dict(kept.told)
        self._most = most
        self._on_the_way: frozenset[str] = frozenset()  # the begins of the message that is being told
        self._overtaken: dict[str, Item] = {}  # those of them that ended and made room meanwhile
        self.left_out = kept.left_out
        self.late_since = kept.late_since

    def __len__(self) -> int:
        return len(self._items)

    def put(self, phase: AlertPhase, alert: Alert) -> None:
        """Have this told."""
        alert = msgspec.structs.replace(alert)  # as it is now
        item = self._items.get(alert.id)
        if item is not None:
            item.alert = alert
            item.end |= phase is AlertPhase.END
            item.repeat |= phase is AlertPhase.REPEAT
        elif phase is AlertPhase.END and alert.id not in self._told:
            return  # nobody knows that it began
        elif self._has_room(phase):
            is_start = phase is AlertPhase.START or (
                phase is AlertPhase.REPEAT and alert.id not in self._told
            )
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
        """All that waits as one message, None if there is nothing."""
        entries = [
            Entry(phase, msgspec.structs.replace(item.alert))
            for item in self._items.values()
            if (phase := item.phase) is not None
        ]
        self._on_the_way = frozenset(entry.alert.id for entry in entries if entry.phase is AlertPhase.START)
        self._overtaken.clear()
        if not entries:
            return None
        threads = dict.fromkeys(self._told[each.alert.id] for each in entries if each.alert.id in self._told)
        return AlertMessage(tuple(entries), self.late_since, self.left_out, tuple(filter(None, threads)))

    def delivered(self, batch: AlertMessage, name: str) -> None:
        """This message, which the channel calls `name`, was told; what came since then waits on."""
        self.left_out -= batch.left_out
        self.late_since = None
        for entry in batch.entries:
            self._note(entry, name)

    def kept(self) -> KeptBacklog:
        """What is to outlast a restart."""
        return KeptBacklog(list(self._items.values()), self._told, self.left_out, self.late_since)

    def _note(self, entry: Entry, name: str) -> None:
        alert_id = entry.alert.id
        item = self._items.get(alert_id)
        if entry.phase is AlertPhase.START:
            self._told[alert_id] = name
            if (overtaken := self._overtaken.pop(alert_id, None)) is not None:
                item = self._items[alert_id] = overtaken  # who heard of its begin is to hear of its end
                self.left_out -= 1
        elif entry.phase is AlertPhase.END:
            self._told.pop(alert_id, None)
        if item is None:
            return  # it made room meanwhile
        item.start = item.repeat = False
        if entry.phase is not AlertPhase.START and entry.phase is not AlertPhase.REPEAT:
            item.end = item.notice = False
        if item.phase is None:
            del self._items[alert_id]

    def _has_room(self, phase: AlertPhase) -> bool:
        if len(self._items) < self._most:
            return True
        if phase is AlertPhase.REPEAT:
            return False
        for wanted in _ROOM_IS_MADE_OF:
            for alert_id, item in self._items.items():
                if item.phase is wanted:
                    del self._items[alert_id]
                    self.left_out += 1
                    if alert_id in self._on_the_way:
                        self._overtaken[alert_id] = item
                    return True
        return phase is AlertPhase.END  # there are no more of them than of begins that were told
