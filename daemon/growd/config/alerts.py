"""The sections on alerts: what operators are told of (`[[alert]]`), and how (`[[notify]]`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from growd.config.base import Name, Port, Section
from growd.config.findings import Finding, of_other_kinds
from growd.config.web import without_login
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

Kind = Literal[
    "out_of_band",
    "set_point_missed",
    "no_value",
    "device_failed",
    "interlock",
    "recipe_ended",
    "recipe_stalled",
    "outbox",
    "database",
    "points_lost",
    "problem",
    "replication",
    "disk_full",
    "too_hot",
]


class Alert(Section, frozen=True):
    """One rule: what operators are told of.

    `out_of_band`: a measured variable is below or above its limits, or too far from its set point.
    `set_point_missed`: a variable that growd controls does not reach its set point, and why.
    `no_value`: nothing that can be believed is measured of it. `device_failed`, `interlock` (has tripped),
    `recipe_ended`, `recipe_stalled` (paused, or it does not go on). `outbox`: many points wait for the
    database. `database`: it takes none. `points_lost`: lost, refused, or not on the disk. `problem`: what
    `growd status` shows as failed and no other rule watches, such as a part of growd that keeps failing.
    `replication`: it fails. `disk_full`: that of the data folder. `too_hot`: the machine, or it is throttled
    or lacks power.
    """

    name: Name
    """What it is called, in messages and in what is kept of it."""

    kind: Kind
    """What it watches."""

    environment: str = ""
    """Only of this environment; without it of all."""

    variable: str = ""
    """Of `out_of_band`, `set_point_missed` and `no_value`: the variable; without it all, but for
    `out_of_band`."""

    device: str = ""
    """Of `device_failed` and `interlock`: only the device or interlock of this name; without it all."""

    below: float | None = None
    """Of `out_of_band`: told when the variable is below this, in its unit."""

    above: float | None = None
    """Of `out_of_band`: told when the variable is above this, in its unit."""

    deviation: Annotated[float, Meta(gt=0)] | None = None
    """Of `out_of_band`: told when the variable is further than this from its set point, in its unit."""

    hysteresis: Annotated[float, Meta(ge=0)] = 0.0
    """Of `out_of_band`: how far inside its limits it must be again for the end, in its unit."""

    points: Annotated[int, Meta(ge=1, le=100_000_000)] = 10_000
    """Of `outbox`: told when more than this wait."""

    free_mb: Annotated[float, Meta(ge=1, le=100_000_000)] = 500.0
    """Of `disk_full`: told when less than this is free."""

    above_degc: Annotated[float, Meta(ge=20, le=120)] = 80.0
    """Of `too_hot`: told when one of the machine's sensors is above this; a Raspberry Pi slows down at 80."""

    for_s: Annotated[float, Meta(ge=0, le=604_800)] = 60.0
    """For how long it must be so without a break before it is told."""

    repeat_s: Annotated[float, Meta(ge=0, le=2_592_000)] = 86_400.0
    """How often it is told again while it lasts; 0 is never."""

    severity: Literal["info", "warning", "critical"] = "warning"
    """How bad it is, in the words of the message."""

    channels: tuple[Name, ...] = ()
    """The names of the channels that tell it; without any, all of them."""


class Notify(Section, frozen=True):
    """One channel: how operators are told. Without a rule it tells of a set of them (docs/alerts.md).

    `webhook` posts JSON to `url`. `email` sends by the SMTP server `host`. `mqtt` publishes at the broker
    `host`, beneath `topic`.
    """

    name: Name
    """What it is called."""

    kind: Literal["webhook", "email", "mqtt"]
    """How it tells."""

    url: str = ""
    """Of a webhook: where to, http:// or https://."""

    secret_file: str = ""
    """Of a webhook: a file with a secret, with which each message is signed (HMAC-SHA256)."""

    token_file: str = ""
    """Of a webhook: a file with a token, sent as `Authorization: Bearer`."""

    host: str = ""
    """Of email and mqtt: the server."""

    port: Port = 0
    """Of email and mqtt: its port; 0 is the usual one (587, or 465 with tls; 1883, or 8883 with tls)."""

    security: Literal["starttls", "tls", "none"] = "starttls"
    """Of email and mqtt: the certificate is always checked. MQTT has no starttls and takes it for tls."""

    ca_file: str = ""
    """Certificate authorities (PEM) that the server's certificate must be good for; else the machine's."""

    user: str = ""
    """Of email and mqtt: who logs in; without one nobody does."""

    password_file: str = ""
    """Of email and mqtt: a file with the password. A name without a slash is one of systemd's credentials."""

    sender: str = ""
    """Of email: the address that it comes from."""

    recipients: tuple[Annotated[str, Meta(max_length=254)], ...] = ()
    """Of email: the addresses that it goes to."""

    topic: Annotated[str, Meta(min_length=1, max_length=200)] = "growd/{device}"
    """Of mqtt: `<topic>/alerts/event`, and retained `<topic>/alerts/open` and `<topic>/alerts/status`;
    {device} stands for the id of this device."""

    timeout_s: Annotated[float, Meta(ge=1, le=600)] = 30.0
    """How long one message may take, connecting included."""

    group_s: Annotated[float, Meta(ge=0, le=600)] = 5.0
    """What happens within this time is one message."""

    most_per_hour: Annotated[int, Meta(ge=1, le=3_600)] = 30
    """With more messages in an hour than this, what follows waits and is one message."""


_RULES_WITH: Final = {
    "variable": ("out_of_band", "set_point_missed", "no_value"),
    "device": ("device_failed", "interlock"),
    "below": ("out_of_band",),
    "above": ("out_of_band",),
    "deviation": ("out_of_band",),
    "hysteresis": ("out_of_band",),
    "points": ("outbox",),
    "free_mb": ("disk_full",),
    "above_degc": ("too_hot",),
    "environment": (
        "out_of_band",
        "set_point_missed",
        "no_value",
        "device_failed",
        "interlock",
        "recipe_ended",
        "recipe_stalled",
    ),
}
"""The options that not every kind of rule has."""

_CHANNELS_WITH: Final = {
    "url": ("webhook",),
    "secret_file": ("webhook",),
    "token_file": ("webhook",),
    "host": ("email", "mqtt"),
    "port": ("email", "mqtt"),
    "security": ("email", "mqtt"),
    "user": ("email", "mqtt"),
    "password_file": ("email", "mqtt"),
    "sender": ("email",),
    "recipients": ("email",),
    "topic": ("mqtt",),
}
"""The options that not every kind of channel has."""

DEFAULT_ALERTS: Final = (
    Alert(name="device-failed", kind="device_failed", for_s=120.0, severity="critical"),
    Alert(name="no-value", kind="no_value", for_s=900.0),
    Alert(name="set-point-missed", kind="set_point_missed", for_s=900.0),
    Alert(name="interlock", kind="interlock", for_s=0.0, severity="critical"),
    Alert(name="recipe-ended", kind="recipe_ended", for_s=0.0, severity="info"),
    Alert(name="recipe-stalled", kind="recipe_stalled", for_s=3_600.0),
    Alert(name="database", kind="database", for_s=1_800.0),
    Alert(name="points-lost", kind="points_lost", for_s=0.0, severity="critical"),
    Alert(name="problem", kind="problem", for_s=60.0, severity="critical"),
    Alert(name="replication", kind="replication", for_s=3_600.0),
    Alert(name="disk-full", kind="disk_full", for_s=120.0, severity="critical"),
    Alert(name="too-hot", kind="too_hot", for_s=120.0),
)
"""What is watched where there is a channel and no rule. What band a variable has only its operator knows."""


def faults_of_alerts(
    alerts: Sequence[Alert], channels: Sequence[Notify], measured: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    """What no single option can tell; `measured` has the variables that are, by environment."""
    yield from _faults_of_names("alert", alerts)
    yield from _faults_of_names("notify", channels)
    for index, channel in enumerate(channels):
        yield from of_other_kinds(("notify", index), channel, _CHANNELS_WITH)
        for option, reason in _faults_of_channel(channel):
            yield Finding(("notify", index, option), f"{channel.name}: {reason}")
    known = {channel.name for channel in channels}
    for index, alert in enumerate(alerts):
        yield from of_other_kinds(("alert", index), alert, _RULES_WITH)
        for option, reason in (*_faults_of_rule(alert, measured), *_faults_of_choice(alert, known)):
            yield Finding(("alert", index, option), f"{alert.name}: {reason}")


def _faults_of_names(section: str, entries: Sequence[Alert | Notify]) -> Iterator[Finding]:
    names = [entry.name for entry in entries]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Finding((section, index, "name"), f"{name} is given twice")


def _faults_of_choice(alert: Alert, known: Collection[str]) -> Iterator[tuple[str, str]]:
    for name in alert.channels:
        if name not in known:
            yield "channels", f"there is no channel {name}; there is {', '.join(sorted(known)) or 'none'}"


def _faults_of_rule(alert: Alert, measured: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    if alert.environment and alert.environment not in measured:
        yield "environment", f"there is no {alert.environment}; there is {', '.join(measured)}"
        return
    if alert.kind == "out_of_band":
        yield from _faults_of_band(alert)
    if not alert.variable:
        return
    if alert.variable not in VARIABLES:
        yield "variable", f"{alert.variable} is not known; known are {', '.join(VARIABLES)}"
        return
    places = [alert.environment] if alert.environment else list(measured)
    if not any(alert.variable in measured[place] for place in places):
        yield "variable", f"no sensor measures {alert.variable} in {', '.join(places)}"


def _faults_of_band(alert: Alert) -> Iterator[tuple[str, str]]:
    if not alert.variable:
        yield "variable", "is missing"
    if alert.below is None and alert.above is None and alert.deviation is None:
        yield "below", "is missing; out_of_band takes below, above or deviation"
    if alert.below is not None and alert.above is not None and alert.below >= alert.above:
        yield "below", f"{alert.below:g} is not less than above, {alert.above:g}"
    elif alert.below is not None and alert.above is not None:
        width = alert.above - alert.below
        if 2 * alert.hysteresis >= width:
            yield "hysteresis", f"{alert.hysteresis:g} leaves nothing of the band, {width:g} wide"
    if alert.deviation is not None and alert.hysteresis >= alert.deviation:
        yield "hysteresis", f"{alert.hysteresis:g} is not less than deviation, {alert.deviation:g}"


def _faults_of_channel(channel: Notify) -> Iterator[tuple[str, str]]:
    if channel.kind == "webhook":
        yield from _faults_of_url(channel.url)
        return
    if not channel.host:
        yield "host", "is missing"
    if channel.password_file and not channel.user:
        yield "password_file", "is of no use without a user"
    if channel.kind == "mqtt":
        if set("#+\0") & set(channel.topic) or channel.topic.startswith("$"):
            yield "topic", f"has no #, + or $ at its begin, got {channel.topic!r}"
        return
    for option, addresses in (("sender", (channel.sender,)), ("recipients", channel.recipients or ("",))):
        for address in addresses:
            if not _is_address(address):
                yield option, f"is an address such as grower@example.org, got {address!r}"


def _faults_of_url(url: str) -> Iterator[tuple[str, str]]:
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        yield "url", "must be http://host or https://host, with a path where there is one"
        return
    if parts.username is not None:
        yield "url", "a login does not stand in the address; see token_file"
    elif not is_sound:
        shown = without_login(url)
        yield "url", f"must be http://host or https://host, with a path where there is one, got {shown!r}"


def _is_address(text: str) -> bool:
    name, at, domain = text.rpartition("@")
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(' <>,;:"()[]\\')
    return bool(name and at and domain) and is_plain
