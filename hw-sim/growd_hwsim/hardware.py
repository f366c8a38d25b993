"""A simulated machine: real drivers above it can't tell it from a Raspberry Pi with a chamber."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from growd_drivers.hardware import Hardware
from growd_hwsim.chips.bh1750 import SimulatedBh1750
from growd_hwsim.chips.mhz19 import SimulatedMhz19
from growd_hwsim.chips.scd30 import SimulatedScd30
from growd_hwsim.chips.tsl2591 import SimulatedTsl2591
from growd_hwsim.faults import Faults
from growd_hwsim.gpio import SimulatedGpio
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from growd_hwsim.uart import SerialPorts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from growd_hwsim.chamber import Air, Chamber
    from growd_hwsim.faults import Fault

_LAMP_PINS = {"white": 18, "red": 13, "blue": 19}


@dataclass(frozen=True)
class WiredRelay:
    """A relay that moves the chamber's valve or fan, and whether a high pin switches it on."""

    moves: Literal["valve", "fan"]
    active_high: bool = True


@dataclass(frozen=True)
class Wiring:
    """What is connected where: I2C bus and addresses, BCM pins of the lamps, and how a pin lights them.

    `relays` has what is on each further BCM pin. `serial` has the kind of the sensor ("mhz19" or "mhz16") at
    each serial port.
    """

    i2c_bus: int = 1
    scd30_address: int = 0x61
    bh1750_address: int = 0x23
    tsl2591_address: int | None = None
    lamp_pins: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(_LAMP_PINS))
    inverted_lamps: bool = False
    relays: Mapping[int, WiredRelay] = field(default_factory=lambda: MappingProxyType({}))
    serial: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class SimulatedHardware(Hardware):
    """A `Hardware` whose insides can be seen: chamber, chips, pins, faults."""

    gpio: SimulatedGpio

    def __init__(
        self,
        chamber: Chamber,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        faults: Sequence[Fault],
        wiring: Wiring,
        seed: int,
    ) -> None:
        self.chamber = chamber
        self.wiring = wiring
        self.faults = Faults(sleep=sleep, monotonic=monotonic, faults=faults)
        self._channels = {pin: channel for channel, pin in wiring.lamp_pins.items()}
        self.scd30 = SimulatedScd30(self._air, monotonic, seed=seed)
        self.bh1750 = SimulatedBh1750(self._illuminance, monotonic, seed=seed)
        self.adapter = I2CAdapter(wiring.i2c_bus, wire=self.faults.wire)
        self.adapter.attach(wiring.scd30_address, self.scd30)
        self.adapter.attach(wiring.bh1750_address, self.bh1750)
        self.tsl2591 = SimulatedTsl2591(self._illuminance, monotonic, seed=seed)
        if wiring.tsl2591_address is not None:
            self.adapter.attach(wiring.tsl2591_address, self.tsl2591)
        self.serial_ports = SerialPorts(
            wire=self.faults.serial_wire, plug=self.faults.plug, pause=self.faults.pause
        )
        self.serial_chips = {
            port: SimulatedMhz19(self._carbon_dioxide, monotonic, name=kind, seed=seed + number)
            for number, (port, kind) in enumerate(wiring.serial.items())
        }
        for port, chip in self.serial_chips.items():
            self.serial_ports.attach(port, chip)
        super().__init__(
            smbus_over(I2CKernel({wiring.i2c_bus: self.adapter})),
            self.serial_ports.open,
            SimulatedGpio(monotonic, on_change=self._on_pin, is_refused=self.faults.is_refused),
            sleep=sleep,
            monotonic=monotonic,
        )

    def close(self) -> None:
        """As `Hardware.close`, and the simulated ends of the serial lines too."""
        super().close()
        self.serial_ports.close()

    def _on_pin(self, pin: int, high: float) -> None:
        if pin in self._channels:
            lit = 1.0 - high if self.wiring.inverted_lamps else high
            self.chamber.set_lamp(self._channels[pin], lit)
        elif pin in self.wiring.relays:
            relay = self.wiring.relays[pin]
            move = self.chamber.set_valve if relay.moves == "valve" else self.chamber.set_fan
            move((high > 0) == relay.active_high)

    def _air(self) -> Air:
        self.gpio.settle()
        return self.chamber.air()

    def _carbon_dioxide(self) -> float:
        return self._air().carbon_dioxide_ppm

    def _illuminance(self) -> float:
        self.gpio.settle()
        return self.chamber.illuminance_lux()


def open_simulated(
    chamber: Chamber,
    *,
    sleep: Callable[[float], None],
    monotonic: Callable[[], float],
    faults: Sequence[Fault] = (),
    wiring: Wiring | None = None,
    seed: int = 0,
) -> SimulatedHardware:
    """A machine with an SCD30, a BH1750, dimmable lamps, and what `wiring` has beside them, in `chamber`.

    All on the time of one clock.
    """
    return SimulatedHardware(
        chamber, sleep=sleep, monotonic=monotonic, faults=faults, wiring=wiring or Wiring(), seed=seed
    )
