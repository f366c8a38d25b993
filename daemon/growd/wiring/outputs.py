"""Lamps and outputs as configured: how each is opened, checked and closed."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from growd.config import ConfigError, chambers_of
from growd.config.outputs import ON_A_PIN, TIMER_S, OwnOutput
from growd.config.secrets import read_line
from growd.device_kinds import OWN_OUTPUTS
from growd.wiring.own_drivers import OwnOutputDriver
from growd_drivers.errors import DriverError, SettingError
from growd_drivers.hardware_pwm import channels_on
from growd_drivers.network_switch import (
    ON_FROM,
    DeviceLogin,
    HttpSwitch,
    MqttOutput,
    ShellyGen1,
    ShellyGen2,
    Tasmota,
    TwoAddresses,
    shelly_messages,
    tasmota_messages,
)
from growd_drivers.pin_output import PinOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd import config
    from growd.config import Chamber
    from growd_drivers.hardware import Hardware
    from growd_drivers.network_switch import AskHttp, SwitchProtocol


_USER: Final = "admin"
"""The user of a Shelly (HTTP authentication of Gen1 and Gen2 devices) and of Tasmota (WebPassword)."""

_PROTOCOLS: Final[dict[str, Callable[[str, int], SwitchProtocol]]] = {
    "shelly_gen1": ShellyGen1,
    "shelly_gen2": ShellyGen2,
    "tasmota": Tasmota,
}
_SPEAKS: Final = {
    "shelly_gen1": "Shelly",
    "shelly_gen2": "Shelly",
    "tasmota": "Tasmota device",
    "plain": "device",
}
OpenDriver: TypeAlias = "Callable[[Hardware, config.Output], OutputDriver]"


class OutputDriver(Protocol):
    """A driver of one output."""

    def write(self, level: float, valid_s: float) -> float | None:
        """Drive it at a level, 0..1, which is valid for `valid_s` seconds if it is not the safe one.

        Returns for how long it was not safe since the last write, None if that is not known. Raises
        `DriverError`.
        """

    def close(self) -> None:
        """Leave the output safe. Raises `DriverError` if it may not be."""


class OutputDevice:
    """A driver of an output that is opened at its first use, or at a later one if that failed.

    So a refused pin affects no other output. Blocking; the output's worker thread calls it. `name` is for
    people.
    """

    def __init__(self, name: str, open_driver: Callable[[], OutputDriver]) -> None:
        self.name = name
        self._open = open_driver
        self._driver: OutputDriver | None = None
        self._is_used = False

    def use(self) -> OutputDriver:
        """The driver. A new one has made its outputs safe. Raises `DriverError`."""
        self._is_used = True
        if self._driver is None:
            self._driver = self._open()
        return self._driver

    def close(self) -> None:
        """Leave the outputs safe, if they were used. Raises `DriverError` if they may not be."""
        if self._is_used:
            self.use().close()


class Lamp:
    """The channels of the lamp of a chamber, on pins of [light] and on other devices. Blocking."""

    def __init__(self, hardware: Hardware, chamber: Chamber) -> None:
        on_pins = {each.name: lamp_channel(hardware, chamber.light, each) for each in chamber.light.channel}
        others = chamber.channels_by_path.values()
        self._channels = on_pins | {each.channel: output_device(hardware, each) for each in others}

    @property
    def devices(self) -> list[OutputDevice]:
        """The devices of all channels."""
        return list(self._channels.values())

    def write(self, channel: str, level: float, valid_s: float) -> float | None:
        """Drive a channel, as `OutputDriver`."""
        return self._channels[channel].use().write(level, valid_s)


def check_pwm(hardware: Hardware, settings: config.Config) -> None:
    """Raise `ConfigError` if two outputs share one PWM channel on this model. Blocking.

    A missing PWM chip is ignored here; the output reports it when it is opened.
    """
    taken: dict[tuple[int, int], tuple[str, int]] = {}
    for chamber in chambers_of(settings):
        for pin, name in chamber.pwm_pins.items():
            try:
                place = channels_on(hardware.pwm_chip, hardware.pwm_files).get(pin)
            except DriverError:
                continue
            if place in taken:
                other, other_pin = taken[place]
                both = f"{other} and {chamber.device(name)}, on GPIO {other_pin} and {pin},"
                is_lamp = name in chamber.lamp_mix
                section = "light" if is_lamp else "output"
                option = "channel.pin" if is_lamp else f"{name}.pin"
                where = f"{settings.place(chamber.environment, section)} {option}"
                raise ConfigError(f"{where}: {both} share one PWM channel on this machine")
            if place is not None:
                taken[place] = chamber.device(name), pin


def lamp_channel(hardware: Hardware, light: config.Light, channel: config.ChannelOptions) -> OutputDevice:
    """One channel of the lamp on its pin."""
    return OutputDevice(
        f"the lamp channel {channel.name}",
        lambda: PinOutput(
            hardware.pins,
            channel.pin,
            name="light",
            frequency_hz=None if light.is_switched else light.frequency_hz,
            minimum_duty=light.minimum_duty,
            gamma=light.gamma,
            active_high=not light.inverted,
            pwm_chip=hardware.pwm_chip if light.kind == "hardware_pwm" else None,
        ),
    )


def output_device(hardware: Hardware, output: config.Output) -> OutputDevice:
    """One output. Its driver makes it safe when it is opened."""
    name = f"the {'relay' if output.kind == 'relay' else 'output'} {output.name}"
    return OutputDevice(name, partial(_DRIVERS.get(output.kind, OwnOutputDriver), hardware, output))


def _on_pin(hardware: Hardware, output: config.Output) -> PinOutput:
    if output.pin is None:
        raise SettingError(f"{output.name} has no pin", device=output.name)
    return PinOutput(
        hardware.pins,
        output.pin,
        name=output.name,
        frequency_hz=output.frequency_hz if output.can_dim else None,
        minimum_duty=output.minimum_duty,
        active_high=output.active == "high",
        safe_on=output.safe == "on",
        pwm_chip=hardware.pwm_chip if output.kind == "hardware_pwm" else None,
    )


def _http(hardware: Hardware, output: config.Output) -> HttpSwitch:
    return http_switch(output, hardware.ask_http)


def http_switch(output: config.Output, ask: AskHttp) -> HttpSwitch:
    """A device that is driven over HTTP, made safe. Blocking. Raises `DriverError`."""
    return HttpSwitch(
        protocol_of(output),
        ask,
        name=output.name,
        safe_on=output.safe == "on",
        timer_s=TIMER_S if output.has_timer else None,
        login=partial(login_of, output),
    )


def protocol_of(output: config.Output) -> SwitchProtocol:
    """What a device that is driven over HTTP takes."""
    if output.protocol == "plain":
        return TwoAddresses(output.url_on, output.url_off)
    return _PROTOCOLS[output.protocol](output.url.rstrip("/"), output.relay_number)


def login_of(output: config.Output) -> DeviceLogin | None:
    """User and password of a device. Blocking. Raises `SettingError` if the file can't be read."""
    try:
        password = read_line(f"{output.name}: password_file", output.password_file)
    except ConfigError as error:
        raise SettingError(str(error), device=output.name) from None
    return DeviceLogin(_USER, password) if password else None


def messages_of(output: config.Output, level: float, valid_s: float = inf) -> list[tuple[str, bytes]]:
    """The topics and bodies that set a device driven over MQTT to a level, which is valid for `valid_s`."""
    timer_s = min(TIMER_S, valid_s) if output.has_timer else None
    if output.protocol == "tasmota":
        return tasmota_messages(output.topic, output.relay_number, timer_s, level)
    if output.protocol == "shelly_gen2":
        safe_on = output.safe == "on"
        return shelly_messages(output.topic, output.relay_number, timer_s, level, safe_on=safe_on)
    if output.payload == "on_off":
        body = output.payload_on if level >= ON_FROM else output.payload_off
    else:
        body = f"{level:g}" if output.payload == "level" else f"{100 * level:g}"
    return [(output.topic, body.encode())]


def _mqtt(hardware: Hardware, output: config.Output) -> MqttOutput:
    client = hardware.mqtt and hardware.mqtt.of_output(output.topic)
    messages = partial(messages_of, output)
    return MqttOutput(client, messages, name=output.name, safe_on=output.safe == "on")


class _OnTopic:
    """An output of another program, which follows the topic of the levels."""

    def __init__(self, _hardware: Hardware, _output: config.Output) -> None:
        pass

    def write(self, level: float, valid_s: float) -> None:
        """The actuator publishes it."""

    def close(self) -> None:
        """The actuator has published the safe level."""


_DRIVERS: Final[dict[str, OpenDriver]] = {
    **dict.fromkeys(ON_A_PIN, _on_pin),
    "http": _http,
    "mqtt": _mqtt,
    "topic": _OnTopic,
}


def place_of_output(output: config.Output) -> str:
    """Where an output is, for people: "relay on GPIO 17"."""
    kinds = {"hardware_pwm": "hardware PWM", "pwm": "PWM", "ssr": "solid-state relay"}
    kind = kinds.get(output.kind, output.kind)
    if output.pin is not None:
        return f"{kind} on GPIO {output.pin}"
    if isinstance(output, OwnOutput):
        return f"{OWN_OUTPUTS[output.kind].part} {output.place}".rstrip()
    device = _SPEAKS[output.protocol]
    address = (output.url or output.url_on).partition("?")[0]  # a query may have a token
    return {
        "http": f"{device} at {address}",
        "mqtt": f"{device} at the MQTT topic {output.topic}",
    }.get(output.kind, f"program that reads outputs/{output.name}")


def joining(group: str) -> str:
    """The command that adds a user to a group."""
    return f"`sudo usermod -aG {group} USER`, then log in again"
