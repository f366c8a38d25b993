"""A simulated machine with one or more chambers, for the real drivers."""

from __future__ import annotations

import errno
import functools
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

from growd_drivers.hardware import Hardware
from growd_drivers.hardware_pwm import channels_on
from growd_drivers.sc16is750 import place_of
from growd_hwsim.chip import SENSORS
from growd_hwsim.chips.ads1115 import SimulatedAds1115
from growd_hwsim.chips.ds18b20 import SimulatedDs18b20, SimulatedOneWire
from growd_hwsim.chips.mqtt_sensor import SimulatedBroker
from growd_hwsim.chips.sc16is750 import SimulatedSc16is750
from growd_hwsim.faults import Faults, wait_a_moment
from growd_hwsim.gpio import SimulatedPins
from growd_hwsim.i2c import CLEARING_PULSES, I2CAdapter, I2CKernel, I2CSlave, smbus_over
from growd_hwsim.network_switches import SimulatedNetwork
from growd_hwsim.pwm_sysfs import SimulatedPwmSysfs
from growd_hwsim.uart import SerialPorts, UartSlave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from growd_hwsim.chamber import SimulatedChamber
    from growd_hwsim.faults import Fault
    from growd_hwsim.network_switches import WiredNetwork

USUAL_BUS_HZ = 50_000  # Sensirion's recommendation for the SCD30

_LAMP_PINS = {"white": 18, "red": 13, "blue": 19}


Truth: TypeAlias = "Callable[[SimulatedHardware, SimulatedChamber], float]"
"""The true value that a sensor in that chamber measures now."""


@dataclass(frozen=True)
class WiredChip:
    """A kind of chip and its place on I2C. A serial sensor is behind an SC16IS750 at that place.

    A chip of an output moves an actuator of the chamber (one of `ACTUATORS`) or a channel of the lamp.
    """

    kind: str
    bus: int
    address: int
    moves: str = ""
    channel: str = ""


@dataclass(frozen=True)
class WiredProbe:
    """A contact or a sensor that publishes: its truth, and what makes it of a function that returns that."""

    truth: Truth
    make: Callable[[Callable[[], float]], Any]


_CHIPS = (WiredChip("scd30", 1, 0x61), WiredChip("bh1750", 1, 0x23))


@dataclass(frozen=True)
class WiredRelay:
    """An output at a pin, and the actuator of the chamber that it moves (one of `ACTUATORS`, "" for none).

    With `channel` it drives that channel of the lamp. A pin with PWM drives it with its duty; with
    `hardware_pwm` a PWM chip drives the pin.
    """

    moves: str
    active_high: bool = True
    channel: str = ""
    hardware_pwm: bool = False


@dataclass(frozen=True)
class Wiring:
    """How a chamber is connected: sensors on I2C buses, pins (BCM) of lamps, relays and switches.

    `voltages` has the volts at inputs of ADS1115, each by bus, address and channel; `thermometers` the
    truths of DS18B20 by their ids; `mqtt` makes a `SimulatedMqttSensor`, `switches` a `SimulatedContact`.
    `serial` has the kind of the sensor at each serial port. `pwm_chips` has the number of channels (2 or 4)
    of each PWM chip, which drives those pins of lamps, and of outputs with hardware PWM, that it can.
    `stand_ins` has outputs whose drivers are not simulated, and what each moves. `bus_hz` has the speeds of
    buses (`USUAL_BUS_HZ`).
    """

    i2c: tuple[WiredChip, ...] = _CHIPS
    lamp_pins: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(_LAMP_PINS))
    inverted_lamps: bool = False
    relays: Mapping[int, WiredRelay] = field(default_factory=lambda: MappingProxyType({}))
    voltages: Mapping[tuple[int, int, str], Truth] = field(default_factory=lambda: MappingProxyType({}))
    thermometers: Mapping[str, Truth] = field(default_factory=lambda: MappingProxyType({}))
    mqtt: tuple[WiredProbe, ...] = ()
    network: tuple[WiredNetwork, ...] = ()
    stand_ins: tuple[tuple[object, WiredRelay], ...] = ()
    switches: Mapping[int, WiredProbe] = field(default_factory=lambda: MappingProxyType({}))
    serial: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    pwm_chips: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    bus_hz: Mapping[int, int | None] = field(default_factory=lambda: MappingProxyType({}))


class SimulatedHardware(Hardware):
    """A `Hardware` with simulated chambers, chips, pins and faults, which tests can inspect.

    The default `wiring` of `chamber` is an SCD30, a BH1750 and dimmable lamps. `further` has other chambers
    on the same buses and header, each with its wiring; `chambers` has all of them. `adapters` has the I2C
    buses by number, `chips` their chips by bus and address, `serial_chips` the serial sensors by port, or by
    the place of their bridge.
    """

    pins: SimulatedPins
    pwm_files: SimulatedPwmSysfs
    mqtt: SimulatedBroker
    one_wire: SimulatedOneWire

    def __init__(
        self,
        chamber: SimulatedChamber,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        hang: Callable[[], None] = wait_a_moment,
        faults: Sequence[Fault] = (),
        wiring: Wiring | None = None,
        further: Sequence[tuple[SimulatedChamber, Wiring]] = (),
        seed: int = 0,
    ) -> None:
        self.chamber = chamber
        self.wiring = wiring or Wiring()
        self._wired = ((chamber, self.wiring), *further)
        self.chambers = tuple(each for each, _ in self._wired)
        self.faults = Faults(sleep=sleep, monotonic=monotonic, hang=hang, faults=faults)
        for each in self.chambers:
            each.present_faults = self.faults.in_chamber
        self._moved = {pin: move for each, wired in self._wired for pin, move in _moved(each, wired).items()}
        self.network = self._network(monotonic)
        self.serial_chips: dict[str, UartSlave] = {}
        self.chips: dict[tuple[int, int], I2CSlave] = {}
        self._place_chips(monotonic, seed)
        self.adapters = {number: self._adapter(number) for number in sorted({bus for bus, _ in self.chips})}
        self.serial_ports = SerialPorts(
            wire=self.faults.serial_wire, plug=self.faults.plug, pause=self.faults.pause, sleep=sleep
        )
        self._attach(monotonic, seed)
        pwm_files = self._pwm_sysfs()
        super().__init__(
            smbus_over(I2CKernel(self.adapters)),
            self.serial_ports.open,
            self._simulated_pins(monotonic, pwm_files),
            sleep=sleep,
            monotonic=monotonic,
            clear_bus=self.clear_bus,
            pwm_files=pwm_files,
            one_wire=self._one_wire(sleep),
            mqtt=self._broker(monotonic),
            ask_http=self.network.ask_http,
            bus_speed_hz=lambda number: self.wiring.bus_hz.get(number, USUAL_BUS_HZ),
        )
        self._output_chips = [
            chip for chip in self.chips.values() if getattr(SENSORS.get(chip.name), "is_output", False)
        ]
        self._is_bringing = False
        for each in self.chambers:
            each.bring_outputs = self._bring_outputs

    def sensor(self, kind: str) -> Any:
        """The first sensor of that kind on I2C."""
        return next(chip for chip in self.chips.values() if chip.name == kind)

    def clear_bus(self, number: int) -> None:
        """As `growd_drivers.bus_clear.clear_bus`: nine clock pulses. Raises OSError without such a bus."""
        if number not in self.adapters:
            raise OSError(errno.ENODEV, f"there is no I2C bus {number}")
        self.adapters[number].clock_pulses(CLEARING_PULSES)

    def i2c_numbers(self) -> list[int]:
        """As `Hardware.i2c_numbers`."""
        return sorted(self.adapters)

    def serial_places(self) -> list[str]:
        """As `Hardware.serial_places`."""
        return sorted({port for _, wired in self._wired for port in wired.serial})

    def stand_in(self, _output: object) -> Callable[[float], None] | None:
        """As `Hardware.stand_in`."""
        for chamber, wired in self._wired:
            for each, moved in wired.stand_ins:
                if each is _output:
                    return functools.partial(_switch, chamber, moved)
        return None

    def picture(self, number: int, width: int) -> bytes | None:
        """As `Hardware.picture`."""
        from growd_hwsim.camera import picture_of  # noqa: PLC0415  few have a camera, and Pillow takes memory

        return picture_of(self.chambers[number], width)

    def close(self) -> None:
        """As `Hardware.close`; also closes the simulated ends of the serial lines and ends hanging calls."""
        self.faults.close()
        super().close()
        self.serial_ports.close()

    def _network(self, monotonic: Callable[[], float]) -> SimulatedNetwork:
        outputs = [
            (output, functools.partial(_move, each, output.moves, output.channel))
            for each, wired in self._wired
            for output in wired.network
        ]
        return SimulatedNetwork(outputs, monotonic, self.faults.is_away)

    def _place_chips(self, monotonic: Callable[[], float], seed: int) -> None:
        """Place the chips on their buses, and connect the sensors with a voltage to their ADS1115."""
        on_buses = [(chip, each) for each, wired in self._wired for chip in wired.i2c]
        for number, (chip, each) in enumerate(on_buses):
            made = self._chip(chip, each, monotonic, seed + number)
            self.chips[chip.bus, chip.address] = self._bridged(chip, made)
        for each, wired in self._wired:
            for (bus, address, channel), volts in wired.voltages.items():
                converter = self.chips[bus, address]
                if isinstance(converter, SimulatedAds1115):
                    converter.connect(channel, functools.partial(volts, self, each))

    def _attach(self, monotonic: Callable[[], float], seed: int) -> None:
        """Attach the serial sensors to their ports."""
        at_ports = [(port, kind, each) for each, wired in self._wired for port, kind in wired.serial.items()]
        for number, (port, kind, each) in enumerate(at_ports):
            self.serial_chips[port] = self._sensor(kind, each, monotonic, seed + number)
            self.serial_ports.attach(port, self.serial_chips[port])

    def _simulated_pins(self, monotonic: Callable[[], float], pwm_files: SimulatedPwmSysfs) -> SimulatedPins:
        wires = {pin: wire for each, wired in self._wired for pin, wire in self._switches(each, wired)}
        return SimulatedPins(
            monotonic,
            on_change=lambda pin, high: self._on_pin(pin, high, self.pins.moment),
            is_refused=self.faults.is_refused,
            hangs=self.faults.hangs_at_pin,
            wires=wires,
            pwm_files=pwm_files,
        )

    def _one_wire(self, sleep: Callable[[float], None]) -> SimulatedOneWire:
        sensors = [
            (device, SimulatedDs18b20(functools.partial(truth, self, each), seed=crc32(device.encode())))
            for each, wired in self._wired
            for device, truth in wired.thermometers.items()
        ]
        return SimulatedOneWire(sensors, self.faults, sleep)

    def _broker(self, monotonic: Callable[[], float]) -> SimulatedBroker:
        sensors = [
            sensor.make(functools.partial(sensor.truth, self, each))
            for each, wired in self._wired
            for sensor in wired.mqtt
        ]
        return SimulatedBroker(sensors, self.faults, monotonic, on_send=self.network.receive)

    def _chip(
        self, wired: WiredChip, chamber: SimulatedChamber, monotonic: Callable[[], float], seed: int
    ) -> Any:
        if not SENSORS[wired.kind].is_output:
            return self._sensor(wired.kind, chamber, monotonic, seed)
        made: Any = SENSORS[wired.kind]
        return made(functools.partial(_move, chamber, wired.moves, wired.channel), monotonic, seed=seed)

    def _sensor(self, kind: str, chamber: SimulatedChamber, monotonic: Callable[[], float], seed: int) -> Any:
        """A new sensor of that kind in a chamber."""
        sensor: Any = SENSORS[kind]
        made = sensor(functools.partial(self._truth, chamber, sensor.senses), monotonic, seed=seed)
        if chamber.is_recorded:
            made.follow_at_once()
        return made

    def _truth(self, chamber: SimulatedChamber, senses: str) -> Any:
        return getattr(chamber, senses)()

    def _bridged(self, chip: WiredChip, sensor: I2CSlave | UartSlave) -> I2CSlave:
        """The chip on the bus: the sensor, or a bridge if it is a serial one."""
        if isinstance(sensor, I2CSlave):
            return sensor
        place = place_of(chip.bus, chip.address)
        self.serial_chips[place] = sensor
        return SimulatedSc16is750(sensor, port=place, wire=self.faults.serial_wire)

    def _switches(
        self, chamber: SimulatedChamber, wiring: Wiring
    ) -> Iterator[tuple[int, Callable[[], bool | None]]]:
        for pin, wired in wiring.switches.items():
            switch = wired.make(functools.partial(wired.truth, self, chamber))
            yield pin, functools.partial(self.faults.switch, pin, switch.level)

    def _adapter(self, number: int) -> I2CAdapter:
        """The bus of that number, with the chips that are on it."""
        adapter = I2CAdapter(
            number, wire=self.faults.wire, hold=self.faults.hold, on_pulses=self.faults.pulsed
        )
        for (bus, address), chip in self.chips.items():
            if bus == number:
                adapter.attach(address, chip)
        return adapter

    def _pwm_sysfs(self) -> SimulatedPwmSysfs:
        """The PWM chips. Their pins are low from boot."""
        chips = {number: channels for _, wired in self._wired for number, channels in wired.pwm_chips.items()}
        bare = SimulatedPwmSysfs({}, chips=chips)
        places = {pin: place for chip in chips for pin, place in channels_on(chip, bare).items()}
        driven = {
            *(pin for _, wired in self._wired for pin in wired.lamp_pins.values()),
            *(pin for _, wired in self._wired for pin, each in wired.relays.items() if each.hardware_pwm),
        }
        used = {pin: place for pin, place in places.items() if pin in driven}
        for pin in used:
            self._on_pin(pin, 0.0)
        return SimulatedPwmSysfs(
            used,
            chips=chips,
            on_change=lambda pin, high: self._on_pin(pin, high, self.pins.moment),
            is_refused=self.faults.is_refused,
        )

    def _bring_outputs(self, now: float) -> None:
        """Bring pins and chips of outputs to the present, before a chamber goes there."""
        self.pins.advance(now)
        if self._is_bringing or not self._output_chips:
            return
        self._is_bringing = True  # a chip that moves its chamber asks again
        try:
            for chip in self._output_chips:
                chip.step()
        finally:
            self._is_bringing = False

    def _on_pin(self, pin: int, high: float, at: float | None = None) -> None:
        if pin in self._moved:
            self._moved[pin](high, at)


def _moved(chamber: SimulatedChamber, wiring: Wiring) -> dict[int, Callable[[float, float | None], None]]:
    """The part of a chamber that each pin moves; called with the share of time it is high, and when."""
    relays = {pin: functools.partial(_switch, chamber, relay) for pin, relay in wiring.relays.items()}
    lamps = {
        pin: functools.partial(_light, chamber, channel, wiring.inverted_lamps)
        for channel, pin in wiring.lamp_pins.items()
    }
    return {**relays, **lamps}


def _switch(chamber: SimulatedChamber, relay: WiredRelay, high: float, at: float | None = None) -> None:
    _move(chamber, relay.moves, relay.channel, high if relay.active_high else 1.0 - high, at)


def _move(
    chamber: SimulatedChamber, actuator: str, channel: str, level: float, at: float | None = None
) -> None:
    if actuator:
        chamber.set_actuator(actuator, level, at)
    if channel:
        chamber.set_lamp(channel, level, at)


def _light(
    chamber: SimulatedChamber,
    channel: str,
    inverted: bool,  # noqa: FBT001  of the wiring
    high: float,
    at: float | None,
) -> None:
    chamber.set_lamp(channel, 1.0 - high if inverted else high, at)
