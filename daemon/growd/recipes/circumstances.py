"""What a run's record says about its chamber: growd's version, the configuration and the calibrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd import __version__
from growd.bus.errors import UnknownNameError

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.config import Config

OF_ENVIRONMENT: Final = (
    "sensor",
    "light",
    "output",
    "filter",
    "drift",
    "combine",
    "derived",
    "light_plan",
    "control",
    "interlock",
    "condition",
    "recipe",
)
"""Sections of an environment that are recorded."""

NOT_RECORDED: Final = frozenset({"url", "url_on", "url_off", "user", "password_file", "own"})
"""Options of devices that have an address or a login, or may have one."""

OF_DAEMON: Final = ("store", "simulator")
"""Sections of the daemon that are recorded. The others have addresses and logins, and no effect on plants."""

_COUNTERS: Final = ("variable", "since", "cycles", "on_s", "energy_kwh", "volume_l")


def circumstances(config: Config, bus: Bus, environment: str) -> dict[str, Any]:
    """The members `growd`, `configuration`, `calibrations` and `counters` of a run's record, as JSON.

    `self_test` is the last one of the outputs, if there was one.
    """
    last = _detail(bus, f"{environment}/self_test", "last")
    return {
        "growd": __version__,
        "configuration": configuration_of(config, environment),
        "calibrations": calibrations_of(bus, environment),
        "counters": counters_of(bus, environment),
        **({"self_test": last} if last else {}),
    }


def configuration_of(config: Config, environment: str) -> dict[str, Any]:
    """The options in force for an environment, by section, with the defaults and without any secret."""
    options = config.chambers()[environment]
    rules = [rule for rule in config.alert if rule.environment in {"", environment}]
    sections = {
        "environment": {
            "id": environment,
            "time_zone": config.environment.time_zone,
            "keep_set_points": options.environment.keep_set_points,
        },
        **{name: getattr(options, name) for name in OF_ENVIRONMENT},
        **{name: getattr(config, name) for name in OF_DAEMON},
        "alert": rules,
    }
    return {name: _recordable(msgspec.to_builtins(section)) for name, section in sections.items()}


def calibrations_of(bus: Bus, environment: str) -> dict[str, Any]:
    """The parameters of an environment that people and experiments set, and calibrations of CO2 sensors.

    `parameters` are by their names without the environment: gains, dead bands, the light curve, weights of
    filters. `sensors` has for each calibrated sensor the line that maps its reading to the uncalibrated one.
    """
    prefix = f"{environment}/"
    declared = (
        bus.parameters.declared(name) for name in bus.parameters.declared_names() if name.startswith(prefix)
    )
    parameters = {
        each.name.removeprefix(prefix): each.value
        for each in declared
        if each is not None and not each.read_only
    }
    sensors = _detail(bus, f"{environment}/interlocks", "calibrations") or {}
    return {"parameters": parameters, "sensors": sensors}


def counters_of(bus: Bus, environment: str) -> dict[str, dict[str, Any]]:
    """The counters of the outputs of an environment, by output."""
    return {
        each["name"]: {name: each[name] for name in _COUNTERS} for each in counted_outputs(bus, environment)
    }


def counted_outputs(bus: Bus, environment: str) -> list[dict[str, Any]]:
    """The counters of the outputs of an environment, and how they are rated (see `OutputCounters`)."""
    return _detail(bus, f"{environment}/outputs", "outputs") or []


def _detail(bus: Bus, node: str, name: str) -> Any:
    """A detail of a node, None if there is none."""
    try:
        return bus.find_node(node).detail(name)
    except (UnknownNameError, KeyError):
        return None


def _recordable(value: Any) -> Any:
    """TOML has no null: an option without a value is left out, as are those of `NOT_RECORDED`."""
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if each is not None and name not in NOT_RECORDED}
        return {name: _recordable(each) for name, each in kept.items()}
    return [_recordable(each) for each in value] if isinstance(value, list | tuple) else value
