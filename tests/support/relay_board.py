"""The source of a package with a driver of an output: a relay on a PCF8574 (NXP data sheet, section 8)."""

SOURCE = """
from growd_drivers.kinds import DriverOption, OutputKind
from growd_hwsim.i2c import I2CSlave


class Relay:
    def __init__(self, bus, *, sleep, name, address, relay):
        self._bus, self._address, self._bit = bus, address, 1 << relay

    def write(self, level):
        self._bus.writeto(self._address, bytes([0xFF & ~(self._bit if level else 0)]))

    def close(self):
        pass


class SimulatedPcf8574(I2CSlave):
    name = "relay_board"
    is_output = True

    def __init__(self, drive, monotonic, *, seed=0):
        super().__init__()
        self._drive = drive

    def on_write(self, data):
        self._drive(float(data[-1] != 0xFF))

    def on_read(self, length):
        return bytes(length)


KIND = OutputKind(
    "PCF8574",
    "growd_board:Relay",
    1,
    addresses=(0x20, 0x21),
    own_options=(DriverOption("relay", int, "Number of the relay.", 0, 0, 7),),
    chip="growd_board:SimulatedPcf8574",
)
"""
