"""Alerts, built from the configuration: rules over the status, and channels to operators."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import ssl
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import counted, shown
from growd.bus.fields import Field, Kind
from growd.bus.messages import STRING
from growd.bus.services import SUCCESS
from growd.config import ConfigError
from growd.config.alerts import DEFAULT_ALERTS
from growd.config.secrets import read_line
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import load
from growd.runtime.sentence import encode
from growd.runtime.supervisor import Supervisor
from growd.wiring.files import trusting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Config
    from growd.config.alerts import AlertOptions, Notify
    from growd.host.mqtt import MqttLink
    from growd.parts import Surroundings
    from growd.status.status_node import StatusNode
    from growd.store.local import LocalStore
    from growd_alerts.backlog import SavedAlerts
    from growd_alerts.dispatch import AlertChannel, Delivery
    from growd_alerts.messages import Alert, Sender
    from growd_alerts.rules import AlertPhase
    from growd_alerts.watch import Watch

EVENT_TOPIC: Final = "alerts/event"
_STATE: Final = "alerts"
_RETRY_S: Final = 10.0
_UNSAVED: Final = (OSError, RuntimeError)
_log = logging.getLogger(__name__)

_ALERT: Final = Field(
    "alert", Kind.STRING, default="", max_length=64, doc="id of an alert or name of a rule; default: all"
)
_BY: Final = Field(
    "by",
    Kind.STRING,
    default="",
    max_length=200,
    doc="who acknowledges it; by default the user, else the address",
)
_CHANNEL: Final = Field(
    "channel", Kind.STRING, default="", max_length=64, doc="name of a channel; default: all"
)


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Run the alerts for the body. Raises `ConfigError` for a secret that can't be read."""
    config, local = around.present(), around.local
    async with alerting(config, around.bus, local, around.status, around.mqtt) as alerts:
        around.offer_reload("alert", "notify", apply=alerts.reconfigure)
        yield


@contextlib.asynccontextmanager
async def alerting(
    config: Config, bus: Bus, local: LocalStore, status: StatusNode, mqtt: MqttLink | None = None
) -> AsyncIterator[Alerting]:
    """Run the alerts for the body. Raises `ConfigError` for a secret that can't be read."""
    zone = await asyncio.to_thread(config.environment.zone)
    alerts = Alerting(config, bus, local, status, zone=zone, mqtt=mqtt)
    async with alerts.running():
        yield alerts


class Alerting:
    """The node `alerts`: open alerts, state of the channels, and services.

    Without rules and channels it does nothing, and what watches and sends is not loaded. Open alerts and
    unsent messages are saved in `local`, so that a restart neither repeats a start nor loses an end.
    """

    def __init__(
        self,
        config: Config,
        bus: Bus,
        local: LocalStore,
        status: StatusNode,
        *,
        zone: tzinfo | None,
        mqtt: MqttLink | None,
    ) -> None:
        self.node = bus.node("alerts")
        self._config = config
        self._bus = bus
        self._local = local
        self._mqtt = mqtt
        self._status = status
        self._zone = zone
        self._events = self.node.advertise(EVENT_TOPIC, STRING)
        self._changed = asyncio.Event()
        self._reconfigured = asyncio.Event()
        self._save_error = ""  # why the open alerts are not on the disk
        self._saved: SavedAlerts | None = None
        self._next: dict[str, AlertChannel] = {}
        self._watch: Watch | None = None
        self._deliveries: dict[str, Delivery] = {}
        self.node.describe("alerts", lambda: [self._member(alert) for alert in self._open()])
        self.node.describe("channels", lambda: [each.information() for each in self._deliveries.values()])
        self.node.describe("rules", lambda: [rule.name for rule in self._rules(self._config)])
        self.node.describe("problems", self._problems)
        self._serve()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run for the body. Raises `ConfigError` for a secret that can't be read."""
        await self._load()
        self._next = await self._channels(self._config)
        async with Supervisor(self._bus.clock, self._bus.liveness) as supervisor:
            supervisor.start("alerts", self._run)
            supervisor.start("alerts: memory", self._save_changes)
            yield
        await self._save()

    async def reconfigure(self, config: Config) -> None:
        """Use other rules and channels. Raises `ConfigError` and changes nothing if they can't be used.

        Open alerts of a removed rule end; unsent messages of a removed channel are dropped.
        """
        self._next = await self._channels(config)
        self._config = config
        self._reconfigured.set()

    async def _run(self) -> None:
        while True:
            self._reconfigured.clear()
            self._build(self._next)
            async with Supervisor(self._bus.clock, self._bus.liveness) as supervisor:
                if self._watch is not None:
                    supervisor.start("alerts: rules", self._watch.run)
                for name, delivery in self._deliveries.items():
                    supervisor.start(f"alerts: {name}", delivery.run)
                await self._reconfigured.wait()
            self._saved = self._state()

    @cached_property
    def _sender(self) -> Sender:
        from growd_alerts.messages import Sender  # noqa: PLC0415  loaded by those who ask

        return Sender(platform.node() or "growd", self._local.device, self._zone)

    def _build(self, channels: dict[str, AlertChannel]) -> None:
        config, clock = self._config, self._bus.clock
        if not self._rules(config) and self._saved is None:
            return
        from growd_alerts.backlog import Backlog, SavedAlerts  # noqa: PLC0415  loaded with the channels
        from growd_alerts.dispatch import Delivery  # noqa: PLC0415
        from growd_alerts.watch import Watch  # noqa: PLC0415

        saved = self._saved or SavedAlerts()
        self._deliveries = {
            settings.name: Delivery(
                settings,
                channels[settings.name],
                Backlog(saved.channels.get(settings.name)),
                clock=RealClock(),
                wall=clock.time,
                on_change=self._changed.set,
            )
            for settings in config.notify
        }
        self._watch = Watch(
            clock,
            self._status,
            self._rules(config),
            opened=saved.open,
            report=self._report,
            real=time.monotonic,
        )

    @staticmethod
    def _rules(config: Config) -> Sequence[AlertOptions]:
        return config.alert or (DEFAULT_ALERTS if config.notify else ())

    def _problems(self) -> list[dict[str, Any]]:
        if not self._save_error:
            return []
        text = f"open alerts cannot be saved and are lost if growd ends: {self._save_error}"
        return [{"text": text, "code": "alerts_not_saved", "fields": {"reason": self._save_error}}]

    def _report(self, phase: AlertPhase, alert: Alert) -> None:
        """On the bus, and on the channels of the rule."""
        from growd_alerts.messages import Entry  # noqa: PLC0415  loaded with the alert

        member = self._sender.member(Entry(phase, alert))
        self._events.publish(encode(member).decode())
        for name, delivery in self._deliveries.items():
            if not alert.channels or name in alert.channels:
                delivery.put(phase, alert)
        self._changed.set()

    async def _channels(self, config: Config) -> dict[str, AlertChannel]:
        """Its channels by name, after what watches and sends is loaded. Raises `ConfigError`."""
        if not self._rules(config) and self._saved is None:
            return {}
        await load("growd_alerts.watch", "growd_alerts.backlog", "growd_alerts.dispatch")
        now = self._bus.clock.time
        return await asyncio.to_thread(read_channels, config, self._sender, now, self._mqtt)

    def _open(self) -> list[Alert]:
        return [] if self._watch is None else list(self._watch.open.values())

    def _member(self, alert: Alert) -> dict[str, Any]:
        from growd_alerts.messages import Entry  # noqa: PLC0415  loaded with the alert
        from growd_alerts.rules import AlertPhase  # noqa: PLC0415

        member = self._sender.member(Entry(AlertPhase.START, alert))
        return {**member, "acknowledged_by": alert.acknowledged_by}

    # services

    def _serve(self) -> None:
        self.node.serve(
            "alerts/test",
            "growd/TestAlerts",
            self._test,
            arguments=(_CHANNEL,),
            reply=(*SUCCESS, Field("results", Kind.JSON, default=[])),
            doc="Send a test message on a channel and report the result.",
        )
        self.node.serve(
            "alerts/acknowledge",
            "growd/AcknowledgeAlerts",
            self._acknowledge,
            arguments=(_ALERT, _BY),
            names_caller=True,
            doc="Stop the repeats of open alerts; their end is still reported.",
        )

    async def _test(self, channel: str) -> dict[str, Any]:
        chosen = [each for name, each in self._deliveries.items() if channel in ("", name)]
        if not self._deliveries:
            return {"success": False, "message": "no channel is configured: add a [[notify]] section"}
        if not chosen:
            names = ", ".join(self._deliveries)
            return {
                "success": False,
                "message": f"there is no channel {shown(channel)}; the channels are {names}",
            }
        errors = await asyncio.gather(*(each.test() for each in chosen))
        results = [
            {"channel": each.settings.name, "taken": not error, "error": error}
            for each, error in zip(chosen, errors, strict=True)
        ]
        failed = [f"{result['channel']}: {result['error']}" for result in results if result["error"]]
        sent = f"sent a test message on {counted(len(results), 'channel')}"
        return {"success": not failed, "message": "; ".join(failed) or sent, "results": results}

    async def _acknowledge(self, alert: str, by: str, who: str) -> dict[str, Any]:
        chosen = [each for each in self._open() if alert in ("", each.id, each.rule)]
        if not chosen:
            which = f" {shown(alert)}" if alert else ""
            return {"success": False, "message": f"no alert{which} is open"}
        for each in chosen:
            each.acknowledged_by = by or who
        if not await self._save():
            message = "acknowledged, but it can't be saved and will be lost at the next restart"
            return {"success": False, "message": message}
        return {"success": True, "message": f"{counted(len(chosen), 'alert')} acknowledged"}

    # the saved state

    def _state(self) -> SavedAlerts | None:
        if self._watch is None:
            return self._saved
        from growd_alerts.backlog import SavedAlerts  # noqa: PLC0415  loaded with the watch

        channels = {name: each.backlog.saved() for name, each in self._deliveries.items()}
        return SavedAlerts(self._open(), channels)

    async def _load(self) -> None:
        try:
            saved = await self._local.state(_STATE)
            if saved is not None and any(saved.values()):
                await load("growd_alerts.backlog")
                from growd_alerts.backlog import SavedAlerts  # noqa: PLC0415

                self._saved = msgspec.convert(saved, SavedAlerts)
        except (*_UNSAVED, ValueError) as error:
            _log.error("can't read the open alerts of the last run: %s", error)

    async def _save_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await self._save():
                self._changed.set()
                await asyncio.sleep(_RETRY_S)  # real time, as the disk's

    async def _save(self) -> bool:
        """Whether the state is on disk. The first failure is logged."""
        state = self._state()
        if state is None:
            return True
        try:
            await self._local.save_state(_STATE, msgspec.to_builtins(state))
        except _UNSAVED as error:
            if not self._save_error:
                _log.error("can't save the open alerts: %s", error)
            self._save_error = str(error) or type(error).__name__
            return False
        self._save_error = ""
        return True


def read_channels(
    config: Config, sender: Sender, now: Callable[[], float], mqtt: MqttLink | None
) -> dict[str, AlertChannel]:
    """The channels by name. Raises `ConfigError`.

    Blocking: reads secrets and certificates, and imports the modules of these kinds.
    """
    return {each.name: _channel(config, each, sender, now, mqtt) for each in config.notify}


def _channel(
    config: Config, settings: Notify, sender: Sender, now: Callable[[], float], mqtt: MqttLink | None
) -> AlertChannel:
    if settings.kind == "apprise":
        from growd_alerts.channels.apprise import AppriseAlerts  # noqa: PLC0415  imported only if configured

        trusted = settings.ca_file or ssl.get_default_verify_paths().cafile or ""
        return AppriseAlerts(read_address(settings), sender, trusted)
    from growd_alerts.channels.mqtt import MqttAlerts  # noqa: PLC0415  likewise

    if mqtt is None:
        raise ConfigError(f"[notify] kind: {settings.name}: restart growd, which connects to the broker then")
    return MqttAlerts(mqtt, f"{config.mqtt.topic}/{sender.device}/alerts/event", sender, now)


def read_address(settings: Notify) -> str:
    """The address of a service, "" for MQTT; checks its certificates too. Blocking. Raises `ConfigError`."""
    trusting(f"[notify] ca_file: {settings.name}: {settings.ca_file}", settings.ca_file)
    where = f"[notify] url_file: {settings.name}"
    address = read_line(where, settings.url_file)
    if address and "://" not in address:
        raise ConfigError(f"{where}: {settings.url_file} must have an address such as ntfys://topic")
    return address
