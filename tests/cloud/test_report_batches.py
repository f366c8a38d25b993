"""Reports of devices are stored together; the last one of a device wins."""

import asyncio

from growd.runtime.clock import RealClock
from growd.store.errors import CouchUnavailableError
from growd_cloud.devices import MOST, DeviceReport, ReportBatches
from growd_cloud.months import CloudNames

DEVICE, OTHER = "0123456789ab", "0123456789ac"


class DeviceStore:
    """The documents of devices; the first `conflicts` writes of each come too late."""

    def __init__(self, conflicts=0):
        self.conflicts = conflicts
        self.found = {}
        self.writes = []
        self.is_away = False

    async def documents(self, _database, ids):
        await asyncio.sleep(0)
        if self.is_away:
            raise CouchUnavailableError("no answer")
        return {key: self.found[key] for key in ids if key in self.found}

    async def bulk_docs(self, _database, documents):
        await asyncio.sleep(0)
        self.writes.append(len(documents))
        if self.conflicts >= len(self.writes):
            return {each["_id"]: {"error": "conflict", "reason": "it was changed"} for each in documents}
        self.found |= {each["_id"]: each for each in documents}
        return {each["_id"]: {"ok": True} for each in documents}

    def name(self, device):
        return str(self.found[f"device:{device}"]["report"]["name"])


def batches_of(store):
    return ReportBatches(store, CloudNames(), RealClock())


def report(name):
    return DeviceReport(name, "1.0", 0.0)


async def test_reports_that_come_at_the_same_time_are_written_together():
    store = DeviceStore()
    batches = batches_of(store)
    reports = [batches.store(DEVICE, report(f"{n}")) for n in range(16)]
    await asyncio.gather(*reports, batches.store(OTHER, report("other")))
    assert (store.name(DEVICE), store.name(OTHER), store.writes) == ("15", "other", [1, 2])
    names = [f"{n:012x}" for n in range(3 * MOST)]
    await asyncio.gather(*(batches.store(each, report(each)) for each in names))
    assert [store.name(each) for each in names] == names
    assert max(store.writes) == MOST


async def test_a_document_that_somebody_changed_is_written_again():
    store = DeviceStore(conflicts=2)
    store.found[f"device:{DEVICE}"] = {"_id": f"device:{DEVICE}", "device": DEVICE, "group": "school"}
    await batches_of(store).store(DEVICE, report("1"))
    assert (store.name(DEVICE), store.found[f"device:{DEVICE}"]["group"]) == ("1", "school")


async def test_a_report_that_is_not_stored_is_no_conflict(said):
    """The device gets 503, and sends the next one."""
    with said.raises(CouchUnavailableError):
        await batches_of(DeviceStore(conflicts=100)).store(DEVICE, report("1"))


async def test_all_reports_of_a_batch_get_its_error():
    store = DeviceStore()
    batches = batches_of(store)
    store.is_away = True
    sent = [batches.store(f"{n:012x}", report("")) for n in range(3)]
    assert {type(each) for each in await asyncio.gather(*sent, return_exceptions=True)} == {
        CouchUnavailableError
    }
    store.is_away = False
    await batches.store(DEVICE, report("1"))
