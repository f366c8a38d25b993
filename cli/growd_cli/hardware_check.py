"""Checks every device of the configuration, with advice for those that do not answer."""

from __future__ import annotations

import asyncio
import errno
import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from growd.config import Config, Light, chambers_of
from growd.control.calls import DeviceCalls
from growd.control.errors import DEVICE_ERRORS, DeviceTimeoutError
from growd.device_kinds import SENSOR_KINDS, with_article
from growd.runtime.worker import Workers
from growd.variables import VARIABLES, Variable
from growd.wiring.outputs import joining, lamp_channel, output_device, place_of_output
from growd.wiring.receivers import value_of
from growd.wiring.sensors import SensorDevice
from growd_camera.shots import Shooting, ShotError, ShotFiles
from growd_drivers.errors import (
    DeviceMissingError,
    HardwareUnavailableError,
    NotReadyError,
    OutOfRangeError,
    TransferError,
    WrongDeviceError,
)
from growd_drivers.sc16is750 import place_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from growd.config import Output, Sensor
    from growd.config.camera import Camera
    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker
    from growd_camera.shot import Prepared
    from growd_drivers.hardware import Hardware

T = TypeVar("T")

LIMIT_S: Final = 15.0
"""For one device. A stuck bus takes 1 s per transfer."""

_DEFAULT: Final = " (default, since the configuration has none)"
_FIRST_READING_S: Final = 6.0  # a measurement of an SCD4x, two of an SCD30
_POLL_S: Final = 0.25
_TRIES_OF_MQTT: Final = 20
_CLOSE_S: Final = 0.5
_SHOWN_BYTES: Final = 80
_UNASKED: Final = {
    "mqtt": "the broker took the command for its safe state; the device itself was not asked",
    "topic": "it follows while growd runs, so it was not asked",
}
_STATE: Final = Variable("feedback", "", 0, 1)  # of an output that a sensor confirms
_USUAL_AT: Final = {0x4D: with_article("SC16IS750")} | {
    address: with_article(kind.part) for kind in SENSOR_KINDS.values() for address in kind.addresses
}
_HELD_LOW: Final = (
    "a chip or a short circuit holds a line of the bus low: switch the power off and on, then disconnect the "
    "parts one by one"
)
_I2C_ADVICE: Final = {
    errno.ETIMEDOUT: _HELD_LOW,
    errno.EAGAIN: _HELD_LOW,
    errno.EIO: "look for loose contacts, long wires and missing pull-up resistors",
    errno.EBADMSG: "look for loose contacts, long wires and a missing ground",
}
_I2C_GPIO: Final = (
    "replace dtparam=i2c_arm=on in config.txt by dtoverlay=i2c-gpio,i2c_gpio_sda=2,i2c_gpio_scl=3,"
    "i2c_gpio_delay_us=10,bus=3, reboot, and set bus = 3 for the sensors"
)
_SERIAL_ADVICE: Final = {
    errno.ETIMEDOUT: "its TX goes to the port's RX, its RX to the port's TX",
    errno.EBADMSG: "check the kind of the sensor, its ground, and that no other program uses the port",
}


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """The result of asking one device. `answers` is None if it cannot be asked."""

    device: str
    answers: bool | None
    sentence: str


def described(config: Config) -> Iterator[tuple[str, str]]:
    """The name of each device, and its kind, place and variables, and whether it is a default."""
    for chamber in chambers_of(config):
        options, light = chamber.options, chamber.light
        for sensor in options.sensor:
            default = _DEFAULT if options.sensor is Config().sensor else ""
            yield chamber.device(sensor.name), f"{_name_of(sensor)}: {_purpose(sensor)}{default}"
        if light.channel:
            variables = ", ".join(f"light_intensity_{channel.name}" for channel in light.channel)
            default = _DEFAULT if light.channel is Light().channel else ""
            yield chamber.device("light"), f"{_lamp(light)}: {variables}{default}"
        for output in chamber.all_outputs:
            active = "" if output.pin is None else f", active {output.active}"
            yield chamber.device(output.name), f"{place_of_output(output)}{active}: {output.own_variable}"
        for camera in options.camera:
            yield chamber.device(camera.name), f"camera, {camera.place}"


async def check_hardware(
    config: Config, hardware: Hardware, clock: Clock, report: Callable[[DeviceAnswer], None]
) -> list[DeviceAnswer]:
    """Ask one device after the other, `report` each answer, and return them all.

    Sensors are set up and read as by the daemon. Outputs are claimed at their safe level and stay there. A
    device that takes longer than `LIMIT_S` is abandoned with its thread.
    """
    check = _Check(config, hardware, clock)
    findings = []
    try:
        for ask in check.questions():
            findings.append(await ask())
            report(findings[-1])
    finally:
        await check.close()
    return findings


class _Check:
    def __init__(self, config: Config, hardware: Hardware, clock: Clock) -> None:
        self._config = config
        self._hardware = hardware
        self._clock = clock
        self._workers = Workers(clock.monotonic)

    def questions(self) -> Iterator[Callable[[], Awaitable[DeviceAnswer]]]:
        """One coroutine function for each device."""
        for chamber in chambers_of(self._config):
            named, light = chamber.device, chamber.light
            for sensor in chamber.options.sensor:
                is_sent = SENSOR_KINDS[sensor.kind].opens == "messages"
                ask = self._ask_sender if is_sent else self._ask_sensor
                yield functools.partial(ask, named(sensor.name), sensor)
            if light.channel:
                claim = functools.partial(_claim_lamp, self._hardware, light)
                yield functools.partial(self._ask_output, named("light"), _lamp(light), "dark", claim)
            for output in chamber.all_outputs:
                claim = functools.partial(_claim, self._hardware, output)
                place, unasked = place_of_output(output), _UNASKED.get(output.kind, "")
                yield functools.partial(
                    self._ask_output, named(output.name), place, output.safe, claim, unasked
                )
            for camera in chamber.options.camera:
                yield functools.partial(self._ask_camera, named(camera.name), camera, chamber.environment)

    async def close(self) -> None:
        """End the threads that can be ended."""
        await self._workers.close(_CLOSE_S)

    async def _ask_sensor(self, name: str, sensor: Sensor) -> DeviceAnswer:
        part = _name_of(sensor)
        device = SensorDevice(self._hardware, sensor)
        read = functools.partial(_read, device, self._hardware, _tries_of(sensor))
        if device.prepare is not None:
            await asyncio.to_thread(device.prepare)
        try:
            reading = await self._call(name, self._worker_of(sensor), read)
        except (NotReadyError, OutOfRangeError) as error:
            sentence = str(error).removeprefix(f"{part} ").removeprefix(f"{SENSOR_KINDS[sensor.kind].part} ")
            return DeviceAnswer(name, True, f"{part} answers, but {sentence}")
        except DeviceTimeoutError:
            advice = "switch its power off and on, and check the other parts on its wires"
            return DeviceAnswer(name, False, f"{part} hangs: no answer within {LIMIT_S:g} s; {advice}")
        except DEVICE_ERRORS as error:
            return DeviceAnswer(name, False, _joined(str(error), await self._advice(sensor, error)))
        advice = ""
        if SENSOR_KINDS[sensor.kind].most_bus_hz:
            hz = await self._speed_hz(sensor)
            advice = _advice_for_speed(sensor, hz) if hz else ""
        return DeviceAnswer(name, True, _joined(f"{part} answers: {_shown(reading)}", advice))

    async def _ask_sender(self, name: str, sensor: Sensor) -> DeviceAnswer:
        """Wait for a message of others."""
        part, mqtt = _name_of(sensor), self._hardware.mqtt
        if sensor.kind != "mqtt" or mqtt is None:
            return DeviceAnswer(name, None, f"{part}: clients post it while growd runs, so it was not asked")
        came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        passed: dict[str, bytes] = {}
        mqtt.subscribe(sensor.topic, functools.partial(_note, sensor, came, passed))
        try:
            async with asyncio.timeout(LIMIT_S):
                body = await came
        except TimeoutError:
            reason = mqtt.problem or f"nothing came within {LIMIT_S:g} s; {_silence(sensor, passed)}"
            return DeviceAnswer(name, False, f"{part}: {reason}")
        return DeviceAnswer(name, True, f"{part} sends: {_described_value(sensor, body)}")

    async def _ask_output(
        self, name: str, place: str, safe: str, claim: Callable[[], None], unasked: str = ""
    ) -> DeviceAnswer:
        """Claim it at its safe state. `unasked` says why that does not show whether it answers."""
        try:
            await self._call(name, self._workers.named(name), claim)
        except DeviceTimeoutError:
            return DeviceAnswer(name, False, f"{place} hangs: it could not be driven within {LIMIT_S:g} s")
        except DEVICE_ERRORS as error:
            sentence = str(error).removeprefix(f"{name.rpartition('/')[2]}: ")
            return DeviceAnswer(name, False, sentence)
        if unasked:
            return DeviceAnswer(name, None, f"{place}: {unasked}")
        return DeviceAnswer(name, True, f"{place} can be driven, and stays {safe}")

    async def _ask_camera(self, name: str, camera: Camera, environment: str) -> DeviceAnswer:
        """Take a photo that is not kept."""
        shoot = functools.partial(_photo, self._hardware, self._config, camera, environment)
        try:
            picture = await self._call(name, self._workers.named(name), shoot)
        except DeviceTimeoutError:
            return DeviceAnswer(name, False, f"the camera gave no photo within {LIMIT_S:g} s")
        except (ShotError, OSError) as error:
            return DeviceAnswer(name, False, str(error))
        return DeviceAnswer(name, True, f"the camera takes photos: {picture.width}x{picture.height}")

    async def _advice(self, sensor: Sensor, error: Exception) -> str:
        """Advice, if the error itself has none."""
        if isinstance(error, DeviceMissingError) and error.address is not None:
            return await self._advice_for_missing(sensor, error.address)
        if isinstance(error, WrongDeviceError):
            return "set kind or address to the chip that is wired"
        if isinstance(error, HardwareUnavailableError):
            return _advice_for_unavailable(sensor, error)
        if isinstance(error, TransferError):
            advice = (_SERIAL_ADVICE if error.address is None else _I2C_ADVICE).get(error.errno or 0, "")
            if error.errno == errno.EBADMSG and SENSOR_KINDS[sensor.kind].most_bus_hz:
                return await self._advice_for_checksums(sensor, advice)
            return advice
        return ""

    async def _advice_for_checksums(self, sensor: Sensor, usual: str) -> str:
        """Advice for wrong checksums of a sensor that stretches the clock."""
        speed = _advice_for_speed(sensor, await self._speed_hz(sensor))
        if speed:
            return f"{speed}; also {usual}"
        return (
            f"{usual}; if that is no help on a Pi 4 or older, whose I2C controller may misread a sensor that "
            f"stretches the clock: {_I2C_GPIO}"
        )

    async def _speed_hz(self, sensor: Sensor) -> int | None:
        return await asyncio.to_thread(self._hardware.i2c(sensor.bus).speed_hz)

    async def _advice_for_missing(self, sensor: Sensor, address: int) -> str:
        """What answers on the bus instead of the chip at `address`."""
        scan = self._hardware.i2c(sensor.bus).scan
        try:
            found = await self._call(sensor.name, self._worker_of(sensor), scan)
        except DEVICE_ERRORS:
            return ""  # the bus itself fails
        known = {
            other.i2c_address: chamber.device(other.name)
            for chamber in chambers_of(self._config)
            for other in chamber.options.sensor
            if other.line == sensor.line
        }
        strays = [place for place in found if place not in known]
        if address in found:
            return "its address acknowledges, but data is refused: another chip may be there"
        if strays:
            return _advice_for_strays(strays)
        if found:
            return f"{' and '.join(known[place] for place in found)} on the same bus can be reached"
        return (
            f"nothing answers on I2C bus {sensor.bus}: check SDA, SCL, power, pull-up resistors, "
            "and the number of the bus"
        )

    def _worker_of(self, sensor: Sensor) -> Worker:
        return self._workers.named(sensor.line, functools.partial(self._hardware.take_over, sensor.line))

    async def _call(self, device: str, worker: Worker, function: Callable[[], T]) -> T:
        """Call in the worker, within the limit. A call that takes longer is abandoned."""
        calls = DeviceCalls(device, worker, self._clock, LIMIT_S)
        try:
            return await calls.run(function)
        except DeviceTimeoutError:
            worker.abandon_hung_thread(0)
            raise
        finally:
            calls.close()


def _read(device: SensorDevice, hardware: Hardware, tries: int) -> dict[str, float]:
    """The first reading. A failed transfer is tried once more, since buses miss one now and then."""
    has_failed = False
    for tries_left in reversed(range(tries)):
        try:
            return device.read()
        except (NotReadyError, OutOfRangeError):
            if not tries_left:
                raise
        except TransferError:
            if has_failed or not tries_left:
                raise
            has_failed = True
        hardware.sleep(_POLL_S)
    raise AssertionError("the last try returns or raises")


def _silence(sensor: Sensor, passed: dict[str, bytes]) -> str:
    """Advice on a sender from which no value came, but perhaps an old one or other messages."""
    advice = "check the sender, its interval and the topic"
    if "partial" in passed:
        return f"its messages have no {sensor.key}: {passed['partial'][:_SHOWN_BYTES]!r}; check key"
    if "retained" in passed:
        return f"the broker has an old message with {_described_value(sensor, passed['retained'])}: {advice}"
    return advice


def _note(
    sensor: Sensor,
    came: asyncio.Future[bytes],
    passed: dict[str, bytes],
    body: bytes,
    is_retained: bool,  # noqa: FBT001  of MqttClient
) -> None:
    """Take the first message that says something of the value, and pass over the others."""
    if is_retained:
        passed["retained"] = body
    elif not _has_value(sensor, body):
        passed["partial"] = body
    elif not came.done():
        came.set_result(body)


def _tries_of(sensor: Sensor) -> int:
    """A sensor that warms up has no measurement for minutes."""
    return 2 if SENSOR_KINDS[sensor.kind].warm_up_s else round(_FIRST_READING_S / _POLL_S)


def _photo(hardware: Hardware, config: Config, camera: Camera, environment: str) -> Prepared:
    """A photo in a folder of its own, which goes with it. Blocking. Raises `ShotError` and OSError."""
    names = [chamber.environment for chamber in chambers_of(config)]
    shooting = Shooting(lambda place, width: hardware.picture(names.index(place), width), limit_s=LIMIT_S)
    with tempfile.TemporaryDirectory() as folder:
        files = ShotFiles(*(Path(folder, name) for name in ShotFiles._fields))
        return asyncio.run(shooting.take(camera, environment, files))


def _claim_lamp(hardware: Hardware, light: Light) -> None:
    for channel in light.channel:
        lamp_channel(hardware, light, channel).use()


def _claim(hardware: Hardware, output: Output) -> None:
    """The connection to an MQTT broker takes a moment."""
    device = output_device(hardware, output)
    for tries_left in reversed(range(_TRIES_OF_MQTT if output.kind == "mqtt" else 1)):
        try:
            device.use()
            break
        except HardwareUnavailableError:
            if not tries_left:
                raise
            hardware.sleep(_POLL_S)
    device.close()


def _name_of(sensor: Sensor) -> str:
    """As errors name it, such as "SCD30 at 0x61 on I2C bus 1"."""
    kind = SENSOR_KINDS[sensor.kind]
    if sensor.switch_pin is not None:
        return f"{kind.part} on GPIO {sensor.switch_pin}"
    if sensor.one_wire_pin is not None:
        return f"{kind.part} {sensor.device}"
    if kind.opens == "messages":
        return f"{kind.part} on {sensor.topic or f'topic posted/{sensor.name}'}"
    if kind.part_of_chip:
        channel = getattr(sensor, kind.part_of_chip)
        return f"input {channel} of {kind.part} at {sensor.i2c_address:#04x} on I2C bus {sensor.bus}"
    if kind.opens == "i2c":
        return f"{kind.part} at {sensor.i2c_address:#04x} on I2C bus {sensor.bus}"
    on = "" if kind.opens == "none" else f" on {sensor.port or place_of(sensor.bus, sensor.i2c_address)}"
    return f"{kind.part or sensor.kind}{on}"


def _purpose(sensor: Sensor) -> str:
    return f"confirms {sensor.confirms}" if sensor.confirms else ", ".join(sensor.variables)


def _lamp(light: Light) -> str:
    pins = ", ".join(f"GPIO {channel.pin} ({channel.name})" for channel in light.channel)
    return f"lamp on {pins}"


def _shown(reading: dict[str, float]) -> str:
    known = {variable: VARIABLES.get(variable, _STATE) for variable in reading}
    return ", ".join(
        f"{round(value, known[variable].precision):g} {known[variable].unit}".rstrip()
        for variable, value in reading.items()
    )


def _joined(sentence: str, advice: str) -> str:
    return f"{sentence}; {advice}" if advice else sentence


def _advice_for_speed(sensor: Sensor, hz: int | None) -> str:
    """What to write into config.txt for a sensor on a bus that is faster than recommended, or may be."""
    most_hz = SENSOR_KINDS[sensor.kind].most_bus_hz
    if most_hz is None or (hz is not None and hz <= most_hz):
        return ""
    line = f"dtparam=i2c_arm_baudrate={most_hz}" if sensor.bus == 1 else f"baudrate={most_hz} in its overlay"
    is_fast = "may be too fast" if hz is None else f"runs at {hz / 1000:g} kHz"
    kind = with_article(SENSOR_KINDS[sensor.kind].part)
    return (
        f"I2C bus {sensor.bus} {is_fast}, and {kind} needs at most {most_hz / 1000:g} kHz: "
        f"run growd setup-pi, or write {line} into /boot/firmware/config.txt, and reboot"
    )


def _advice_for_strays(addresses: list[int]) -> str:
    places = [
        f"{address:#04x} (where {_USUAL_AT[address]} may be)" if address in _USUAL_AT else f"{address:#04x}"
        for address in addresses
    ]
    first = f"{addresses[0]:#04x}" if len(addresses) == 1 else "that"
    return f"but a chip answers at {' and at '.join(places)}: set address = {first} if it is this sensor"


def _advice_for_unavailable(sensor: Sensor, error: HardwareUnavailableError) -> str:
    cause = error.__cause__
    if isinstance(cause, PermissionError):
        return joining("i2c" if sensor.is_on_i2c else "dialout")
    if isinstance(cause, FileNotFoundError) and sensor.bus != 1:
        return "a bus other than 1 needs an overlay in config.txt, such as dtoverlay=i2c3"
    return ""


def _described_value(sensor: Sensor, body: bytes) -> str:
    """What a payload means, for a person."""
    try:
        value = value_of(sensor, body)
    except ValueError as error:
        return str(error)
    return f"no {sensor.key}" if value is None else f"{value:g}"


def _has_value(sensor: Sensor, body: bytes) -> bool:
    """Whether a payload is about the value, be it valid or not."""
    try:
        return value_of(sensor, body) is not None
    except ValueError:
        return True
