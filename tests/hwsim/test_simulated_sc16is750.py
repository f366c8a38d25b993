import pytest

from growd_hwsim.chips.mhz19 import SimulatedMhz19, reading
from growd_hwsim.chips.sc16is750 import (
    DLH,
    DLL,
    FCR,
    FIFO_LENGTH,
    IOCONTROL,
    LCR,
    LSR,
    OVERRUN,
    RHR,
    RXLVL,
    SPR,
    THR,
    TXLVL,
    SimulatedSc16is750,
)
from growd_hwsim.errors import NothingRecordedError
from growd_hwsim.i2c import NoAcknowledgeError
from support.machine import SleepingTime

COMMAND = bytes.fromhex("ff 01 86 00 00 00 00 00 79")
ANSWER = reading(388)  # as it has just been switched on


class Bench:
    def __init__(self, **options):
        self.sensor = SimulatedMhz19(lambda: 800.0, SleepingTime().monotonic)
        self.chip = SimulatedSc16is750(self.sensor, **options)

    def write(self, register, *values):
        self.chip.receive(bytes([register << 3, *values]))

    def read(self, register, length=1):
        self.chip.receive(bytes([register << 3]))
        return self.chip.on_read(length)

    def set_up(self, divisor=96, line=0x03):
        self.write(LCR, 0x80)
        self.write(DLL, divisor & 0xFF)
        self.write(DLH, divisor >> 8)
        self.write(LCR, line)
        self.write(FCR, 0x07)

    def answer(self):
        assert self.read(RXLVL) == b"\x00"  # a look that finds nothing yet
        return self.read(RHR, self.read(RXLVL)[0])


@pytest.fixture
def bench():
    bench = Bench()
    bench.set_up()
    return bench


def test_a_command_is_forwarded_with_port_and_chip_and_answered():
    queries = []

    def wire(query, forward):
        queries.append((query.port, query.device, query.command))
        return forward(query)

    bench = Bench(port="i2c-3:0x48", wire=wire)
    bench.set_up()
    bench.write(THR, *COMMAND)
    assert list(bench.sensor.received) == [COMMAND]
    assert queries == [("i2c-3:0x48", "mhz19", COMMAND)]
    assert bench.answer() == ANSWER
    assert bench.read(RXLVL) == b"\x00"


def test_a_reset_sets_the_registers_of_the_datasheet_and_keeps_the_scratch_register(bench):
    bench.write(SPR, 0x5A)
    with pytest.raises(NoAcknowledgeError):
        bench.write(IOCONTROL, 0x08)
    assert [bench.read(register)[0] for register in (LCR, LSR, TXLVL, RXLVL, SPR, IOCONTROL)] == [
        0x1D,
        0x60,
        1,
        0,
        0x5A,
        0,
    ]
    assert bench.chip.divisor == 96


def test_a_part_that_acknowledges_its_reset_is_reset_too():
    bench = Bench(acknowledges_reset=True)
    bench.set_up()
    bench.write(IOCONTROL, 0x08)
    assert bench.read(LCR) == b"\x1d"


def test_received_bytes_can_be_forgotten_and_go_with_the_power_or_at_another_speed(bench):
    bench.write(THR, *COMMAND)
    bench.read(RXLVL)
    assert bench.read(LSR) == b"\x61"
    bench.write(FCR, 0x03)
    assert (bench.read(RXLVL), bench.read(LSR), bench.read(RHR)) == (b"\x00", b"\x60", b"\x00")
    bench.write(THR, *COMMAND)
    bench.set_up(48)
    assert bench.answer() == b""
    bench.set_up()
    bench.write(SPR, 0x5A)
    bench.write(THR, *COMMAND)
    bench.chip.power_cycle()
    assert bench.read(SPR) == b"\xff"
    assert bench.chip.divisor == 0xFFFF
    bench.set_up()
    assert bench.answer() == b""


def test_the_divisor_is_reached_while_the_latch_is_open(bench):
    bench.write(LCR, 0x83)
    assert (bench.read(DLL), bench.read(DLH)) == (b"\x60", b"\x00")
    assert bench.chip.baud == 9600


@pytest.mark.parametrize(("divisor", "line"), [(48, 0x03), (100, 0x03), (96, 0x1B), (96, 0x02), (0, 0x03)])
def test_another_speed_or_format_is_noise(divisor, line):
    bench = Bench()
    bench.set_up(divisor, line)
    bench.write(THR, *COMMAND)
    assert not bench.sensor.received


def test_a_small_speed_error_is_accepted():
    bench = Bench(crystal_hz=12_000_000)
    bench.set_up(78)
    bench.write(THR, *COMMAND)
    assert bench.answer() == ANSWER


def test_bytes_without_room_are_lost(bench):
    bench.chip.is_running = False
    bench.write(THR, *COMMAND * 8)
    assert (bench.read(TXLVL), bench.read(LSR)) == (b"\x00", b"\x00")
    bench.write(FCR, 0x05)
    assert (bench.read(TXLVL)[0], bench.read(LSR)) == (FIFO_LENGTH, b"\x60")
    bench.chip.is_running = True
    bench.write(THR, *COMMAND * 8)
    assert len(bench.sensor.received) == FIFO_LENGTH // len(COMMAND)


def test_received_bytes_beyond_the_memory_are_lost_and_flagged_once():
    bench = Bench(wire=lambda _query, _forward: [bytes(100)])
    bench.set_up()
    bench.write(THR, *COMMAND)
    assert len(bench.answer()) == FIFO_LENGTH
    assert bench.read(LSR)[0] & OVERRUN
    assert not bench.read(LSR)[0] & OVERRUN


def test_without_its_fifo_it_holds_one_byte():
    bench = Bench()
    bench.set_up()
    bench.write(FCR, 0x00)
    assert bench.read(TXLVL) == b"\x01"
    bench.write(THR, *COMMAND)
    assert not bench.sensor.received


def test_pieces_come_one_after_another():
    bench = Bench(wire=lambda query, forward: [forward(query)[0][:4], forward(query)[0][4:]])
    bench.set_up()
    bench.write(THR, *COMMAND)
    assert bench.answer() == ANSWER[:4]
    assert bench.answer() == ANSWER[4:]


def test_a_gap_in_a_recording_is_silence(bench, monkeypatch):
    def nothing(_command):
        raise NothingRecordedError

    monkeypatch.setattr(bench.sensor, "answer", nothing)
    bench.write(THR, *COMMAND)
    assert (bench.read(RXLVL), bench.read(RXLVL)) == (b"\x00", b"\x00")


def test_read_only_registers_do_not_change(bench):
    for register in (LSR, TXLVL, RXLVL):
        before = bench.read(register)
        bench.write(register, 0x11)
        assert bench.read(register) == before
