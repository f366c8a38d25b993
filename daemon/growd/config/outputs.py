"""The section of one output: how it is driven, what it moves, and what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, field

from growd.config.base import Fraction, Name, Patience, Pin, Section
from growd.device_kinds import LAMP_CHANNELS, OUTPUT_KINDS, OWN_OUTPUTS
from growd.output_roles import ON_A_BUS, ROLES, Lease, OutputClass, Role, lease_of, role_of
from growd.variables import ILLUMINANCE, VARIABLES

if TYPE_CHECKING:
    OutputKindName: TypeAlias = str
    OutputVariable: TypeAlias = str
else:
    OutputKindName = Literal[OUTPUT_KINDS]
    OutputVariable = Literal[(*ROLES, *(f"light_intensity_{channel}" for channel in LAMP_CHANNELS))]

DIMMED: Final = ("pwm", "hardware_pwm", "topic")
"""The kinds that take any level between off and on; mqtt does with some payloads."""

CONTACT_STARTS: Final = 100_000
"""Electrical endurance of relays of 10 A at rated load, tested as in IEC 61810-1: Sanyou SRD datasheet,
"Endurance"."""

IN_THE_NETWORK: Final = ("http", "mqtt")
WITH_TIMER: Final = ("shelly_gen1", "shelly_gen2", "tasmota")
"""Protocols of devices with a timer of their own."""

PWM_PINS: Final = (12, 13, 18, 19)
"""Header pins (BCM) that some Raspberry Pi's PWM chip can drive."""

SOFTWARE_PWM_HZ: Final = 1000.0
"""As `growd_drivers.pins.MAXIMUM_SOFTWARE_PWM_HZ`."""

REPEAT_S: Final = 10.0
"""How often a device in the network without a timer is told its level."""

TIMER_S: Final = 60.0
"""A Shelly or Tasmota device becomes safe by its own timer after this time without growd, which starts the
timer again every quarter of it."""

ON_A_PIN: Final = ("relay", "ssr", "pwm", "hardware_pwm")
KINDS_WITH: Final[dict[str, tuple[str, ...]]] = {
    "pin": ON_A_PIN,
    "active": ON_A_PIN,
    "frequency_hz": ("pwm", "hardware_pwm"),
    "minimum_duty": ("pwm", "hardware_pwm"),
    "protocol": IN_THE_NETWORK,
    "relay_number": IN_THE_NETWORK,
    **dict.fromkeys(("url", "url_on", "url_off", "password_file"), ("http",)),
    **dict.fromkeys(("topic", "payload", "payload_on", "payload_off"), ("mqtt",)),
    "may_stay_on": (*IN_THE_NETWORK, "topic"),
}
"""The kinds that have an option which not all have."""


class Output(Section, frozen=True):
    """One output, such as a heater, a pump or a valve.

    It is in its safe state without a command for stale_after_s, while growd is not running, and while the
    variable in `needs` is not known.
    """

    name: Name
    """Name in topics and services."""

    kind: OutputKindName = "relay"
    """How it is driven."""

    drives: tuple[str, ...] = ()
    """The variables that it moves, such as ["air_temperature"]. Controllers of these variables use it."""

    direction: Literal["raises", "lowers"] = "raises"
    """Whether it raises or lowers them."""

    variable: OutputVariable | None = None
    """The variable of its own commands. Default: the usual one for what it drives. auxiliary_1 to auxiliary_8
    are for outputs beside it."""

    pin: Pin | None = None
    """Pin (BCM number), for the kinds with a pin."""

    active: Literal["high", "low"] = "high"
    """Pin level that switches it on."""

    frequency_hz: Annotated[float, Meta(ge=1, le=30_000)] = 200.0
    """Frequency of the PWM; software PWM goes up to 1000 Hz."""

    minimum_duty: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Duty cycle at which it begins to work, such as 0.3 for a fan that stalls below."""

    protocol: Literal["shelly_gen1", "shelly_gen2", "tasmota", "plain"] = "plain"
    """What the device speaks. shelly_gen2: also Gen3 and Gen4. plain: two addresses (http) or the payloads
    below (mqtt)."""

    url: str = ""
    """Address of the Shelly or Tasmota device, such as "http://192.168.1.40"."""

    url_on: str = ""
    """Address that switches a plain device on."""

    url_off: str = ""
    """Address that switches a plain device off."""

    password_file: str = ""
    """File with the password of the user admin of the device."""

    topic: str = ""
    """Topic at the broker of [mqtt]: the own one of a Tasmota device, the MQTT prefix of a Shelly, the whole
    topic of a plain device."""

    payload: Literal["on_off", "level", "percent"] = "on_off"
    """What a plain device takes: payload_on and payload_off, a level from 0 to 1, or percent."""

    payload_on: str = "ON"
    """Message that switches a plain device on."""

    payload_off: str = "OFF"
    """Message that switches a plain device off."""

    relay_number: Annotated[int, Meta(ge=0, le=7)] = 0
    """Relay of a Shelly or Tasmota device, counted from 0."""

    may_stay_on: bool = False
    """The output may stay on when growd or the network fails. A valve for CO2 without a timer in the device
    needs true."""

    mix: Fraction = 1.0
    """For a channel of the lamp: its level when the whole lamp is at full light."""

    safe: Literal["off", "on"] = "off"
    """Safe state."""

    needs: str | None = None
    """The output is in its safe state while this variable is not known; "" is none. Default: the variable
    that it drives, for heaters, valves, pumps and what else does harm without a sensor."""

    power_w: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """Electric power at full level."""

    flow_ml_min: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    """Flow at full level. Dosing pumps need it until a calibration."""

    minimum_on_s: Annotated[float, Meta(ge=0, le=600)] = 0.0
    """Once on, it stays on for this time, except against interlocks and holds."""

    minimum_off_s: Annotated[float, Meta(ge=0, le=3_600)] | None = None
    """Once off, it stays off for this time. Default: 180 for coolers and dehumidifiers that cannot be dimmed;
    0 for others."""

    longest_on_s: Annotated[float, Meta(ge=1, le=86_400)] | None = None
    """Longest time on without a pause; 86400 is no limit. Default: 900 for filling, drain and irrigation,
    which then rest for as long, valve_open_s for what raises CO2. Others rest for 60 s."""

    stale_after_s: Patience = 10.0
    """Without a newer command the output goes to its safe state after this time."""

    @property
    def own_variable(self) -> str:
        """The variable of its commands."""
        return self.variable or usual_variable(self.drives, self.direction)

    @property
    def role(self) -> Role | None:
        """What it does; None for a channel of the lamp. An auxiliary output does what it drives."""
        role = ROLES.get(self.own_variable)
        if role is None or not self.own_variable.startswith("auxiliary_"):
            return role
        return role_of(dict.fromkeys(self.drives, self.direction == "raises")) or role

    def is_a(self, *classes: OutputClass) -> bool:
        """Whether it has one of these classes for the interlocks."""
        return self.role is not None and self.role.output_class in classes

    @property
    def first_moved(self) -> tuple[str, str]:
        """The variable for which it is there, "" for none, and its direction."""
        role = self.role
        if role is not None and role.drives:
            return role.drives, "raises" if role.raises else "lowers"
        moved = [each for each in self.drives if each != self.own_variable]
        return (moved[0] if moved else ""), self.direction

    @property
    def effects(self) -> dict[str, bool]:
        """As `moved`, with that of its role in any case."""
        role = self.role
        usual = {role.drives: role.raises} if role is not None and role.drives else {}
        return self.moved | usual

    @property
    def unit(self) -> str:
        """The unit of its own variable."""
        known = VARIABLES.get(self.own_variable)
        return known.unit if known else ""

    @property
    def channel(self) -> str:
        """The channel of the lamp that it is, "" for another output."""
        return self.own_variable.removeprefix("light_intensity_") if self.role is None else ""

    @property
    def full(self) -> float:
        """The set point of full level, in the unit of its own variable: ml/h of a pump, else 1."""
        return 60 * (self.flow_ml_min or 0.0) if self.unit == "ml/h" else 1.0

    @property
    def moved(self) -> dict[str, bool]:
        """The variables that it moves, and whether it raises each; without `drives` the one of its role."""
        if not self.drives and self.role is not None and self.role.drives:
            return {self.role.drives: self.role.raises}
        return dict.fromkeys(self.drives, self.direction == "raises")

    @property
    def can_dim(self) -> bool:
        """Whether it takes levels between off and on."""
        is_dimmed = self.kind in DIMMED or (self.kind == "mqtt" and self.payload != "on_off")
        return is_dimmed and self.unit != "switch"

    @property
    def has_contacts(self) -> bool:
        """Whether it is switched by mechanical contacts, as the devices in the network are."""
        return self.kind == "relay" or (self.kind in IN_THE_NETWORK and not self.can_dim)

    @property
    def starts_rated(self) -> int | None:
        """The starts that its relay is rated for, None if starts do not wear it."""
        return CONTACT_STARTS if self.has_contacts else None

    @property
    def has_timer(self) -> bool:
        """Whether the device makes itself safe without growd. Tasmota's timer only switches off."""
        is_known = self.kind in IN_THE_NETWORK and self.protocol in WITH_TIMER
        return is_known and not (self.protocol == "tasmota" and self.safe == "on")

    @property
    def command_topics(self) -> tuple[str, ...]:
        """The topics at the broker on which growd publishes what switches it, none without MQTT."""
        if self.kind != "mqtt":
            return ()
        by_protocol = {
            "tasmota": f"cmnd/{self.topic}/POWER{self.relay_number + 1}",
            "shelly_gen2": f"{self.topic}/rpc",
        }
        return (by_protocol.get(self.protocol, self.topic),)

    @property
    def lease(self) -> Lease:
        """For how long a level holds in its device."""
        if self.kind in ON_A_PIN:
            return lease_of(self.role.output_class if self.role else OutputClass.LIGHT)
        return self._timed(TIMER_S if self.has_timer else None)

    def _timed(self, timer_s: float | None) -> Lease:
        """Of a device with a timer of its own, or none."""
        renewed_s = REPEAT_S if timer_s is None else timer_s / 4
        return Lease(timer_s or 4 * REPEAT_S, renewed_s, renews_safe=True)


class OwnOutput(Output, frozen=True):
    """An output of a kind of another package, with the options `own` that this kind declares."""

    own: dict[str, Any] = field(default_factory=dict)

    @property
    def can_dim(self) -> bool:
        return OWN_OUTPUTS[self.kind].can_dim and self.unit != "switch"

    @property
    def has_timer(self) -> bool:
        kind = OWN_OUTPUTS[self.kind]
        return kind.timer_s is not None or kind.takes_valid_s

    @property
    def lease(self) -> Lease:
        kind = OWN_OUTPUTS[self.kind]
        if kind.takes_valid_s:
            usual = lease_of(self.role.output_class if self.role else OutputClass.LIGHT)
            return max(usual, ON_A_BUS) if self.line else usual
        return self._timed(kind.timer_s)

    @property
    def line(self) -> str:
        """Its bus or serial port, which has one thread; "" for neither."""
        by_opening = {"i2c": f"i2c-{self.own.get('bus')}", "serial": str(self.own.get("port"))}
        return by_opening.get(OWN_OUTPUTS[self.kind].opens, "")

    @property
    def place(self) -> str:
        """Where it is, for people: "at 0x20 on I2C bus 1"; "" if only its driver knows."""
        if OWN_OUTPUTS[self.kind].opens == "i2c":
            return f"at {self.own['address']:#04x} on I2C bus {self.own['bus']}"
        return f"at {self.line}" if self.line else ""


def usual_variable(drives: tuple[str, ...], direction: str) -> str:
    """The own variable of an output that moves these variables, "" if there is none."""
    raises = direction == "raises"
    first = drives[0] if drives else ""
    if first in ROLES or first.startswith("light_intensity_"):
        return first
    if first == ILLUMINANCE:
        return "light_intensity_white"
    roles = (name for name, role in ROLES.items() if first and (role.drives, role.raises) == (first, raises))
    return next(roles, "")
