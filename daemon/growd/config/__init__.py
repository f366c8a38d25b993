"""Configuration: one TOML file, and what stands above it, into frozen structs.

Each option stands with its type, range, default and what it means in `services`, `devices`, `control` and the
modules of their names; `root` puts them together.
"""

from growd.config.chamber import Chamber, chambers_of
from growd.config.control import DerivedOptions, FilterOptions, InterlockOptions, LightPlan, Recipe
from growd.config.devices import ChannelOptions, Light, Sensor
from growd.config.findings import ConfigError, Finding, Source
from growd.config.outputs import Output
from growd.config.reading import load, load_outputs
from growd.config.root import ChamberOptions, Config
from growd.config.services import (
    Couchdb,
    Environment,
    Http,
    MessageTypeName,
    Replication,
    Retention,
    Simulator,
    StorageRuleOptions,
    Store,
)
from growd.config.web import Access

__all__ = [
    "Access",
    "Chamber",
    "ChamberOptions",
    "ChannelOptions",
    "Config",
    "ConfigError",
    "Couchdb",
    "DerivedOptions",
    "Environment",
    "FilterOptions",
    "Finding",
    "Http",
    "InterlockOptions",
    "Light",
    "LightPlan",
    "MessageTypeName",
    "Output",
    "Recipe",
    "Replication",
    "Retention",
    "Sensor",
    "Simulator",
    "Source",
    "StorageRuleOptions",
    "Store",
    "chambers_of",
    "load",
    "load_outputs",
]
