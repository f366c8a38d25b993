"""Checks across options: conflicts, and options that depend on others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from growd.config.camera_checks import faults_of_cameras
from growd.config.device_checks import device_inconsistencies
from growd.config.findings import Finding, at
from growd.config.mqtt import faults_of_mqtt
from growd.config.services import LEAST_DAYS, Simulator
from growd.config.web import is_http_address
from growd.config.web_checks import faults_of_web
from growd.runtime.text import without_login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.findings import Fault
    from growd.config.root import Config
    from growd.config.services import Replication

RESERVED: Final = frozenset(
    (
        "environments",  # older clients use this word for all environments
        # nodes of the daemon itself
        *("alerts", "chambers", "configuration", "database", "hold", "http", "log", "machine", "mqtt"),
        *("parts", "photos", "recipe_plans", "recorder", "replication", "retention", "rollups", "simulator"),
        *("status", "store"),
    )
)


def inconsistencies(config: Config) -> Iterator[Finding]:
    """Options that do not go together, in a file where each is valid by itself."""
    yield from _ids(config)
    yield from _intervals(config)
    yield from faults_of_mqtt(config.mqtt)
    yield from faults_of_cameras(config)
    yield from at(("couchdb",), _address(config.couchdb.url))
    yield from faults_of_web(config)
    if config.replication.url:
        yield from at(("replication",), _replication(config.replication))
    yield from _others(config)
    yield from device_inconsistencies(config)


def _ids(config: Config) -> Iterator[Finding]:
    first = config.environment.id
    for path in (("environment", "id"), *(("chamber", name) for name in config.chamber)):
        name = first if path[0] == "environment" else path[1]
        if name in RESERVED:
            yield Finding(path, f"{name} is reserved, choose another")
    if first in config.chamber:
        yield Finding(("chamber", first), "is the id of the first environment; choose another")


def _others(config: Config) -> Iterator[Finding]:
    known = config.chambers()
    for name in config.replication.environments:
        if name not in known:
            unknown = f"there is no environment {name}; there is {', '.join(known)}"
            yield Finding(("replication", "environments"), unknown)
    if 0 < config.retention.keep_days < LEAST_DAYS:
        reason = f"must be 0 or from {LEAST_DAYS:g}, got {config.retention.keep_days:g}"
        yield Finding(("retention", "keep_days"), reason)
    for option, ability in {
        "speed": "can run at another speed",
        "replay": "can replay a recording",
        "faults": "has faults from a file",
    }.items():
        is_usual = getattr(config.simulator, option) == getattr(Simulator(), option)
        if not config.simulator.enabled and not is_usual:
            yield Finding(("simulator", option), f"only simulated hardware {ability}")


def _intervals(config: Config) -> Iterator[Finding]:
    """The minimum interval of each variable must not be above its maximum."""
    places = [("", ()), *((name, ("variable", name)) for name in config.store.variable)]
    for name, place in places:
        rule = config.store.rule_of(name)
        minimum, maximum = rule.minimum_interval_s or 0, rule.maximum_interval_s or 0
        if minimum > maximum:
            path = ("store", *place, "minimum_interval_s")
            yield Finding(path, f"{minimum:g} is above maximum_interval_s, {maximum:g}")


def _replication(replication: Replication) -> Iterator[Fault]:
    faults = list(_address(replication.url))
    yield from faults
    if faults:
        return
    parts, shown = urlsplit(replication.url), without_login(replication.url)
    if parts.username is not None:
        yield "url", f"must not contain a login; put it into credentials_file: {shown}"
    if parts.query or parts.fragment:
        bare = shown.partition("?")[0].partition("#")[0]
        yield "url", f"must be the address of a server only: {bare}"
    if {replication.points, replication.events, replication.photos, replication.recipes} == {"off"}:
        yield "points", "is off, and so are events, photos and recipes; to copy nothing, remove url"
    if replication.ca_file and parts.scheme != "https":
        yield "ca_file", f"is for an https url, got {shown}"


def _address(url: str) -> Iterator[Fault]:
    """The address may hold a password, so the sentence shows it without the login."""
    if url and not is_http_address(url):
        yield "url", f"must be http://host:port or https://host:port, got {without_login(url)}"
    elif ":" in unquote(urlsplit(url).username or ""):  # it ends the user in Basic authentication (RFC 7617)
        yield "url", f"the user name cannot contain a colon, in {without_login(url)}"
