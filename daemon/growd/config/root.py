"""The whole configuration: what an environment has, and what the daemon has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from growd.config.alerts import AlertOptions, Notify
from growd.config.base import Name, Section
from growd.config.camera import Camera, PhotoOptions
from growd.config.conditions import Condition
from growd.config.control import DerivedOptions, FilterOptions, InterlockOptions, LightPlan, Recipe
from growd.config.devices import Light, Sensor
from growd.config.loops import LoopOptions
from growd.config.mqtt import Mqtt
from growd.config.outputs import Output
from growd.config.services import (
    Couchdb,
    Environment,
    Gpio,
    Http,
    MessageTypeName,
    Replication,
    Retention,
    SetPoints,
    Simulator,
    Store,
)
from growd.config.web import Access, Tls

if TYPE_CHECKING:
    from growd.config.findings import OptionPath


class ChamberOptions(Section, frozen=True):
    """Sections of one environment. A [light] section switches the lamp on."""

    environment: SetPoints = SetPoints()
    """Set points by hand."""

    sensor: tuple[Sensor, ...] = ()
    """The sensors."""

    light: Light = Light(enabled=False)
    """The lamp."""

    output: tuple[Output, ...] = ()
    """The outputs."""

    filter: FilterOptions = FilterOptions()
    """From raw values to measured values."""

    drift: dict[str, Annotated[float, Meta(gt=0)]] = msgspec.field(default_factory=dict)
    """How far the sensors of a variable may be apart, as the median of an hour, in its unit. By default twice
    the accuracy of usual sensors."""

    combine: dict[str, Literal["first", "median"]] = msgspec.field(default_factory=dict)
    """How to combine several sensors of one variable: "first" valid sensor in the file, or "median" of
    three and more."""

    derived: DerivedOptions = DerivedOptions()
    """Variables that growd calculates."""

    light_plan: LightPlan = LightPlan()
    """The day of a set point of light_daily_integral."""

    control: dict[Name, LoopOptions] = msgspec.field(default_factory=dict)
    """Control of single variables."""

    interlock: InterlockOptions = InterlockOptions()
    """Safety limits."""

    condition: tuple[Condition, ...] = ()
    """Interlocks of your own."""

    recipe: Recipe = Recipe()
    """Recipes."""

    camera: tuple[Camera, ...] = ()
    """The cameras."""


_SENSORS = (Sensor(name="scd30_1", kind="scd30"), Sensor(name="bh1750_1", kind="bh1750", interval_s=1.0))


class Config(ChamberOptions, frozen=True):
    """The whole file. Its sections of an environment belong to the first environment.

    Device names are unique within an environment. An I2C bus may have sensors of several environments.
    """

    environment: Environment = Environment()
    """The first environment."""

    http: Http = Http()
    """The front door."""

    access: Access = Access()
    """Who may use the API."""

    tls: Tls = Tls()
    """TLS at the front door."""

    couchdb: Couchdb = Couchdb()
    """The database."""

    replication: Replication = Replication()
    """Copies of points and recipes."""

    store: Store = Store()
    """What is stored, and when."""

    mqtt: Mqtt = Mqtt()
    """The MQTT broker of sensors, outputs, alerts and home automation."""

    retention: Retention = Retention()
    """How long points are kept."""

    photos: PhotoOptions = PhotoOptions()
    """The photos of cameras."""

    gpio: Gpio = Gpio()
    """The pins of the header."""

    simulator: Simulator = Simulator()
    """Simulated hardware."""

    sensor: tuple[Sensor, ...] = _SENSORS
    """The sensors of the first environment."""

    alert: tuple[AlertOptions, ...] = ()
    """Alert rules."""

    notify: tuple[Notify, ...] = ()
    """Channels for alerts."""

    topics: dict[str, MessageTypeName] = msgspec.field(default_factory=dict)
    """Further topics for clients, each with its message type. A value on `<environment>/measured/<name>` is
    stored as a data point."""

    chamber: dict[Name, ChamberOptions] = msgspec.field(default_factory=dict)
    """Further environments by their ids, each with the sections of a chamber beneath its own name, such as
    [[chamber.shelf_2.sensor]] and [chamber.shelf_2.light]."""

    def chambers(self) -> dict[str, ChamberOptions]:
        """What each environment has, by its id, the first (`environment.id`) first."""
        return {self.environment.id: self, **self.chamber}

    def path(self, environment: str, section: str) -> OptionPath:
        """The place of a section of an environment in the tree of the file."""
        return (section,) if environment == self.environment.id else ("chamber", environment, section)

    def place(self, environment: str, section: str) -> str:
        """A section of an environment as the file has it: "[light]", or "[chamber.shelf_2.light]"."""
        return f"[{'.'.join(map(str, self.path(environment, section)))}]"

    def device(self, environment: str, name: str) -> str:
        """The name of a device for a person, with its environment where there are several."""
        return f"{environment}/{name}" if self.chamber else name
