"""What devices report is what the receiver reads."""

import msgspec
from msgspec.structs import replace

from growd.status.model import DeviceStatus, Reading, RecipeStatus, VariableStatus
from growd.store.replication_status import ReplicationStatus
from growd_cloud.device_report import MOST_BYTES, MOST_REPORT, DeviceReport, ReportedValue, report_of
from support.status import EMPTY, NEVER, STORE

STATUS = replace(
    EMPTY,
    variables=[
        VariableStatus(
            "environment_1",
            "air_temperature",
            "degC",
            Reading(21.5, "ok", 1.0, "scd30"),
            Reading(22.0, "ok", 9.0, "recipe"),
            None,
            0.0,
        )
    ],
    recipes=[RecipeStatus("environment_1", "paused", "r" * 500, "p" * 500, 5.0, 60.0)],
    devices=[DeviceStatus("e/scd30", "failed", 5.0, "no answer", NEVER)],
    replications=[ReplicationStatus("points", "here", "there", lag=3)],
    store=replace(STORE, waiting=4),
)


def test_simulated_hardware_is_a_warning_of_the_fleet():
    simulated = report_of(replace(STATUS, hardware="simulated"), "host", "1.0", "")
    assert "the hardware is simulated" in [
        each.text for each in simulated.alerts if each.severity == "warning"
    ]
    real = report_of(replace(STATUS, hardware="real"), "host", "1.0", "")
    assert [each.text for each in simulated.alerts[1:]] == [each.text for each in real.alerts]


def test_the_receiver_reads_what_a_device_sends():
    report = report_of(STATUS, "host", "1.0", "http://10.0.0.7:5984")
    read = msgspec.json.decode(report.encoded(), type=DeviceReport)
    assert read == report
    (environment,) = read.environments.values()
    assert (environment.state, environment.remaining_s, len(environment.recipe)) == ("paused", 60.0, 200)
    value = ReportedValue(21.5, "ok", "degC", 22.0)
    assert environment.values == {"air_temperature": value}
    assert (read.alerts[0].severity, read.lag, read.points_waiting) == ("critical", {"points": 3}, 4)
    assert MOST_BYTES <= MOST_REPORT
