"""The last warnings and errors of the log, kept for clients."""

import logging

from growd.bus import Bus
from growd.host.recent_log import MOST_BYTES, MOST_RECORDS, recent_log
from support.clock import ManualClock

LOG = logging.getLogger("growd.somewhere")


def test_warnings_and_errors_are_kept_with_their_device():
    bus = Bus(ManualClock())
    with recent_log(bus):
        LOG.warning("%s has failed", "scd30", extra={"device": "scd30", "environment": "e"})
        LOG.info("all is quiet")
        try:
            int("no\x1b[2J")
        except ValueError:
            LOG.exception("it broke")
    LOG.warning("after the end")
    first, second = bus.find_node("log").details()["records"]
    assert (first["level"], first["message"], first["device"]) == ("warning", "scd30 has failed", "scd30")
    assert (second["level"], second["device"]) == ("error", "")
    assert "ValueError" in second["traceback"]
    assert "\x1b" not in second["traceback"]


def test_the_log_is_bounded_in_number_and_bytes_and_repetitions_take_one_place():
    bus = Bus(ManualClock())
    with recent_log(bus):
        for _ in range(5):
            LOG.warning("again")
        assert len(bus.find_node("log").details()["records"]) == 1
        for number in range(2 * MOST_RECORDS):
            LOG.warning("warning %d", number)
        records = bus.find_node("log").details()["records"]
        assert len(records) == MOST_RECORDS
        assert records[-1]["message"] == f"warning {2 * MOST_RECORDS - 1}"
        for number in range(MOST_RECORDS):
            LOG.warning("%d%s", number, "x" * 5_000)
        records = bus.find_node("log").details()["records"]
        assert sum(len(each["message"]) for each in records) <= MOST_BYTES
