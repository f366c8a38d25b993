"""The outputs of the chamber: how each is opened as the configuration says, and what it is to the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from growd_drivers.pwm_light import PwmLight
from growd_drivers.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd import config
    from growd_drivers.hardware import Hardware


class Closable(Protocol):
    """What every driver of outputs has."""

    def close(self) -> None:
        """Leave the outputs safe. Raises `DriverError` where they may not be."""


D = TypeVar("D", bound=Closable)


class OutputDevice(Generic[D]):
    """A driver of outputs that is opened at its first use, and at the next one where that failed.

    So an output whose pin is refused stops nothing else, and is there when the pin is. Blocking; its worker
    thread calls it. `name` is for a person.
    """

    def __init__(self, name: str, open_driver: Callable[[], D]) -> None:
        self.name = name
        self._open = open_driver
        self._driver: D | None = None
        self._is_used = False

    def use(self) -> D:
        """The driver, whose outputs are safe when it is new. Raises `DriverError`."""
        self._is_used = True
        if self._driver is None:
            self._driver = self._open()
        return self._driver

    def close(self) -> None:
        """Leave the outputs safe, if they were ever used. Raises `DriverError` where they may not be."""
        if self._is_used:
            self.use().close()


def light_device(hardware: Hardware, light: config.Light) -> OutputDevice[PwmLight]:
    """The lamp."""
    return OutputDevice(
        "the lamp",
        lambda: PwmLight(
            hardware.gpio,
            {channel.name: channel.pin for channel in light.channel},
            sleep=hardware.sleep,
            frequency_hz=light.frequency_hz,
            minimum_duty=light.minimum_duty,
            inverted=light.inverted,
            gamma=light.gamma,
        ),
    )


def relay_device(hardware: Hardware, relay: config.Relay) -> OutputDevice[Relay]:
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
