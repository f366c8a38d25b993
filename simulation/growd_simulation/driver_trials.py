"""The trials of `growd_hwsim.driver_trials`, with a driver opened as growd does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.config.devices import OwnSensor
from growd.config.outputs import OwnOutput
from growd.config.own_options import declared_by
from growd.device_kinds import OWN_OUTPUTS, SENSOR_KINDS
from growd.variables import VARIABLES
from growd.wiring.own_drivers import opened_output
from growd.wiring.sensors import open_sensor
from growd_drivers.kinds import OutputKind
from growd_hwsim.driver_bench import PORT, TrialSubject
from growd_hwsim.driver_trials import results_until_hung, trials_of
from growd_hwsim.output_trials import OutputSubject, trials_of_output
from growd_simulation.truths import TRUTHS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_drivers.kinds import DriverOption, SensorKind
    from growd_hwsim.driver_bench import TrialResult
    from growd_hwsim.hardware import SimulatedHardware

_RANGES: Final = {name: (known.minimum, known.maximum) for name, known in VARIABLES.items()}
_ANY: Final = {bool: False, int: 0, float: 0.0, str: ""}


def results_of_kind(name: str, kind: SensorKind | OutputKind) -> Iterator[TrialResult]:
    """The row of each trial with a kind of another package whose simulated chip is loaded."""
    if isinstance(kind, OutputKind):
        OWN_OUTPUTS[name] = kind
        output = output_subject_of(name)
        yield from results_until_hung(trials_of_output(output), output)
    else:
        SENSOR_KINDS[name] = kind
        sensor = subject_of(name)
        yield from results_until_hung(trials_of(sensor), sensor)


def output_subject_of(name: str) -> OutputSubject:
    """The driver of a kind in `OWN_OUTPUTS` whose simulated chip is loaded."""
    kind = OWN_OUTPUTS[name]
    usual = {option.name: _usual(option) for option in declared_by(kind).values()}

    def open_driver(hardware: SimulatedHardware, **options: Any) -> Any:
        return opened_output(hardware, OwnOutput(name="trial", kind=name, own={**usual, **options}), kind)

    return OutputSubject(name, kind, open_driver)


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
