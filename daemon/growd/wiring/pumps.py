"""The pumps of a chamber, and when its devices are to be calibrated again, from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.control.calibration_log import Reminders
from growd.control.pumps import Pumps
from growd.output_roles import OutputClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.config import Chamber

PUMP_DAYS: Final = 90.0
PUMP_LITRES: Final = 50.0
"""28 hours of a pump of 30 ml/min, a tenth of the life of a usual tube."""


def pumps_of(chamber: Chamber, monotonic: Callable[[], float], *, is_read: bool = True) -> Pumps:
    """All outputs with a flow. They give the configured one until calibrations are read."""
    flows = {each.name: each.flow_ml_min for each in chamber.outputs if each.flow_ml_min is not None}
    dosing = [each.name for each in chamber.outputs_of(OutputClass.DOSING)]
    return Pumps(flows, dosing, monotonic, is_read=is_read)


def reminders_of(chamber: Chamber, litres: Callable[[str], float | None]) -> Reminders:
    """When sensors and dosing pumps are to be calibrated again."""
    days = {each.name: each.calibrate_every_days for each in chamber.options.sensor}
    pumps = chamber.outputs_of(OutputClass.DOSING)
    days |= {each.name: PUMP_DAYS for each in pumps}
    return Reminders(
        {name: every for name, every in days.items() if every is not None},
        {each.name: PUMP_LITRES for each in pumps},
        litres,
    )
