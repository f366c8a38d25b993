"""Sections of what is wired: sensors, the lamp, relays."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from growd.config.base import Fraction, Name, Patience, Pin, Seconds, Section


class Sensor(Section, frozen=True):
    """One sensor, on an I2C bus or a serial line. Not every kind has every option."""

    name: Name
    """Its name, for topics and services."""

    kind: Literal["scd30", "bh1750", "tsl2591", "mhz19", "mhz16"]
    """Which it is: SCD30 (CO2, temperature, humidity), BH1750 or TSL2591 (light), MH-Z19 or MH-Z16 (CO2)."""

    bus: Annotated[int, Meta(ge=0, le=32)] = 1
    """The number of the I2C bus."""

    address: Annotated[int, Meta(ge=0, le=0x77)] = 0
    """On the I2C bus; 0: the chip's usual one. Of an MH-Z19 or MH-Z16 without a port: that of its SC16IS750
    bridge."""

    interval_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 2.0
    """How often it is read."""

    ambient_pressure_hpa: Annotated[int, Meta(ge=700, le=1_400)] | None = None
    """SCD30: the pressure of the air, for which it corrects CO2."""

    altitude_m: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    """SCD30: the altitude above the sea, for the same, if the pressure is not given. Without a value, it
    stays as the chip has it."""

    temperature_offset_degc: Annotated[float, Meta(ge=0, le=655.35)] | None = None
    """SCD30: taken off for the heat of the parts around it. Without a value, it stays as the chip has it."""

    self_calibration: bool = False
    """SCD30, MH-Z19, MH-Z16: it wants fresh air once a day, which a chamber does not have."""

    port: Annotated[str, Meta(pattern=r"^/dev/[A-Za-z0-9_./:*+-]+$", max_length=256)] | None = None
    """MH-Z19, MH-Z16: the serial line. For a USB adapter that may come back under another name, its path in
    /dev/serial/by-id, or a pattern with *."""

    range_ppm: Literal[2_000, 5_000, 10_000] = 10_000
    """MH-Z19, MH-Z16: what it measures up to. It must be above [interlock] ceiling_ppm, for the end of the
    range is no reading."""

    stuck_after_s: Annotated[float, Meta(ge=600, le=604_800)] = 14_400.0
    """MH-Z19, MH-Z16: a value that has not changed for as long is a fault."""


class ChannelOptions(Section, frozen=True):
    """One colour of the lamp."""

    name: Literal["white", "red", "blue"]
    """Its colour."""

    pin: Pin
    """Its pin (BCM)."""

    mix: Fraction = 1.0
    """Its level when the whole lamp is asked for full light."""


class Light(Section, frozen=True):
    """The lamp, with one to three channels.

    A level of 0 is off; one above it becomes the duty minimum_duty + (1 - minimum_duty) x level ^ gamma.
    With gamma 1 light is proportional to the level; with 2.2 equal steps of the level look equal to the eye.
    The control of illuminance takes both options into account.
    """

    enabled: bool = True
    """Whether there is a lamp: true where there is a section [light] that does not say otherwise. Without
    that section there is none, and no pin is driven for it."""

    channel: tuple[ChannelOptions, ...] = (
        ChannelOptions(name="white", pin=12),
        ChannelOptions(name="red", pin=13, mix=0.5),
        ChannelOptions(name="blue", pin=18, mix=0.5),
    )
    """Its colours."""

    frequency_hz: Annotated[float, Meta(ge=1, le=10_000)] = 200.0
    """Of the PWM."""

    minimum_duty: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """The duty at which the lamp begins to glow."""

    gamma: Annotated[float, Meta(ge=0.2, le=5)] = 1.0
    """The exponent from level to duty."""

    ramp_s: Annotated[float, Meta(ge=0, le=3_600)] = 0.0
    """How long the way from dark to full takes."""

    inverted: bool = False
    """A low pin is light."""

    switched: bool = False
    """The channels are relays, for a lamp that can't be dimmed: each is on while its level is one half or
    more."""

    hardware_pwm: bool = False
    """The pins that the processor's PWM chip can drive (12, 13, 18 and 19) are dimmed by it, as far as the
    lamp has them; the others go on by software, whose limit frequency_hz keeps to on all of them."""

    pwm_chip: Annotated[int, Meta(ge=0, le=32)] = 0
    """The number of that chip in /sys/class/pwm."""

    full_scale_lux: Annotated[float, Meta(ge=1, le=200_000)] = 20_000.0
    """What the whole lamp gives at full light, until calibrate_light has measured it."""

    needs_sensor: bool = False
    """Without a light sensor that can be believed, illuminance is not trimmed any more; with this it is not
    commanded any more, and the lamp is dark, but for channels with a set point of their own."""

    stale_after_s: Patience = 10.0
    """Without a command that is younger, the lamp is dark."""

    override_s: Seconds = 600.0
    """A command by hand holds for as long."""


class RelayOptions(Section, frozen=True):
    """A relay on a pin, for a valve or a fan: on while the command for its variable is one half or more.

    It is in its safe state without a command that is younger than stale_after_s, when growd does not run,
    and while the variable in needs is not known, whoever commands it.
    """

    name: Name
    """Its name, for topics and services."""

    pin: Pin
    """Its pin (BCM)."""

    variable: Literal["air_carbon_dioxide_valve_on", "air_flush_on"]
    """What it switches: a valve for CO2, or an exhaust fan."""

    active: Literal["high", "low"] = "high"
    """The level of the pin that switches it on."""

    safe: Literal["off", "on"] = "off"
    """Its safe state. A valve is safe when it is off."""

    needs: str | None = None
    """The variable without which it is safe; "" is none. By default air_carbon_dioxide for a valve, which
    must not stay open while CO2 is not known, and none for a fan. A valve without a sensor of CO2 is refused
    unless this is "", and then there is a warning."""

    stale_after_s: Patience = 10.0
    """Without a command that is younger it is safe."""

    override_s: Seconds = 600.0
    """A command by hand holds for as long."""
