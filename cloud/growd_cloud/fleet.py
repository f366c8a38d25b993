"""The documents of the devices in the database `devices`, and the list of the fleet out of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from growd_cloud.devices import (
    DEVICE_PREFIX,
    DeviceDocument,
    device_document_id,
    fleet_row,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from growd.runtime.clock import Clock
    from growd.store.couch import Couch, Document
    from growd_cloud.devices import FleetRow
    from growd_cloud.months import CloudNames

PAGE: Final = 100
"""Documents that are read at once: 6 MB, if all reports have their full size."""

_END: Final = DEVICE_PREFIX + "\ufff0"
_log = logging.getLogger(__name__)


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
