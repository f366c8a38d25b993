"""A simulated /sys/bus/w1/devices. Source: Linux, drivers/w1/slaves/w1_therm.c, w1_slave_show."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from growd_hwsim.chips.ds18b20 import CONVERSION_S, crc8, degc_in
from growd_hwsim.errors import kernel_error
from growd_hwsim.i2c import I2CMessage, NoAcknowledgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd_hwsim.chips.ds18b20 import SimulatedDs18b20
    from growd_hwsim.faults import Faults

_BUS = 100  # as the wire of faults knows it; no I2C bus has this number


class SimulatedOneWire:
    """As `growd_drivers.one_wire.OneWireFiles`, with thermometers by their ids.

    Without a thermometer 1-wire is not switched on.
    """

    def __init__(
        self,
        thermometers: Sequence[tuple[str, SimulatedDs18b20]],
        faults: Faults,
        sleep: Callable[[float], None],
    ) -> None:
        self.thermometers = dict(thermometers)
        self._places = {name: place for place, name in enumerate(self.thermometers)}
        self._faults = faults
        self._sleep = sleep

    def names(self) -> list[str]:
        """The bus, and the thermometers that answer."""
        return [*self.thermometers, "w1_bus_master1"] if self.thermometers else []

    def read(self, path: str, /) -> str:
        """The file w1_slave of a thermometer, after a conversion."""
        name, _, file = path.partition("/")
        if name not in self.thermometers or file != "w1_slave":
            raise kernel_error(errno.ENOENT)
        message = I2CMessage(_BUS, self._places[name], self.thermometers[name].name, None, 9)
        self._faults.hold(message)
        self._sleep(CONVERSION_S)
        try:
            scratchpad = self._faults.wire(message, lambda _: self.thermometers[name].convert())
        except NoAcknowledgeError:
            raise kernel_error(errno.ENOENT) from None
        return _shown(scratchpad)


def _shown(scratchpad: bytes) -> str:
    octets, crc = scratchpad.hex(" "), crc8(scratchpad[:8])
    verdict = "YES" if crc == scratchpad[8] else "NO"
    return f"{octets} : crc={crc:02x} {verdict}\n{octets} t={round(1000 * degc_in(scratchpad))}\n"
