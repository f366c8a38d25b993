"""The sections on alerts: rules (`[[alert]]`) and channels (`[[notify]]`)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from growd.config.base import Name, Section

Kind = Literal[
    "out_of_band",
    "set_point_missed",
    "no_value",
    "device_failed",
    "interlock",
    "not_confirmed",
    "calibration_due",
    "sensors_apart",
    "hold",
    "recipe_ended",
    "recipe_stalled",
    "outbox",
    "database",
    "points_lost",
    "problem",
    "replication",
    "disk_full",
    "database_room",
    "too_hot",
]


class AlertOptions(Section, frozen=True):
    """One alert rule. docs/alerts.md describes each kind."""

    name: Name
    """Name in messages and records."""

    kind: Kind
    """What the rule watches."""

    environment: str = ""
    """Only this environment; default: all."""

    variable: str = ""
    """`out_of_band`, `set_point_missed`, `no_value`, `sensors_apart`: the variable. Default: all;
    `out_of_band` needs one."""

    device: str = ""
    """`device_failed`, `interlock`, `not_confirmed`, `calibration_due`: only this device, interlock or
    output; default: all."""

    below: float | None = None
    """`out_of_band`: lower limit."""

    above: float | None = None
    """`out_of_band`: upper limit."""

    deviation: Annotated[float, Meta(gt=0)] | None = None
    """`out_of_band`: largest distance from the set point."""

    for_s: Annotated[float, Meta(ge=0, le=604_800)] = 60.0
    """How long the condition must last before the alert starts."""

    repeat_s: Annotated[float, Meta(ge=0, le=2_592_000)] = 86_400.0
    """The message is repeated this often; 0 is never."""

    severity: Literal["info", "warning", "critical"] = "warning"
    """Severity in the message."""

    channels: tuple[Name, ...] = ()
    """Channels that send the alert; default: all."""


class Notify(Section, frozen=True):
    """One channel for alerts. Without any rule it sends the default alerts (docs/alerts.md).

    `apprise` sends to the address in `url_file`. `mqtt` publishes at the broker of [mqtt], on
    `growd/<device>/alerts/event`.
    """

    name: Name
    """Name of the channel."""

    kind: Literal["apprise", "mqtt"]
    """Kind of channel."""

    url_file: str = ""
    """`apprise`: file with the address of the service, such as ntfys://topic."""

    ca_file: str = ""
    """`apprise`: trusted certificate authorities (PEM); default: those of the machine."""
