"""Checks of the buses, ports and pins that the configuration uses, and of who else uses them."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from growd.config import chambers_of
from growd.config.device_checks import is_header_port
from growd.device_kinds import SENSOR_KINDS
from growd.wiring.rest import safe_pins
from growd_drivers.bus_speed import bus_speed_hz
from growd_drivers.gpio_lines import CHIPS
from growd_machine.raspberry_pi.boot_files import config_txt, config_txt_at, made_buses, planned_files
from growd_machine.raspberry_pi.cmdline import words_in
from growd_machine.raspberry_pi.config_txt import FRAME, settings_in
from growd_machine.raspberry_pi.findings import SETUP, failed, unchecked, warned, well
from growd_machine.raspberry_pi.model import PiError
from growd_machine.raspberry_pi.pin_claims import taken_pins
from growd_machine.raspberry_pi.plan import boot_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd_machine.raspberry_pi.files import PiFiles
    from growd_machine.raspberry_pi.findings import PiFinding, PiScene

_DEBUG_PORT: Final = "ttyAMA10"  # of a Pi 5
_LOGIN: Final = "a login"
_GETTY_FOLDERS: Final = ("etc/systemd/system", "run/systemd/generator")
_LABELS: Final = "|".join(CHIPS)
_CHIP: Final = re.compile(
    rf"^gpiochip\d+: (?:GPIOs (?P<base>\d+)-\d+|\d+ GPIOs).*(?:{_LABELS})", re.MULTILINE
)
_LINE: Final = re.compile(r"^ gpio-(?P<number>\d+)\s+\([^|)]*\|(?P<consumer>[^)]*)\)", re.MULTILINE)
_MUXED: Final = re.compile(r"^pin (?P<pin>\d+) \(gpio\d+\): (?P<owner>[^(\s]\S*)", re.MULTILINE)


def bus_findings(scene: PiScene) -> Iterator[PiFinding]:
    """Nothing for a simulated chamber."""
    if scene.model is not None:
        yield from _boot_files(scene)
        yield _serial0(scene.files)
    if scene.config.simulator.enabled:
        return
    yield from _buses(scene)
    yield from _one_wire(scene)
    yield from _ports(scene)
    yield from _pins(scene)
    yield from _other_programs(scene)


def _boot_files(scene: PiScene) -> Iterator[PiFinding]:
    """What config.txt says, and whether growd would change it."""
    if scene.model is None:
        return
    root, filters = scene.files.root, scene.model.filters
    try:
        settings = _settings(scene)
        plan = boot_plan(scene.config, scene.model, made_buses(root, filters))
        changes = [
            change.line or f"without {change.before}"
            for file in planned_files(root, plan, filters)
            if file.is_changed
            for change in file.changes
        ]
    except (PiError, OSError) as error:
        is_missing = not scene.files.found("boot/**/config.txt")
        yield failed("boot settings", str(error), "sudo mount /boot/firmware" if is_missing else "")
        return
    overlays = [line.partition("=")[2] for line in settings if re.match("dtoverlay=.", line)]
    yield well("overlays", ", ".join(overlays) or "none")
    changes = [line for line in changes if line not in FRAME]
    if changes:
        yield warned("boot settings", f"missing: {'; '.join(changes)}", SETUP)
    elif _is_changed_since_boot(scene):
        yield warned("boot settings", "they were changed since the machine started", "sudo reboot")
    else:
        yield well("boot settings", "config.txt and cmdline.txt are as growd needs them")


def _settings(scene: PiScene) -> list[str]:
    """The lines of config.txt that hold. Raises `PiError`."""
    filters = () if scene.model is None else scene.model.filters
    return settings_in(config_txt(scene.files.root), filters)


def _is_changed_since_boot(scene: PiScene) -> bool:
    booted = re.search(r"^btime (\d+)", scene.files.text("proc/stat") or "", re.MULTILINE)
    folder = config_txt_at(scene.files.root).parent
    files = [folder / "config.txt", folder / "cmdline.txt"]
    return booted is not None and any(
        file.is_file() and file.stat().st_mtime > int(booted[1]) for file in files
    )


def _buses(scene: PiScene) -> Iterator[PiFinding]:
    """Each bus of a sensor: whether it is there, and its speed."""
    most_hz: dict[int, float] = {}
    for chamber in chambers_of(scene.config):
        for sensor in chamber.options.sensor:
            if sensor.is_on_i2c:
                limit = SENSOR_KINDS[sensor.kind].most_bus_hz or math.inf
                most_hz[sensor.bus] = min(limit, most_hz.get(sensor.bus, math.inf))
    made = _made_buses(scene)
    for bus, limit in sorted(most_hz.items()):
        subject = f"I2C bus {bus}"
        if not scene.files.exists(f"dev/i2c-{bus}"):
            yield failed(subject, f"there is no /dev/i2c-{bus}", SETUP)
            continue
        if bus in made:
            yield well(subject, "it is driven in software, and waits for each chip")
            continue
        speed = bus_speed_hz(bus, adapters=scene.files.root / "sys/bus/i2c/devices")
        text = "its speed is not known" if speed is None else f"{speed / 1000:g} kHz"
        if limit < math.inf and (speed is None or speed > limit):
            yield warned(subject, f"{text}; a sensor on it needs at most {limit / 1000:g} kHz", SETUP)
        else:
            yield well(subject, text)


def _made_buses(scene: PiScene) -> set[int]:
    try:
        return set() if scene.model is None else made_buses(scene.files.root, scene.model.filters)
    except PiError:
        return set()  # reported above


def _serial0(files: PiFiles) -> PiFinding:
    """What the name stands for. A console on it only matters to a sensor there."""
    target = files.link("dev/serial0")
    if target is None:
        return well("serial0", "it is switched off")
    user = _console_on(files, target)
    where = ", the debug connector" if target == _DEBUG_PORT else ""
    return well("serial0", f"it is {target}{where}; {user or 'no console'} is on it")


def _one_wire(scene: PiScene) -> Iterator[PiFinding]:
    """Whether there is a 1-wire bus, if a sensor is on one."""
    sensors = [sensor for chamber in chambers_of(scene.config) for sensor in chamber.options.sensor]
    if all(sensor.one_wire_pin is None for sensor in sensors):
        return
    if scene.files.found("sys/bus/w1/devices/w1_bus_master*"):
        yield well("1-wire", "the bus is there")
    else:
        yield failed("1-wire", "there is no 1-wire bus", SETUP)


def _ports(scene: PiScene) -> Iterator[PiFinding]:
    for chamber in chambers_of(scene.config):
        for sensor in chamber.options.sensor:
            if sensor.port is not None:
                yield _port(scene, sensor.port)


def _port(scene: PiScene, port: str) -> PiFinding:
    """Whether the port is there, is on the header, and has no console."""
    files = scene.files
    target = files.link(port.lstrip("/"))
    name = target or port.rpartition("/")[2]
    text = f"it is {target}" if target else "it is there"
    if scene.model is not None and scene.model.is_pi5 and name == _DEBUG_PORT:
        remedy = 'set port = "/dev/ttyAMA0" in the configuration; growd setup-pi'
        return failed(port, f"{text}, the debug connector, and not GPIO 14 and 15", remedy)
    if not files.found(port.lstrip("/")):
        remedy = SETUP if is_header_port(port) else "plug the adapter in; ls /dev/serial/by-id"
        return failed(port, "there is no such port", remedy)
    if console := _console_on(files, name):
        is_login = console == _LOGIN
        remedy = f"sudo systemctl disable --now serial-getty@{name}" if is_login else SETUP
        return failed(port, f"{text}, with {console} on it", remedy)
    return well(port, f"{text}, and no console uses it")


def _console_on(files: PiFiles, name: str) -> str:
    """The console that uses a serial port: of the kernel, or a login; "" without one."""
    names = {name, "serial0"} if files.link("dev/serial0") == name else {name}
    consoles = {
        word.removeprefix("console=").partition(",")[0]
        for word in words_in(files.text("proc/cmdline") or "")
        if word.startswith("console=")
    }
    if names & consoles:
        return "the kernel's console"
    units = (f"{folder}/*.wants/serial-getty@{name}.service" for folder in _GETTY_FOLDERS)
    return _LOGIN if any(files.found(unit) for unit in units) else ""


def _pins(scene: PiScene) -> Iterator[PiFinding]:
    wanted = {pin.pin: pin for pin in safe_pins(scene.config)}
    if not wanted:
        return
    users = dict(_claims(scene))
    log = scene.files.text("sys/kernel/debug/gpio")
    if log is not None:
        users |= _consumers(log)
        users |= _multiplexed(scene.files)
    taken = {pin: user for pin, user in users.items() if pin in wanted}
    for pin, user in sorted(taken.items()):
        if wanted[pin].pwm_chip is None or "pwm" not in user:
            yield failed(
                f"GPIO {pin}",
                f"{user} uses the pin of {wanted[pin].device}",
                "give one of them another pin, or remove the line from config.txt",
            )
    free = sorted(set(wanted) - set(taken))
    names = ", ".join(map(str, free))
    if log is None:
        remedy = "sudo growd check --pi" if scene.user else "sudo mount -t debugfs none /sys/kernel/debug"
        yield unchecked("pins", f"whether other programs use GPIO {names}", remedy)
    elif free:
        yield well("pins", f"nothing else uses GPIO {names}")


def _claims(scene: PiScene) -> Iterator[tuple[int, str]]:
    """Pins that settings in config.txt take."""
    with suppress(PiError, OSError):
        for pin, line, _ in taken_pins(_settings(scene), scene.config):
            yield pin, line


def _consumers(text: str) -> Mapping[int, str]:
    """The header pins that are in use, from the kernel's debugfs file gpio. growd itself does not count."""
    chip = _CHIP.search(text)
    if chip is None:
        return {}
    rest = text[chip.end() :].partition("\ngpiochip")[0]
    base = int(chip["base"] or 0)
    found = {int(line["number"]) - base: line["consumer"].strip() for line in _LINE.finditer(rest)}
    return {pin: user for pin, user in found.items() if user and not user.startswith("growd")}


def _multiplexed(files: PiFiles) -> Mapping[int, str]:
    """The pins that belong to a device such as SPI, from the kernel's debugfs file pinmux-pins."""
    found = {}
    for place in files.found("sys/kernel/debug/pinctrl/*/pinmux-pins"):
        if re.search(_LABELS, place):
            for line in _MUXED.finditer(files.text(place) or ""):
                found[int(line["pin"])] = line["owner"]
    return found


def _other_programs(scene: PiScene) -> Iterator[PiFinding]:
    """Programs that have a bus or port open."""
    ports = set()
    for chamber in chambers_of(scene.config):
        for sensor in chamber.options.sensor:
            port = sensor.port or (f"/dev/i2c-{sensor.bus}" if sensor.is_on_i2c else "")
            target = scene.files.link(port.lstrip("/"))
            ports.add(f"/dev/{target}" if target else port)
    users = {(device, program) for device, program in scene.files.open_by() if device in ports}
    for device, program in sorted(users):
        if not re.search(r"\bgrowd\b", program):
            yield failed(device, f"{program} has it open", "stop that program")
    if scene.user:
        yield unchecked("programs", "whether programs of other users use the buses", "sudo growd check --pi")
    elif not users:
        yield well("programs", "no other program uses the buses and ports")
