"""Checks across options: conflicts, and options that depend on others."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from growd.config.camera import faults_of_cameras
from growd.config.device_checks import device_inconsistencies
from growd.config.findings import Finding
from growd.config.mqtt import faults_of_mqtt
from growd.config.services import faults_of_retention
from growd.config.web import faults_of_access, faults_of_tls, faults_of_web
from growd.runtime.text import without_login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.root import Config
    from growd.config.services import Replication

"""docs.couchdb.org/en/3.5.x/api/database/common.html#put--db"""

RESERVED = frozenset(
    {
        "environments",  # older clients use this word for all environments
        *(
            "alerts",
            "chambers",
            "configuration",
            "database",
            "hold",
            "log",
            "http",
            "machine",
            "mqtt",
            "parts",
            "photos",
            "recorder",
            "replication",
            "retention",
            "rollups",
            "simulator",
        ),
        *("status", "store"),  # nodes of the daemon itself
    }
)


def inconsistencies(config: Config) -> Iterator[Finding]:
    """Options that do not go together, in a file where each is valid by itself."""
    yield from _ids(config)
    yield from _of_the_daemon(config)
    yield from device_inconsistencies(config)


def _ids(config: Config) -> Iterator[Finding]:
    for path, name in (
        (("environment", "id"), config.environment.id),
        *((("chamber", name), name) for name in config.chamber),
    ):
        if name in RESERVED:
            yield Finding(path, f"{name} is reserved, choose another")
    if config.environment.id in config.chamber:
        path = ("chamber", config.environment.id)
        yield Finding(path, "is the id of the first environment; choose another")


def _of_the_daemon(config: Config) -> Iterator[Finding]:
    yield from _intervals(config)
    yield from faults_of_mqtt(config.mqtt)
    yield from faults_of_retention(config.retention)
    yield from faults_of_cameras(config)
    yield from _address(config.couchdb.url, "couchdb")
    yield from faults_of_access(config.http.host, config.http.access, config.couchdb.url)
    yield from faults_of_web(config.http)
    yield from faults_of_tls(config.tls)
    known = config.chambers()
    for name in config.replication.environments:
        if name not in known:
            unknown = f"there is no environment {name}; there is {', '.join(known)}"
            yield Finding(("replication", "environments"), unknown)
    if config.replication.url:
        yield from _replication(config.replication)
    simulator = config.simulator
    if not simulator.enabled and simulator.speed != 1:
        yield Finding(("simulator", "speed"), "only simulated hardware can run at another speed")
    if not simulator.enabled and simulator.replay:
        yield Finding(("simulator", "replay"), "only simulated hardware can replay a recording")
    if not simulator.enabled and simulator.faults:
        yield Finding(("simulator", "faults"), "only simulated hardware has faults from a file")


def _intervals(config: Config) -> Iterator[Finding]:
    """The minimum interval of each variable must not be above its maximum."""
    places = [("", ()), *((name, ("variable", name)) for name in config.store.variable)]
    for name, place in places:
        rule = config.store.rule_of(name)
        minimum, maximum = rule.minimum_interval_s or 0, rule.maximum_interval_s or 0
        if minimum > maximum:
            path = ("store", *place, "minimum_interval_s")
            yield Finding(path, f"{minimum:g} is above maximum_interval_s, {maximum:g}")


def _replication(replication: Replication) -> Iterator[Finding]:
    where = "replication"
    faults = list(_address(replication.url, where))
    yield from faults
    if faults:
        return
    parts = urlsplit(replication.url)
    if parts.username is not None:
        shown = without_login(replication.url)
        reason = f"must not contain a login; put it into credentials_file: {shown}"
        yield Finding((where, "url"), reason)
    if parts.query or parts.fragment:
        shown = without_login(replication.url).partition("?")[0].partition("#")[0]
        reason = f"must be the address of a server only: {shown}"
        yield Finding((where, "url"), reason)
    if {replication.points, replication.events, replication.photos, replication.recipes} == {"off"}:
        reason = "is off, and so are events, photos and recipes; to copy nothing, remove url"
        yield Finding((where, "points"), reason)
    if replication.ca_file and parts.scheme != "https":
        yield Finding((where, "ca_file"), f"is for an https url, got {without_login(replication.url)}")


def _address(url: str, section: str) -> Iterator[Finding]:
    """The address may hold a password, so the sentence shows it without the login."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        user = unquote(parts.username or "")
    except ValueError:  # a port that is no number
        sound, user = False, ""
    if not sound:
        yield Finding(
            (section, "url"), f"must be http://host:port or https://host:port, got {without_login(url)}"
        )
    if ":" in user:  # which ends the user in Basic authentication (RFC 7617)
        reason = f"the user name cannot contain a colon, in {without_login(url)}"
        yield Finding((section, "url"), reason)
