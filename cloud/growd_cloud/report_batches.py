"""Reports of devices, written together: those that come while a batch is under way are the next one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from growd.store.couch_answers import reason_of
from growd.store.errors import CouchError, CouchUnavailableError
from growd_cloud.devices import device_document_id, device_of

if TYPE_CHECKING:
    from growd.runtime.clock import Clock
    from growd.store.couch import Couch
    from growd_cloud.devices import DeviceReport
    from growd_cloud.months import CloudNames

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
