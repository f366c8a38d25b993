"""One alert for one cause: what follows from a cause is listed with it, and starts no alert."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from growd.status.causes import causes_of
from growd.status.notices import People, root_of
from growd_alerts.messages import SEVERITIES
from growd_alerts.rules import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.config.alerts import AlertOptions
    from growd.status.causes import Key
    from growd.status.model import Status
    from growd_alerts.observations import Observation


_KINDS: Final = {
    "device_failed": "device",
    "interlock": "interlock",
    "not_confirmed": "interlock",
    "set_point_missed": "set_point",
    "no_value": "variable",
    "hold": "hold",
    "replication": "replication",
    "database": "store",
    "disk_full": "machine",
    "outbox": "store",
    "points_lost": "store",
    "database_room": "problem",
    "problem": "problem",
    "calibration_due": "problem",
    "sensors_apart": "problem",
}
"""The kind of the notice that says the same as an alert of this kind."""

_PLACES: Final = {
    "device_failed": ("/diagnostics/", ""),
    "calibration_due": ("/calibration/", "calibration_due:"),
    "sensors_apart": ("/drift/", "sensors_apart:"),
}
"""What the subject of an alert has in place of a slash in the name of the notice, and what comes before."""

_NAMES: Final = {
    ("hold", "hold/person"): "person",
    ("hold", "hold/upgrade"): "upgrade",
    ("points_lost", "refused"): "rejected",
    ("points_lost", "unsaved"): "saving",
    ("database_room", "room"): "database_room_short",
    ("database_room", "storing"): "database_room_short",
}
"""Names of notices for subjects of alerts."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a rule observes, and the effects that have no alert of their own."""

    rule: AlertOptions
    observation: Observation
    effects: list[str] = field(default_factory=list)


def below_their_causes(status: Status, seen: Sequence[Seen]) -> list[Seen]:
    """Observations with names for people. Effects of others are unknown, so that they start no alert.

    An effect stays as it is if its rule reaches a channel that the rule of the cause does not, or is more
    severe.
    """
    people, causes = People(status), causes_of(status)
    raised = {_key(each): each for each in seen if each.observation.level is Level.RAISED}
    found = []
    for each in seen:
        key, observation = _key(each), each.observation
        named = replace(observation, text=people.said(observation.text))
        cause = raised[root] if (root := root_of(key, causes, raised)) != key and root in raised else None
        if observation.level is Level.RAISED and cause is not None and _covers(cause.rule, each.rule):
            cause.effects.append(named.text)
            named = replace(named, level=Level.UNKNOWN)
        found.append(Seen(each.rule, named, each.effects))
    return found


def key_of(kind: str, subject: str) -> Key:
    """What an alert is about, as the notice of the same thing has it."""
    if kind == "problem" and subject.startswith("set_point_missed:"):
        kind, subject = "set_point_missed", subject.removeprefix("set_point_missed:")
    if kind in _PLACES:
        before, after = _PLACES[kind]
        subject = after + subject.replace(before, "/", 1)
    return _KINDS.get(kind, "alert"), _NAMES.get((kind, subject), subject)


def _key(seen: Seen) -> Key:
    return key_of(seen.rule.kind, seen.observation.subject)


def _covers(cause: AlertOptions, effect: AlertOptions) -> bool:
    """Whether all who would hear of the effect hear of the cause, as urgently."""
    is_heard = not cause.channels or (effect.channels and {*effect.channels} <= {*cause.channels})
    return bool(is_heard) and SEVERITIES.index(cause.severity) >= SEVERITIES.index(effect.severity)
