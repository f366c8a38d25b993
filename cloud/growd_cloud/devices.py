"""The documents of the database `devices`, and the rows of a fleet that are made of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from growd_cloud.device_report import (
    CLOCK,
    MOST_NAME,
    MOST_REPORT,
    DeviceReport,
    Name,
    ReportedAlert,
    ReportedEnvironment,
    ReportedValue,
    clock_fault,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from growd.runtime.clock import Clock
    from growd.store.couch import Couch, Document
    from growd_cloud.months import CloudNames

__all__ = ["MOST_NAME", "MOST_REPORT", "DeviceReport", "Name"]
__all__ += ["ReportedAlert", "ReportedEnvironment", "ReportedValue"]  # a report is also what a device sends

DEVICE_PREFIX: Final = "device:"
INVITATION_PREFIX: Final = "invitation:"
SILENT_S: Final = 900.0
"""Without a report for so long a device is silent."""

DeviceState = Literal["ok", "warning", "failure", "silent", "new", "revoked"]
DeviceId = Annotated[str, Meta(pattern=r"^[0-9a-f]{12}\Z")]
PAGE: Final = 100
"""Documents that are read at once: 6 MB, if all reports have their full size."""
_END: Final = DEVICE_PREFIX + "\ufff0"
_log = logging.getLogger(__name__)


class DeviceDocument(Struct, omit_defaults=True):
    """The document `device:<id>`. Times are UNIX seconds of the cloud; 0 if it has not happened."""

    id: str = msgspec.field(name="_id")
    device: DeviceId
    name: Name = ""
    group: Name = ""
    enrolled: float = 0.0
    revoked: float = 0.0
    last_revoked: float = 0.0  # stays when it is enrolled again
    version: Name = ""
    received: float = 0.0
    report: DeviceReport | None = None
    rev: str = msgspec.field(name="_rev", default="")


class Invitation(Struct, omit_defaults=True):
    """The document `invitation:<sha256 of the code>`: up to `uses` devices may enrol until `expires`."""

    id: str = msgspec.field(name="_id")
    created: float
    expires: float
    uses: int = 1
    devices: list[str] = []
    rev: str = msgspec.field(name="_rev", default="")


class FleetRow(Struct, frozen=True, kw_only=True):
    """A device in a list: a member of `devices` of GET /_fleet and of `growd fleet list --json`.

    A receiver of another version may leave out members that have a default.
    """

    device: str
    name: str
    group: str
    state: DeviceState
    silent: bool = False
    enrolled: float = 0.0
    received: float = 0.0
    version: str = ""
    api: str = ""
    alerts: list[ReportedAlert] = []
    lag: dict[str, int | None] = {}
    points_waiting: int = 0
    disk_free_bytes: int | None = None
    environments: dict[str, ReportedEnvironment] = {}


def device_document_id(device: str) -> str:
    """The `_id` of the document of a device."""
    return f"{DEVICE_PREFIX}{device}"


def fleet_row(document: DeviceDocument, now: float) -> FleetRow:
    """The row of a device at the UNIX time `now`."""
    report = document.report or DeviceReport("", document.version, 0.0)
    is_silent = bool(document.received) and now - document.received > SILENT_S
    alerts = [*_clock_alerts(document), *report.alerts]
    return FleetRow(
        device=document.device,
        name=document.name or report.name or document.device,
        group=document.group,
        state=_state(document, alerts, is_silent=is_silent),
        silent=is_silent,
        enrolled=document.enrolled,
        received=document.received,
        version=report.version,
        api=report.api,
        alerts=alerts,
        lag=report.lag,
        points_waiting=report.points_waiting,
        disk_free_bytes=report.disk_free_bytes,
        environments=report.environments,
    )


def _clock_alerts(document: DeviceDocument) -> list[ReportedAlert]:
    """What the device does not know before the answer to its report, or as an older version not at all."""
    report = document.report
    if report is None or any(alert.text.startswith(CLOCK) for alert in report.alerts):
        return []
    words = clock_fault(report.time, document.received)
    return [ReportedAlert("warning", words, 0.0)] if words else []


def _state(document: DeviceDocument, alerts: list[ReportedAlert], *, is_silent: bool) -> DeviceState:
    if document.revoked:
        return "revoked"
    if not document.received:
        return "new"
    if is_silent:
        return "silent"
    severities = {alert.severity for alert in alerts}
    if "critical" in severities:
        return "failure"
    return "warning" if "warning" in severities else "ok"


class Fleet:
    """The documents of the devices. All methods raise `CouchError`."""

    def __init__(self, couch: Couch, names: CloudNames, clock: Clock) -> None:
        self._couch = couch
        self._names = names
        self._clock = clock

    async def device(self, device: str) -> DeviceDocument:
        """The document of a device, an empty one if there is none."""
        return device_of(device, await self._couch.get(self._names.devices, device_document_id(device)))

    async def groups(self, device: str) -> list[str]:
        """For whom a recipe may be so that this device gets it: its id, and its group."""
        group = (await self.device(device)).group
        return [device, f"group:{group}"] if group else [device]

    async def rows(self) -> AsyncGenerator[list[FleetRow]]:
        """All devices by id, `PAGE` at a time."""
        start, skip = DEVICE_PREFIX, 0
        while True:
            rows = await self._couch.all_docs(
                self._names.devices, startkey=start, endkey=_END, limit=PAGE, skip=skip, include_docs=True
            )
            now = self._clock.time()
            documents = (_device(row["doc"]) for row in rows)
            yield [fleet_row(each, now) for each in documents if each is not None]
            if len(rows) < PAGE:
                return
            start, skip = rows[-1]["id"], 1


def device_of(device: str, found: Document | None) -> DeviceDocument:
    """The document of a device, a new one if there is none or it is invalid."""
    document_id = device_document_id(device)
    if found is None:
        return DeviceDocument(document_id, device)
    return _device(found) or DeviceDocument(document_id, device, rev=found["_rev"])


def _device(document: Document) -> DeviceDocument | None:
    """A document of a device, None for one that somebody has made invalid; that is logged."""
    try:
        return msgspec.convert(document, DeviceDocument)
    except msgspec.ValidationError as error:
        _log.warning("the document %s is invalid: %s; correct it", document["_id"], error)
        return None
