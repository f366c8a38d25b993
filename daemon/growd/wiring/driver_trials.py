"""The trials of `growd_hwsim.driver_trials`, with a driver opened as growd does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.config.devices import OwnSensor
from growd.device_kinds import SENSOR_KINDS
from growd.variables import VARIABLES
from growd.wiring.sensors import open_sensor
from growd.wiring.simulated_truth import TRUTHS
from growd_hwsim.driver_bench import PORT, TrialSubject

if TYPE_CHECKING:
    from growd_drivers.kinds import DriverOption
    from growd_hwsim.hardware import SimulatedHardware

_RANGES: Final = {name: (known.minimum, known.maximum) for name, known in VARIABLES.items()}
_ANY: Final = {bool: False, int: 0, float: 0.0, str: ""}


def subject_of(name: str) -> TrialSubject:
    """The driver of a kind in `SENSOR_KINDS` whose simulated chip is loaded."""
    kind = SENSOR_KINDS[name]
    usual = {option.name: _usual(option) for option in kind.own_options}
    port = PORT if kind.opens == "serial" else None

    def open_driver(hardware: SimulatedHardware, **options: Any) -> Any:
        return open_sensor(hardware, OwnSensor(name="trial", kind=name, port=port, own={**usual, **options}))

    return TrialSubject(name, kind, open_driver, TRUTHS, _RANGES)


def _usual(option: DriverOption) -> Any:
    """The default of an option, or a value that it takes."""
    if option.default is not None:
        return option.default
    return next(
        iter(option.choices), _ANY[option.kind] if option.least is None else option.kind(option.least)
    )
