"""Each kind of fault at each place on I2C and at a pin where it can be, beneath the real drivers."""

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from growd_drivers.bh1750 import Bh1750
from growd_drivers.errors import DeviceMissingError, HardwareUnavailableError, NotReadyError, TransferError
from growd_drivers.i2c import I2CBus
from growd_drivers.pin_output import PinOutput
from growd_drivers.scd30 import Scd30
from growd_drivers.tsl2591 import Tsl2591
from growd_hwsim.fault_kinds import ADDRESS, BUS
from growd_hwsim.faults import BUS_TIMEOUT_S, Fault
from growd_hwsim.hardware import WiredChip, Wiring
from support.fault_places import PLACES_OF
from support.machine import SleepingTime, simulated
from support.waiting import wait_until

CHIPS = (
    WiredChip("scd30", 1, 0x61),
    WiredChip("bh1750", 1, 0x23),
    WiredChip("tsl2591", 1, 0x29),
    WiredChip("scd30", 2, 0x61),
    WiredChip("bh1750", 2, 0x5C),
)
DRIVERS = {"scd30": Scd30, "bh1750": Bh1750, "tsl2591": Tsl2591}
DEVICES = {
    "scd30": ("scd30",),
    "bh1750": ("bh1750",),
    "tsl2591": ("tsl2591",),
    ADDRESS: ("i2c-1:0x61", "i2c-1:0x23", "i2c-1:0x29"),
    BUS: ("i2c-1",),
}
ERRORS = {
    "absent": errno.EREMOTEIO,
    "nak": errno.EREMOTEIO,
    "bus_error": errno.EIO,
    "timeout": errno.ETIMEDOUT,
    "bad_crc": errno.EBADMSG,
    "wrong_order": errno.EBADMSG,
}
OFFSETS = {"scd30": (150, 150), "bh1750": (1200, 1000), "tsl2591": (245, 1000)}
"""An amount for each chip, and what it is in what the driver measures at 10 000 lux."""


def places(*kinds):
    """Each of these kinds with each device on I2C where it can be."""
    pairs = [
        (kind, device)
        for kind in kinds
        for place in PLACES_OF[kind]
        for device in DEVICES.get(place, ())
        if kind != "bad_crc" or device in {"scd30", "i2c-1:0x61"}  # who else has a CRC
    ]
    assert pairs
    return pairs


class Bench:
    def __init__(self):
        self.clock = SleepingTime()
        self.machine = simulated(self.clock, wiring=Wiring(i2c=CHIPS))
        self.faults = self.machine.faults
        self.drivers = {
            chip: DRIVERS[chip.kind](
                self.machine.i2c(chip.bus), sleep=self.machine.sleep, address=chip.address
            )
            for chip in CHIPS
        }
        self.machine.chamber.set_lamp("white", 0.5)
        for chip in CHIPS:
            self.read(chip)

    def read(self, chip):
        """Its measurement: ppm or lux."""
        self.clock.advance(2)
        driver = self.drivers[chip]
        try:
            sample = driver.read()
        except NotReadyError:
            self.clock.advance(2)
            sample = driver.read()
        return sample.carbon_dioxide_ppm if chip.kind == "scd30" else sample.illuminance_lux

    def true(self, chip):
        chamber = self.machine.chamber
        return chamber.air().carbon_dioxide_ppm if chip.kind == "scd30" else chamber.illuminance_lux()


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.machine.close()


def at(device):
    """The chips that a device means."""
    return [
        chip
        for chip in CHIPS
        if device in {chip.kind, f"i2c-{chip.bus}", f"i2c-{chip.bus}:{chip.address:#04x}"}
    ]


@pytest.mark.parametrize(("kind", "device"), places(*ERRORS))
def test_a_fault_affects_only_its_device_until_it_is_cleared(bench, kind, device):
    bench.faults.inject(Fault(kind, device))
    for chip in CHIPS:
        if chip in at(device):
            with pytest.raises(TransferError) as caught:
                bench.read(chip)
            assert caught.value.errno == ERRORS[kind]
            assert isinstance(caught.value, DeviceMissingError) == (kind in {"absent", "nak"})
        else:
            assert bench.read(chip)
    assert bench.faults.clear(device) == 1
    assert all(bench.read(chip) for chip in CHIPS)


def test_a_chip_that_refuses_data_answers_to_a_probe(bench):
    bench.faults.inject(Fault("nak", "i2c-1"))
    assert bench.machine.i2c(1).scan() == [0x23, 0x29, 0x61]


def test_a_stuck_bus_costs_each_transfer_its_time_until_it_is_cleared(bench):
    bench.faults.inject(Fault("stuck", "i2c-1"))
    uncleared = I2CBus(bench.machine._open_smbus, number=1)
    light = Bh1750(uncleared, sleep=bench.machine.sleep)
    for _ in range(3):
        before = bench.clock.now
        with pytest.raises(TransferError) as caught:
            light.read()
        assert caught.value.errno == errno.ETIMEDOUT
        assert bench.clock.now - before == pytest.approx(BUS_TIMEOUT_S)
    bench.machine.adapters[1].clock_pulses(8)
    with pytest.raises(TransferError):
        light.read()
    bench.machine.clear_bus(1)
    assert light.read()
    assert bench.machine.adapters[1].pulses == 17
    uncleared.close()


def test_pulses_end_the_stuck_fault_of_their_bus_that_is_in_force(bench, said):
    others = [Fault("stuck", "i2c-2"), Fault("stuck", "i2c-1", at=60), Fault("timeout", "i2c-1")]
    for fault in (Fault("stuck", "i2c-1"), *others):
        bench.faults.inject(fault)
    bench.machine.clear_bus(1)
    assert bench.faults.active() == others
    with said.raises(OSError):
        bench.machine.clear_bus(7)


def test_a_stuck_bus_is_free_at_the_end_of_the_fault(bench):
    bench.faults.inject(Fault("stuck", "i2c-1", duration=60))
    bench.clock.advance(60)
    assert bench.read(CHIPS[0])
    assert bench.machine.adapters[1].pulses == 0


@pytest.mark.parametrize(("kind", "device"), places("hang"))
def test_a_call_hangs_until_the_fault_is_cleared_and_the_others_do_not(bench, kind, device):
    bench.faults.inject(Fault(kind, device))
    struck = at(device)
    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(bench.drivers[struck[0]].read)
        wait_until(lambda: bench.faults.hanging == 1)
        bench.machine.i2c(1).take_over()
        assert all(bench.read(chip) for chip in CHIPS if chip not in struck)
        assert not hung.done()
        bench.faults.clear(device)
        with pytest.raises(TransferError) as caught:
            hung.result()
    assert caught.value.errno == errno.ETIMEDOUT
    assert bench.faults.hanging == 0
    assert all(bench.read(chip) for chip in CHIPS)


@pytest.mark.parametrize("ends_with", ["the fault", "the hardware"])
def test_all_calls_on_a_bus_that_hangs_hang_until_the_end(bench, ends_with):
    bench.faults.inject(Fault("hang", "i2c-1", duration=60))
    with ThreadPoolExecutor(3) as pool:
        hung = [pool.submit(bench.drivers[chip].read) for chip in at("i2c-1")]
        wait_until(lambda: bench.faults.hanging == 3)
        if ends_with == "the fault":
            bench.clock.advance(60)
        else:
            bench.machine.close()
        for call in hung:
            with pytest.raises(TransferError):
                call.result()


def test_a_pin_does_not_answer_alone_and_what_it_has_ends(bench):
    pins = bench.machine.pins
    valve, fan = (PinOutput(pins, pin, name="relay") for pin in (23, 24))
    lamp = PinOutput(pins, 13, name="lamp", frequency_hz=200.0)
    lamp.write(0.5, 30.0)
    for pin in (23, 13):
        bench.faults.inject(Fault("hang", f"gpio-{pin}", duration=60))
    for output in (valve, lamp):
        with pytest.raises(HardwareUnavailableError, match="the pin keeper does not answer"):
            output.write(1.0, 120.0)
    fan.write(1.0, 120.0)
    assert [pins.high(pin) for pin in (23, 24, 13)] == [0, 1, 0.5]
    bench.clock.advance(60)
    assert [pins.high(pin) for pin in (23, 24, 13)] == [0, 1, 0]
    valve.write(1.0, 120.0)
    assert pins.high(23) == 1


@pytest.mark.parametrize(("kind", "device"), places("noise"))
def test_noise_throws_a_reading_up_and_down_now_and_then(bench, kind, device):
    for chip in at(device):
        amount, offset = OFFSETS[chip.kind]
        bench.faults.inject(Fault(kind, device, probability=0.5, amount=amount))
        seen = {round((bench.read(chip) - bench.true(chip)) / offset) for _ in range(30)}
        assert seen == {-1, 0, 1}
        bench.faults.clear()
        assert bench.read(chip) == pytest.approx(bench.true(chip), abs=offset / 5)


def test_other_values_of_an_scd30_do_not_change(bench):
    bench.machine.sensor("scd30").follow_at_once()
    bench.faults.inject(Fault("saturated", "scd30"))
    bench.read(CHIPS[0])
    chip, air = bench.drivers[CHIPS[0]]._chip._chip, bench.machine.chamber.air()
    assert chip._temperature == pytest.approx(air.temperature_degc, abs=0.2)
    assert chip._relative_humidity == pytest.approx(air.humidity_percent, abs=0.2)
