"""The rules that apply without rules of the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.config.alerts import AlertOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.config import Config

DEFAULT_ALERTS: Final = (
    AlertOptions(name="device-failed", kind="device_failed", for_s=120.0, severity="critical"),
    AlertOptions(name="no-value", kind="no_value", for_s=900.0),
    AlertOptions(name="set-point-missed", kind="set_point_missed", for_s=900.0),
    AlertOptions(name="interlock", kind="interlock", for_s=0.0, severity="critical"),
    AlertOptions(name="not-confirmed", kind="not_confirmed", for_s=0.0, severity="critical"),
    AlertOptions(name="calibration-due", kind="calibration_due", for_s=0.0, repeat_s=604_800.0),
    AlertOptions(name="sensors-apart", kind="sensors_apart", for_s=0.0),
    AlertOptions(name="hold", kind="hold", for_s=0.0),
    AlertOptions(name="recipe-ended", kind="recipe_ended", for_s=0.0, severity="info"),
    AlertOptions(name="recipe-stalled", kind="recipe_stalled", for_s=3_600.0),
    AlertOptions(name="database", kind="database", for_s=1_800.0),
    AlertOptions(name="points-lost", kind="points_lost", for_s=0.0, severity="critical"),
    AlertOptions(name="problem", kind="problem", for_s=60.0, severity="critical"),
    AlertOptions(name="replication", kind="replication", for_s=3_600.0),
    AlertOptions(name="disk-full", kind="disk_full", for_s=120.0, severity="critical"),
    AlertOptions(name="database-room", kind="database_room", for_s=120.0, severity="critical"),
    AlertOptions(name="too-hot", kind="too_hot", for_s=120.0),
)
"""The default rules, with a channel and without a rule. Only the operator knows the band of a variable."""


def rules_of(config: Config) -> Sequence[AlertOptions]:
    """The rules that apply."""
    return config.alert or (DEFAULT_ALERTS if config.notify else ())
