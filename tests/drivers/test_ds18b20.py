"""The DS18B20 over files as the kernel has them."""

import errno

import pytest

from growd_drivers.ds18b20 import Ds18b20
from growd_drivers.errors import DeviceMissingError, HardwareUnavailableError, SettingError, TransferError
from growd_drivers.one_wire import SysfsOneWire
from growd_hwsim.chips.ds18b20 import SimulatedDs18b20, SimulatedOneWire, crc8
from growd_hwsim.faults import Faults
from support.machine import SleepingTime

ID = "28-0316a4ef5dff"
REAL = "72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t=23125\n"
"""Linux, Documentation/w1/slaves/w1_therm.rst has this form."""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "w1_bus_master1").mkdir()
    return tmp_path


def sensor_with(root, text, **options):
    (root / ID).mkdir()
    (root / ID / "w1_slave").write_text(text)
    return Ds18b20(SysfsOneWire(root), **options)


@pytest.mark.parametrize("device", ["28-*", "28-0316*", ID])
def test_the_kernels_file_is_read(root, device):
    assert sensor_with(root, REAL, device=device).read().temperature_degc == 23.125


@pytest.mark.parametrize("degc", [-10.125, 0.0, 0.0625, 25.0625, 84.9375, 85.0625])
def test_the_simulated_chip_has_the_datasheets_encoding_and_checksum(degc):
    clock = SleepingTime()
    faults = Faults(sleep=clock.sleep, monotonic=clock.monotonic)
    chip = SimulatedDs18b20(lambda: degc)
    chip._noise.gauss = lambda *_: 0.0
    files = SimulatedOneWire([(ID, chip)], faults, clock.sleep)
    began = clock.monotonic()
    assert Ds18b20(files).read().temperature_degc == pytest.approx(degc, abs=0.001)
    assert clock.monotonic() - began == pytest.approx(0.75)
    assert crc8(bytes.fromhex("7201 4b46 7fff 0e10")) == 0x57


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (REAL.replace("YES", "NO"), TransferError, "wrong checksum"),
        ("00 " * 9 + ": crc=00 YES\n" + "00 " * 9 + "t=0\n", TransferError, "wrong checksum"),
        ("", TransferError, "sent no measurement"),
        ("garbage\n", TransferError, "sent no measurement"),
    ],
)
def test_what_is_no_measurement_is_refused(root, text, error, words):
    with pytest.raises(error, match=words):
        sensor_with(root, text).read()


def test_without_a_bus_the_remedy_is_named(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(HardwareUnavailableError, match=r"not switched on: run growd setup-pi.*w1-gpio"):
            Ds18b20(SysfsOneWire(folder)).read()


def test_a_missing_device_names_those_that_are_there_and_a_pattern_of_two_is_refused(root):
    (root / "28-000000000001").mkdir()
    with pytest.raises(DeviceMissingError, match=rf"DS18B20 {ID} .* GPIO 17; there is 28-000000000001"):
        Ds18b20(SysfsOneWire(root), device=ID, pin=17).read()
    with pytest.raises(SettingError, match=f"may be 28-000000000001 or {ID}: set device"):
        sensor_with(root, REAL).read()


def test_a_device_that_is_lost_during_the_read_is_missing(root):
    (root / ID).mkdir()
    with pytest.raises(DeviceMissingError):
        Ds18b20(SysfsOneWire(root)).read()


def test_an_error_of_the_kernel_keeps_its_number(root):
    class Failing(SysfsOneWire):
        def read(self, path):
            raise OSError(errno.EIO, "Input/output error")

    (root / ID).mkdir()
    with pytest.raises(TransferError, match="can't be read: Input/output error") as caught:
        Ds18b20(Failing(root)).read()
    assert caught.value.errno == errno.EIO
