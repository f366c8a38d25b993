"""The driver under real pyserial, on a pseudo terminal with a chip at its other end."""

from __future__ import annotations

import errno
from collections import deque

import pytest

from growd_drivers.errors import (
    DeviceMissingError,
    DriverError,
    HardwareUnavailableError,
    NotReadyError,
    OutOfRangeError,
    SettingError,
    StuckError,
    TransferError,
)
from growd_drivers.hardware import Hardware
from growd_drivers.mhz19 import ANSWER_S, BAUD, STUCK_AFTER_S, WARM_UP_S, Mhz16, Mhz19
from growd_drivers.serial_line import SerialLine, open_port
from growd_hwsim.chips.mhz19 import READ, SimulatedMhz19, reading
from growd_hwsim.gpio import SimulatedPins
from growd_hwsim.uart import SerialPorts
from support.machine import SleepingTime
from support.serial_port import HASTY_S, PATIENT_S, Impatient

PORT = "/dev/serial0"


class Bench:
    """A chip; `script` replaces its next answers on the wire."""

    def __init__(self, port: str = PORT, place: str = PORT, **settings) -> None:
        self.clock = SleepingTime()
        self.ppm = 800.0
        self.script: deque[list[bytes]] = deque()
        self.chip = SimulatedMhz19(lambda: self.ppm, self.clock.monotonic)
        self.ports = SerialPorts(wire=self.wire)
        self.ports.attach(port, self.chip)
        self.timeout_s = PATIENT_S
        self.line = SerialLine(self.open, place, baud=BAUD, timeout_s=PATIENT_S)
        self.driver = Mhz19(self.line, monotonic=self.clock.monotonic, **settings)

    def open(self, place: str, baud: int, timeout_s: float):
        self.port = self.ports.open(place, baud, self.timeout_s)
        return self.port

    def wire(self, query, forward):
        pieces = forward(query)
        if query.command[2] == READ and self.script:
            return self.script.popleft()
        return pieces

    def patience(self, seconds: float) -> None:
        self.timeout_s = seconds
        if self.line._port is not None:
            self.line._port.timeout = seconds

    def read(self, *pieces: bytes) -> float:
        if pieces:
            self.script.append(list(pieces))
        return self.driver.read().carbon_dioxide_ppm

    def warm(self) -> None:
        with pytest.raises(NotReadyError):
            self.read()
        self.clock.advance(WARM_UP_S)
        self.read()

    def commands(self, number: int) -> list[bytes]:
        return [command for command in self.chip.received if command[2] == number]

    def close(self) -> None:
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


def test_a_warm_sensor_is_read(warm):
    assert warm.read() == pytest.approx(800, abs=6)
    warm.ppm = 1500.0
    assert warm.read() == pytest.approx(1500, abs=6)


def test_there_is_no_reading_during_the_warm_up(bench):
    for _ in range(int(WARM_UP_S / 10)):
        with pytest.raises(NotReadyError, match="MH-Z19 on /dev/serial0 is warming up"):
            bench.read()
        bench.clock.advance(10)
    assert bench.read() == pytest.approx(800, abs=6)


def test_a_sensor_that_was_already_warm_is_also_waited_for(bench):
    bench.clock.advance(3600)
    with pytest.raises(NotReadyError):
        bench.read()


def test_a_clock_that_begins_at_zero_is_one_like_any_other(bench):
    bench.clock.now = 0.0
    bench.chip.power_cycle()
    bench.warm()
    assert bench.read() == pytest.approx(800, abs=6)


def test_a_longer_warm_up_is_detected_by_its_constant(bench):
    for second in range(0, 400, 20):
        with pytest.raises(NotReadyError):
            bench.read(reading(388 if second < 20 else 555))
        bench.clock.advance(20)
    assert bench.read() == pytest.approx(800, abs=6)
    for _ in range(10):  # once it is warm the same value is one like any other
        assert bench.read(reading(790)) == 790
        assert bench.read(reading(800)) == 800
        bench.clock.advance(100)


@pytest.mark.parametrize("constant", [388, 400, 410, 555])
def test_a_power_cut_between_two_readings_shows_as_a_jump_onto_a_constant(warm, constant):
    with pytest.raises(NotReadyError):
        warm.read(reading(constant))
    warm.clock.advance(WARM_UP_S - 1)
    with pytest.raises(NotReadyError):
        warm.read()
    warm.clock.advance(1)
    assert warm.read() == pytest.approx(800, abs=6)


def test_air_that_drifts_over_such_a_value_is_read(warm):
    warm.read(reading(420))
    assert warm.read(reading(410)) == 410
    assert warm.read(reading(400)) == 400


def test_automatic_baseline_is_switched_off_and_the_range_set(bench):
    assert bench.chip.memory.self_calibration
    bench.warm()
    assert not bench.chip.memory.self_calibration
    assert bench.chip.memory.range_ppm == 10_000
    assert bench.commands(0x86)[0] == bytes.fromhex("ff 01 86 00 00 00 00 00 79")  # the manual's examples
    assert bench.commands(0x79) == [bytes.fromhex("ff 01 79 00 00 00 00 00 86")]
    assert bench.commands(0x99) == [bytes.fromhex("ff 01 99 00 00 00 27 10 2f")]


def test_settings_are_sent_again_after_a_possible_power_cut(warm):
    warm.chip.memory.self_calibration = True
    with pytest.raises(NotReadyError):
        warm.read(reading(555))
    with pytest.raises(NotReadyError):  # whose answer comes after the settings arrived
        warm.read()
    assert not warm.chip.memory.self_calibration
    assert len(warm.commands(0x99)) == 2


@pytest.mark.parametrize(
    "pieces",
    [
        [b"\xff\x86\x03", b"\x20\x00\x00\x00\x00\x57"],
        [bytes([byte]) for byte in reading(800)],
        [b"\xff" + reading(800)],
        [b"\xff\x86" + reading(800)],
        [b"\x00\x57\xff\x86" + reading(800)],
        [reading(800)[4:] + reading(800)],
        [reading(800) + reading(800)],
        [reading(700)[:-1] + b"\x00" + reading(800)],
        [reading(700)[:5] + reading(800)],
        [b"\xff\x99\x01\x00\x00\x00\x00\x00\x66" + reading(800)],
    ],
    ids=[
        "split",
        "byte by byte",
        "shifted by what looks like a start",
        "shifted by what looks like a head",
        "shifted by four",
        "after the rest of another",
        "doubled",
        "after a bad checksum",
        "after a short one",
        "after the answer to a setting",
    ],
)
def test_a_frame_is_found_at_any_position(warm, pieces):
    assert warm.read(*pieces) == 800
    assert warm.read(reading(900)) == 900  # and nothing of it is left for the next reading


@pytest.mark.parametrize(
    "pieces",
    [[reading(800)[:5]], [reading(800)[:-1] + b"\x00"], [bytes(b ^ 0x5A for b in reading(800))]],
    ids=["short", "bad checksum", "garbled"],
)
def test_an_invalid_frame_is_an_error_and_the_next_one_is_read(warm, pieces):
    Impatient.on(warm.line)
    with pytest.raises(TransferError, match="MH-Z19 on /dev/serial0 sent no whole frame, but") as caught:
        warm.read(*pieces)
    assert caught.value.errno == errno.EBADMSG
    assert not isinstance(caught.value, DeviceMissingError)
    Impatient.off(warm.line)
    assert warm.read() == pytest.approx(800, abs=6)


def test_a_line_that_never_falls_silent_takes_bounded_time(warm):
    warm.script.append([b"\x55" * 4000])
    with pytest.raises(TransferError, match="no whole frame"):
        warm.read()


def test_silence_is_a_missing_device(warm):
    warm.patience(HASTY_S)
    with pytest.raises(DeviceMissingError, match="MH-Z19 on /dev/serial0 does not answer") as caught:
        warm.read(b"")
    assert (caught.value.device, caught.value.errno) == ("MH-Z19", errno.ETIMEDOUT)
    warm.patience(PATIENT_S)
    assert warm.read() == pytest.approx(800, abs=6)


def test_after_a_long_silence_it_may_have_been_switched_off(warm):
    warm.patience(HASTY_S)
    with pytest.raises(DeviceMissingError):
        warm.read(b"")
    warm.patience(PATIENT_S)
    warm.clock.advance(10)
    with pytest.raises(NotReadyError):
        warm.read()
    warm.clock.advance(WARM_UP_S)
    assert warm.read() == pytest.approx(800, abs=6)


def test_the_end_of_the_range_is_an_error_and_not_a_number(warm):
    warm.ppm = 12_000.0
    with pytest.raises(OutOfRangeError, match="at the end of its range: 10000 of 10000 ppm") as caught:
        warm.read()
    assert (caught.value.value, caught.value.maximum) == (10_000, 9_999)
    with pytest.raises(OutOfRangeError, match="0 of 10000"):
        warm.read(reading(0))
    warm.ppm = 800.0
    assert warm.read() == pytest.approx(800, abs=6)


def test_a_value_that_never_moves_is_a_fault(warm):
    for _ in range(4):
        assert warm.read(reading(700)) == 700
        warm.clock.advance(STUCK_AFTER_S / 4)
    with pytest.raises(StuckError, match=r"has given 700 ppm for 4\.0 h: it hangs") as caught:
        warm.read(reading(700))
    assert (caught.value.value, caught.value.seconds) == (700, STUCK_AFTER_S)
    assert isinstance(caught.value, DriverError)
    assert isinstance(caught.value, ValueError)
    assert warm.read(reading(701)) == 701


def test_how_long_a_value_may_stand_still_can_be_chosen():
    bench = Bench(stuck_after_s=60.0)
    bench.warm()
    assert bench.read(reading(700)) == 700
    bench.clock.advance(60)
    with pytest.raises(StuckError):
        bench.read(reading(700))
    bench.close()


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
    with pytest.raises(NotReadyError):  # USB is its power
        bench.read()
    bench.clock.advance(WARM_UP_S)
    assert bench.read() == pytest.approx(800, abs=6)
    bench.close()


def test_zero_and_span_calibration(warm):
    warm.ppm = 470.0
    warm.driver.calibrate_zero()
    assert warm.read() == pytest.approx(400, abs=6)
    warm.ppm = 2100.0
    warm.driver.calibrate_span(2000)
    assert warm.read() == pytest.approx(2000, abs=6)
    assert warm.commands(0x87) == [bytes.fromhex("ff 01 87 00 00 00 00 00 78")]  # the manual's examples
    assert warm.commands(0x88) == [bytes.fromhex("ff 01 88 07 d0 00 00 00 a0")]


def test_calibration_waits_for_a_warm_sensor(bench):
    for calibrate in (bench.driver.calibrate_zero, lambda: bench.driver.calibrate_span(2000)):
        with pytest.raises(NotReadyError, match="has not warmed up"):
            calibrate()
    assert not bench.chip.received


@pytest.mark.parametrize("ppm", [999, 10_001])
def test_an_invalid_span_is_refused(warm, ppm):
    with pytest.raises(SettingError, match=rf"span_ppm must be 1000\.\.10000, not {ppm}"):
        warm.driver.calibrate_span(ppm)


def test_a_range_is_used_to_its_end():
    bench = Bench(range_ppm=2000)
    bench.warm()
    assert bench.chip.memory.range_ppm == 2000
    bench.ppm = 1900.0
    assert bench.read() == pytest.approx(1900, abs=6)
    bench.ppm = 2100.0
    with pytest.raises(OutOfRangeError, match="2000 of 2000"):
        bench.read()
    bench.close()


def test_the_automatic_baseline_can_be_switched_at_any_time(warm):
    warm.driver.set_self_calibration(True)
    warm.read()
    assert warm.chip.memory.self_calibration
    warm.driver.set_self_calibration(False)
    warm.read()
    assert not warm.chip.memory.self_calibration


def test_an_mhz16_gets_no_range_that_is_not_configured(bench):
    for range_ppm, sent in ((None, []), (5000, [bytes.fromhex("ff 01 99 00 00 00 13 88 cb")])):
        driver = Mhz16(bench.line, monotonic=bench.clock.monotonic, range_ppm=range_ppm)
        for _ in range(2):  # the second answer comes after the settings arrived
            with pytest.raises(NotReadyError):
                driver.read()
        assert bench.commands(0x79)
        assert bench.commands(0x99) == sent


def test_an_invalid_range_is_refused(bench):
    with pytest.raises(SettingError, match="range_ppm must be one of 2000, 5000, 10000, not 3000"):
        Mhz19(bench.line, monotonic=float, range_ppm=3000)


def test_errors_of_an_mhz16_have_its_name():
    bench = Bench(device="MH-Z16")
    with pytest.raises(NotReadyError, match="MH-Z16 on /dev/serial0"):
        bench.read()
    bench.close()


def test_the_line_is_the_hardwares_and_closes_with_it():
    bench = Bench()
    bench.close()
    hardware = Hardware(
        None, bench.ports.open, SimulatedPins(float), sleep=bench.clock.sleep, monotonic=float
    )
    line = hardware.serial(PORT, baud=BAUD, timeout_s=PATIENT_S)
    line.send(b"\0")
    with pytest.raises(HardwareUnavailableError, match="/dev/serial0 has a device already"):
        hardware.serial(PORT, baud=BAUD, timeout_s=ANSWER_S)
    hardware.close()
    with pytest.raises(TransferError, match="the line is closed"):
        line.send(b"\0")
    bench.ports.close()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "add growd's user to the group dialout"),
        (errno.EAGAIN, "another program uses the port"),
    ],
)
def test_the_error_of_an_inaccessible_port_has_advice(number, words):
    def refuse(*_):
        raise OSError(number, "refused")

    driver = Mhz19(SerialLine(refuse, PORT, baud=BAUD, timeout_s=ANSWER_S), monotonic=float)
    with pytest.raises(HardwareUnavailableError, match=words) as caught:
        driver.read()
    assert caught.value.device == "MH-Z19"


def test_a_port_that_fails_otherwise_says_how():
    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    line = SerialLine(refuse, PORT, baud=BAUD, timeout_s=ANSWER_S)
    with pytest.raises(TransferError, match="Too many open files"):
        line.send(b"")


def test_a_port_that_does_not_exist_is_a_missing_device(tmp_path):
    line = SerialLine(open_port, str(tmp_path / "ttyUSB*"), baud=BAUD, timeout_s=ANSWER_S)
    with pytest.raises(DeviceMissingError, match="is not there"):
        line.send(b"")


def test_a_port_in_use_is_skipped(bench, tmp_path):
    other = SimulatedMhz19(lambda: 1.0, bench.clock.monotonic)
    bench.ports.attach("/dev/serial1", other)
    taken, free = (bench.ports.open(port, BAUD, PATIENT_S) for port in (PORT, "/dev/serial1"))
    (tmp_path / "ttyUSB0").symlink_to(taken.name)
    (tmp_path / "ttyUSB1").symlink_to(free.name)
    free.close()
    port = open_port(str(tmp_path / "ttyUSB*"), BAUD, PATIENT_S)
    assert port.name == str(tmp_path / "ttyUSB1")
    with pytest.raises(OSError, match="exclusively lock") as caught:
        open_port(str(tmp_path / "ttyUSB*"), BAUD, PATIENT_S)
    assert caught.value.errno == errno.EAGAIN
    port.close()
    taken.close()


def test_the_serial_console_is_not_talked_over(tmp_path):
    (tmp_path / "ttyAMA0").touch()
    (tmp_path / "serial0").symlink_to("ttyAMA0")
    consoles = tmp_path / "active"
    consoles.write_text("tty1 ttyAMA0\n")
    with pytest.raises(HardwareUnavailableError, match=r"serial0 is the serial console .* `growd setup-pi`"):
        open_port(str(tmp_path / "serial0"), BAUD, ANSWER_S, consoles=consoles)
