"""Checks of outputs: options that do not go together, for [[output]]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import structs

from growd.config.chamber import chambers_of
from growd.config.findings import Finding, of_other_kinds, once
from growd.config.mqtt import fault_of_topic
from growd.config.outputs import (
    IN_THE_NETWORK,
    KINDS_WITH,
    ON_A_PIN,
    PWM_PINS,
    SOFTWARE_PWM_HZ,
    Output,
    OwnOutput,
)
from growd.output_roles import OutputClass, role_of
from growd.runtime.text import without_login
from growd.variables import ILLUMINANCE, VARIABLES, similar_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.chamber import Chamber
    from growd.config.findings import OptionPath
    from growd.config.root import Config


_PORTS: Final = {"http": 80, "https": 443}

_NOT_OF_CHANNELS: Final = (
    *("needs", "flow_ml_min", "minimum_on_s", "minimum_off_s", "longest_on_s"),
    *("minimum_cycle_s", "stale_after_s", "override_s"),
)


def output_names(chamber: Chamber) -> Iterator[Finding]:
    """Outputs with the name of another device. The rest of the file may be wrong."""
    options = chamber.options
    yield from once(chamber.path("output"), "name", [output.name for output in options.output])
    sensors = {sensor.name for sensor in options.sensor} | {"light"}
    for path, output in (chamber.outputs_by_path | chamber.channels_by_path).items():
        if output.name in sensors:
            reason = f"{output.name} is the name of another device; choose another"
            yield Finding((*path, "name"), reason)


def output_faults(chamber: Chamber) -> Iterator[Finding]:
    """Options of outputs that do not go together, in a file where each is valid by itself."""
    for path, output in (chamber.outputs_by_path | chamber.channels_by_path).items():
        unknown = [*_unknown(path, output)]
        yield from unknown
        if not output.own_variable:
            yield from [] if unknown else [_not_derivable(path, output)]
            continue
        yield from _of_kind(path, output)
        yield from _of_network(chamber, path, output)
        yield from _of_variables(path, output)
        yield from _of_role(path, output)
        yield from _of_limits(path, output)
        yield from _unmeasured(chamber, path, output)
    yield from _channels(chamber)
    yield from _shared(chamber)


def _unknown(path: OptionPath, output: Output) -> Iterator[Finding]:
    for variable in output.drives:
        if variable not in VARIABLES:
            meant = similar_variable(variable)
            reason = f"there is no variable {variable}" + (f"; did you mean {meant}?" if meant else "")
            yield Finding((*path, "drives"), reason)


def _not_derivable(path: OptionPath, output: Output) -> Finding:
    if not output.drives:
        reason = f'is missing; say what {output.name} drives, such as ["air_temperature"], or set variable'
        return Finding((*path, "drives"), reason)
    verb = "raises" if output.direction == "raises" else "lowers"
    reason = f"is missing; no output usually {verb} {output.drives[0]}, so set one, such as auxiliary_1"
    return Finding((*path, "variable"), reason)


def _of_kind(path: OptionPath, output: Output) -> Iterator[Finding]:
    """A kind has its options, and no options of other kinds."""
    shared = {"may_stay_on"} if isinstance(output, OwnOutput) else set()
    of_others = {option: kinds for option, kinds in KINDS_WITH.items() if option not in shared}
    yield from of_other_kinds(path, output, of_others)
    if output.kind in ON_A_PIN and output.pin is None:
        reason = f"is missing; {output.name} is on a pin"
        yield Finding((*path, "pin"), reason)
    if output.kind == "hardware_pwm" and output.pin is not None and output.pin not in PWM_PINS:
        pins = ", ".join(map(str, PWM_PINS))
        yield Finding((*path, "pin"), f"{output.name} has hardware PWM, which is for GPIO {pins}")
    if output.kind == "pwm" and output.frequency_hz > SOFTWARE_PWM_HZ:
        reason = (
            f"{output.name} has software PWM, of at most {SOFTWARE_PWM_HZ:g} Hz; take a lower frequency, "
            'or kind = "hardware_pwm"'
        )
        yield Finding((*path, "frequency_hz"), reason)
    if output.unit == "switch" and output.kind in ("pwm", "hardware_pwm"):
        reason = (
            f"{output.name} is for {output.own_variable}, which is only on or off; take "
            'kind = "relay", or "ssr" for a MOSFET board, or dim it with variable = "auxiliary_1"'
        )
        yield Finding((*path, "kind"), reason)


def _of_network(chamber: Chamber, path: OptionPath, output: Output) -> Iterator[Finding]:
    """A device in the network has a place, and cannot stay on for ever if that is dangerous."""
    yield from _place(path, output)
    yield from _of_mqtt(chamber, path, output)
    if output.kind == "http" and output.url_on == output.url_off != "":
        yield Finding((*path, "url_off"), f"{output.name} has one address for on and off")
    if output.kind in ON_A_PIN or output.has_timer or output.may_stay_on or output.role is None:
        return
    if output.is_a(OutputClass.VALVE) or (output.kind in IN_THE_NETWORK and output.role.must_be_safe_off):
        reason = (
            f"{output.name} is a {output.role.name}, and nothing switches it off when growd or the network "
            "fails: take a pin, or a Shelly or Tasmota device, which has a timer; true accepts the risk"
        )
        yield Finding((*path, "may_stay_on"), reason)


def _place(path: OptionPath, output: Output) -> Iterator[Finding]:
    needed: tuple[str, ...] = ()
    if output.kind == "http":
        needed = ("url_on", "url_off") if output.protocol == "plain" else ("url",)
    elif output.kind == "mqtt":
        needed = ("topic",)
    for option in needed:
        value = getattr(output, option)
        if not value:
            yield Finding((*path, option), f"is missing; {output.name} is driven over {output.kind}")
        elif option == "topic" and (reason := fault_of_topic(value)):
            yield Finding((*path, option), reason)
        elif option != "topic" and not _is_address(value):
            shown = without_login(value)
            reason = f"must be an address such as http://192.168.1.40, without a login, got {shown}"
            yield Finding((*path, option), reason)
    for option in ("url", "url_on", "url_off"):
        if output.kind == "http" and option not in needed and getattr(output, option):
            yield Finding((*path, option), f'has no effect with protocol = "{output.protocol}"')


def _of_mqtt(chamber: Chamber, path: OptionPath, output: Output) -> Iterator[Finding]:
    if output.kind == "mqtt" and not chamber.config.mqtt.host and not chamber.config.simulator.enabled:
        yield Finding((*path, "kind"), "needs a broker: set host in [mqtt]")
    if output.kind == "mqtt" and output.protocol == "shelly_gen1":
        reason = "is for http; over mqtt take plain, with payloads on and off, which has no timer"
        yield Finding((*path, "protocol"), reason)
    if output.payload != "on_off" and (output.protocol != "plain" or output.unit == "switch"):
        reason = f"{output.name} is only switched on and off"
        yield Finding((*path, "payload"), reason)


def _is_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def _of_variables(path: OptionPath, output: Output) -> Iterator[Finding]:
    """What it drives fits what it does."""
    for variable in output.drives:
        if variable in VARIABLES and VARIABLES[variable].is_output and variable != output.own_variable:
            reason = f"{variable} is what another output does; name what {output.name} moves"
            yield Finding((*path, "drives"), reason)
    role = output.role
    if role is None:
        yield from _without_effect(path, output)
        if set(output.drives) - {ILLUMINANCE, output.own_variable}:
            reason = f"{output.name} is a channel of the lamp, which drives {ILLUMINANCE} only"
            yield Finding((*path, "drives"), reason)
        return
    others = [each for each in output.drives if each != output.own_variable]
    if not role.drives or not others:
        return
    if role.drives not in others and role.must_be_safe_off:
        reason = f"{output.own_variable} is a {role.name}, which drives {role.drives}"
        yield Finding((*path, "drives"), reason)
    elif role.drives in others and role.raises != (output.direction == "raises"):
        verb = "raises" if role.raises else "lowers"
        reason = f"{output.own_variable} is a {role.name}, which {verb} {role.drives}"
        yield Finding((*path, "direction"), reason)


def _without_effect(path: OptionPath, output: Output) -> Iterator[Finding]:
    """Options that a channel of the lamp has in [light], or not at all."""
    for member in structs.fields(Output):
        if member.name in _NOT_OF_CHANNELS and getattr(output, member.name) != member.default:
            reason = f"has no effect, since {output.name} is a channel of the lamp; see [light]"
            yield Finding((*path, member.name), reason)


def shared_devices(config: Config) -> Iterator[Finding]:
    """Outputs of any environment that drive one relay of a device, or publish on one topic."""
    taken: dict[tuple[str, ...], str] = {}
    for chamber in chambers_of(config):
        for path, output in (chamber.outputs_by_path | chamber.channels_by_path).items():
            place = _place_of(output)
            if place in taken:
                reason = f"{taken[place]} and {chamber.device(output.name)} are the same relay of one device"
                option = {"mqtt": "topic", "http": "url"}.get(output.kind, "kind")
                yield Finding((*path, option), reason)
            if place:
                taken.setdefault(place, chamber.device(output.name))


def _place_of(output: Output) -> tuple[str, ...]:
    if isinstance(output, OwnOutput) and "port" in output.own:
        return (str(output.own["port"]),)
    if output.kind == "http":
        plain = output.protocol == "plain"
        address = _same_address(output.url_on if plain else output.url)
        return (address,) if plain else (address, str(output.relay_number))
    if output.kind == "mqtt":
        return (output.topic, "" if output.protocol == "plain" else str(output.relay_number))
    return ()


def _same_address(address: str) -> str:
    """One spelling of an address: HTTP://plug:80/ is http://plug."""
    try:
        parts = urlsplit(address)
        port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    except ValueError:
        return address
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}{query}"


def _of_role(path: OptionPath, output: Output) -> Iterator[Finding]:
    role = output.role
    yield from _of_another_role(path, output)
    if (role is None or role.must_be_safe_off) and output.safe == "on":
        name = role.name if role else "channel of the lamp"
        yield Finding((*path, "safe"), f"{output.name} is a {name}, which is safe when it is off")
    if output.unit == "ml/h" and output.flow_ml_min is None:
        reason = f"is missing; commands of {output.own_variable} are in ml/h"
        yield Finding((*path, "flow_ml_min"), reason)
    elif output.is_a(OutputClass.DOSING) and output.flow_ml_min is None:
        reason = f"is missing; {output.name} is a dosing pump, whose limits are volumes"
        yield Finding((*path, "flow_ml_min"), reason)
    if role is not None and output.mix != 1.0:
        yield Finding((*path, "mix"), f"is for a channel of the lamp, and {output.name} is a {role.name}")


def _of_another_role(path: OptionPath, output: Output) -> Iterator[Finding]:
    """An output that does what heaters, valves or dosing pumps do, and has neither their role nor its own."""
    role = output.role
    if role is None or role.must_be_safe_off:
        return
    for variable, raises in output.moved.items():
        other = role_of({variable: raises})
        if other and other.must_be_safe_off and (raises or other.output_class is OutputClass.DOSING):
            verb = "raises" if raises else "lowers"
            reason = (
                f"{output.own_variable} is a {role.name}, and {output.name} {verb} {variable} as a "
                f"{other.name}, whose interlocks it would not have; remove variable, or set auxiliary_1"
            )
            yield Finding((*path, "variable"), reason)
            return


def _of_limits(path: OptionPath, output: Output) -> Iterator[Finding]:
    """The limits of an output leave it something to do."""
    if output.longest_on_s is not None and output.longest_on_s < output.minimum_on_s:
        reason = f"{output.longest_on_s:g} is below minimum_on_s, {output.minimum_on_s:g}"
        yield Finding((*path, "longest_on_s"), reason)


def _unmeasured(chamber: Chamber, path: OptionPath, output: Output) -> Iterator[Finding]:
    """An output that needs a variable which no sensor measures."""
    if output.needs and output.needs not in chamber.measured:
        reason = f"{output.name} needs {output.needs}, which no sensor measures"
        yield Finding((*path, "needs"), reason)
    role = output.role
    if output.needs is None and role is not None and role.needs and role.needs not in chamber.measured:
        if output.is_a(OutputClass.VALVE):
            what, risk = "a valve for CO2, which", "valve may open"
        else:
            what, risk = f"a {role.name}, and needs {role.needs}, which", f"{role.name} may be on"
        reason = (
            f'{output.name} is {what} no sensor measures; add a [[sensor]] for it, or set needs = "" if '
            f"the {risk} without a sensor"
        )
        yield Finding((*path, "needs"), reason)


def _channels(chamber: Chamber) -> Iterator[Finding]:
    """Each channel of the lamp is one output."""
    taken = {channel.name: f"channel {channel.name} of [light]" for channel in chamber.light.channel}
    for path, output in chamber.channels_by_path.items():
        if output.channel in taken:
            reason = f"{output.name} and {taken[output.channel]} are both the lamp's channel {output.channel}"
            yield Finding((*path, "variable"), reason)
        taken.setdefault(output.channel, output.name)


def _shared(chamber: Chamber) -> Iterator[Finding]:
    """Outputs of one own variable have one controller, so its options are the same for all of them."""
    first: dict[str, Output] = {}
    for path, output in chamber.outputs_by_path.items():
        other = first.setdefault(output.own_variable, output)
        dosing = ("flow_ml_min",) if output.is_a(OutputClass.DOSING) else ()
        for option in ("drives", "direction", "safe", "needs", "can_dim", "override_s", *dosing):
            if getattr(output, option) != getattr(other, option):
                both = f"{other.name} and {output.name} are both for {output.own_variable}"
                place = "kind" if option == "can_dim" else option
                yield Finding((*path, place), f"{both}, so they must agree")
