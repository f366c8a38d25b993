"""Sections of what is wired: sensors and the lamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from growd.config.base import Fraction, Name, Patience, Pin, Section
from growd.device_kinds import LAMP_CHANNELS, NOT_OF_DRIVERS, SENSOR_KINDS

if TYPE_CHECKING:
    SensorKindName: TypeAlias = str
    ChannelName: TypeAlias = str
else:
    SensorKindName = Literal[tuple(SENSOR_KINDS)]
    ChannelName = Literal[LAMP_CHANNELS]


class Sensor(Section, frozen=True):
    """One sensor. Some options apply to some kinds only."""

    name: Name
    """Name in topics and services."""

    kind: SensorKindName
    """Kind of the sensor, and what it measures."""

    bus: Annotated[int, Meta(ge=0, le=32)] = 1
    """Number of the I2C bus."""

    address: Annotated[int, Meta(ge=0, le=0x77)] = 0
    """Address on the I2C bus, of a serial sensor without a port that of its SC16IS750 bridge; 0: the default
    of the chip."""

    interval_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 2.0
    """How often the sensor is read."""

    altitude_m: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    """Altitude above sea level, which corrects CO2. Default: the setting of the chip."""

    temperature_offset_degc: Annotated[float, Meta(ge=0, le=655.35)] | None = None
    """Subtracted from the temperature for self-heating. Default: the setting of the chip."""

    calibrate_every_days: Annotated[float, Meta(gt=0, le=3_650)] | None = None
    """growd reminds of a calibration after this time. Default: never."""

    ppfd_factor: Annotated[float, Meta(ge=0.01, le=100)] = 1.0
    """PPFD of a quantum sensor beside it, divided by its own."""

    self_calibration: bool = False
    """Automatic calibration. It needs fresh air once a day."""

    port: Annotated[str, Meta(pattern=r"^/dev/[A-Za-z0-9_./:*+-]+$", max_length=256)] | None = None
    """The serial port, or a pattern with *."""

    range_ppm: Literal[2_000, 5_000, 10_000] | None = None
    """Upper end of the range, by default 10000; above [interlock] ceiling_ppm. An MH-Z16 is set to it only if
    it is given."""

    stuck_after_s: Annotated[float, Meta(ge=600, le=604_800)] | None = None
    """A reading that has not changed for this long is a fault. Default: four hours for an MH-Z19 or MH-Z16, a
    day for an EZO circuit, never for others."""

    variable: str = ""
    """The variable that it measures."""

    confirms: str = ""
    """The output whose state it shows, instead of a variable."""

    topic: Annotated[str, Meta(max_length=256)] = ""
    """The topic on the broker of [mqtt], without + and #."""

    key: Annotated[str, Meta(max_length=256)] = ""
    """Place of the value in a JSON document: "ENERGY.Power". Default: the whole payload is the value."""

    scale: Annotated[float, Meta(ge=-1e6, le=1e6)] = 1.0
    """Factor to the unit of the variable."""

    offset: Annotated[float, Meta(ge=-1e6, le=1e6)] = 0.0
    """Added after the factor."""

    stale_after_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    """A value counts for this long after it came."""

    channel: Literal["0", "1", "2", "3", "0-1", "0-3", "1-3", "2-3"] = "0"
    """The input, or two for the difference of their voltages."""

    points: tuple[tuple[float, float], ...] = ()
    """Two points of a straight line, in volts and value, such as [[2.80, 0], [1.20, 100]]. Values further
    beyond them than 5 % of the span are a fault. Inputs must stay below the supply voltage."""

    probe_k: Annotated[float, Meta(ge=0.1, le=10)] = 1.0
    """The cell constant (K) of its probe."""

    device: Annotated[str, Meta(pattern=r"^28-[0-9a-f*]{1,12}$")] = "28-*"
    """Its id, such as 28-0316a4ef5dff, or a pattern that only one device matches."""

    pin: Pin | None = None
    """Pin (BCM number), of a 1-wire bus by default 4."""

    active: Literal["high", "low"] = "low"
    """The level of the pin at which its value is 1."""

    pull: Literal["up", "down", "none"] = "up"
    """The resistor on the pin."""

    @property
    def fields(self) -> dict[str, str]:
        """The variable of each field of its sample, "" for none."""
        fields = dict(SENSOR_KINDS[self.kind].variables)
        if self.variable or self.confirms:
            return dict.fromkeys(fields, self.variable)
        return fields

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it measures, none if it confirms an output."""
        return tuple(filter(None, self.fields.values()))

    @property
    def is_on_i2c(self) -> bool:
        """Whether it or its bridge is on an I2C bus."""
        opens = SENSOR_KINDS[self.kind].opens
        return opens == "i2c" or (opens == "serial" and self.port is None)

    @property
    def i2c_address(self) -> int:
        """Its address or that of its bridge; 0 without one."""
        return self.address or next(iter(SENSOR_KINDS[self.kind].addresses), 0)

    @property
    def line(self) -> str:
        """Its bus, serial port or pin, each of which has its own thread; or its kind or name for others."""
        if self.is_on_i2c:
            return f"i2c-{self.bus}"
        by_opening = {"one_wire": "w1", "gpio": f"gpio-{self.pin}", "none": self.name}
        return self.port or by_opening.get(SENSOR_KINDS[self.kind].opens, self.kind)

    @property
    def one_wire_pin(self) -> int | None:
        """The GPIO of its 1-wire bus, if it is on one."""
        is_on_it = SENSOR_KINDS[self.kind].opens == "one_wire"
        return (4 if self.pin is None else self.pin) if is_on_it else None

    @property
    def switch_pin(self) -> int | None:
        """The GPIO that it reads, if it is a switch."""
        return self.pin if SENSOR_KINDS[self.kind].opens == "gpio" else None

    @property
    def fresh_s(self) -> float:
        """For how long a reading counts at least."""
        return self.stale_after_s if SENSOR_KINDS[self.kind].opens == "messages" else 2 * self.interval_s

    @property
    def driver_options(self) -> dict[str, Any]:
        """The options that its driver takes by name."""
        names = SENSOR_KINDS[self.kind].options
        return {name: getattr(self, name) for name in names if name not in NOT_OF_DRIVERS}


class OwnSensor(Sensor, frozen=True):
    """A sensor of a kind of another package, with the options `own` that this kind declares."""

    own: dict[str, Any] = field(default_factory=dict)

    @property
    def driver_options(self) -> dict[str, Any]:
        return super().driver_options | self.own


class ChannelOptions(Section, frozen=True):
    """One colour channel of the lamp."""

    name: ChannelName
    """Colour of the channel."""

    pin: Pin
    """Pin (BCM number)."""

    mix: Fraction = 1.0
    """Level of the channel when the whole lamp is at full light."""

    power_w: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """Electric power at full level."""

    lux_per_umol: Annotated[float, Meta(gt=0, le=1_000)] | None = None
    """Illuminance of its light for each umol/m2/s. Default: 67 for white LEDs, 7.55 for red and 6.9 for blue
    ones. docs/variables.md has those of other lamps."""

    photons: Annotated[float, Meta(gt=0, le=1_000)] | None = None
    """Photons of the channel at full level, relative to the other channels. Default: 1 for white, 0.5 for
    red, 0.27 for blue."""


class Light(Section, frozen=True):
    """The lamp, with one to three channels.

    A level above 0 becomes the duty cycle minimum_duty + (1 - minimum_duty) x level ^ gamma.
    """

    enabled: bool = True
    """Whether the chamber has a lamp; true in a section [light]."""

    channel: tuple[ChannelOptions, ...] = (
        ChannelOptions(name="white", pin=12),
        ChannelOptions(name="red", pin=13, mix=0.5),
        ChannelOptions(name="blue", pin=18, mix=0.5),
    )
    """Colour channels."""

    frequency_hz: Annotated[float, Meta(ge=1, le=10_000)] = 200.0
    """Frequency of the PWM; software PWM goes up to 1000 Hz."""

    minimum_duty: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Duty cycle at which the lamp begins to glow."""

    gamma: Annotated[float, Meta(ge=0.2, le=5)] = 1.0
    """Exponent from level to duty cycle: with 1 the light is proportional to the level, with 2.2 equal steps
    look equal."""

    ramp_s: Annotated[float, Meta(ge=0, le=3_600)] = 0.0
    """Time from dark to full light."""

    inverted: bool = False
    """The lamp is on at a low pin."""

    kind: Literal["pwm", "hardware_pwm", "relay"] = "pwm"
    """How it is driven. hardware_pwm: the pins 12, 13, 18 and 19; if the lamp has others, the limit of
    software PWM applies to all. relay: a lamp that cannot be dimmed, on from a level of one half."""

    full_scale_lux: Annotated[float, Meta(ge=1, le=200_000)] = 20_000.0
    """Illuminance of the whole lamp at full light, until calibrate_light has measured it."""

    needs_sensor: bool = False
    """Without a working light sensor the lamp is dark (true), except for channels with their own set points,
    or runs without correction (false)."""

    stale_after_s: Patience = 10.0
    """Without a newer command the lamp goes dark after this time."""

    @property
    def is_switched(self) -> bool:
        """Whether it cannot be dimmed."""
        return self.kind == "relay"
