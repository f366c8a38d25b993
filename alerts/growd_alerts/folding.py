"""One alert for one cause: what follows from a cause is listed with it, and starts no alert."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from growd.status.causes import causes_of
from growd.status.notices import People, key_of_alert, root_of
from growd_alerts.messages import SEVERITIES
from growd_alerts.rules import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.config.alerts import AlertOptions
    from growd.status.model import Status
    from growd_alerts.observations import Observation


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


def _key(seen: Seen) -> tuple[str, str]:
    return key_of_alert(seen.rule.kind, seen.observation.subject)


def _covers(cause: AlertOptions, effect: AlertOptions) -> bool:
    """Whether all who would hear of the effect hear of the cause, as urgently."""
    is_heard = not cause.channels or (effect.channels and {*effect.channels} <= {*cause.channels})
    return bool(is_heard) and SEVERITIES.index(cause.severity) >= SEVERITIES.index(effect.severity)
