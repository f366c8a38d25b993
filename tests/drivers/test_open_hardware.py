from __future__ import annotations

import errno
import sys
import time

import pytest
import smbus2

from growd_drivers.errors import DriverError, HardwareUnavailableError
from growd_drivers.hardware import Hardware, open_hardware
from growd_drivers.serial_line import open_port
from growd_hwsim.gpio import SimulatedGpio

REAL_TIME = {"sleep": time.sleep, "monotonic": time.monotonic}


@pytest.fixture
def rpi_package(tmp_path, monkeypatch):
    """Puts a package RPi in place whose GPIO has the source given."""

    def install(source: str) -> None:
        (tmp_path / "RPi").mkdir()
        (tmp_path / "RPi" / "__init__.py").touch()
        (tmp_path / "RPi" / "GPIO.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    for name in [name for name in sys.modules if name.partition(".")[0] == "RPi"]:
        del sys.modules[name]


def test_without_the_gpio_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "RPi", None)
    with pytest.raises(HardwareUnavailableError, match=r"pip install 'growd\[pi\]'.*simulated") as caught:
        open_hardware(**REAL_TIME)
    assert isinstance(caught.value, DriverError)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.device == "gpio"


def test_off_a_pi_the_error_has_the_reason(rpi_package):
    rpi_package("raise RuntimeError('This module can only be run on a Raspberry Pi!')")
    with pytest.raises(HardwareUnavailableError, match=r"can only be run on a Raspberry Pi.*simulated"):
        open_hardware(**REAL_TIME)


def test_on_a_pi_it_is_smbus2_and_the_gpio_module(rpi_package):
    rpi_package("BCM, OUT = 11, 0")
    hardware = open_hardware(**REAL_TIME)
    assert hardware.gpio.__name__ == "RPi.GPIO"
    assert hardware._open_smbus is smbus2.SMBus
    with pytest.raises(HardwareUnavailableError, match=r"no /dev/i2c-250\): switch I2C on"):
        hardware.i2c(250).writeto(0x61, b"")


@pytest.mark.parametrize(
    ("number", "words"), [(errno.EACCES, "to the group i2c"), (errno.EMFILE, "Too many open files")]
)
def test_a_bus_that_cannot_be_opened_says_why(number, words):
    def refuse(_bus):
        raise OSError(number, "Too many open files")

    hardware = Hardware(refuse, open_port, SimulatedGpio(time.monotonic), **REAL_TIME)
    with pytest.raises(HardwareUnavailableError, match=words) as caught:
        hardware.i2c(1).writeto(0x61, b"")
    assert caught.value.device == "i2c-1"


def test_a_bus_is_opened_once_and_closed_with_the_hardware():
    class Bus:
        closed = 0

        def i2c_rdwr(self, *messages):
            pass

        def close(self):
            self.closed += 1

    opened = []

    def open_bus(number):
        opened.append((number, Bus()))
        return opened[-1][1]

    hardware = Hardware(open_bus, open_port, SimulatedGpio(time.monotonic), **REAL_TIME)
    assert hardware.i2c(1) is hardware.i2c(1)
    assert hardware.i2c(0) is not hardware.i2c(1)
    for number in (1, 0, 1):
        hardware.i2c(number).writeto(0x61, b"")
    assert [number for number, _ in opened] == [1, 0]
    hardware.close()
    hardware.close()
    assert [bus.closed for _, bus in opened] == [1, 1]
