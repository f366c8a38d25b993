"""What watches and sends, for one configuration."""

from __future__ import annotations

import platform
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from growd.runtime.clock import RealClock
from growd_alerts.backlog import Backlog, SavedAlerts
from growd_alerts.channels import read_channels
from growd_alerts.defaults import rules_of
from growd_alerts.dispatch import Delivery
from growd_alerts.folding import key_of
from growd_alerts.messages import Entry, Sender
from growd_alerts.rules import AlertPhase
from growd_alerts.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd.config import Config
    from growd.parts import Surroundings
    from growd.runtime.supervisor import Supervisor
    from growd_alerts.dispatch import Send
    from growd_alerts.messages import Alert


def prepared(around: Surroundings, config: Config) -> Callable[..., Alerting]:
    """What makes the `Alerting` of a configuration. Blocking. Raises `ConfigError` for invalid secrets."""
    sender = Sender(platform.node() or "growd", around.device, config.environment.zone())
    channels = read_channels(config, sender, around.bus.clock.time, around.mqtt)
    return partial(Alerting, around, config, sender, channels)


class Alerting:
    """The rules, the open alerts, and the channels; continues what was `saved`.

    `publish` gets what is reported as JSON. `on_change` is called when there is something to be saved.
    """

    def __init__(
        self,
        around: Surroundings,
        config: Config,
        sender: Sender,
        channels: Mapping[str, Send],
        saved: SavedAlerts | None,
        *,
        publish: Callable[[dict[str, Any]], None],
        on_change: Callable[[], None],
    ) -> None:
        clock, saved = around.bus.clock, saved or SavedAlerts()
        self._sender = sender
        self._publish = publish
        self._on_change = on_change
        self.deliveries = {
            each.name: Delivery(
                each,
                channels[each.name],
                Backlog(saved.channels.get(each.name)),
                clock=RealClock(),
                wall=clock.time,
                on_change=on_change,
            )
            for each in config.notify
        }
        self._watch = Watch(
            clock,
            around.status,
            rules_of(config),
            opened=saved.open,
            report=self._report,
            real=time.monotonic,
        )

    def start(self, supervisor: Supervisor) -> None:
        """Watch and send."""
        supervisor.start("alerts: rules", self._watch.run)
        for name, delivery in self.deliveries.items():
            supervisor.start(f"alerts: {name}", delivery.run)

    @property
    def open(self) -> list[Alert]:
        """The open alerts."""
        return list(self._watch.open.values())

    def members(self) -> list[dict[str, Any]]:
        """The same as JSON."""
        return [
            {
                **self._sender.member(Entry(AlertPhase.START, each)),
                "acknowledged_by": each.acknowledged_by,
                "about": key_of(each.kind, each.subject),
            }
            for each in self.open
        ]

    def saved(self) -> SavedAlerts:
        """The state to be saved."""
        return SavedAlerts(self.open, {name: each.backlog.saved() for name, each in self.deliveries.items()})

    def _report(self, phase: AlertPhase, alert: Alert) -> None:
        """On the bus, and on the channels of the rule."""
        self._publish(self._sender.member(Entry(phase, alert)))
        for name, delivery in self.deliveries.items():
            if not alert.channels or name in alert.channels:
                delivery.put(phase, alert)
        self._on_change()
