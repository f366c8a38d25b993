"""The part of a running daemon that reports alerts: rules over the status, and channels to operators."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import NotKeptError, counted, shown
from growd.bus.fields import Field, Kind
from growd.bus.messages import STRING
from growd.bus.services import SUCCESS
from growd.runtime.event_loop import load
from growd.runtime.sentence import encode
from growd.runtime.supervisor import Supervisor, TaskFault
from growd_alerts.defaults import rules_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from growd.bus.nodes import Node
    from growd.config import Config
    from growd.parts import Surroundings
    from growd_alerts.alerting import Alerting
    from growd_alerts.backlog import SavedAlerts
    from growd_alerts.dispatch import Delivery
    from growd_alerts.messages import Alert

_STATE: Final = "alerts"
_RETRY_S: Final = 10.0
_UNSAVED: Final = (OSError, RuntimeError)
_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Report alerts for the body. Raises `ConfigError` for a secret that can't be read."""
    alerts = AlertNode(around)
    async with alerts.running():
        around.offer_reload("alert", "notify", apply=alerts.reconfigure)
        yield


class AlertNode:
    """The node `alerts`: open alerts, state of the channels, and services.

    Without rules, channels and open alerts it does nothing, and what watches and sends is not loaded. Open
    alerts and unsent messages are saved, so that a restart neither repeats a start nor loses an end.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._config = around.present()
        self._changed = asyncio.Event()
        self._reconfigured = asyncio.Event()
        self._saving = TaskFault(_log, "can't save the open alerts", "the open alerts are saved again")
        self._saved: SavedAlerts | None = None  # of the last run
        self._next: Callable[..., Alerting] | None = None
        self._alerting: Alerting | None = None
        node = around.bus.node("alerts")
        self._events = node.advertise("alerts/event", STRING)
        node.describe("alerts", lambda: [] if self._alerting is None else self._alerting.members())
        node.describe("channels", lambda: [each.information() for each in self._deliveries().values()])
        node.describe("rules", lambda: [rule.name for rule in rules_of(self._config)])
        node.describe("problems", self._problems)
        self._serve(node)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run for the body. Raises `ConfigError` for a secret that can't be read."""
        bus = self._around.bus
        await self._load()
        await self.reconfigure(self._config)
        async with Supervisor(bus.clock, bus.liveness) as supervisor:
            supervisor.start("alerts", self._run)
            supervisor.start("alerts: memory", self._save_changes)
            yield
        await self._save()

    async def reconfigure(self, config: Config) -> None:
        """Use these rules and channels. Raises `ConfigError` and changes nothing if they can't be used.

        Open alerts of a removed rule end; unsent messages of a removed channel are dropped.
        """
        if rules_of(config) or self._state() is not None:
            await load("growd_alerts.alerting")
            from growd_alerts.alerting import prepared  # noqa: PLC0415

            self._next = await asyncio.to_thread(prepared, self._around, config)
        self._config = config
        self._reconfigured.set()

    async def _run(self) -> None:
        bus = self._around.bus
        while True:
            self._reconfigured.clear()
            async with Supervisor(bus.clock, bus.liveness) as supervisor:
                if self._next is not None:
                    self._alerting = self._next(
                        self._state(), publish=self._publish, on_change=self._changed.set
                    )
                    self._alerting.start(supervisor)
                await self._reconfigured.wait()

    def _publish(self, report: dict[str, Any]) -> None:
        self._events.publish(encode(report).decode())

    def _open(self) -> list[Alert]:
        return [] if self._alerting is None else self._alerting.open

    def _deliveries(self) -> dict[str, Delivery]:
        return {} if self._alerting is None else self._alerting.deliveries

    def _problems(self) -> list[dict[str, Any]]:
        if not self._saving.failures:
            return []
        text = f"open alerts cannot be saved and are lost if growd ends: {self._saving}"
        return [{"text": text, "code": "alerts_not_saved", "fields": {"reason": str(self._saving)}}]

    # services

    def _serve(self, node: Node) -> None:
        name = partial(Field, kind=Kind.STRING, default="", max_length=64)
        who = "who acknowledges it, without a login; by default the address"
        node.serve(
            "alerts/test",
            "growd/TestAlerts",
            self._test,
            arguments=(name("channel", doc="name of a channel; default: all"),),
            reply=(*SUCCESS, Field("results", Kind.JSON, default=[])),
            doc="Send a test message on a channel and report the result.",
        )
        node.serve(
            "alerts/acknowledge",
            "growd/AcknowledgeAlerts",
            self._acknowledge,
            arguments=(
                name("alert", doc="id of an alert or name of a rule; default: all"),
                name("by", max_length=200, doc=who),
            ),
            names_caller=True,
            doc="Stop the repeats of open alerts; their end is still reported.",
        )

    async def _test(self, channel: str) -> dict[str, Any]:
        deliveries = self._deliveries()
        chosen = {name: each for name, each in deliveries.items() if channel in ("", name)}
        if not chosen:
            message = "no channel is configured: add a [[notify]] section"
            if deliveries:
                message = f"there is no channel {shown(channel)}; the channels are {', '.join(deliveries)}"
            return {"success": False, "message": message}
        errors = await asyncio.gather(*(each.test() for each in chosen.values()))
        results = [
            {"channel": name, "taken": not error, "error": error}
            for name, error in zip(chosen, errors, strict=True)
        ]
        failed = [f"{name}: {error}" for name, error in zip(chosen, errors, strict=True) if error]
        sent = f"sent a test message on {counted(len(results), 'channel')}"
        return {"success": not failed, "message": "; ".join(failed) or sent, "results": results}

    async def _acknowledge(self, alert: str, who: str) -> dict[str, Any]:
        chosen = [each for each in self._open() if alert in ("", each.id, each.rule)]
        if not chosen:
            which = f" {shown(alert)}" if alert else ""
            return {"success": False, "message": f"no alert{which} is open"}
        for each in chosen:
            each.acknowledged_by = who
        if not await self._save():
            raise NotKeptError("acknowledged, but it can't be saved and will be lost at the next restart")
        return {"success": True, "message": f"{counted(len(chosen), 'alert')} acknowledged"}

    # the saved state

    def _state(self) -> SavedAlerts | None:
        return self._saved if self._alerting is None else self._alerting.saved()

    async def _load(self) -> None:
        try:
            saved = await self._around.local.state(_STATE)
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
        """Whether the state is on disk."""
        state = self._state()
        if state is None:
            return True
        try:
            await self._around.local.save_state(_STATE, msgspec.to_builtins(state))
        except _UNSAVED as error:
            self._saving.failed(error, logging.ERROR)
            return False
        self._saving.succeeded()
        return True
