"""Pins that settings of the owner in config.txt take from growd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.wiring.rest import safe_pins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.config import Config

_PARAMETERS: Final = frozenset(
    ["gpiopin", "gpio_pin", "gpio", "int_pin", "interrupt", "i2c_gpio_sda", "i2c_gpio_scl"]
)
"""Parameters of overlays that name a pin (the firmware's overlays/README)."""

_DEFAULTS: Final[dict[str, dict[str, int]]] = {
    "dht11": {"gpiopin": 4},
    "gpio-fan": {"gpiopin": 12},
    "gpio-ir": {"gpio_pin": 18},
    "gpio-ir-tx": {"gpio_pin": 18},
    "gpio-key": {"gpio": 3},
    "gpio-led": {"gpio": 4},
    "gpio-poweroff": {"gpiopin": 26},
    "gpio-shutdown": {"gpio_pin": 3},
    "i2c-gpio": {"i2c_gpio_sda": 23, "i2c_gpio_scl": 24},
    "pps-gpio": {"gpiopin": 18},
    "pwm-ir-tx": {"gpio_pin": 18},
    "w1-gpio": {"gpiopin": 4},
}
"""Overlays that take pins without a parameter."""

_SPI, _I2S = (7, 8, 9, 10, 11), (18, 19, 20, 21)
_SOUND_CARDS: Final = ("hifiberry-", "iqaudio-", "i2s-")


def taken_pins(settings: Iterable[str], config: Config) -> Iterator[tuple[int, str, str]]:
    """Each pin of an output that a setting takes, the setting, and the output."""
    outputs = {pin.pin: pin.device for pin in safe_pins(config)}
    for line in settings:
        for pin in _pins(line):
            if pin in outputs:
                yield pin, line, outputs[pin]


def _pins(line: str) -> Iterator[int]:
    kind, _, value = line.partition("=")
    name, *rest = (part.strip() for part in value.split(","))
    if kind == "dtparam":
        for part in (name, *rest):
            parameter, _, state = part.partition("=")
            if state in {"on", "", "1", "yes", "true"}:
                yield from {"spi": _SPI, "i2s": _I2S}.get(parameter, ())
    elif kind == "dtoverlay":
        if name.startswith(_SOUND_CARDS):
            yield from _I2S
        given = dict(part.partition("=")[::2] for part in rest)
        pins = _DEFAULTS.get(name, {}) | {each: given[each] for each in _PARAMETERS & given.keys()}
        yield from (int(pin) for pin in pins.values() if str(pin).isdecimal())
