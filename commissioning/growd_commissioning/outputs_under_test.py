"""The self-test of the outputs of one environment, from its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.control.topics import LIGHT_CHANNELS, light_channels, output_level
from growd.control.watched_loops import light_loop
from growd.loops import loop_kind
from growd.output_roles import LASTING, OutputClass
from growd.variables import DISSOLVED_OXYGEN, ILLUMINANCE, WATER_LEVEL
from growd.wiring.class_interlocks import FILL_RISE_PERCENT
from growd.wiring.loops import loop_settings
from growd.wiring.pumps import pumps_of
from growd_commissioning.effect_course import RANGES, Watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config import Chamber, Output

BRIEFLY_S: Final = 5.0
"""For an output without a sensor."""

OXYGEN_S: Final = 900.0
"""The longest time on of what raises dissolved oxygen."""

MIXED_S: Final = 600.0
"""After a dose."""

ON_S: Final = 120.0
"""The longest time on for all else."""

LEAST_DOSE_S: Final = 2.0
CIRCULATION: Final = "water_circulation"
_LIGHT_S: Final = 20.0


@dataclass(frozen=True)
class OutputUnderTest:
    """The outputs of one own variable, which are switched together.

    `level_topics` have the levels that were written, for the lamp in a `field`. `feedback` has the devices
    with a sensor of their state. `place` is the output for its interlocks. It is switched off when `watched`
    has moved, after `on_s` at most; a dose takes `on_s` in any case, while the outputs `beside` run, such as
    a pump that mixes the water. The effect may come, and must end, within `after_s`. What `needs_asking` is
    tested only if somebody names it.
    """

    name: str
    variable: str
    devices: tuple[str, ...]
    level_topics: tuple[str, ...]
    place: str
    watched: tuple[Watched, ...] = ()
    on_s: float = BRIEFLY_S
    after_s: float = 60.0
    is_dose: bool = False
    beside: str = ""
    safe: float = 0.0
    field: str = ""
    feedback: tuple[str, ...] = ()
    needs_asking: bool = False

    @property
    def level(self) -> float:
        """Its level in the test."""
        return 1.0 - self.safe

    def is_named(self, name: str) -> bool:
        """Whether a name is that of this output, of a device of it, or its own variable."""
        return name in (self.name, self.variable, *self.devices)

    def opposes(self, other: OutputUnderTest) -> bool:
        """Whether they move a variable in opposite directions."""
        ways = {(each.variable, not each.raises) for each in self.watched}
        return any((each.variable, each.raises) in ways for each in other.watched)


def outputs_under_test(chamber: Chamber) -> list[OutputUnderTest]:
    """All outputs of a chamber."""
    return [*_channels(chamber), *_outputs(chamber)]


def _channels(chamber: Chamber) -> Iterator[OutputUnderTest]:
    """The channels of the lamp, each alone."""
    light, interval_s = chamber.light, 0.0
    watched: tuple[Watched, ...] = ()
    if chamber.controls_illuminance:
        least = light_loop(light.full_scale_lux, (), is_switched=False).least
        watched = (Watched(ILLUMINANCE, raises=True, least=least, returns=True),)
        interval_s = max(sensor.interval_s for sensor in chamber.sensors_of(ILLUMINANCE))
    for channel in chamber.lamp_channels:
        yield OutputUnderTest(
            f"light {channel}",
            f"light_intensity_{channel}",
            ("light",),
            (light_channels(chamber.environment),),
            channel,
            watched=watched,
            on_s=_LIGHT_S + 10 * interval_s + light.ramp_s,
            after_s=_LIGHT_S + 10 * interval_s,
            field=LIGHT_CHANNELS[channel],
        )


def _outputs(chamber: Chamber) -> list[OutputUnderTest]:
    """All other outputs. Those that lower something come last: the others have raised it."""
    found = [_output(chamber, several) for several in chamber.by_own_variable.values()]
    return sorted(found, key=_only_lowers)


def _only_lowers(output: OutputUnderTest) -> bool:
    return bool(output.watched) and not any(each.raises for each in output.watched)


def _output(chamber: Chamber, outputs: list[Output]) -> OutputUnderTest:
    first = outputs[0]
    safe = float(first.safe == "on")
    is_dose = first.is_a(OutputClass.DOSING)
    watched = tuple(
        _watched(variable, raises=raises is not bool(safe))
        for variable, raises in first.effects.items()
        if variable in chamber.measured
    )
    longest = max((_on_s(each.variable) for each in watched), default=BRIEFLY_S)
    confirmed = tuple(each.name for each in outputs if chamber.confirming(each.name))
    return OutputUnderTest(
        " and ".join(each.name for each in outputs),
        first.own_variable,
        tuple(each.name for each in outputs),
        tuple(output_level(chamber.environment, each.name) for each in outputs),
        first.own_variable,
        watched=watched,
        on_s=_dose_s(chamber, first) if is_dose else longest,
        after_s=MIXED_S if is_dose else max(60.0, longest),
        is_dose=is_dose,
        beside=CIRCULATION if is_dose and CIRCULATION in chamber.own_variables else "",
        safe=safe,
        feedback=confirmed,
        needs_asking=first.is_a(*LASTING),
    )


def _watched(variable: str, *, raises: bool) -> Watched:
    known = RANGES.get(variable)
    limit = None if known is None else known.highest if raises else known.lowest
    return Watched(variable, raises, _least(variable), limit)


def _on_s(variable: str) -> float:
    """The longest time on, by what an output moves; that of an autotune where there is one."""
    return OXYGEN_S if variable == DISSOLVED_OXYGEN else loop_kind(variable).test_on_s or ON_S


def _least(variable: str) -> float:
    """The least change that counts."""
    if variable in RANGES:
        return RANGES[variable].least
    if variable == WATER_LEVEL:
        return FILL_RISE_PERCENT
    return loop_kind(variable).band


def _dose_s(chamber: Chamber, output: Output) -> float:
    """The length of a dose: what moves the tank by `enough` of its range."""
    variable, direction = output.first_moved
    pumps = pumps_of(chamber, lambda: 0.0)  # as configured: no calibration has been read yet
    doses = loop_settings(chamber, variable, pumps).doses if variable in chamber.loops else None
    if doses is None or variable not in RANGES:
        return LEAST_DOSE_S
    size = doses.size(raises=direction == "raises")
    seconds = size.flow.seconds(RANGES[variable].enough * size.ml_per_unit)
    return min(size.longest_s, max(LEAST_DOSE_S, seconds))
