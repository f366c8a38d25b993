import errno
import struct

import pytest

from growd_drivers.bh1750 import Bh1750
from growd_drivers.errors import DeviceMissingError, HardwareUnavailableError, NotReadyError, TransferError
from growd_drivers.pin_output import PinOutput
from growd_drivers.scd30 import Scd30
from growd_hwsim.errors import FaultFileError, SimulationError
from growd_hwsim.fault_files import load_faults
from growd_hwsim.faults import BUS_TIMEOUT_S, Fault
from support.machine import SleepingTime, simulated


class Bench:
    def __init__(self, *faults):
        self.clock = SleepingTime()
        self.machine = simulated(self.clock, faults=faults)
        self.faults = self.machine.faults
        self.light = Bh1750(self.machine.i2c(1), sleep=self.clock.sleep)
        self.air = Scd30(self.machine.i2c(1), sleep=self.clock.sleep)

    def start_air(self):
        with pytest.raises(NotReadyError):
            self.air.read()

    def next_air(self):
        self.clock.advance(2)
        return self.air.read()


def test_a_fault_lasts_from_at_for_its_duration():
    bench = Bench()
    bench.clock.advance(1000)
    bench.faults.inject(Fault("absent", "bh1750", at=60, duration=30))
    assert bench.light.read()
    bench.clock.advance(60)
    with pytest.raises(DeviceMissingError):
        bench.light.read()
    bench.clock.advance(30)
    assert bench.light.read()


def test_a_pin_refuses_for_as_long_as_the_fault_lasts_also_at_the_end_of_its_lease(said):
    bench = Bench(Fault("refused", "gpio-23", at=1, duration=10))
    pins = bench.machine.pins
    valve, fan = (PinOutput(pins, pin, name="relay") for pin in (23, 24))
    valve.write(1.0, 2.0)
    bench.clock.advance(3)
    fan.write(1.0, 60.0)
    with said.raises(HardwareUnavailableError):
        valve.write(1.0, 60.0)
    assert (pins.high(23), pins.high(24)) == (1, 1)
    bench.clock.advance(10)
    assert pins.high(23) == 0
    valve.write(1.0, 60.0)
    assert pins.high(23) == 1


def test_a_timeout_takes_the_time_the_adapter_waits():
    bench = Bench(Fault("timeout", "bh1750"))
    before = bench.clock.now
    with pytest.raises(TransferError) as caught:
        bench.light.read()
    assert caught.value.errno == errno.ETIMEDOUT
    assert bench.clock.now - before == pytest.approx(BUS_TIMEOUT_S)


def test_a_chip_frozen_from_the_start_repeats_its_first_measurement():
    bench = Bench(Fault("frozen", "bh1750"))
    bench.machine.chamber.set_lamp("white", 0.01)
    bench.light._range = 0  # one measurement a reading, so that all readings mean the same range
    first = bench.light.read()
    bench.machine.chamber.set_lamp("white", 0.02)
    assert bench.light.read() == first


def test_a_flipped_bit_never_becomes_a_frozen_value():
    bench = Bench()
    bench.start_air()
    last = bench.next_air()
    bench.faults.inject(Fault("bad_crc", "scd30"))
    with pytest.raises(TransferError):
        bench.next_air()
    bench.faults.clear("scd30")
    bench.faults.inject(Fault("frozen", "scd30"))
    assert bench.next_air() == last


def test_probability_is_reproducible_with_a_seed():
    def outcomes(seed):
        bench = Bench(Fault("bus_error", "bh1750", probability=0.1, seed=seed))
        seen = []
        for _ in range(60):
            try:
                bench.light.read()
            except TransferError:
                seen.append(False)
            else:
                seen.append(True)
        return seen

    assert outcomes(1) == outcomes(1)
    assert outcomes(1) != outcomes(2)
    assert 0 < sum(outcomes(1)) < 60


def test_active_faults_are_those_that_are_not_over_and_clear_takes_those_of_one_device_or_all():
    now, later = Fault("absent", "scd30", duration=60), Fault("absent", "bh1750", at=30, duration=60)
    bench = Bench(now, later)
    assert bench.faults.active() == [now, later]
    bench.clock.advance(60)
    assert bench.faults.active() == [later]
    bench.clock.advance(30)
    assert bench.faults.active() == []
    assert bench.faults.clear() == 0
    for device in ("scd30", "bh1750"):
        bench.faults.inject(Fault("absent", device))
    assert bench.faults.clear("bh1750") == 1
    assert bench.light.read()
    with pytest.raises(DeviceMissingError):
        bench.air.read()
    assert bench.faults.clear() == 1
    bench.start_air()


def test_chips_stay_themselves_under_faults():
    bench = Bench(Fault("absent", "scd30", duration=100))
    with pytest.raises(DeviceMissingError):
        bench.air.read()
    assert not bench.machine.sensor("scd30").written  # it never came that far
    bench.clock.advance(100)
    bench.start_air()
    assert struct.pack(">H", 0x0010) == bench.machine.sensor("scd30").written[1][:2]


def test_a_file_of_faults_is_read(tmp_path):
    path = tmp_path / "faults.toml"
    path.write_text(
        """
        [[fault]]
        kind = "bad_crc"
        device = "scd30"
        at = 60
        for = 30.5
        probability = 0.5
        seed = 7

        [[fault]]
        kind = "absent"
        device = "i2c-1:0x23"

        [[fault]]
        kind = "drift"
        device = "/dev/ttyUSB0"
        amount = -12.5
        """
    )
    assert load_faults(path) == [
        Fault("bad_crc", "scd30", at=60, duration=30.5, probability=0.5, seed=7),
        Fault("absent", "i2c-1:0x23"),
        Fault("drift", "/dev/ttyUSB0", amount=-12.5),
    ]


GOOD = '[[fault]]\nkind = "absent"\ndevice = "scd30"\n'


@pytest.mark.parametrize(
    ("text", "entry", "key", "words"),
    [
        (GOOD + '[[fault]]\nkind = "melted"\ndevice = "scd30"', 2, "kind", "not 'melted'"),
        (GOOD + 'colour = "red"', 1, "colour", "unknown key 'colour'; known are kind, device"),
        ('[[fault]]\nkind = "absent"\ndevice = "toaster"', 1, "device", "not 'toaster'"),
        ('[[fault]]\nkind = "absent"\ndevice = "i2c-1:61"', 1, "device", "such as i2c-1:0x61"),
        ('[[fault]]\nkind = "bad_crc"\ndevice = "bh1750"', 1, "kind", "for bh1750 there are absent, nak"),
        ('[[fault]]\nkind = "absent"\ndevice = "gpio-18"', 1, "kind", "for gpio-18 there are hang, refused"),
        ('[[fault]]\nkind = "stuck"\ndevice = "i2c-1:0x61"', 1, "kind", "kind stuck can't be"),
        ('[[fault]]\nkind = "frozen"\ndevice = "i2c-1"', 1, "kind", "nak, bus_error, timeout, stuck, hang"),
        ('[[fault]]\nkind = "noise"\ndevice = "scd30"', 1, "amount", "amount is missing: kind noise"),
        ('[[fault]]\nkind = "drift"\ndevice = "scd30"\namount = 0', 1, "amount", "other than 0, not 0"),
        (GOOD + "amount = 5", 1, "amount", "kind absent has none"),
        ('[[fault]]\nkind = "weak"\ndevice = "fan"\namount = 2', 1, "amount", "share between 0 and 1"),
        ('[[fault]]\nkind = "absent"', 1, "device", "device is missing"),
        ('[[fault]]\ndevice = "scd30"', 1, "kind", "kind is missing"),
        (GOOD + "at = -1", 1, "at", "at must be 0 or more seconds, not -1"),
        (GOOD + "at = nan", 1, "at", "not nan"),
        (GOOD + 'at = "soon"', 1, "at", "at must be a number, not 'soon'"),
        (GOOD + "for = 0", 1, "for", "for must be above 0 seconds, not 0"),
        (GOOD + "probability = 1.5", 1, "probability", "up to 1, not 1.5"),
        (GOOD + "seed = 1.5", 1, "seed", "seed must be a whole number, not 1.5"),
        ("fault = [1]", None, "fault", "[[fault]] entries"),
        ('kind = "absent"', None, "kind", "unknown key kind"),
        ("[[fault]", None, None, "is not TOML"),
    ],
)
def test_a_wrong_file_says_where_and_why(tmp_path, text, entry, key, words):
    path = tmp_path / "faults.toml"
    path.write_text(text)
    with pytest.raises(FaultFileError) as caught:
        load_faults(path)
    error = caught.value
    assert (error.path, error.entry, error.key) == (str(path), entry, key)
    assert words in str(error)
    assert str(error).startswith(f"{path}: fault {entry}: " if entry else f"{path}: ")
    assert isinstance(error, SimulationError)
    assert isinstance(error, ValueError)


def test_a_file_that_cannot_be_read_says_so_and_an_empty_one_has_no_faults(tmp_path, said):
    (tmp_path / "empty.toml").touch()
    assert load_faults(tmp_path / "empty.toml") == []
    with said.raises(FaultFileError):
        load_faults(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with said.raises(FaultFileError):
        load_faults(tmp_path / "binary.toml")
