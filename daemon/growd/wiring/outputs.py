"""Lamps and relays as configured: how each is opened, checked and closed."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from growd.config import ConfigError, chambers_of
from growd_drivers.errors import DriverError
from growd_drivers.hardware_pwm import HardwarePwmGpio, channels_on
from growd_drivers.pwm_light import PwmLight
from growd_drivers.relay import Relay
from growd_drivers.switched_gpio import SwitchedGpio

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd import config
    from growd_drivers.gpio import GpioLike
    from growd_drivers.hardware import Hardware


class Closable(Protocol):
    """A driver of outputs."""

    def close(self) -> None:
        """Leave the outputs safe. Raises `DriverError` if they may not be."""


D = TypeVar("D", bound=Closable)


class OutputDevice(Generic[D]):
    """A driver of outputs that is opened at its first use, or at a later one if that failed.

    So a refused pin affects no other output. Blocking; the output's worker thread calls it. `name` is for
    people.
    """

    def __init__(self, name: str, open_driver: Callable[[], D]) -> None:
        self.name = name
        self._open = open_driver
        self._driver: D | None = None
        self._is_used = False

    def use(self) -> D:
        """The driver. A new one has made its outputs safe. Raises `DriverError`."""
        self._is_used = True
        if self._driver is None:
            self._driver = self._open()
        return self._driver

    def close(self) -> None:
        """Leave the outputs safe, if they were used. Raises `DriverError` if they may not be."""
        if self._is_used:
            self.use().close()


def check_lamps(hardware: Hardware, settings: config.Config) -> None:
    """Raise `ConfigError` if two lamp channels share one PWM channel on this model. Blocking.

    A missing PWM chip is ignored here; the lamp reports it when it is opened.
    """
    taken: dict[tuple[int, int], tuple[str, int]] = {}
    for chamber in chambers_of(settings):
        light = chamber.options.light
        try:
            places = _pwm_places(hardware, light) if light.enabled else {}
        except DriverError:
            continue
        for channel in light.channel:
            place = places.get(channel.pin)
            name = chamber.device(channel.name)
            if place in taken:
                other, pin = taken[place]
                both = f"{other} and {name}, on GPIO {pin} and {channel.pin},"
                where = f"{settings.place(chamber.environment, 'light')} channel.pin"
                raise ConfigError(f"{where}: {both} share one PWM channel on this machine")
            if place is not None:
                taken[place] = name, channel.pin


def light_device(hardware: Hardware, light: config.Light) -> OutputDevice[PwmLight]:
    """The lamp of a chamber."""
    return OutputDevice(
        "the lamp",
        lambda: PwmLight(
            lamp_gpio(hardware, light),
            {channel.name: channel.pin for channel in light.channel},
            frequency_hz=light.frequency_hz,
            minimum_duty=light.minimum_duty,
            inverted=light.inverted,
            gamma=light.gamma,
        ),
    )


def lamp_gpio(hardware: Hardware, light: config.Light) -> GpioLike:
    """The GPIO object for the pins of the lamp. Raises `DriverError` if the PWM chip is missing."""
    if light.switched:
        return SwitchedGpio(hardware.gpio)
    places = _pwm_places(hardware, light)
    if not places:
        return hardware.gpio
    return HardwarePwmGpio(hardware.gpio, places, sleep=hardware.sleep, files=hardware.pwm_files)


def _pwm_places(hardware: Hardware, light: config.Light) -> dict[int, tuple[int, int]]:
    """PWM chip and channel of each lamp pin with hardware PWM. Raises `DriverError`."""
    if not light.hardware_pwm:
        return {}
    places = channels_on(light.pwm_chip, hardware.pwm_files)
    return {channel.pin: places[channel.pin] for channel in light.channel if channel.pin in places}


def relay_device(hardware: Hardware, relay: config.RelayOptions) -> OutputDevice[Relay]:
    """One relay."""
    return OutputDevice(
        f"the relay {relay.name}",
        lambda: Relay(
            hardware.gpio,
            relay.pin,
            name=relay.name,
            active_high=relay.active == "high",
            safe_on=relay.safe == "on",
        ),
    )


def advice_for_pin(error: Exception) -> str:
    """What to do about a refused pin, "" if the error says it."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.EBUSY:
        return (
            "stop that program, such as a running growd, or remove the line in config.txt that uses the pin"
        )
    return ""


def joining(group: str) -> str:
    """The command that adds a user to a group."""
    return f"`sudo usermod -aG {group} USER`, then log in again"
