"""Options that are valid but probably a mistake: the findings become warnings, and growd starts with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.config.control import InterlockOptions
from growd.config.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.findings import Source
    from growd.config.root import ChamberOptions, Config

VALVE: Final = "air_carbon_dioxide_valve_on"

_DOUBTFUL_FROM: Final = {
    "ceiling_ppm": 10_000.0,
    "valve_open_s": 1_200.0,
    "dose_s": 3_600.0,
    "no_rise_open_s": 1_800.0,
}
"""From these values on, a limit of the valve hardly protects anybody."""

_HOT_DEGC: Final = 50.0  # no crop grows there

_ADDRESSES: Final = {"scd30": (0x61,), "bh1750": (0x23, 0x5C), "tsl2591": (0x29,)}
"""I2C addresses that the data sheets give (SCD30 interface description 1.1, BH1750FVI, TSL2591)."""

_ONE_PWM: Final = ({12, 18}, {13, 19})
"""Pins with one PWM channel between them on a Raspberry Pi 1 to 4 (BCM2711 ARM Peripherals, section 5.3)."""


def high_limits(config: Config, _: Source) -> Iterator[Finding]:
    """Limits of interlocks far above their defaults, where there is an output that they protect from."""
    for environment, chamber in config.chambers().items():
        limits, path = chamber.interlock, config.path(environment, "interlock")
        doubtful = {"light_off_degc": _HOT_DEGC} if chamber.light.enabled else {}
        if _has_valve(chamber):
            doubtful |= _DOUBTFUL_FROM
        for option, most in doubtful.items():
            value, default = getattr(limits, option), getattr(InterlockOptions(), option)
            if value >= most:
                reason = f"{value:g} is far above the default of {default:g}; set it below {most:g}"
                yield Finding((*path, option), reason)
        if _has_valve(chamber) and limits.dose_limit_s >= _DOUBTFUL_FROM["dose_s"] > limits.dose_s:
            reason = f"{limits.dose_litres:g} l take the open valve an hour, so there is no limit; set less"
            yield Finding((*path, "dose_litres"), reason)


def self_calibrations(config: Config, _: Source) -> Iterator[Finding]:
    """CO2 sensors that calibrate themselves, where a valve raises the CO2."""
    for environment, chamber in config.chambers().items():
        for number, sensor in enumerate(chamber.sensor):
            if sensor.self_calibration and _has_valve(chamber):
                reason = (
                    f"{sensor.name} takes the lowest CO2 of a day or week for fresh air, which hides CO2 "
                    "from the interlocks in a chamber that is not aired; set it to false"
                )
                path = (*config.path(environment, "sensor"), number, "self_calibration")
                yield Finding(path, reason)


def _has_valve(chamber: ChamberOptions) -> bool:
    return any(relay.variable == VALVE for relay in chamber.relay)


def empty_chambers(config: Config, _: Source) -> Iterator[Finding]:
    """Further environments without a device."""
    for environment, chamber in config.chamber.items():
        if not (chamber.sensor or chamber.relay or chamber.light.enabled):
            reason = f"has no sensor, lamp or relay; add one, such as [[chamber.{environment}.sensor]]"
            yield Finding(("chamber", environment), reason)


def odd_addresses(config: Config, _: Source) -> Iterator[Finding]:
    """Addresses that a sensor of this kind does not have."""
    for environment, chamber in config.chambers().items():
        for number, sensor in enumerate(chamber.sensor):
            known = _ADDRESSES.get(sensor.kind, ())
            if sensor.address and known and sensor.address not in known:
                path = (*config.path(environment, "sensor"), number, "address")
                usual = " or ".join(f"0x{address:02X}" for address in known)
                reason = f"{sensor.name} is at 0x{sensor.address:02X}, but a {sensor.kind} has {usual}"
                yield Finding(path, f"{reason}; correct it, unless the bus has an address translator")


def shared_pwm(config: Config, _: Source) -> Iterator[Finding]:
    """Channels of lamps that most models of the Pi can't dim apart; growd would not start there."""
    lamps = [chamber.light for chamber in config.chambers().values()]
    pins = {
        channel.pin for light in lamps if light.enabled and light.hardware_pwm for channel in light.channel
    }
    for pair in _ONE_PWM:
        if pair <= pins:
            both = " and ".join(f"GPIO {pin}" for pin in sorted(pair))
            reason = f"{both} share one PWM channel on a Raspberry Pi 1 to 4; move one of them to another pin"
            yield Finding(("light", "hardware_pwm"), reason)
