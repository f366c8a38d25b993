"""An MH-Z16 behind a bridge: the drivers of both under real smbus2, with both chips at its other end."""

import errno

import pytest

from growd_drivers.errors import DeviceMissingError, SettingError, TransferError, WrongDeviceError
from growd_drivers.i2c import I2CBus
from growd_drivers.mhz19 import ANSWER_S, BAUD, WARM_UP_S, Mhz16
from growd_drivers.sc16is750 import Sc16is750Port, place_of, with_bridges
from growd_drivers.serial_line import SerialLine
from growd_hwsim.chips.bh1750 import SimulatedBh1750
from growd_hwsim.chips.mhz19 import SimulatedMhz16, reading
from growd_hwsim.chips.sc16is750 import FCR, FIFO_LENGTH, IOCONTROL, LCR, LSR, SPR, SimulatedSc16is750
from growd_hwsim.faults import Fault, Faults
from growd_hwsim.i2c import I2CAdapter, I2CKernel, smbus_over
from support.machine import SleepingTime

PLACE = "i2c-1:0x4d"
READ_COMMAND = bytes.fromhex("ff 01 86 00 00 00 00 00 79")
NAME = "SC16IS750 at 0x4d on I2C bus 1"


class Bench:
    def __init__(self, *, crystal_hz=14_745_600, **options):
        self.clock = SleepingTime()
        self.ppm = 800.0
        self.faults = Faults(sleep=self.clock.sleep, monotonic=self.clock.monotonic)
        self.sensor = SimulatedMhz16(lambda: self.ppm, self.clock.monotonic)
        self.bridge = SimulatedSc16is750(
            self.sensor, port=PLACE, wire=self.faults.serial_wire, crystal_hz=crystal_hz, **options
        )
        self.adapter = I2CAdapter(1, wire=self.faults.wire)
        self.adapter.attach(0x4D, self.bridge)
        self.bus = I2CBus(smbus_over(I2CKernel({1: self.adapter})), number=1)
        self.opened = []
        open_serial = with_bridges(
            self.open_other,
            lambda _number: self.bus,
            sleep=self.clock.sleep,
            monotonic=self.clock.monotonic,
            crystal_hz=crystal_hz,
        )
        self.line = SerialLine(open_serial, PLACE, baud=BAUD, timeout_s=ANSWER_S)
        self.driver = Mhz16(self.line, monotonic=self.clock.monotonic, device="MH-Z16")

    def open_other(self, place, _baud, _timeout_s):
        self.opened.append(place)
        raise FileNotFoundError(errno.ENOENT, "no such port")

    def port(self, **options):
        settings = {"baud": BAUD, "timeout_s": ANSWER_S, **options}
        return Sc16is750Port(
            self.bus, 0x4D, sleep=self.clock.sleep, monotonic=self.clock.monotonic, **settings
        )

    def read(self):
        return self.driver.read().carbon_dioxide_ppm

    def warm(self):
        self.read()
        self.clock.advance(WARM_UP_S)
        self.read()


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def warm(bench):
    bench.warm()
    return bench


def test_an_mhz16_behind_a_bridge_is_read_as_on_any_line(warm):
    assert warm.read() == pytest.approx(800, abs=6)
    warm.ppm = 1500.0
    assert warm.read() == pytest.approx(1500, abs=6)
    assert not warm.sensor.memory.self_calibration
    assert {command[2] for command in warm.sensor.received} == {0x86, 0x79}  # never 0x9C, and no range
    warm.bridge.on_write(bytes([LSR << 3]))
    assert warm.bridge.on_read(1) == b"\x60"  # no overrun


def test_it_identifies_the_bridge_resets_it_and_sets_it_up(bench):
    bench.port()
    writes = [data for data in bench.bridge.written if len(data) > 1]
    assert writes == [
        bytes([SPR << 3, 0x5A]),
        bytes([SPR << 3, 0xA5]),
        bytes([IOCONTROL << 3, 0x08]),
        bytes([LCR << 3, 0x83]),
        bytes([0x00 << 3, 96]),  # 14.7456 MHz / 16 / 9600
        bytes([0x01 << 3, 0]),
        bytes([LCR << 3, 0x03]),
        bytes([FCR << 3, 0x07]),
    ]


@pytest.mark.parametrize(
    "options", [{"acknowledges_reset": True}, {"crystal_hz": 1_843_200}, {"crystal_hz": 12_000_000}], ids=str
)
def test_other_bridges_are_set_up_as_well(options):
    bench = Bench(**options)
    bench.warm()
    assert bench.bridge.baud == pytest.approx(BAUD, rel=0.01)
    assert bench.read() == pytest.approx(800, abs=6)


def test_a_speed_that_the_crystal_can_not_make_is_refused(bench):
    with pytest.raises(SettingError, match=f"{NAME} can't do 9600 baud with a crystal of 1000000 Hz"):
        bench.port(crystal_hz=1_000_000)
    assert not bench.bridge.written


def test_at_another_speed_there_is_no_answer(bench):
    port = bench.port(baud=4800)
    port.write(READ_COMMAND)
    assert port.read(9) == b""
    assert not bench.sensor.received


def test_a_missing_bridge_is_one_clear_sentence_that_names_it(warm):
    warm.adapter.detach(0x4D)
    with pytest.raises(DeviceMissingError, match=f"^{NAME} does not answer: check its wiring") as caught:
        warm.read()
    assert (caught.value.device, caught.value.address) == ("SC16IS750", 0x4D)
    with pytest.raises(DeviceMissingError, match=NAME):  # which the next read, that opens it, says as well
        warm.read()


def test_a_bridge_is_set_up_again_after_it_was_missing(bench):
    bench.line.send(READ_COMMAND)
    bench.faults.inject(Fault("absent", PLACE, duration=5))
    with pytest.raises(DeviceMissingError):
        bench.line.read(9)
    bench.bridge.power_cycle()
    bench.clock.advance(5)
    bench.line.send(READ_COMMAND)
    assert bench.line.read(9) == reading(388)


def test_a_power_cut_between_two_readings_is_noticed(warm):
    warm.bridge.power_cycle()
    warm.sensor.power_cycle()
    with pytest.raises(DeviceMissingError, match=f"{NAME} has lost its settings, and so its power"):
        warm.read()
    assert warm.read() == 388  # the sensor warms up
    warm.clock.advance(WARM_UP_S)
    assert warm.read() == pytest.approx(800, abs=6)


@pytest.mark.parametrize(
    ("kind", "words"), [("absent", "does not answer"), ("bus_error", "broke off the transfer")]
)
def test_one_failed_transfer_costs_one_reading_and_is_reported_as_such(warm, kind, words):
    warm.faults.inject(Fault(kind, PLACE))
    with pytest.raises(TransferError, match=f"^{NAME} {words}") as caught:
        warm.read()
    assert isinstance(caught.value, DeviceMissingError) == (kind == "absent")
    warm.faults.clear()
    assert warm.read() == pytest.approx(800, abs=6)


def test_another_chip_at_the_address_is_detected_and_not_changed(bench):
    other = SimulatedBh1750(lambda: 1.0, bench.clock.monotonic)
    other.on_write = lambda _data: None
    bench.adapter.detach(0x4D)
    bench.adapter.attach(0x4D, other)
    with pytest.raises(WrongDeviceError, match=f"{NAME} is another chip: it keeps 0x00") as caught:
        bench.read()
    assert (caught.value.found, caught.value.expected) == (0x00, 0x5A)
    assert [data for data in other.written if len(data) > 1] == [bytes([SPR << 3, 0x5A])]


def test_a_sensor_that_is_silent_behind_a_bridge_is_missing_after_the_time_limit(warm):
    warm.faults.inject(Fault("absent", "mhz16"))
    before = warm.clock.now
    with pytest.raises(DeviceMissingError, match="MH-Z16 on i2c-1:0x4d does not answer") as caught:
        warm.read()
    assert caught.value.errno == errno.ETIMEDOUT
    assert warm.clock.now - before == pytest.approx(ANSWER_S, abs=0.01)


@pytest.mark.parametrize(
    ("factor", "seconds"), [(10, ANSWER_S), (0, 0)], ids=["sleeps longer", "stands still"]
)
def test_a_clock_that_is_wrong_does_not_make_a_read_longer(bench, factor, seconds):
    bench.faults.inject(Fault("absent", "mhz16"))
    bench.clock.sleep = lambda seconds: bench.clock.advance(factor * seconds)
    port = bench.port()
    port.write(READ_COMMAND)
    before = bench.clock.now
    assert port.read(9) == b""
    assert bench.clock.now - before == pytest.approx(seconds, abs=0.05)


def test_faults_of_a_line_are_as_harmless_or_bad_behind_a_bridge(warm):
    for kind in ("split", "shifted", "doubled", "frozen"):
        warm.faults.inject(Fault(kind, "mhz16"))
        for _ in range(2):
            assert warm.read() == pytest.approx(800, abs=6), kind
        warm.faults.clear()
    for kind in ("short", "garbled", "bad_checksum"):
        warm.faults.inject(Fault(kind, "mhz16"))
        with pytest.raises(TransferError, match="MH-Z16 on i2c-1:0x4d"):
            warm.read()
        warm.faults.clear()


def test_data_larger_than_the_memory_is_sent_in_parts(bench):
    port = bench.port()
    assert port.write(READ_COMMAND * 15) == 135
    assert len(bench.sensor.received) == 15
    bursts = [data for data in bench.bridge.written if data[0] == 0x00 and len(data) > 2]
    assert max(len(data) - 1 for data in bursts) == FIFO_LENGTH


def test_unread_bytes_stay_in_the_memory_until_they_are_discarded(bench):
    port = bench.port()
    port.write(READ_COMMAND * 2)
    assert port.read(5) == reading(388)[:5]
    assert port.read(13) == reading(388)[5:] + reading(388)
    port.write(READ_COMMAND)
    port.read(1)
    port.reset_input_buffer()
    assert port.read(1) == b""


def test_a_bridge_that_does_not_send_is_an_error_and_is_not_waited_for_longer(bench):
    port = bench.port()
    bench.bridge.is_running = False
    port.write(READ_COMMAND * 7)
    before = bench.clock.now
    with pytest.raises(TransferError, match=f"{NAME} does not send: its crystal stands still") as caught:
        port.write(READ_COMMAND)
    assert caught.value.address == 0x4D
    assert bench.clock.now - before == pytest.approx(ANSWER_S, abs=0.01)


def test_other_places_are_opened_as_serial_ports(bench, said):
    line = SerialLine(
        with_bridges(bench.open_other, lambda _number: bench.bus, sleep=bench.clock.sleep, monotonic=float),
        "/dev/serial0",
        baud=BAUD,
        timeout_s=ANSWER_S,
    )
    with said.raises(DeviceMissingError):
        line.send(b"\0")
    assert bench.opened == ["/dev/serial0"]
    assert place_of(1, 0x4D) == PLACE
