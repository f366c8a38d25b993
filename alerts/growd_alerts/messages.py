"""Alerts, and the messages about them as text and as JSON."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.runtime.sentence import encode
from growd.runtime.text import duration
from growd_alerts.rules import AlertPhase

if TYPE_CHECKING:
    from datetime import tzinfo

VERSION: Final = 1
"""The version of the JSON; it changes when a field is removed or changes its meaning."""

SEVERITIES: Final = ("info", "warning", "critical")
"""In rising order."""

_LEADS: Final = {
    AlertPhase.REPEAT: "still: ",
    AlertPhase.END: "ended: ",
    AlertPhase.OVER: "ended already: ",
}


class Place(msgspec.Struct, frozen=True):
    """What an alert is about; empty or None if it does not apply. `value` and `limit` are in `unit`."""

    environment: str = ""
    device: str = ""
    variable: str = ""
    value: float | None = None
    limit: float | None = None
    unit: str = ""


class Alert(msgspec.Struct):
    """One alert, from its start to its end. Times are UNIX seconds.

    `subject` identifies what the rule watches. `since` is when the condition began, `told_at` when it was
    reported last. `text` describes the condition as it was reported, `now` the state at the end.
    `effects` has what follows from it, which has no alert of its own.
    """

    id: str
    rule: str
    kind: str
    severity: str
    subject: str
    text: str
    since: float
    told_at: float
    place: Place = Place()
    channels: tuple[str, ...] = ()
    ended: float | None = None
    lasted_s: float | None = None
    now: str = ""
    acknowledged_by: str | None = None
    remedy: str = ""
    effects: list[str] = []


class Entry(msgspec.Struct, frozen=True):
    """One alert in a message."""

    phase: AlertPhase
    alert: Alert


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """The content of one message.

    `late_since` is when its delivery first failed (UNIX seconds), None if it did not. `left_out` counts
    alerts that were dropped meanwhile.
    """

    entries: tuple[Entry, ...]
    late_since: float | None = None
    left_out: int = 0
    is_test: bool = False

    @property
    def begun(self) -> list[Entry]:
        """What asks for attention: all but ends."""
        return [each for each in self.entries if each.phase not in (AlertPhase.END, AlertPhase.OVER)]

    @property
    def severity(self) -> str:
        """The highest severity of what has begun, else "info" for a test and "" for ends."""
        worst = max((each.alert.severity for each in self.begun), key=SEVERITIES.index, default="")
        return "info" if self.is_test else worst

    @property
    def id(self) -> str:
        """The same for the same content, so that a receiver recognises a repetition."""
        reported = [(entry.phase, entry.alert.id, entry.alert.told_at) for entry in self.entries]
        return hashlib.sha256(encode([reported, self.is_test])).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender: host name, id of the device, and time zone of texts (None: that of the machine)."""

    host: str
    device: str
    zone: tzinfo | None = None

    def moment(self, time: float) -> str:
        """A UNIX time for a person, with its offset from UTC."""
        return datetime.fromtimestamp(time, self.zone).astimezone(self.zone).isoformat(" ", "seconds")

    def subject(self, batch: AlertMessage) -> str:
        """One line with host, severity and text of the first alert."""
        if batch.is_test:
            return f"[growd {self.host}] test message"
        first = (batch.begun or batch.entries)[0]
        more = f" (and {len(batch.entries) - 1} more)" if len(batch.entries) > 1 else ""
        lead = f"{batch.severity}: " if batch.severity else ""
        line = f"[growd {self.host}] {lead}{_LEADS.get(first.phase, '')}{first.alert.text}{more}"
        return " ".join(line.split())

    def text(self, batch: AlertMessage) -> str:
        """The whole message, with a paragraph for each alert."""
        if batch.is_test:
            return f"This is a test message of growd on {self.host}. The channel works."
        parts = [self.paragraph(entry) for entry in batch.entries]
        if batch.late_since is not None:
            since = self.moment(batch.late_since)
            parts.insert(0, f"This message is late: it could not be sent since {since}.")
        if batch.left_out:
            parts.append(f"{batch.left_out} more alerts were dropped meanwhile, since too many waited.")
        return "\n\n".join(parts)

    def paragraph(self, entry: Entry) -> str:
        """One alert: condition, start and duration."""
        alert = entry.alert
        lead = f"{alert.severity}: {_LEADS.get(entry.phase, '')}{alert.text}."
        since = self.moment(alert.since)
        if entry.phase is AlertPhase.NOTICE:
            times = f"At {since}."
        elif alert.ended is None:
            times = f"Since {since}, for {duration(alert.told_at - alert.since)}."
        else:
            times = f"From {since} to {self.moment(alert.ended)}, for {duration(alert.lasted_s or 0.0)}."
        now = f" Now: {alert.now}." if alert.now else ""
        is_over = alert.ended is not None
        advice = f" {alert.remedy}" if alert.remedy and not is_over else ""
        effects = "" if is_over else "".join(f"\n- {each}" for each in alert.effects)
        what = f"{lead}{advice}\n{times}{now} (rule {alert.rule}, alert {alert.id})"
        return f"{what}\nIts effects:{effects}" if effects else what

    def document(self, batch: AlertMessage, now: float) -> dict[str, Any]:
        """A message as JSON; docs/alerts.md describes the fields."""
        return {
            "version": VERSION,
            "id": batch.id,
            "host": self.host,
            "device_id": self.device,
            "sent": self.moment(now),
            "late_since": None if batch.late_since is None else self.moment(batch.late_since),
            "left_out": batch.left_out,
            "test": batch.is_test,
            "text": self.text(batch),
            "alerts": [self.member(entry) for entry in batch.entries],
        }

    def member(self, entry: Entry) -> dict[str, Any]:
        """One alert as JSON. Durations are in seconds."""
        alert, place = entry.alert, entry.alert.place
        return {
            "id": alert.id,
            "phase": str(entry.phase),
            "rule": alert.rule,
            "kind": alert.kind,
            "severity": alert.severity,
            "subject": alert.subject,
            **msgspec.structs.asdict(place),
            "text": alert.text,
            "remedy": alert.remedy,
            "effects": alert.effects,
            "now": alert.now,
            "since": self.moment(alert.since),
            "ended": None if alert.ended is None else self.moment(alert.ended),
            "lasted_s": alert.lasted_s,
            "acknowledged": alert.acknowledged_by is not None,
        }
