"""The simulated MH-Z19 beneath the real driver, and what happens to it on its line."""

import pytest

from growd_drivers.errors import DeviceMissingError
from growd_drivers.mhz19 import ANSWER_S, BAUD, WARM_UP_S, Mhz19
from growd_hwsim.chips.mhz19 import SimulatedMhz19, reading
from growd_hwsim.errors import FaultError
from growd_hwsim.faults import Fault
from growd_hwsim.hardware import Wiring
from growd_hwsim.uart import SerialPorts
from support.machine import SleepingTime, simulated

READ_COMMAND = bytes.fromhex("ff 01 86 00 00 00 00 00 79")


class Chip:
    def __init__(self):
        self.clock = SleepingTime()
        self.ppm = 1234.0
        self.chip = SimulatedMhz19(lambda: self.ppm, self.clock.monotonic)

    def ask(self, text):
        (command,) = self.chip.receive(bytes.fromhex(text))
        return self.chip.answer(command)

    def read(self):
        return int.from_bytes(self.ask(READ_COMMAND.hex())[2:4], "big")


class Bench:
    """The whole machine with an MH-Z19 at `port`, warm."""

    def __init__(self, port="/dev/serial0", place=None, *, kind="mhz19"):
        self.clock = SleepingTime()
        self.machine = simulated(self.clock, wiring=Wiring(serial={port: kind}))
        self.faults = self.machine.faults
        self.line = self.machine.serial(place or port, baud=BAUD, timeout_s=ANSWER_S)
        self.driver = Mhz19(self.line, monotonic=self.clock.monotonic)
        self.wait_until_warm()

    def wait_until_warm(self):
        self.read()
        self.clock.advance(WARM_UP_S)
        self.read()

    def read(self):
        return self.driver.read().carbon_dioxide_ppm

    def true_ppm(self):
        return self.machine.chamber.air().carbon_dioxide_ppm

    def close(self):
        self.machine.close()


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.close()


def test_a_reading_is_that_of_the_manual_and_ends_with_its_range():
    assert reading(544) == bytes.fromhex("ff 86 02 20 00 00 00 00 58")  # its example
    bench = Chip()
    bench.clock.advance(WARM_UP_S)
    bench.ppm = 4000.0
    assert bench.read() == 2000
    assert bench.ask("ff 01 99 00 00 00 13 88 cb") == b""
    assert bench.read() == pytest.approx(4000, abs=6)


def test_it_answers_constants_during_the_warm_up():
    bench = Chip()
    assert bench.read() == 388
    bench.clock.advance(10)
    assert bench.read() == 555
    bench.clock.advance(WARM_UP_S - 10)
    assert bench.read() == pytest.approx(1234, abs=6)
    bench.chip.power_cycle()
    assert bench.read() == 388


def test_calibration_and_baseline_are_remembered_without_power():
    bench = Chip()
    bench.ppm = 450.0
    assert bench.ask("ff 01 87 00 00 00 00 00 78") == b""
    assert bench.ask("ff 01 79 00 00 00 00 00 86") == b""
    bench.chip.power_cycle()
    bench.clock.advance(WARM_UP_S)
    assert bench.read() == pytest.approx(400, abs=6)
    assert not bench.chip.memory.self_calibration
    assert bench.ask("ff 01 79 a0 00 00 00 00 e6") == b""
    assert bench.chip.memory.self_calibration


@pytest.mark.parametrize(
    ("parts", "understood"),
    [
        ([READ_COMMAND], 1),
        ([READ_COMMAND[:3], READ_COMMAND[3:]], 1),
        ([b"\x00\xff" + READ_COMMAND], 1),
        ([READ_COMMAND + READ_COMMAND[:4], READ_COMMAND[4:]], 2),
        ([READ_COMMAND[:-1] + b"\x00"], 0),
        ([READ_COMMAND[:-1] + b"\x00" + READ_COMMAND], 1),
    ],
)
def test_commands_are_found_in_received_bytes(parts, understood):
    bench = Chip()
    commands = [command for part in parts for command in bench.chip.receive(part)]
    assert commands == list(bench.chip.received) == [READ_COMMAND] * understood


def test_the_same_seed_has_the_same_noise():
    def story(seed):
        clock = SleepingTime()
        chip = SimulatedMhz19(lambda: 800.0, clock.monotonic, seed=seed)
        clock.advance(WARM_UP_S)
        return [int.from_bytes(chip.answer(READ_COMMAND)[2:4], "big") for _ in range(20)]

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_at_another_speed_it_receives_noise():
    clock = SleepingTime()
    ports = SerialPorts(sleep=clock.sleep)
    ports.attach("/dev/serial0", SimulatedMhz19(lambda: 800.0, clock.monotonic))
    for baud, answer in ((9600, reading(388)), (19_200, b"")):
        port = ports.open("/dev/serial0", baud, ANSWER_S)
        port.write(READ_COMMAND)
        assert port.read(9) == answer
        port.close()
    ports.close()


def test_a_sensor_without_power_sends_a_constant_and_a_capped_one_its_amount(bench):
    bench.faults.inject(Fault("warm_up", "mhz19"))
    assert [bench.read() for _ in range(3)] == [555] * 3
    bench.faults.clear()
    bench.faults.inject(Fault("brown_out", "mhz19"))
    with pytest.raises(DeviceMissingError):
        bench.read()
    bench.clock.advance(5)
    assert [bench.read() for _ in range(3)] == [450] * 3
    bench.faults.clear()
    bench.faults.inject(Fault("capped", "mhz19", amount=2_000))
    assert [bench.read(), bench.read()] == [2_000, 2_000]


def test_drift_grows_with_the_time_since_the_fault_began(bench):
    bench.faults.inject(Fault("drift", "mhz19", at=3600, amount=100))
    for ppm in (0, 0, 100, 200):
        assert bench.read() - bench.true_ppm() == pytest.approx(ppm, abs=8)
        bench.clock.advance(3600)


def test_a_path_without_a_pattern_does_not_find_another_name():
    bench = Bench("/dev/ttyUSB0")
    bench.faults.inject(Fault("renamed", "mhz19"))
    for _ in range(2):
        with pytest.raises(DeviceMissingError):
            bench.read()
    bench.close()


def test_a_fault_strikes_one_of_two_sensors():
    clock = SleepingTime()
    machine = simulated(clock, wiring=Wiring(serial={"/dev/ttyUSB0": "mhz19", "/dev/ttyUSB1": "mhz16"}))
    machine.faults.inject(Fault("unplugged", "mhz16"))
    lines = [machine.serial(port, baud=BAUD, timeout_s=ANSWER_S) for port in machine.wiring.serial]
    drivers = [Mhz19(line, monotonic=clock.monotonic) for line in lines]
    assert drivers[0].read()
    with pytest.raises(DeviceMissingError):
        drivers[1].read()
    machine.close()


def test_faults_of_a_bus_and_of_a_line_are_kept_apart(said):
    with said.raises(FaultError):
        Fault("bad_crc", "mhz19")
    with said.raises(FaultError):
        Fault("unplugged", "scd30")
