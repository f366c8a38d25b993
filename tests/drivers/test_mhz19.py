"""The driver under real pyserial, on a pseudo terminal with a chip at its other end."""

import errno
import itertools
import os
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_drivers.errors import DeviceMissingError, HardwareUnavailableError, SettingError, TransferError
from growd_drivers.hardware import Hardware
from growd_drivers.mhz19 import ANSWER_S, BAUD, WARM_UP_S, Mhz16, Mhz19
from growd_drivers.serial_line import SerialLine, open_port
from growd_hwsim.chips.mhz19 import READ, SimulatedMhz19, reading
from growd_hwsim.gpio import SimulatedPins
from growd_hwsim.uart import SerialPorts
from support.machine import SleepingTime

PORT = "/dev/serial0"


class Bench:
    """A chip; `script` replaces its next answers on the wire."""

    def __init__(self, port=PORT, place=PORT, **settings):
        self.clock = SleepingTime()
        self.ppm = 800.0
        self.script = deque()
        self.chip = SimulatedMhz19(lambda: self.ppm, self.clock.monotonic)
        self.ports = SerialPorts(wire=self.wire, sleep=self.clock.sleep)
        self.ports.attach(port, self.chip)
        self.line = SerialLine(self.open, place, baud=BAUD, timeout_s=ANSWER_S)
        self.driver = Mhz19(self.line, monotonic=self.clock.monotonic, **settings)

    def open(self, place, baud, timeout_s):
        self.port = self.ports.open(place, baud, timeout_s)
        return self.port

    def wire(self, query, forward):
        pieces = forward(query)
        if query.command[2] == READ and self.script:
            return self.script.popleft()
        return pieces

    def read(self, *pieces):
        if pieces:
            self.script.append(list(pieces))
        return self.driver.read().carbon_dioxide_ppm

    def warm(self):
        self.read()
        self.clock.advance(WARM_UP_S)
        self.read()

    def commands(self, number):
        return [command for command in self.chip.received if command[2] == number]

    def close(self):
        self.line.close()
        self.ports.close()


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture
def warm(bench):
    bench.warm()
    return bench


def test_automatic_baseline_is_switched_off_and_the_range_set(bench):
    assert bench.chip.memory.self_calibration
    bench.warm()
    assert not bench.chip.memory.self_calibration
    assert bench.chip.memory.range_ppm == 10_000
    assert bench.commands(0x86)[0] == bytes.fromhex("ff 01 86 00 00 00 00 00 79")  # the manual's examples
    assert bench.commands(0x79) == [bytes.fromhex("ff 01 79 00 00 00 00 00 86")]
    assert bench.commands(0x99) == [bytes.fromhex("ff 01 99 00 00 00 27 10 2f")]


@pytest.mark.parametrize("is_missed", [True, False])
def test_settings_are_sent_again_after_a_possible_power_cut(warm, is_missed):
    warm.chip.memory.self_calibration = True
    if is_missed:
        with pytest.raises(DeviceMissingError):
            warm.read(b"")
    else:
        warm.driver.set_up_again()
    for _ in range(2):  # the answer to the second comes after the settings arrived
        warm.read()
    assert not warm.chip.memory.self_calibration
    assert len(warm.commands(0x99)) == 2


FRAME = reading(800)
BEFORE = (
    *(b"\xff", b"\xff\x86", b"\x00\x57\xff\x86", FRAME[4:], FRAME[:5], FRAME[:-1] + b"\x00"),
    b"\xff\x99\x01\x00\x00\x00\x00\x00\x66",  # the answer to a setting
)


@given(
    st.sampled_from(BEFORE) | st.binary(max_size=9),
    st.sampled_from([b"", FRAME]),
    st.lists(st.integers(0, 18), max_size=9),
)
def test_a_frame_is_found_at_any_position(before, after, cuts):
    bench, sent = Bench(), before + FRAME + after
    bench.warm()
    edges = [0, *sorted(cuts), len(sent)]
    assert bench.read(*(sent[begin:end] for begin, end in itertools.pairwise(edges))) == 800
    assert bench.read(reading(900)) == 900  # and nothing of it is left for the next reading
    bench.close()


def test_an_invalid_frame_and_a_line_that_never_falls_silent_are_errors(warm, said):
    with pytest.raises(TransferError, match="MH-Z19 on /dev/serial0 sent no whole frame, but") as caught:
        warm.read(reading(800)[:-1] + b"\x00")
    assert caught.value.errno == errno.EBADMSG
    assert not isinstance(caught.value, DeviceMissingError)
    assert warm.read() == pytest.approx(800, abs=6)
    warm.script.append([b"\x55" * 4000])
    with said.raises(TransferError):
        warm.read()


def test_silence_is_a_missing_device(warm):
    with pytest.raises(DeviceMissingError, match="MH-Z19 on /dev/serial0 does not answer") as caught:
        warm.read(b"")
    assert (caught.value.device, caught.value.errno) == ("MH-Z19", errno.ETIMEDOUT)
    assert warm.read() == pytest.approx(800, abs=6)


def test_unplugged_and_plugged_in_again_under_another_name():
    bench = Bench("/dev/ttyUSB0", "/dev/ttyUSB*")
    bench.warm()
    chip = bench.ports.detach("/dev/ttyUSB0")
    with pytest.raises(DeviceMissingError, match=r"MH-Z19 on /dev/ttyUSB\* is gone") as caught:
        bench.read()
    assert caught.value.errno == errno.ENODEV
    with pytest.raises(DeviceMissingError, match="is not there: plug it in"):
        bench.read()
    bench.ports.attach("/dev/ttyUSB1", chip)
    assert bench.read() == pytest.approx(800, abs=6)
    bench.close()


def test_zero_and_span_calibration_and_the_automatic_baseline(warm):
    warm.ppm = 470.0
    warm.driver.calibrate_zero()
    assert warm.read() == pytest.approx(400, abs=6)
    warm.ppm = 2100.0
    warm.driver.calibrate_span(2000)
    assert warm.read() == pytest.approx(2000, abs=6)
    assert warm.commands(0x87) == [bytes.fromhex("ff 01 87 00 00 00 00 00 78")]  # the manual's examples
    assert warm.commands(0x88) == [bytes.fromhex("ff 01 88 07 d0 00 00 00 a0")]
    for ppm in (999, 10_001):
        with pytest.raises(SettingError, match=rf"span_ppm must be 1000\.\.10000, not {ppm}"):
            warm.driver.calibrate_span(ppm)
    for is_on in (True, False):
        warm.driver.set_self_calibration(is_on)
        warm.read()
        assert warm.chip.memory.self_calibration is is_on


def test_an_mhz16_gets_no_range_that_is_not_configured(bench):
    for range_ppm, sent in ((None, []), (5000, [bytes.fromhex("ff 01 99 00 00 00 13 88 cb")])):
        driver = Mhz16(bench.line, monotonic=bench.clock.monotonic, range_ppm=range_ppm)
        for _ in range(2):  # the second answer comes after the settings arrived
            driver.read()
        assert bench.commands(0x79)
        assert bench.commands(0x99) == sent


def test_an_invalid_range_is_refused_and_errors_of_an_mhz16_have_its_name(said):
    bench = Bench(device="MH-Z16")
    with said.raises(SettingError):
        Mhz19(bench.line, monotonic=float, range_ppm=3000)
    with said.raises(DeviceMissingError):
        bench.read(b"")
    bench.close()


def test_the_line_is_the_hardwares_and_closes_with_it(said):
    bench = Bench()
    bench.close()
    hardware = Hardware(
        None, bench.ports.open, SimulatedPins(float), sleep=bench.clock.sleep, monotonic=float
    )
    line = hardware.serial(PORT, baud=BAUD, timeout_s=ANSWER_S)
    line.send(b"\0")
    with said.raises(HardwareUnavailableError):
        hardware.serial(PORT, baud=BAUD, timeout_s=ANSWER_S)
    hardware.close()
    with said.raises(TransferError):
        line.send(b"\0")
    bench.ports.close()


@pytest.mark.parametrize(
    ("number", "error", "words"),
    [
        (errno.EACCES, HardwareUnavailableError, "add growd's user to the group dialout"),
        (errno.EAGAIN, HardwareUnavailableError, "another program uses the port"),
        (errno.EMFILE, TransferError, "refused"),
    ],
)
def test_the_error_of_an_inaccessible_port_has_advice(number, error, words):
    def refuse(*_):
        raise OSError(number, "refused")

    driver = Mhz19(SerialLine(refuse, PORT, baud=BAUD, timeout_s=ANSWER_S), monotonic=float)
    with pytest.raises(error, match=words) as caught:
        driver.read()
    assert caught.value.device == "MH-Z19"


def test_a_port_that_does_not_exist_is_a_missing_device(tmp_path, said):
    line = SerialLine(open_port, str(tmp_path / "ttyUSB*"), baud=BAUD, timeout_s=ANSWER_S)
    with said.raises(DeviceMissingError):
        line.send(b"")


def test_a_port_in_use_is_skipped(tmp_path):
    places = [os.openpty() for _ in range(2)]
    for number, (_, port_end) in enumerate(places):
        (tmp_path / f"ttyUSB{number}").symlink_to(os.ttyname(port_end))
    taken = open_port(str(tmp_path / "ttyUSB0"), BAUD, ANSWER_S)
    port = open_port(str(tmp_path / "ttyUSB*"), BAUD, ANSWER_S)
    assert port.name == str(tmp_path / "ttyUSB1")
    with pytest.raises(OSError, match="exclusively lock") as caught:
        open_port(str(tmp_path / "ttyUSB*"), BAUD, ANSWER_S)
    assert caught.value.errno == errno.EAGAIN
    port.close()
    taken.close()
    for end in itertools.chain(*places):
        os.close(end)


def test_the_serial_console_is_not_talked_over(tmp_path, said):
    (tmp_path / "ttyAMA0").touch()
    (tmp_path / "serial0").symlink_to("ttyAMA0")
    consoles = tmp_path / "active"
    consoles.write_text("tty1 ttyAMA0\n")
    with said.raises(HardwareUnavailableError):
        open_port(str(tmp_path / "serial0"), BAUD, ANSWER_S, consoles=consoles)
