"""The pumps of a chamber, and their calibration, from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from growd.config import chambers_of
from growd.control.calibration_log import Reminders
from growd.control.pumps import Pumps
from growd.output_roles import OutputClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.config import Chamber, Config
    from growd.control.calibration_log import CalibrationLog
    from growd.control.interlocks.node import Interlocks
    from growd.control.pump_calibration import Cylinder, PumpCalibration
    from growd.control.wear import OutputCounters
    from growd_drivers.hardware import Hardware
    from growd_hwsim.chamber import SimulatedChamber
    from growd_hwsim.hardware import SimulatedHardware

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


def pump_calibration(
    chamber: Chamber,
    bus: Bus,
    pumps: Pumps,
    *,
    interlocks: Interlocks,
    others: Callable[[], str],
    log: CalibrationLog,
    counters: OutputCounters,
    cylinder: Cylinder | None,
) -> PumpCalibration:
    """The calibration of the dosing pumps."""
    from growd.control.interlocks.on_times import OnTimes  # noqa: PLC0415  most chambers have no dosing pumps
    from growd.control.pump_calibration import CalibratedPump, PumpCalibration  # noqa: PLC0415

    limits, calibrated = chamber.options.interlock, {}
    for each in chamber.outputs_of(OutputClass.DOSING):
        times = OnTimes()
        interlocks.track(times, [each.own_variable], each.name)
        ml_per_hour = min(limits.dosing_ml_per_hour, limits.dosing_ml_per_day)
        longest_s = min(limits.dose_longest_s, each.longest_on_s or limits.dose_longest_s)
        calibrated[each.name] = CalibratedPump(each.name, each.own_variable, longest_s, ml_per_hour, times)
    return PumpCalibration(
        bus,
        chamber.environment,
        calibrated,
        pumps,
        interlocks=interlocks,
        others=others,
        log=log,
        litres=counters.litres,
        cylinder=cylinder,
    )


def simulated_cylinders(config: Config, hardware: Hardware) -> dict[str, Cylinder]:
    """The measuring cylinder of each simulated environment; none for real hardware."""
    if not config.simulator.enabled:
        return {}
    simulated = cast("SimulatedHardware", hardware).chambers
    chambers = zip(chambers_of(config), simulated, strict=True)
    return {chamber.environment: _SimulatedCylinder(chamber, model) for chamber, model in chambers}


class _SimulatedCylinder:
    def __init__(self, chamber: Chamber, model: SimulatedChamber) -> None:
        self._moved = {each.name: each.role.moves for each in chamber.outputs if each.role}
        self._model = model

    def collect(self, pump: str) -> None:
        self._model.collect(self._moved.get(pump, ""))

    def ml(self) -> float:
        return self._model.collected_ml()
