import errno
import sys
import time

import pytest
import smbus2

from growd_drivers.errors import DriverError, HardwareUnavailableError
from growd_drivers.hardware import Hardware, open_hardware
from growd_drivers.serial_line import open_port
from growd_hwsim.gpio import SimulatedPins
from support.lasting_pins import LastingPins

REAL_TIME = {"sleep": time.sleep, "monotonic": time.monotonic}


@pytest.fixture
def pins(tmp_path):
    return LastingPins(tmp_path)


@pytest.mark.parametrize(
    ("chips", "words"),
    [
        ({}, "not a Raspberry Pi: it has no GPIO chip. Choose simulated hardware"),
        (
            {0: "INT34C5:00", 1: "gpio-mockup"},
            "not a Raspberry Pi: its GPIO chips are INT34C5:00, gpio-mockup",
        ),
        ({0: "refused"}, "/dev/gpiochip0: Permission denied: add growd's user to the group gpio"),
    ],
)
def test_without_the_pins_of_a_raspberry_pi_the_error_has_the_reason(pins, chips, words):
    with pins.here(chips), pytest.raises(HardwareUnavailableError, match=words) as caught:
        open_hardware(**REAL_TIME)
    assert isinstance(caught.value, DriverError)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.device == "gpio"


def test_without_devices_on_pins_another_machine_will_do(pins, monkeypatch):
    with pins.here({}):
        assert not hasattr(open_hardware(**REAL_TIME, library=None), "pins")
        with pytest.raises(HardwareUnavailableError, match="only be run on a Raspberry Pi"):
            open_hardware(**REAL_TIME, library="RPi.GPIO")
    with pins.here():
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(HardwareUnavailableError, match="the pin keeper failed") as caught:
            open_hardware(**REAL_TIME)
        assert caught.value.device == "gpio"


@pytest.mark.parametrize(
    ("library", "package", "words"),
    [
        ("gpiod", "gpiod", r"gpiod can't be imported \(.*\): install growd again"),
        ("RPi.GPIO", "RPi", r"RPi.GPIO can't be used \(.*\): install growd\[rpi-gpio\], or choose"),
    ],
)
def test_a_package_that_can_not_be_imported_is_one_sentence(tmp_path, library, package, words):
    (tmp_path / f"{package}.py").write_text("raise ImportError('no such thing')")
    with LastingPins(tmp_path).here(), pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        with pytest.raises(HardwareUnavailableError, match=words) as caught:
            open_hardware(**REAL_TIME, library=library)
        assert caught.value.device == "gpio"


@pytest.mark.parametrize(
    "chips",
    [
        {0: "pinctrl-bcm2711", 1: "raspberrypi-exp-gpio"},
        {0: "gpio-brcmstb@107d508500", 4: "pinctrl-rp1"},
        {0: "pinctrl-rp1", 10: "gpio-brcmstb@107d508500"},
        {0: "refused", 1: "pinctrl-rp1"},
    ],
    ids=["Pi 4", "Pi 5, old kernel", "Pi 5", "another chip refused"],
)
def test_on_a_raspberry_pi_it_is_smbus2_and_the_chip_of_the_header(pins, chips):
    with pins.here(chips):
        hardware = open_hardware(**REAL_TIME)
        hardware.pins.claim(23, 1)
        assert hardware.pins is open_hardware(**REAL_TIME).pins
    assert pins.levels() == {23: 1}
    assert hardware._open_smbus is smbus2.SMBus
    with pytest.raises(HardwareUnavailableError, match=r"no /dev/i2c-250\): switch I2C on"):
        hardware.i2c(250).writeto(0x61, b"")


@pytest.mark.parametrize(
    ("number", "words"), [(errno.EACCES, "to the group i2c"), (errno.EMFILE, "Too many open files")]
)
def test_a_bus_that_cannot_be_opened_says_why(number, words):
    def refuse(_bus):
        raise OSError(number, "Too many open files")

    hardware = Hardware(refuse, open_port, SimulatedPins(time.monotonic), **REAL_TIME)
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

    hardware = Hardware(open_bus, open_port, SimulatedPins(time.monotonic), **REAL_TIME)
    assert hardware.i2c(1) is hardware.i2c(1)
    assert hardware.i2c(0) is not hardware.i2c(1)
    for number in (1, 0, 1):
        hardware.i2c(number).writeto(0x61, b"")
    assert [number for number, _ in opened] == [1, 0]
    hardware.close()
    hardware.close()
    assert [bus.closed for _, bus in opened] == [1, 1]
