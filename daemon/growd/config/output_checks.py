"""Checks of outputs: options that do not go together, for [[output]]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import structs

from growd.config.chamber import chambers_of
from growd.config.findings import Finding, at, did_you_mean, of_other_kinds, once
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
from growd.config.web import is_http_address
from growd.output_roles import OutputClass, role_of
from growd.runtime.text import without_login
from growd.variables import ILLUMINANCE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.chamber import Chamber
    from growd.config.findings import Fault
    from growd.config.root import Config

_PORTS: Final = {"http": 80, "https": 443}

_NOT_OF_CHANNELS: Final = (
    *("needs", "flow_ml_min", "minimum_on_s", "minimum_off_s", "longest_on_s"),
    "stale_after_s",
)


def output_names(chamber: Chamber) -> Iterator[Finding]:
    """Outputs with the name of another device. The rest of the file may be wrong."""
    options = chamber.options
    yield from once(chamber.path("output"), "name", [output.name for output in options.output])
    others = {sensor.name for sensor in options.sensor} | {"light"}
    for path, output in chamber.all_by_path.items():
        if output.name in others:
            yield Finding((*path, "name"), f"{output.name} is the name of another device; choose another")


def output_faults(chamber: Chamber) -> Iterator[Finding]:
    """Options of outputs that do not go together, in a file where each is valid by itself."""
    for path, output in chamber.all_by_path.items():
        yield from at(path, _faults(chamber, output))
    yield from _channels(chamber)
    yield from _shared(chamber)


def _faults(chamber: Chamber, output: Output) -> Iterator[Fault]:
    unknown = [variable for variable in output.drives if variable not in VARIABLES]
    for variable in unknown:
        yield "drives", f"there is no variable {variable}{did_you_mean(variable)}"
    if not output.own_variable:
        yield from [] if unknown else [_not_derivable(output)]
        return
    yield from _of_kind(output)
    yield from _of_network(chamber, output)
    yield from _of_variables(output)
    yield from _of_role(output)
    if output.longest_on_s is not None and output.longest_on_s < output.minimum_on_s:
        yield "longest_on_s", f"{output.longest_on_s:g} is below minimum_on_s, {output.minimum_on_s:g}"
    yield from _unmeasured(chamber, output)


def _not_derivable(output: Output) -> Fault:
    if not output.drives:
        reason = f'is missing; say what {output.name} drives, such as ["air_temperature"], or set variable'
        return "drives", reason
    verb = "raises" if output.direction == "raises" else "lowers"
    reason = f"is missing; no output usually {verb} {output.drives[0]}, so set one, such as auxiliary_1"
    return "variable", reason


def _of_kind(output: Output) -> Iterator[Fault]:
    """A kind has its options, and no options of other kinds."""
    shared = {"may_stay_on"} if isinstance(output, OwnOutput) else set()
    of_others = {option: kinds for option, kinds in KINDS_WITH.items() if option not in shared}
    yield from of_other_kinds(output, of_others)
    if output.kind in ON_A_PIN and output.pin is None:
        yield "pin", f"is missing; {output.name} is on a pin"
    if output.kind == "hardware_pwm" and output.pin is not None and output.pin not in PWM_PINS:
        yield "pin", f"{output.name} has hardware PWM, which is for GPIO {', '.join(map(str, PWM_PINS))}"
    if output.kind == "pwm" and output.frequency_hz > SOFTWARE_PWM_HZ:
        reason = (
            f"{output.name} has software PWM, of at most {SOFTWARE_PWM_HZ:g} Hz; take a lower frequency, "
            'or kind = "hardware_pwm"'
        )
        yield "frequency_hz", reason
    if output.unit == "switch" and output.kind in ("pwm", "hardware_pwm"):
        reason = (
            f"{output.name} is for {output.own_variable}, which is only on or off; take "
            'kind = "relay", or "ssr" for a MOSFET board, or dim it with variable = "auxiliary_1"'
        )
        yield "kind", reason


def _of_network(chamber: Chamber, output: Output) -> Iterator[Fault]:
    """A device in the network has a place, and cannot stay on for ever if that is dangerous."""
    yield from _place(output)
    yield from _of_mqtt(chamber, output)
    if output.kind == "http" and output.url_on == output.url_off != "":
        yield "url_off", f"{output.name} has one address for on and off"
    if output.kind in ON_A_PIN or output.has_timer or output.may_stay_on or output.role is None:
        return
    if output.is_a(OutputClass.VALVE) or (output.kind in IN_THE_NETWORK and output.role.must_be_safe_off):
        reason = (
            f"{output.name} is a {output.role.name}, and nothing switches it off when growd or the network "
            "fails: take a pin, or a Shelly or Tasmota device, which has a timer; true accepts the risk"
        )
        yield "may_stay_on", reason


def _place(output: Output) -> Iterator[Fault]:
    addresses: tuple[str, ...] = ()
    if output.kind == "http":
        addresses = ("url_on", "url_off") if output.protocol == "plain" else ("url",)
    for option in (*addresses, *(["topic"] if output.kind == "mqtt" else [])):
        value = getattr(output, option)
        if not value:
            yield option, f"is missing; {output.name} is driven over {output.kind}"
        elif option == "topic" and (reason := fault_of_topic(value)):
            yield option, reason
        elif option in addresses and not (is_http_address(value) and "@" not in urlsplit(value).netloc):
            shown = without_login(value)
            yield option, f"must be an address such as http://192.168.1.40, without a login, got {shown}"
    for option in ("url", "url_on", "url_off"):
        if output.kind == "http" and option not in addresses and getattr(output, option):
            yield option, f'has no effect with protocol = "{output.protocol}"'


def _of_mqtt(chamber: Chamber, output: Output) -> Iterator[Fault]:
    if output.kind == "mqtt" and not chamber.config.mqtt.host and not chamber.config.simulator.enabled:
        yield "kind", "needs a broker: set host in [mqtt]"
    if output.kind == "mqtt" and output.protocol == "shelly_gen1":
        yield "protocol", "is for http; over mqtt take plain, with payloads on and off, which has no timer"
    if output.payload != "on_off" and (output.protocol != "plain" or output.unit == "switch"):
        yield "payload", f"{output.name} is only switched on and off"


def _of_variables(output: Output) -> Iterator[Fault]:
    """What it drives fits what it does."""
    for variable in output.drives:
        if variable in VARIABLES and VARIABLES[variable].is_output and variable != output.own_variable:
            yield "drives", f"{variable} is what another output does; name what {output.name} moves"
    role = output.role
    if role is None:
        for member in structs.fields(Output):  # which it has in [light], or not at all
            if member.name in _NOT_OF_CHANNELS and getattr(output, member.name) != member.default:
                yield member.name, f"has no effect, since {output.name} is a channel of the lamp; see [light]"
        if set(output.drives) - {ILLUMINANCE, output.own_variable}:
            yield "drives", f"{output.name} is a channel of the lamp, which drives {ILLUMINANCE} only"
        return
    others = [each for each in output.drives if each != output.own_variable]
    if not role.drives or not others:
        return
    if role.drives not in others and role.must_be_safe_off:
        yield "drives", f"{output.own_variable} is a {role.name}, which drives {role.drives}"
    elif role.drives in others and role.raises != (output.direction == "raises"):
        verb = "raises" if role.raises else "lowers"
        yield "direction", f"{output.own_variable} is a {role.name}, which {verb} {role.drives}"


def shared_devices(config: Config) -> Iterator[Finding]:
    """Outputs of any environment that drive one relay of a device, or publish on one topic."""
    taken: dict[tuple[str, ...], str] = {}
    for chamber in chambers_of(config):
        for path, output in chamber.all_by_path.items():
            place, name = _place_of(output), chamber.device(output.name)
            if place in taken:
                option = {"mqtt": "topic", "http": "url"}.get(output.kind, "kind")
                both = f"{taken[place]} and {name} are the same relay of one device"
                yield Finding((*path, option), both)
            if place:
                taken.setdefault(place, name)


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


def _of_role(output: Output) -> Iterator[Fault]:
    role = output.role
    yield from _of_another_role(output)
    if (role is None or role.must_be_safe_off) and output.safe == "on":
        name = role.name if role else "channel of the lamp"
        yield "safe", f"{output.name} is a {name}, which is safe when it is off"
    if output.unit == "ml/h" and output.flow_ml_min is None:
        yield "flow_ml_min", f"is missing; commands of {output.own_variable} are in ml/h"
    elif output.is_a(OutputClass.DOSING) and output.flow_ml_min is None:
        yield "flow_ml_min", f"is missing; {output.name} is a dosing pump, whose limits are volumes"
    if role is not None and output.mix != 1.0:
        yield "mix", f"is for a channel of the lamp, and {output.name} is a {role.name}"


def _of_another_role(output: Output) -> Iterator[Fault]:
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
            yield "variable", reason
            return


def _unmeasured(chamber: Chamber, output: Output) -> Iterator[Fault]:
    """An output that needs a variable which no sensor measures."""
    if output.needs and output.needs not in chamber.measured:
        yield "needs", f"{output.name} needs {output.needs}, which no sensor measures"
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
        yield "needs", reason


def _channels(chamber: Chamber) -> Iterator[Finding]:
    """Each channel of the lamp is one output."""
    taken = {channel.name: f"channel {channel.name} of [light]" for channel in chamber.light.channel}
    for path, output in chamber.channels_by_path.items():
        if output.channel in taken:
            both = f"{output.name} and {taken[output.channel]} are both the lamp's channel {output.channel}"
            yield Finding((*path, "variable"), both)
        taken.setdefault(output.channel, output.name)


def _shared(chamber: Chamber) -> Iterator[Finding]:
    """Outputs of one own variable have one controller, so its options are the same for all of them."""
    first: dict[str, Output] = {}
    for path, output in chamber.outputs_by_path.items():
        other = first.setdefault(output.own_variable, output)
        dosing = ("flow_ml_min",) if output.is_a(OutputClass.DOSING) else ()
        for option in ("drives", "direction", "safe", "needs", "can_dim", *dosing):
            if getattr(output, option) != getattr(other, option):
                both = f"{other.name} and {output.name} are both for {output.own_variable}"
                place = "kind" if option == "can_dim" else option
                yield Finding((*path, place), f"{both}, so they must agree")
