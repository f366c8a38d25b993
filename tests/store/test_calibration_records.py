"""Records of calibrations are on the disk when they are kept, and outlast a kill."""

import sqlite3
from contextlib import closing

import pytest

from growd.control.calibration_log import CalibrationRecord
from growd.store.errors import LocalStoreError
from growd.store.memories import CalibrationRecords
from growd.store.points import PointMaker
from support.clock import ManualClock
from support.outbox import opened_at

RECORD = CalibrationRecord(
    "scd30_1", "calibrate", "air_carbon_dioxide", "ppm", 452.0, 420.0, 420.0, "grower", 1_795_000_000.0
)
STATE = {"records": {"scd30_1": {"time": RECORD.time}}, "since": {}}


def records_of(local, outbox):
    return CalibrationRecords(local, outbox, PointMaker("0123456789ab"))


async def test_a_record_is_an_event_with_who_when_before_after_and_reference_and_outlasts_a_restart(path):
    async with opened_at(path, ManualClock()) as outbox:
        records = records_of(outbox._local, outbox)
        assert await records.saved("environment_1") == {}
        await records.keep("environment_1", RECORD, STATE)
    async with opened_at(path, ManualClock()) as outbox:  # as after a kill: it was durable at once
        (waiting,) = await outbox.next_batch(10)
        records = records_of(outbox._local, outbox)
        assert await records.saved("environment_1") == STATE
        assert await records.saved("environment_2") == {}
    document = waiting.point.document()
    del document["_id"]
    assert document == {
        "environment": "environment_1",
        "category": "event",
        "variable": "calibration",
        "is_manual": True,
        "value": "scd30_1: calibrate of air_carbon_dioxide: before 452, after 420, reference 420 ppm",
        "timestamp": RECORD.time,
        "by": "grower",
        "details": {
            "device": "scd30_1",
            "service": "calibrate",
            "variable": "air_carbon_dioxide",
            "unit": "ppm",
            "before": 452.0,
            "after": 420.0,
            "reference": 420.0,
        },
    }


async def test_a_record_that_cannot_be_written_is_an_error_and_leaves_nothing(path, local, outbox):
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON state BEGIN SELECT RAISE(FAIL, 'full'); END")
    with pytest.raises(LocalStoreError, match="full"):
        await records_of(local, outbox).keep("environment_1", RECORD, STATE)
    assert outbox.undelivered == 0
