"""The documents of the database `devices`: reports that come into them, and the list of a fleet."""

from __future__ import annotations

import asyncio
import logging
import zlib
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from aiohttp import hdrs, web
from msgspec import Meta, Struct

from growd.server.client_request import weights
from growd.server.errors import ApiError
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
    from growd.server.client_request import ClientRequest
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


KEPT_S: Final = 5.0
"""An answer of this age is given again: each open page asks each 15 s."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""Compressed; that is about 100 000 devices."""
_PIECE: Final = 256 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
_LEVEL: Final = 3  # a tenth of the size; 9 takes several times as long and saves little


class FleetList:
    """Reads the devices a page at a time, and keeps their list compressed."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._reading = asyncio.Lock()
        self._packed = b""
        self._read_at = float("-inf")

    async def answer(self, request: ClientRequest) -> web.Response:
        """The list, of at most `KEPT_S` ago. Raises `CouchError`, and `ApiError` if the list is too large."""
        async with self._reading:
            if self._clock.monotonic() - self._read_at > KEPT_S:
                began = self._clock.monotonic()
                self._packed = await self._read()
                self._read_at = began
            packed = self._packed
        headers = {hdrs.CONTENT_TYPE: "application/json", hdrs.VARY: hdrs.ACCEPT_ENCODING}
        if weights(request.headers.get(hdrs.ACCEPT_ENCODING, "")).get("gzip"):
            return web.Response(body=packed, headers=headers | {hdrs.CONTENT_ENCODING: "gzip"})
        return web.Response(body=_unpacked(packed), headers=headers)

    async def _read(self) -> bytes:
        packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
        pieces = [packer.compress(b'{"devices":[')]
        separator = b""
        async for rows in self._fleet.rows():
            if rows:
                pieces.append(await asyncio.to_thread(_packed, packer, separator, rows))
                separator = b","
            if sum(map(len, pieces)) > MOST_BYTES:
                sentence = f"the list of the fleet has more than {MOST_BYTES} bytes, compressed"
                raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, "too_large", sentence)
        pieces.append(packer.compress(b"]}") + packer.flush())
        return b"".join(pieces)


def _packed(packer: Any, separator: bytes, rows: list[Any]) -> bytes:
    """The next part of the list: in a thread, since a page may have megabytes."""
    packed: bytes = packer.compress(separator + msgspec.json.encode(rows)[1:-1])
    return packed


async def _unpacked(packed: bytes) -> AsyncGenerator[bytes]:
    """In pieces, for a client that takes nothing compressed: never whole in memory."""
    unpacker = zlib.decompressobj(wbits=_GZIP)
    while piece := unpacker.decompress(packed, _PIECE):
        packed = unpacker.unconsumed_tail
        yield piece
