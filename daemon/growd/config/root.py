"""The whole configuration: what an environment has, and what the daemon has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from growd.config.access import Access
from growd.config.alerts import Alert, Notify
from growd.config.base import Name, Section
from growd.config.control import CarbonDioxide, FilterOptions, InterlockOptions, Recipe
from growd.config.devices import Light, RelayOptions, Sensor
from growd.config.services import (
    Couchdb,
    Environment,
    Http,
    MessageTypeName,
    Replication,
    SetPoints,
    Simulator,
    Store,
)
from growd.config.tls import Tls

if TYPE_CHECKING:
    from growd.config.findings import Path


class ChamberOptions(Section, frozen=True):
    """All that belongs to one environment. A `light` that is mentioned is there."""

    environment: SetPoints = SetPoints()
    """Set points by hand."""

    sensor: tuple[Sensor, ...] = ()
    """The sensors."""

    light: Light = Light(enabled=False)
    """The lamp."""

    relay: tuple[RelayOptions, ...] = ()
    """The relays."""

    filter: FilterOptions = FilterOptions()
    """From raw values to measured ones."""

    combine: dict[str, Literal["first", "median"]] = msgspec.field(default_factory=dict)
    """What a variable is that several sensors measure: what the first of them in the file says that can be
    believed, or the median of those (which takes three: of two nobody can tell who lies)."""

    carbon_dioxide: CarbonDioxide = CarbonDioxide()
    """Control of CO2."""

    interlock: InterlockOptions = InterlockOptions()
    """What nobody passes."""

    recipe: Recipe = Recipe()
    """Recipes."""


_SENSORS = (
    Sensor(name="scd30_1", kind="scd30"),
    Sensor(name="bh1750_1", kind="bh1750", interval_s=1.0),
)


class Config(ChamberOptions, frozen=True):
    """The whole file, whose sections of a chamber are those of the first environment.

    Device names are unique within an environment; an I2C bus may have sensors of several.
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

    simulator: Simulator = Simulator()
    """Simulated hardware."""

    sensor: tuple[Sensor, ...] = _SENSORS
    """The sensors of the first environment."""

    alert: tuple[Alert, ...] = ()
    """What operators are told of."""

    notify: tuple[Notify, ...] = ()
    """How operators are told."""

    topics: dict[str, MessageTypeName] = msgspec.field(default_factory=dict)
    """Further topics on which clients may publish, each with its message type. A value on
    `<environment>/measured/<name>` is stored as a data point."""

    chamber: dict[Name, ChamberOptions] = msgspec.field(default_factory=dict)
    """Further environments by their ids, each with the sections of a chamber beneath its own name, such as
    [[chamber.shelf_2.sensor]] and [chamber.shelf_2.light]."""

    def chambers(self) -> dict[str, ChamberOptions]:
        """What each environment has, by its id, the first (`environment.id`) first."""
        return {self.environment.id: self, **self.chamber}

    def path(self, environment: str, section: str) -> Path:
        """The place of a section of an environment in the tree of the file."""
        return (section,) if environment == self.environment.id else ("chamber", environment, section)

    def place(self, environment: str, section: str) -> str:
        """A section of an environment as the file has it: "[light]", or "[chamber.shelf_2.light]"."""
        return f"[{'.'.join(map(str, self.path(environment, section)))}]"

    def device(self, environment: str, name: str) -> str:
        """The name of a device for a person, with its environment where there are several."""
        return f"{environment}/{name}" if self.chamber else name
