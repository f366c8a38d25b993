"""What one environment measures and drives, answered from its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from growd.config.devices import Light
from growd.config.lamp_light import ChannelLight, LampLight
from growd.config.loops import LoopOptions
from growd.config.outputs import PWM_PINS, Output
from growd.device_kinds import LUX_PER_UMOL, PHOTONS, SENSOR_KINDS
from growd.loops import loop_kind
from growd.output_roles import ON_FROM, OutputClass
from growd.variables import (
    ACIDITY,
    CANOPY_COVER,
    CANOPY_GREENNESS,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    DAILY_LIGHT_INTEGRAL,
    HUMIDITY,
    ILLUMINANCE,
    PPFD,
    TEMPERATURE,
    VAPOUR_PRESSURE_DEFICIT,
    VARIABLES,
)
from growd_drivers.kinds import UnloadedKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.config.devices import Sensor
    from growd.config.findings import OptionPath
    from growd.config.root import ChamberOptions, Config

LEAST_INTERVAL_S = 0.1
DAY_S = 86_400.0


class SetPointLimits(NamedTuple):
    """The lowest and the highest set point of a variable, and why none is beyond."""

    lowest: float
    highest: float
    note: str


class SwitchedLight(NamedTuple):
    """The set points of a lamp that can't be dimmed, which is on from `on_from`."""

    lowest: float
    highest: float
    note: str
    on_from: float


@dataclass(frozen=True)
class Chamber:
    """One environment: which variables are measured, by which sensors, how fresh they are, what is driven."""

    config: Config
    environment: str

    @cached_property
    def options(self) -> ChamberOptions:
        """Its sections of the configuration."""
        return self.config.chambers()[self.environment]

    def path(self, *place: str | int) -> OptionPath:
        """A place in its sections, as the file has it: `path("sensor", 0, "address")`."""
        section, *rest = place
        return (*self.config.path(self.environment, str(section)), *rest)

    def device(self, name: str) -> str:
        """The name of a device for a person, with the environment if there are several."""
        return self.config.device(self.environment, name)

    # what is measured

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """The variables that a sensor measures, sorted."""
        return tuple(sorted({name for sensor in self.options.sensor for name in sensor.variables}))

    @cached_property
    def derived(self) -> tuple[str, ...]:
        """The variables that growd calculates: those that no sensor measures, of what is known here."""
        found: list[str] = []
        known = set(self.measured)
        for variable in VARIABLES.values():  # what another one is calculated from comes first
            if variable.is_derived and variable.name not in known and known.issuperset(variable.derived_from):
                found.append(variable.name)
                known.add(variable.name)
        return tuple(found)

    @cached_property
    def known(self) -> tuple[str, ...]:
        """The variables that are measured, calculated or seen by a camera, sorted."""
        return tuple(sorted({*self.measured, *self.derived, *self.seen}))

    @cached_property
    def seen(self) -> tuple[str, ...]:
        """The variables that cameras measure."""
        return (CANOPY_COVER, CANOPY_GREENNESS) if self.options.camera else ()

    def sensors_of(self, variable: str) -> tuple[Sensor, ...]:
        """The sensors of a variable, in their order."""
        return tuple(sensor for sensor in self.options.sensor if variable in sensor.variables)

    def sensor_names(self, variable: str) -> list[str]:
        """The names of the sensors of a variable, in their order."""
        return [sensor.name for sensor in self.sensors_of(variable)]

    def confirming(self, output: str) -> tuple[Sensor, ...]:
        """The sensors of the state of an output, by its name: none or one."""
        return tuple(sensor for sensor in self.options.sensor if sensor.confirms == output != "")

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """The variables that several sensors measure."""
        return tuple(variable for variable in self.measured if len(self.sensors_of(variable)) > 1)

    def may_measure(self, variable: str) -> bool:
        """Whether a sensor measures a variable, or may: that of a sensor without its driver is not known."""
        kinds = (SENSOR_KINDS[sensor.kind] for sensor in self.options.sensor)
        return variable in self.measured or any(isinstance(kind, UnloadedKind) for kind in kinds)

    # how fresh

    def stale_after_s(self, variable: str) -> float:
        """The age from which a measured variable is stale: at least two intervals of its slowest sensor."""
        return self._stale_after_s(self.sensors_of(variable))

    def feedback_stale_after_s(self, output: str) -> float:
        """The same for the feedback of an output."""
        return self._stale_after_s(self.confirming(output))

    def interval_range_s(self, sensor: Sensor) -> tuple[float, float]:
        """The intervals that a client may set: not faster than the chip measures, nor stale in between."""
        if not sensor.variables and not sensor.confirms:  # its driver is not loaded
            return min(LEAST_INTERVAL_S, sensor.interval_s), max(sensor.interval_s, 60.0)
        measures = SENSOR_KINDS[sensor.kind].measurement_interval_s
        least = measures(sensor.interval_s) if measures else LEAST_INTERVAL_S
        limits = [self.stale_after_s(variable) for variable in sensor.variables]
        most = min(limits or [self.feedback_stale_after_s(sensor.confirms)]) / 2
        return min(float(least), sensor.interval_s), most

    def _stale_after_s(self, sensors: Iterable[Sensor]) -> float:
        fresh_s = [sensor.fresh_s for sensor in sensors]
        return max([self.options.filter.stale_after_s, *fresh_s])

    # what is driven

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs whose state a sensor can confirm."""
        return tuple(output.name for output in self.outputs)

    @cached_property
    def lamp_channels(self) -> tuple[str, ...]:
        """The channels of the lamp, none without a lamp."""
        return tuple(self.lamp_mix)

    @cached_property
    def light(self) -> Light:
        """[light] with its channels on pins. It is enabled if there is a channel, also of an [[output]].

        An [[output]] takes the place of the default channels.
        """
        light, others = self.options.light, self.channels_by_path
        on_pins = light.channel if light.enabled else ()
        if others and on_pins is Light().channel:
            on_pins = ()
        return structs.replace(light, enabled=bool(on_pins or others), channel=on_pins)

    @cached_property
    def channels_by_path(self) -> dict[OptionPath, Output]:
        """The channels of the lamp that are an [[output]], by their places in the file."""
        outputs = enumerate(self.options.output)
        return {self.path("output", number): each for number, each in outputs if each.channel}

    @cached_property
    def lamp_mix(self) -> dict[str, float]:
        """The level of each channel of the lamp at full light."""
        mix = {channel.name: channel.mix for channel in self.light.channel}
        return mix | {each.channel: each.mix for each in self.channels_by_path.values()}

    @cached_property
    def switched_channels(self) -> tuple[str, ...]:
        """The channels of the lamp that cannot be dimmed."""
        on_pins = [each.name for each in self.light.channel if self.light.is_switched]
        others = [each.channel for each in self.channels_by_path.values() if not each.can_dim]
        return (*on_pins, *others)

    @cached_property
    def lamp_light(self) -> LampLight:
        """The light of the lamp in photons and lux."""
        given = {channel.name: (channel.photons, channel.lux_per_umol) for channel in self.light.channel}
        channels = {}
        for name, mix in self.lamp_mix.items():
            photons, lux_per_umol = given.get(name, (None, None))
            channels[name] = ChannelLight(photons or PHOTONS[name], lux_per_umol or LUX_PER_UMOL[name], mix)
        return LampLight(channels, self.light.gamma, self.light.minimum_duty)

    @cached_property
    def is_lamp_switched(self) -> bool:
        """Whether a channel of the lamp cannot be dimmed."""
        return bool(self.switched_channels)

    @cached_property
    def has_pins(self) -> bool:
        """Whether a device is on a GPIO pin, or the sensors are the default ones, for a Raspberry Pi."""
        is_default = self.options.sensor is type(self.config)().sensor
        has_output = bool(self.light.channel) or any(output.pin is not None for output in self.all_outputs)
        has_input = any(SENSOR_KINDS[sensor.kind].opens == "gpio" for sensor in self.options.sensor)
        return is_default or has_output or has_input

    @cached_property
    def pwm_pins(self) -> dict[int, str]:
        """The pins with hardware PWM, each with the name of its user."""
        lamp = ((each.pin, self.light.kind, each.name) for each in self.light.channel)
        outputs = ((each.pin, each.kind, each.name) for each in self.all_outputs)
        return {
            pin: name
            for pin, kind, name in (*lamp, *outputs)
            if kind == "hardware_pwm" and pin is not None and pin in PWM_PINS
        }

    @cached_property
    def outputs_by_path(self) -> dict[OptionPath, Output]:
        """All outputs but the lamp, by their places in the file."""
        return {
            self.path("output", number): each
            for number, each in enumerate(self.options.output)
            if not each.channel
        }

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """All outputs but the lamp."""
        return tuple(self.outputs_by_path.values())

    @cached_property
    def all_by_path(self) -> dict[OptionPath, Output]:
        """All outputs, with the channels of the lamp that are an [[output]], by their places in the file."""
        return self.outputs_by_path | self.channels_by_path

    @cached_property
    def all_outputs(self) -> tuple[Output, ...]:
        """All outputs, with the channels of the lamp that are an [[output]]."""
        return tuple(self.all_by_path.values())

    @cached_property
    def by_own_variable(self) -> dict[str, list[Output]]:
        """All outputs but the lamp, by their own variables."""
        found: dict[str, list[Output]] = {}
        for output in self.outputs:
            found.setdefault(output.own_variable, []).append(output)
        return found

    def outputs_of(self, *classes: OutputClass) -> tuple[Output, ...]:
        """The outputs of these classes, in their order."""
        return tuple(each for each in self.outputs if each.is_a(*classes))

    def drivers_of(self, variable: str) -> tuple[Output, ...]:
        """The outputs that a controller of this variable uses."""
        return tuple(each for each in self.outputs if variable in each.moved)

    def names_of_drivers(self, variable: str, *, raises: bool) -> tuple[str, ...]:
        """The names of the outputs that raise a variable, or of those that lower it."""
        return tuple(each.name for each in self.outputs if each.moved.get(variable) is raises)

    @cached_property
    def own_variables(self) -> frozenset[str]:
        """The variables of the outputs' own commands, without the lamp's."""
        return frozenset(each.own_variable for each in self.outputs)

    @cached_property
    def controls_carbon_dioxide(self) -> bool:
        """There are a sensor and a valve for it."""
        return CARBON_DIOXIDE in self.loops

    @cached_property
    def loops(self) -> tuple[str, ...]:
        """The measured variables that a controller moves with outputs, sorted. The lamp has its own."""
        return tuple(each for each in self.measured if each != ILLUMINANCE and self._is_controllable(each))

    def _is_controllable(self, variable: str) -> bool:
        ways = {each.moved[variable] for each in self.drivers_of(variable)}
        return True in ways or (False in ways and not loop_kind(variable).needs_raising)

    def loop_options(self, variable: str) -> LoopOptions:
        """How a variable is controlled."""
        return self.options.control.get(variable) or LoopOptions()

    def loop_method(self, variable: str) -> str:
        """By which law a variable is controlled."""
        return self.loop_options(variable).method or loop_kind(variable).method

    @cached_property
    def controls_illuminance(self) -> bool:
        """There are a lamp and a sensor of its light."""
        return self.light.enabled and ILLUMINANCE in self.measured

    @cached_property
    def plans_light(self) -> bool:
        """There is a lamp, and its photons are known: PPFD and the light of a day can be set points."""
        return self.light.enabled and PPFD in self.known

    @cached_property
    def plans_humidity(self) -> bool:
        """Humidity is controlled where the deficit is known, which can be a set point then."""
        return VAPOUR_PRESSURE_DEFICIT in self.known and HUMIDITY in self.loops

    def _reach_of_plans(self) -> Iterator[tuple[str, tuple[float, float]]]:
        if self.plans_light:
            lamp, plan = self.lamp_light, self.options.light_plan
            most = self.light.full_scale_lux / lamp.lux_per_umol(lamp.usual_levels)
            begin, end = plan.window_s
            yield PPFD, (0.0, most)
            yield DAILY_LIGHT_INTEGRAL, (0.0, most * ((end - begin) % DAY_S or DAY_S) * 1e-6)
        if self.plans_humidity:
            deficit = VARIABLES[VAPOUR_PRESSURE_DEFICIT]
            yield VAPOUR_PRESSURE_DEFICIT, (deficit.minimum, deficit.maximum)

    def _highest(self, variable: str) -> float:
        """Heaters are off above the limit of their interlock."""
        known = VARIABLES[variable]
        if known.unit != "degC" or not self.names_of_drivers(variable, raises=True):
            return known.maximum
        return self.heat_limit_degc(variable)

    def heat_limit_degc(self, variable: str) -> float:
        """From this temperature on heaters are off: of the air, or of water and soil."""
        limits = self.options.interlock
        return limits.heater_off_degc if variable == TEMPERATURE else limits.water_heater_off_degc

    @cached_property
    def set_point_limits(self) -> dict[str, SetPointLimits]:
        """The set points of dosed variables that the interlocks of the pumps do not exclude."""
        limits, pumps = self.options.interlock, self.outputs_of(OutputClass.DOSING)
        dosed = {variable for each in pumps for variable in each.effects if variable in self.measured}
        of_acidity = "the limits acid_off_ph and base_off_ph of [interlock]"
        known = {
            ACIDITY: SetPointLimits(limits.acid_off_ph, limits.base_off_ph, of_acidity),
            CONDUCTIVITY: SetPointLimits(
                0.0, limits.nutrients_off_ms_cm, "the limit nutrients_off_ms_cm of [interlock]"
            ),
        }
        return {variable: each for variable, each in known.items() if variable in dosed}

    def reach(self) -> dict[str, tuple[float, float]]:
        """The lowest and the highest set point of each variable that has an output."""
        reach: dict[str, tuple[float, float]] = {}
        if self.light.enabled:
            reach[ILLUMINANCE] = (0.0, self.options.light.full_scale_lux)
        for variable in map("light_intensity_{}".format, self.lamp_channels):
            reach[variable] = (0.0, 1.0)
        for output in sorted(self.outputs, key=lambda each: each.own_variable):
            reach[output.own_variable] = (0.0, output.full)
        for variable in self.loops:
            reach[variable] = VARIABLES[variable].minimum, self._highest(variable)
        reach.update(self._reach_of_plans())
        reach.update({variable: each[:2] for variable, each in self.set_point_limits.items()})
        if self.controls_carbon_dioxide:
            reach[CARBON_DIOXIDE] = (0.0, self.options.interlock.ceiling_ppm)
        return reach

    def reach_of_recipes(self) -> dict[str, tuple[float, float] | SetPointLimits | SwitchedLight]:
        """The same with the limits that no recipe may go beyond."""
        return {**self.reach(), **self._reach_of_switched_lamp(), **self.set_point_limits}

    def _reach_of_switched_lamp(self) -> dict[str, SwitchedLight]:
        """The light of a lamp with no channel that can be dimmed."""
        if not self.light.enabled or set(self.switched_channels) != set(self.lamp_channels):
            return {}
        full = self.light.full_scale_lux
        on_from = full * ON_FROM / max(self.lamp_mix.values(), default=1.0)
        return {ILLUMINANCE: SwitchedLight(0.0, full, "", on_from)}

    def needed(self) -> dict[str, set[str]]:
        """The variables that must be known while an output is on, each with the outputs that need it."""
        needed: dict[str, set[str]] = {}
        for output in self.outputs:
            if variable := self._needed_by(output):
                needed.setdefault(variable, set()).add(output.own_variable)
        if self.light.enabled and self.options.light.needs_sensor:
            needed.setdefault(ILLUMINANCE, set()).add(ILLUMINANCE)
        return needed

    def _needed_by(self, output: Output) -> str:
        """The variable that an output needs to be known, "" for none."""
        if output.needs is not None:
            return output.needs
        usual = output.role.needs if output.role else ""
        return usual if self.may_measure(usual) else ""


def chambers_of(config: Config) -> list[Chamber]:
    """The environments of a configuration, the first one first."""
    return [Chamber(config, environment) for environment in config.chambers()]
