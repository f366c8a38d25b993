"""Alerts, built from the configuration: rules that watch the bus, and channels that tell operators."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.alerts.backlog import Backlog, KeptBacklog
from growd.alerts.dispatch import Delivery
from growd.alerts.messages import Alert, Entry, Sender
from growd.alerts.rules import AlertPhase
from growd.alerts.watch import Watch
from growd.bus.errors import counted, shown
from growd.bus.fields import Field, Kind
from growd.bus.messages import STRING
from growd.bus.services import SUCCESS
from growd.config import chambers_of
from growd.config.alerts import DEFAULT_ALERTS, faults_of_alerts
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd.wiring.alert_channels import read_channels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from datetime import tzinfo

    from growd.alerts.dispatch import Channel
    from growd.bus import Bus
    from growd.config import Config, Finding
    from growd.status.status_node import StatusNode
    from growd.store.local import LocalStore

EVENT_TOPIC: Final = "alerts/event"
_STATE: Final = "alerts"
_RETRY_S: Final = 10.0
_UNKEPT: Final = (OSError, RuntimeError)
_log = logging.getLogger(__name__)

_ALERT: Final = Field(
    "alert",
    Kind.STRING,
    default="",
    max_length=64,
    doc="the id of one, or the name of a rule; all without it",
)
_BY: Final = Field("by", Kind.STRING, default="", max_length=200, doc="who has seen it")
_CHANNEL: Final = Field("channel", Kind.STRING, default="", max_length=64, doc="of this name; all without it")


class _Kept(msgspec.Struct):
    """What outlasts a restart."""

    open: list[Alert] = []
    channels: dict[str, KeptBacklog] = {}


def unsound_alerts(config: Config) -> Iterator[Finding]:
    """What no single option of rules and channels can tell."""
    measured = {chamber.environment: chamber.measured for chamber in chambers_of(config)}
    yield from faults_of_alerts(config.alert, config.notify, measured)


@contextlib.asynccontextmanager
async def alerting(
    config: Config, bus: Bus, local: LocalStore, status: StatusNode
) -> AsyncIterator[Alerting]:
    """Watch and tell around the body. Raises `ConfigError` for a secret that can't be read."""
    alerts = Alerting(config, bus, local, status, await asyncio.to_thread(config.environment.zone))
    async with alerts.running():
        yield alerts


class Alerting:
    """The node `alerts`: what is open, how each channel fares, and the services around them.

    Without a rule and a channel it does nothing. What is open, and what is still to be told, is kept in
    `local`, so that a restart neither tells it anew nor forgets its end.
    """

    def __init__(
        self, config: Config, bus: Bus, local: LocalStore, status: StatusNode, zone: tzinfo | None
    ) -> None:
        self.node = bus.node("alerts")
        self._config = config
        self._bus = bus
        self._local = local
        self._status = status
        self._sender = Sender(platform.node() or "growd", local.device, zone)
        self._events = self.node.advertise(EVENT_TOPIC, STRING)
        self._changed = asyncio.Event()
        self._anew = asyncio.Event()
        self._is_unkept = False
        self._kept = _Kept()
        self._next: dict[str, Channel] = {}
        self._watch: Watch | None = None
        self._deliveries: dict[str, Delivery] = {}
        self.node.describe("alerts", lambda: [self._told(alert) for alert in self._open()])
        self.node.describe("channels", lambda: [each.information() for each in self._deliveries.values()])
        self._serve()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch and tell around the body. Raises `ConfigError` for a secret that can't be read."""
        self._next = await self._channels(self._config)
        await self._load()
        async with Supervisor(self._bus.clock, self._bus.liveness) as parts:
            parts.start("alerts", self._run)
            parts.start("alerts: memory", self._remember)
            yield
        await self._save()

    async def reconfigure(self, config: Config) -> None:
        """Go on with other rules and channels. Raises `ConfigError`, and changes nothing then.

        What is open under a rule that is gone ends; what waits for a channel that is gone is not told.
        """
        self._next = await self._channels(config)
        self._config = config
        self._anew.set()

    # the parts

    async def _run(self) -> None:
        while True:
            self._anew.clear()
            self._build(self._next)
            async with Supervisor(self._bus.clock, self._bus.liveness) as parts:
                if self._watch is not None:
                    parts.start("alerts: rules", self._watch.run)
                for name, delivery in self._deliveries.items():
                    parts.start(f"alerts: {name}", delivery.run)
                    parts.start(f"alerts: connection of {name}", delivery.keep_up)
                await self._anew.wait()
            self._kept = self._state()

    def _build(self, channels: dict[str, Channel]) -> None:
        config, bus = self._config, self._bus
        rules = config.alert or (DEFAULT_ALERTS if config.notify else ())
        self._deliveries = {
            settings.name: Delivery(
                settings,
                channels[settings.name],
                Backlog(self._kept.channels.get(settings.name)),
                clock=RealClock(),
                wall=bus.clock.time,
                on_change=self._changed.set,
            )
            for settings in config.notify
        }
        self._watch = Watch(bus.clock, self._status, rules, opened=self._kept.open, report=self._tell)

    def _tell(self, phase: AlertPhase, alert: Alert) -> None:
        """On the bus, and on the channels of its rule."""
        member = self._sender.member(Entry(phase, alert))
        self._events.publish(msgspec.json.encode(member).decode())
        for name, delivery in self._deliveries.items():
            if not alert.channels or name in alert.channels:
                delivery.put(phase, alert)
        self._changed.set()

    async def _channels(self, config: Config) -> dict[str, Channel]:
        now = self._bus.clock.time
        return await asyncio.to_thread(read_channels, config.notify, self._sender, now, self._open_on)

    def _open(self) -> list[Alert]:
        return [] if self._watch is None else list(self._watch.open.values())

    def _open_on(self, channel: str) -> list[Alert]:
        return [alert for alert in self._open() if not alert.channels or channel in alert.channels]

    # services

    def _serve(self) -> None:
        serve = self.node.serve
        serve(
            "alerts/test",
            "growd/TestAlerts",
            self._test,
            arguments=(_CHANNEL,),
            reply=(*SUCCESS, Field("results", Kind.JSON, default=[])),
            doc="Send a test message on a channel now, and say whether it was taken.",
        )
        serve(
            "alerts/acknowledge",
            "growd/AcknowledgeAlerts",
            self._acknowledge,
            arguments=(_ALERT, _BY),
            doc="Have open alerts not repeated any more; their end is told.",
        )

    async def _test(self, channel: str) -> dict[str, Any]:
        chosen = [each for name, each in self._deliveries.items() if channel in ("", name)]
        if not self._deliveries:
            return {"success": False, "message": "no channel is configured: add a [[notify]] section"}
        if not chosen:
            names = ", ".join(self._deliveries)
            return {"success": False, "message": f"there is no channel {shown(channel)}; there is {names}"}
        errors = await asyncio.gather(*(each.test() for each in chosen))
        results = [
            {"channel": each.settings.name, "taken": not error, "error": error}
            for each, error in zip(chosen, errors, strict=True)
        ]
        failed = [f"{result['channel']}: {result['error']}" for result in results if result["error"]]
        taken = f"{counted(len(results), 'channel')} took a test message"
        return {"success": not failed, "message": "; ".join(failed) or taken, "results": results}

    async def _acknowledge(self, alert: str, by: str) -> dict[str, Any]:
        chosen = [each for each in self._open() if alert in ("", each.id, each.rule)]
        if not chosen:
            which = f" {shown(alert)}" if alert else ""
            return {"success": False, "message": f"no alert{which} is open"}
        for each in chosen:
            each.acknowledged_by = by
        if not await self._save():
            return {"success": False, "message": "it is acknowledged, but that can't be kept over a restart"}
        return {"success": True, "message": f"{counted(len(chosen), 'alert')} acknowledged"}

    def _told(self, alert: Alert) -> dict[str, Any]:
        return {
            **self._sender.member(Entry(AlertPhase.START, alert)),
            "acknowledged_by": alert.acknowledged_by,
        }

    # what outlasts a restart

    def _state(self) -> _Kept:
        if self._watch is None:
            return self._kept
        channels = {name: each.backlog.kept() for name, each in self._deliveries.items()}
        return _Kept(self._open(), channels)

    async def _load(self) -> None:
        try:
            kept = await self._local.state(_STATE)
            self._kept = _Kept() if kept is None else msgspec.convert(kept, _Kept)
        except (*_UNKEPT, ValueError) as error:
            _log.error("the alerts that were open can't be read: %s", error)

    async def _remember(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await self._save():
                self._changed.set()
                await asyncio.sleep(_RETRY_S)  # real: a disk does not run fast

    async def _save(self) -> bool:
        """Whether it is on the disk. Said once where it is not."""
        try:
            await self._local.save_state(_STATE, msgspec.to_builtins(self._state()))
        except _UNKEPT as error:
            if not self._is_unkept:
                _log.error("the alerts that are open can't be kept: %s", error)
            self._is_unkept = True
            return False
        self._is_unkept = False
        return True
