"""Whether alert rules and channels go together with the rest of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.config.chamber import chambers_of
from growd.config.findings import Finding, at, beyond_range, did_you_mean, of_other_kinds, once
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from growd.config.alerts import AlertOptions, Notify
    from growd.config.findings import Fault
    from growd.config.root import Config

_OF_VARIABLES: Final = ("out_of_band", "set_point_missed", "no_value", "sensors_apart")
_OF_DEVICES: Final = ("device_failed", "interlock", "not_confirmed", "calibration_due")
_RULES_WITH: Final = {
    "variable": _OF_VARIABLES,
    "device": _OF_DEVICES,
    **dict.fromkeys(("below", "above", "deviation"), ("out_of_band",)),
    "environment": (*_OF_VARIABLES, *_OF_DEVICES, "recipe_ended", "recipe_stalled"),
}
"""Options of some kinds of rules only."""


def faults_of_alerts(config: Config) -> Iterator[Finding]:
    """What is invalid in rules and channels beyond single options."""
    measured = {chamber.environment: chamber.known for chamber in chambers_of(config)}
    yield from once(("alert",), "name", [each.name for each in config.alert])
    yield from once(("notify",), "name", [each.name for each in config.notify])
    for index, channel in enumerate(config.notify):
        for option, reason in _faults_of_channel(channel, config.mqtt.host):
            yield Finding(("notify", index, option), f"{channel.name}: {reason}")
    known = {channel.name for channel in config.notify}
    for index, alert in enumerate(config.alert):
        yield from at(("alert", index), of_other_kinds(alert, _RULES_WITH))
        for option, reason in (*_faults_of_rule(alert, measured), *_faults_of_choice(alert, known)):
            yield Finding(("alert", index, option), f"{alert.name}: {reason}")


def _faults_of_choice(alert: AlertOptions, known: Collection[str]) -> Iterator[Fault]:
    there = f"there is {', '.join(sorted(known))}" if known else "add it as [[notify]]"
    for name in alert.channels:
        if name not in known:
            yield "channels", f"there is no channel {name}; {there}"


def _faults_of_rule(alert: AlertOptions, measured: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    if alert.environment and alert.environment not in measured:
        yield "environment", f"there is no {alert.environment}; there is {', '.join(measured)}"
        return
    if alert.kind == "out_of_band":
        yield from _faults_of_band(alert)
    if not alert.variable:
        return
    if alert.variable not in VARIABLES:
        yield "variable", f"there is no variable {alert.variable}{did_you_mean(alert.variable)}"
        return
    places = [alert.environment] if alert.environment else list(measured)
    if not any(alert.variable in measured[place] for place in places):
        yield "variable", f"no sensor measures {alert.variable} in {', '.join(places)}"


def _faults_of_band(alert: AlertOptions) -> Iterator[Fault]:
    if not alert.variable:
        yield "variable", "is missing"
    if alert.below is None and alert.above is None and alert.deviation is None:
        yield "below", "is missing; out_of_band takes below, above or deviation"
    if alert.below is not None and alert.above is not None and alert.below >= alert.above:
        yield "below", f"{alert.below:g} is not less than above, {alert.above:g}"
    yield from beyond_range(alert.variable, above=alert.above, below=alert.below)


def _faults_of_channel(channel: Notify, broker: str) -> Iterator[Fault]:
    if channel.kind == "apprise" and not channel.url_file:
        yield "url_file", "is missing"
    if channel.kind == "mqtt":
        if not broker:
            yield "kind", "needs a broker: set host in [mqtt]"
        for option in ("url_file", "ca_file"):
            if getattr(channel, option):
                yield option, "has no effect with the kind mqtt"
