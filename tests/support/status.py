"""Statuses for tests: of a chamber in which nothing is measured and nothing fails, and one with all parts."""

from msgspec.structs import replace

from growd.host.machine import MachineStatus
from growd.status.model import (
    AttainmentStatus,
    ChannelStatus,
    ComponentStatus,
    Counters,
    DeviceStatus,
    HttpStatus,
    InterlockStatus,
    OpenAlert,
    OutputStatus,
    Problem,
    RecipeStatus,
    Status,
)
from growd.status.notices import notices_of
from growd.store.replication_status import ReplicationState, ReplicationStatus
from growd.store.store_node import StoreStatus

NEVER = Counters(0, 0, 0, 0.0, "", 0.0)
STORE = StoreStatus(0, 0, 0, 0, 0, "", "", 0.0, [])
EMPTY = Status(
    time=1e9,
    machine_time=1e9,
    machine=None,
    database=None,
    variables=[],
    recipes=[],
    devices=[],
    interlocks=[],
    store=None,
    replications=[],
)


def told(status, severity):
    """The names and texts of all notices of a severity, also of effects."""
    causes = notices_of(status)
    found = [*causes, *(effect for cause in causes for effect in cause.effects)]
    return [f"{each.name}: {each.text}" for each in found if each.severity == severity]


SHELF = "shelf"
DEVICE = DeviceStatus("shelf/scd30_1", "ok", 1.0, "ok", Counters(3, 2, 1, 4.5, "no answer", 9.0))
FULL = replace(
    EMPTY,
    machine=MachineStatus(
        "0.1.0",
        "3.11.2",
        60.0,
        clock_synchronised=True,
        model="Raspberry Pi 4",
        disk_bytes=4000,
        disk_free_bytes=1000,
        temperatures_degc={"cpu-thermal": 48.312},
        troubles=["throttled"],
        earlier_troubles=[],
    ),
    recipes=[RecipeStatus(SHELF, "running", "basil", "seedling", 60.0, 30.0)],
    devices=[DEVICE],
    interlocks=[InterlockStatus("shelf/interlocks/too_warm", True, "it is warm", True, 1.0)],
    store=StoreStatus(5, 1, 2, 3, 4, "", "503", 1.0, [], shipped=1234),
    replications=[
        ReplicationStatus("points", "here", "far", ReplicationState.RUNNING, 1.0, 7, "", 0.0, 2, 1, 3)
    ],
    problems=[Problem("the recorder keeps failing", is_failure=True)],
    components=[ComponentStatus("recorder", 3, "no", is_failing=True)],
    attainment=[
        AttainmentStatus(SHELF, "air_humidity", "missed", "too dry", 40.0, 60.0, band=(55.0, 65.0)),
        AttainmentStatus(SHELF, "air_carbon_dioxide", "reached", "reached", None, None, band=(750.0, None)),
        AttainmentStatus(SHELF, "air_temperature", "idle", "no set point", None, None),
    ],
    alerts=[
        OpenAlert("1", "too-warm", "critical", "it is warm", "2026-11-22T07:00:05+01:00", None),
        OpenAlert("2", "too-warm", "critical", "it is warm", "2026-11-22T07:00:05+01:00", None),
        OpenAlert("3", "too-warm", "critical", "it is warm", "2026-11-22T07:00:05+01:00", "ada"),
    ],
    channels=[
        ChannelStatus("mail", "email", "failing", "no answer", 2),
        ChannelStatus("a", "mqtt", "ok", "", 0),
    ],
    http=HttpStatus({"2xx": 10, "5xx": 1}, 3, 2),
    outputs=[
        OutputStatus(
            *(SHELF, "heater", "heater", "air_heater", "heater", "relay"),
            *(200.0, None, 100_000, 1.0, 1e9, 12, 3600.0, 0.2, None, 0.99988, 8_332.3),
        ),
        OutputStatus(
            *(SHELF, "pump", "pump for nutrient A", "nutrient_a", "dosing", "pwm"),
            *(None, 60.0, None, None, 1e9, 3, 60.0, None, 0.06, None, None),
        ),
    ],
)
