"""What the boot files of a Raspberry Pi should say for a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from growd.config import chambers_of
from growd.config.device_checks import is_header_port
from growd.device_kinds import SENSOR_KINDS
from growd.wiring.rest import safe_pins
from growd_drivers.one_wire import USUAL_PIN
from growd_machine.raspberry_pi.config_txt import Wanted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from growd.config import Config, Sensor
    from growd_machine.raspberry_pi.model import PiModel

MEMORY_CGROUP: Final = "cgroup_enable=memory"
CONSOLES: Final = tuple(
    f"console={port}{rest}" for port in ("serial0", "ttyS0", "ttyAMA0") for rest in ("", ",*")
)
"""Patterns of words that put a console on the serial port of the header."""

_DEBUG_PORT: Final = "/dev/serial0"
_PI5_CONSOLES: Final = CONSOLES[-2:]  # serial0 is the debug connector there
_PL011: Final = "/dev/ttyAMA0"
_OVERLAY_BUSES: Final = {
    "pi4": {3: (4, 5), 4: (8, 9), 5: (12, 13), 6: (22, 23)},
    "pi5": {2: (4, 5), 3: (6, 7)},
}
"""Further I2C buses, with the default SDA and SCL (BCM) of their overlays (overlays/README)."""

_PWM_FUNCTION: Final = {12: 4, 13: 4, 18: 2, 19: 2}
"""The function that connects a pin with the PWM (overlays/README, pwm). A Pi 5 takes the same numbers, since
its pin driver translates them (Linux, pinctrl-rp1.c, legacy_fsel_map)."""

_CHANNELS: Final = ((12, 18), (13, 19))
"""Before the Pi 5 these pins share a channel (overlays/README, pwm)."""

_PWM_PINS: Final = 2  # that one overlay can connect


@dataclass(frozen=True, slots=True)
class BootPlan:
    """Lines for config.txt, words for cmdline.txt, and what only the user can do.

    A word of `words` is added to cmdline.txt; those that match a pattern of `consoles` are removed.
    """

    lines: tuple[Wanted, ...] = ()
    words: tuple[Wanted, ...] = ()
    consoles: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


def boot_plan(config: Config, model: PiModel, software_buses: Collection[int] = ()) -> BootPlan:
    """What the boot files should say. With simulated hardware, only what growd needs by itself.

    `software_buses` are I2C buses that the owner made; they need no other line.
    """
    notes: list[str] = []
    lines: list[Wanted] = []
    ports: list[str] = []
    if not config.simulator.enabled:
        sensors = [
            (chamber.device(each.name), each)
            for chamber in chambers_of(config)
            for each in chamber.options.sensor
            if not each.is_on_i2c or each.bus not in software_buses
        ]
        ports = [port for _, sensor in sensors if (port := sensor.port) is not None and is_header_port(port)]
        lines += _buses(sensors, model, notes)
        lines += _serial(sensors, ports, model, notes)
        lines += _one_wire(sensors)
        lines += _pwm(config, model, notes)
        lines += _outputs(config)
    lines.append(Wanted("dtparam=watchdog=on", "the watchdog that resets a hanging Pi"))
    consoles = (_PI5_CONSOLES if model.is_pi5 else CONSOLES) if ports else ()
    word = Wanted(MEMORY_CGROUP, "memory limits of services; the firmware switches them off")
    return BootPlan(tuple(lines), (word,), consoles, tuple(notes))


def _buses(sensors: Iterable[tuple[str, Sensor]], model: PiModel, notes: list[str]) -> Iterator[Wanted]:
    """Each bus with sensors, and the speed of those with a slow sensor."""
    names: dict[int, list[str]] = {}
    slow: dict[int, tuple[str, int]] = {}
    for name, sensor in sensors:
        if sensor.is_on_i2c:
            names.setdefault(sensor.bus, []).append(name)
            most_hz = SENSOR_KINDS[sensor.kind].most_bus_hz
            if most_hz and (sensor.bus not in slow or most_hz < slow[sensor.bus][1]):
                slow[sensor.bus] = name, most_hz
    for bus, users in sorted(names.items()):
        yield from _bus(bus, users, slow.get(bus), model, notes)


def _bus(
    bus: int, users: list[str], slow: tuple[str, int] | None, model: PiModel, notes: list[str]
) -> Iterator[Wanted]:
    reason = f"I2C bus {bus} for {', '.join(users)}"
    name, hz = slow or ("", 0)
    slowly = f"{hz // 1000} kHz, the most that is recommended for {name}"
    if bus in (0, 1):
        parameter = "i2c_arm" if bus else "i2c_vc"
        yield Wanted(f"dtparam={parameter}=on", reason)
        if slow:
            yield Wanted(f"dtparam={parameter}_baudrate={hz}", slowly)
    elif (pins := _overlay_pins(model, bus)) is not None:
        where = f"{reason}: SDA GPIO {pins[0]}, SCL GPIO {pins[1]}"
        if slow:
            yield Wanted(f"dtoverlay=i2c{bus},baudrate={hz}", f"{where}; {slowly}")
        else:
            yield Wanted(f"dtoverlay=i2c{bus}", where)
    else:
        notes.append(
            f"{users[0]} is on I2C bus {bus}, which a {model.name} has only in software: choose two free "
            f"pins and add dtoverlay=i2c-gpio,bus={bus},i2c_gpio_sda=PIN,i2c_gpio_scl=PIN yourself"
        )


def _overlay_pins(model: PiModel, bus: int) -> tuple[int, int] | None:
    return next((buses.get(bus) for name, buses in _OVERLAY_BUSES.items() if name in model.filters), None)


def _serial(
    sensors: Iterable[tuple[str, Sensor]], ports: list[str], model: PiModel, notes: list[str]
) -> Iterator[Wanted]:
    """The serial port on GPIO 14 and 15 (Raspberry Pi documentation, "Configure UARTs")."""
    users = ", ".join(name for name, sensor in sensors if sensor.port in ports)
    if not ports:
        return
    if model.is_pi5:
        yield Wanted("dtparam=uart0=on", f"the serial port on GPIO 14 and 15 for {users}")
        if _DEBUG_PORT in ports:
            notes.append(
                f'{users}: set port = "{_PL011}" in the configuration; on a Pi 5 {_DEBUG_PORT} is the debug '
                "connector"
            )
        return
    yield Wanted("enable_uart=1", f"the serial port on GPIO 14 and 15 for {users}; also fixes its clock")
    if _PL011 in ports:
        yield Wanted("dtoverlay=disable-bt", f"{_PL011} on these pins instead of Bluetooth")
        notes.append(
            f"Bluetooth will be off, because {_PL011} serves it otherwise; with "
            f'port = "{_DEBUG_PORT}" it can stay'
        )


def _one_wire(sensors: Iterable[tuple[str, Sensor]]) -> Iterator[Wanted]:
    """Each 1-wire bus with sensors (overlays/README, w1-gpio)."""
    users: dict[int, list[str]] = {}
    for name, sensor in sensors:
        if sensor.one_wire_pin is not None:
            users.setdefault(sensor.one_wire_pin, []).append(name)
    for pin, names in sorted(users.items()):
        parameter = "" if pin == USUAL_PIN else f",gpiopin={pin}"
        yield Wanted(f"dtoverlay=w1-gpio{parameter}", f"1-wire on GPIO {pin} for {', '.join(names)}")


def _pwm(config: Config, model: PiModel, notes: list[str]) -> Iterator[Wanted]:
    users = {
        pin: "the lamp" if name in chamber.lamp_mix else chamber.device(name)
        for chamber in chambers_of(config)
        for pin, name in chamber.pwm_pins.items()
    }
    pins = sorted(users)
    if not pins:
        return
    chosen = pins[:_PWM_PINS]
    if not model.is_pi5:
        yield Wanted("dtparam=audio=off", "analog audio uses the same PWM")
        chosen = [*_first_of(pins, _CHANNELS[0]), *_first_of(pins, _CHANNELS[1])]
    names = ("pin", "func"), ("pin2", "func2")
    parameters = "".join(
        f",{pin_name}={pin},{function_name}={_PWM_FUNCTION[pin]}"
        for pin, (pin_name, function_name) in zip(chosen, names, strict=False)
    )
    overlay = "pwm" if len(chosen) == 1 else "pwm-2chan"
    of = " and ".join(dict.fromkeys(users[pin] for pin in chosen))
    reason = f"hardware PWM of {of} on GPIO {' and '.join(map(str, chosen))}"
    yield Wanted(f"dtoverlay={overlay}{parameters}", reason)
    notes += [
        f"GPIO {pin} of {users[pin]} will stay {'dark' if users[pin] == 'the lamp' else 'off'}, because the "
        f"overlay connects GPIO {' and '.join(map(str, chosen))}: move it to a pin with software PWM, "
        "such as 16"
        for pin in sorted({*pins} - {*chosen})
    ]


def _first_of(pins: Iterable[int], channel: Iterable[int]) -> list[int]:
    return [pin for pin in pins if pin in channel][:1]


def _outputs(config: Config) -> Iterator[Wanted]:
    """The safe level of each output from some seconds after power-on."""
    for level, word in ((1, "dh"), (0, "dl")):
        pins = sorted({pin.pin: pin.device for pin in safe_pins(config) if pin.level == level}.items())
        if pins:
            numbers = ",".join(str(pin) for pin, _ in pins)
            names = ", ".join(name for _, name in pins)
            yield Wanted(
                f"gpio={numbers}=op,{word}", f"safe from boot, {'high' if level else 'low'}: {names}"
            )
