"""What a status says a person should know, and the service that helps."""

import msgspec
import pytest
from msgspec.structs import replace

from growd.bus import Bus
from growd.host.hold import Hold, Holder
from growd.host.machine import MachineStatus
from growd.status.model import DeviceStatus, InterlockStatus, OpenAlert, Problem
from growd.status.notices import CHECK_DEVICE, notices_of
from growd.status.status_node import StatusNode
from growd.store.database_node import DatabaseStatus
from growd.store.errors import DiskFullError
from growd.store.index_builds import IndexBuild
from support.clock import ManualClock
from support.status import EMPTY, NEVER, STORE

ALERT = OpenAlert("a1", "too-warm", "critical", "it is warm", "1970-01-01 00:01:00+00:00", None)
SIMULATED = Problem("the hardware is simulated", is_note=True)
STATUS = replace(
    EMPTY,
    problems=[SIMULATED, Problem("the recorder keeps failing", is_failure=True)],
    holds=[Hold(Holder.PERSON, "cleaning", "ann", 5.0), Hold(Holder.UPGRADE)],
    interlocks=[
        InterlockStatus("e/interlocks/dose", True, "it was too much", True, 3.0),
        InterlockStatus("e/interlocks/ceiling", True, "it is too much", False, 4.0),
        InterlockStatus("e/interlocks/hours", False, "", False, 1.0),
    ],
    devices=[DeviceStatus("e/air", "failed", 2.0, "no answer", NEVER)],
    store=replace(STORE, rejected=2, waiting=7, shipping="503", since=9.0),
    database=DatabaseStatus("embedded", True, indexes=(IndexBuild("points", "svc", 5, 50),)),
    stuck=["e/recipe_runner"],
    alerts=[ALERT],
)
NOTICES = notices_of(STATUS)


def test_failures_come_before_warnings_and_notes():
    assert [(each.severity, each.kind) for each in NOTICES] == [
        ("failure", "device"),
        ("failure", "interlock"),
        ("failure", "problem"),
        ("failure", "component"),
        ("failure", "alert"),
        ("warning", "hold"),
        ("warning", "hold"),
        ("warning", "interlock"),
        ("warning", "store"),
        ("warning", "store"),
        ("note", "database"),
        ("note", "problem"),
    ]


def test_a_notice_names_the_service_that_helps():
    assert {each.service: each.arguments for each in NOTICES if each.service} == {
        "e/interlocks/dose/reset": {},
        "hold/release": {},
        "store/retry_rejected": {},
        "alerts/acknowledge": {"alert": "a1"},
    }
    assert [each.service for each in NOTICES if each.kind == "hold"] == ["hold/release", ""]
    (notice,) = notices_of(replace(EMPTY, alerts=[replace(ALERT, acknowledged_by="ann")]))
    assert (notice.severity, notice.service, notice.code) == ("note", "", "alert_acknowledged")


def test_what_can_not_be_saved_or_sent_has_a_remedy():
    refused = str(DiskFullError("the database has no room on its disk (POST /points/_bulk_docs got 500)"))
    machine = MachineStatus("1", "3.11", 60.0, True, disk_bytes=1_000_000, disk_free_bytes=0)
    codes = ("alerts_not_saved", "hold_not_saved", "interlocks_not_saved", "set_points_not_saved")
    status = replace(
        EMPTY,
        problems=[Problem("can't be saved", code=code) for code in codes],
        database=DatabaseStatus("embedded", True),
        store=replace(STORE, saving="read-only", shipping=refused),
    )
    found = notices_of(status)
    assert (len(found), all(each.remedy for each in found)) == (6, True)
    assert {each.code for each in found if each.severity == "failure"} == {"points_not_saved", "points_wait"}
    assert [each.code for each in notices_of(replace(status, machine=machine))] == ["disk_full"]


def test_a_notice_says_what_it_is_about_and_since_when():
    device, interlock = NOTICES[:2]
    assert (device.code, device.name, device.since) == ("device_failed", "e/air", 2.0)
    assert device.fields["message"] == "no answer"
    assert (interlock.name, interlock.since) == ("e/interlocks/dose", 3.0)
    assert NOTICES[4].since == 60.0


@pytest.mark.parametrize(
    ("reason", "advice", "remedy"),
    [
        ("no answer", ": check its wiring", "Check its wiring."),
        ("not there", ": plug it in, or check: its name", "Plug it in, or check: its name."),
        ("not opened", ": add growd's user to the group dialout", "Add growd's user to the group dialout."),
        ("not opened: another program uses it", "", CHECK_DEVICE),
        ("GPIO 4 can't be driven: it is in use by gpioset", ": stop that program", "Stop that program."),
        ("no answer", "", CHECK_DEVICE),
    ],
)
def test_the_advice_of_a_device_is_its_remedy_and_said_once(reason, advice, remedy):
    failed = DeviceStatus("e/air", "failed", 2.0, f"{reason}{advice}", NEVER)
    (notice,) = notices_of(replace(EMPTY, devices=[failed]))
    assert notice.text.endswith(f": {reason}")
    assert notice.remedy == remedy


@pytest.mark.parametrize("wrong", [5, [5], [{"text": None}], [{"text": "x", "name": 3}]])
async def test_a_malformed_problem_hides_no_others(wrong):
    bus = Bus(ManualClock())
    status = StatusNode(bus, ["e"])
    bus.node("part").describe("problems", lambda: wrong)
    bus.node("simulator").describe("problems", lambda: [msgspec.to_builtins(SIMULATED)])
    (notice,) = status.node.information()["status"]["notices"]
    assert notice["text"] == SIMULATED.text
    assert [each.name for each in bus.liveness.components() if each.failures] == ["part"]


async def test_a_malformed_detail_hides_nothing_else():
    bus, good = Bus(ManualClock()), msgspec.to_builtins(SIMULATED)
    status = StatusNode(bus, ["e"])
    bus.node("part").describe("problems", lambda: [{"text": None}, good])
    other = bus.node("other")
    other.describe("device", lambda: 5)
    other.describe("line", lambda: 5)
    (notice,) = status.node.information()["status"]["notices"]
    assert notice["text"] == SIMULATED.text
    failed = {each.name for each in bus.liveness.components() if each.failures}
    assert failed == {"part", "other"}


async def test_the_node_has_the_notices_with_the_status():
    bus = Bus(ManualClock())
    status = StatusNode(bus, ["e"])
    bus.node("simulator").describe("problems", lambda: [msgspec.to_builtins(SIMULATED)])
    (notice,) = status.node.information()["status"]["notices"]
    assert notice["text"] == SIMULATED.text
