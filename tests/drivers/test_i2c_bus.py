from __future__ import annotations

import errno

import pytest

from growd_drivers.errors import BusError, DeviceMissingError, DriverError
from growd_drivers.i2c import I2CBus
from growd_hwsim.i2c import I2CAdapter, I2CKernel, I2CSlave, NoAcknowledgeError, smbus_over


class Memory(I2CSlave):
    """A memory chip: the first byte written is the place, the rest goes there; reads go on from it."""

    name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.cells = bytearray(256)
        self.place = 0

    def on_write(self, data: bytes) -> None:
        if data[0] == 0xEE:
            raise NoAcknowledgeError
        self.place = data[0]
        self.cells[self.place : self.place + len(data) - 1] = data[1:]

    def on_read(self, length: int) -> bytes:
        return bytes(self.cells[self.place : self.place + length])


class Bench:
    def __init__(self, **options) -> None:
        self.memory = Memory()
        self.broken: int | None = None
        self.adapter = I2CAdapter(1, wire=self.wire, **options)
        self.adapter.attach(0x50, self.memory)
        self.bus = I2CBus(smbus_over(I2CKernel({1: self.adapter}))(1), number=1)

    def wire(self, message, forward):
        if self.broken is not None:
            raise OSError(self.broken, "from the kernel")
        return forward(message)


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.bus.close()


def test_writes_and_reads_the_part_of_the_buffer_asked_for(bench):
    bench.bus.writeto(0x50, b"..\x10abc..", start=2, end=6)
    assert bench.memory.written[-1] == b"\x10abc"
    bench.bus.writeto(0x50, b"\x10")
    buffer = bytearray(b"12345")
    bench.bus.readfrom_into(0x50, buffer, start=1, end=4)
    assert buffer == b"1abc5"


def test_write_then_read_is_one_transaction(bench):
    bench.memory.cells[7:10] = b"xyz"
    buffer = bytearray(b"-----")
    bench.bus.writeto_then_readfrom(0x50, b"\x00\x07", buffer, out_start=1, in_start=1, in_end=4)
    assert buffer == b"-xyz-"
    assert list(bench.memory.written) == [b"\x07"]


@pytest.mark.parametrize("zero_length", [True, False])
def test_scan_finds_what_acknowledges_on_every_kind_of_adapter(zero_length):
    bench = Bench(zero_length=zero_length)
    bench.adapter.attach(0x23, Memory())
    assert bench.bus.scan() == [0x23, 0x50]
    bench.adapter.detach(0x23)
    assert bench.bus.scan() == [0x50]
    bench.bus.close()


def test_scan_does_not_take_a_stuck_bus_for_an_empty_one(bench):
    bench.broken = errno.ETIMEDOUT
    with pytest.raises(BusError, match="held the clock") as caught:
        bench.bus.scan()
    assert not isinstance(caught.value, DeviceMissingError)


def test_an_absent_device_is_named_with_what_to_check(bench):
    bench.bus.label(0x61, "SCD30")
    with pytest.raises(DeviceMissingError) as caught:
        bench.bus.writeto(0x61, b"\x00")
    error = caught.value
    assert str(error) == "SCD30 at 0x61 on I2C bus 1 does not answer: check its wiring, power and address"
    assert (error.device, error.address, error.errno) == ("SCD30", 0x61, errno.EREMOTEIO)
    assert isinstance(error, OSError)
    assert isinstance(error, DriverError)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EIO, "broke off the transfer"),
        (errno.ETIMEDOUT, "held the clock"),
        (errno.EAGAIN, "lost the bus"),
        (errno.ENOMEM, f"errno {errno.ENOMEM}"),
    ],
)
def test_other_failures_keep_the_kernels_number(bench, number, words):
    bench.broken = number
    with pytest.raises(BusError, match=words) as caught:
        bench.bus.readfrom_into(0x50, bytearray(1))
    assert not isinstance(caught.value, DeviceMissingError)
    assert (caught.value.errno, caught.value.address) == (number, 0x50)


def test_a_refused_read_leaves_the_buffer_alone(bench):
    bench.broken = errno.EIO
    buffer = bytearray(b"ab")
    with pytest.raises(BusError):
        bench.bus.readfrom_into(0x50, buffer)
    assert buffer == b"ab"


def test_one_driver_at_a_time_holds_the_bus(bench):
    assert bench.bus.try_lock()
    assert not bench.bus.try_lock()
    bench.bus.unlock()
    assert bench.bus.try_lock()


def test_a_closed_bus_says_so(bench):
    bench.bus.close()
    bench.bus.close()
    with pytest.raises(BusError, match="bus is closed") as caught:
        bench.bus.writeto(0x50, b"\x00")
    assert caught.value.errno == errno.EBADF
