"""The documents of the database `devices`, and the rows of a fleet that are made of them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from growd.store.couch_answers import reason_of
from growd.store.errors import CouchError, CouchUnavailableError
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


MOST: Final = 100
"""Reports of a batch: 6 MB, if all have their full size."""

_TRIES: Final = 5


@dataclass(eq=False)
class _Batch:
    """The newest report of each device with the time at which it came, and in the end what failed."""

    reports: dict[str, tuple[DeviceReport, float]] = field(default_factory=dict)
    is_done: bool = False
    failed: dict[str, str] = field(default_factory=dict)
    error: CouchError | None = None


class ReportBatches:
    """Stores reports in the documents of their devices."""

    def __init__(self, couch: Couch, names: CloudNames, clock: Clock) -> None:
        self._couch = couch
        self._names = names
        self._clock = clock
        self._lock = asyncio.Lock()
        self._next = _Batch()

    async def store(self, device: str, report: DeviceReport) -> float:
        """Return when the report, or a newer one of the device, is stored: the time at which it came.

        Raises `CouchError`.
        """
        if len(self._next.reports) >= MOST:
            self._next = _Batch()
        batch = self._next
        received = self._clock.time()
        batch.reports[device] = report, received
        async with self._lock:
            if not batch.is_done:
                if batch is self._next:
                    self._next = _Batch()
                try:
                    batch.failed = await self._write(batch.reports)
                except CouchError as error:  # for all that wait: a CouchDB that hangs is asked once
                    batch.error = error
                batch.is_done = True
        if batch.error is not None:
            raise batch.error.with_traceback(None)
        if device in batch.failed:
            raise CouchUnavailableError(f"the report of {device} was not stored: {batch.failed[device]}")
        return received

    async def _write(self, reports: dict[str, tuple[DeviceReport, float]]) -> dict[str, str]:
        """Write reports, again where somebody changed a document meanwhile; what failed in the end."""
        ids = {device_document_id(device): device for device in reports}
        failed: dict[str, str] = {}
        for _ in range(_TRIES):
            present = await self._couch.documents(self._names.devices, list(ids))
            documents = []
            for document_id, device in ids.items():
                document = device_of(device, present.get(document_id))
                document.report, document.received = reports[device]
                document.version = document.report.version
                documents.append(msgspec.to_builtins(document))
            outcomes = await self._couch.bulk_docs(self._names.devices, documents)
            failed = {ids[key]: reason_of(each) for key, each in outcomes.items() if "error" in each}
            if not failed:
                break
            ids = {device_document_id(device): device for device in failed}
        return failed
