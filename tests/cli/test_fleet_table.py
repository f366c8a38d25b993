"""The list of the devices of a cloud as a table."""

from growd_cli.fleet_admin import fleet_lines
from growd_cloud.devices import DeviceDocument, DeviceReport, ReportedAlert, ReportedEnvironment, fleet_row

NOW = 1_800_000_000.0
RUNNING = {"environment_1": ReportedEnvironment("lettuce_days", "running", "early")}
FAILED = ReportedAlert("critical", "environment_1/scd30_1 has failed: no answer", NOW - 240)


def row(number, *, received=NOW - 12, ahead=0.0, revoked=0.0, group="", **report):
    document = DeviceDocument(
        f"device:{number:012x}",
        f"{number:012x}",
        f"Chamber {number}",
        group,
        enrolled=1.0,
        revoked=revoked,
        received=received,
        report=DeviceReport("host", "1.0", received + ahead, **report) if received else None,
    )
    return fleet_row(document, NOW)


def test_devices_their_alerts_and_their_number_are_listed(said):
    rows = [
        row(1, group="school", lag={"points": 2, "events": 1}, environments=RUNNING),
        row(2, lag={"points": 0, "events": None}, alerts=[FAILED]),
        row(3, received=NOW - 7_200, lag={"points": 214}, environments=RUNNING, alerts=[FAILED]),
        row(4, received=0.0),
        row(5, revoked=NOW - 5, lag={"points": 0}, alerts=[FAILED]),
    ]
    lines = list(fleet_lines(rows, NOW))
    states = ["ok", "failure", "silent", "new", "revoked"]
    assert [line.split()[4] for line in lines[1:6]] == states
    said(lines)


def test_a_clock_that_is_far_off_is_a_warning():
    year = 365 * 86_400
    rows = [row(1, ahead=year), row(2, ahead=-3_600.0), row(3, ahead=60.0)]
    assert [each.state for each in rows] == ["warning", "warning", "ok"]
    assert row(4, ahead=year, alerts=rows[0].alerts).alerts == rows[0].alerts  # the device reports it too
    ahead, behind = [line for line in fleet_lines(rows, NOW) if "the clock of the device" in line]
    assert ahead.startswith("Chamber 1: warning: the clock of the device is 365 d ahead")
    assert behind.startswith("Chamber 2: warning: the clock of the device is 1 h behind")


def test_the_alerts_of_a_device_are_few_short_lines_without_control_characters():
    alerts = [ReportedAlert("warning", f"{n} \x1b[2J{'x' * 900}", 0.0) for n in range(8)]
    *_, last, more, _, _ = fleet_lines([row(1, alerts=alerts)], NOW)
    assert last.startswith(r"Chamber 1: warning: 4 \x1b[2Jxx")
    assert last.endswith("x…")
    assert len(last) < 330
    assert more == "Chamber 1: and 3 more"
    assert list(fleet_lines([], NOW)) == ["0 devices"]
