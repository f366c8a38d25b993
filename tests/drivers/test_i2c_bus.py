import errno
import threading

import pytest

from growd_drivers.errors import DeviceMissingError, DriverError, HardwareUnavailableError, TransferError
from growd_drivers.i2c import I2CBus
from growd_hwsim.i2c import I2CAdapter, I2CKernel, I2CSlave, NoAcknowledgeError, smbus_over


class Memory(I2CSlave):
    """A memory chip: the first byte written is the place, the rest goes there; reads go on from it."""

    name = "memory"

    def __init__(self):
        super().__init__()
        self.cells = bytearray(256)
        self.place = 0

    def on_write(self, data):
        if data[0] == 0xEE:
            raise NoAcknowledgeError
        self.place = data[0]
        self.cells[self.place : self.place + len(data) - 1] = data[1:]

    def on_read(self, length):
        return bytes(self.cells[self.place : self.place + length])


class Bench:
    def __init__(self, **options):
        self.memory = Memory()
        self.broken = None
        self.adapter = I2CAdapter(1, wire=self.wire, **options)
        self.adapter.attach(0x50, self.memory)
        self.opens = 0
        self.cleared = []
        self.can_clear = True
        self.bus = I2CBus(self.open, number=1, clear=self.clear)

    def open(self, number):
        self.opens += 1
        return smbus_over(I2CKernel({1: self.adapter}))(number)

    def clear(self, number):
        self.cleared.append(number)
        if not self.can_clear:
            raise OSError(errno.ENOTSUP, "there is no pinctrl here")

    def wire(self, message, forward):
        if self.broken is not None:
            raise OSError(self.broken, "from the kernel")
        return forward(message)


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.bus.close()


def test_writes_and_reads_the_part_of_the_buffer_asked_for_also_in_one_transaction(bench):
    bench.bus.writeto(0x50, b"..\x10abc..", start=2, end=6)
    assert bench.memory.written[-1] == b"\x10abc"
    bench.bus.writeto(0x50, b"\x10")
    buffer = bytearray(b"12345")
    bench.bus.readfrom_into(0x50, buffer, start=1, end=4)
    assert buffer == b"1abc5"
    bench.bus.writeto_then_readfrom(0x50, b"\x00\x11", buffer, out_start=1, in_start=1, in_end=3)
    assert buffer == b"1bcc5"
    assert bench.memory.written[-1] == b"\x11"


@pytest.mark.parametrize("zero_length", [True, False])
def test_scan_finds_acknowledging_addresses_on_every_kind_of_adapter(zero_length):
    bench = Bench(zero_length=zero_length)
    bench.adapter.attach(0x23, Memory())
    assert bench.bus.scan() == [0x23, 0x50]
    bench.adapter.detach(0x23)
    assert bench.bus.scan() == [0x50]
    bench.bus.close()


def test_scan_does_not_take_a_stuck_bus_for_an_empty_one(bench):
    bench.broken = errno.ETIMEDOUT
    with pytest.raises(TransferError, match="held the clock") as caught:
        bench.bus.scan()
    assert not isinstance(caught.value, DeviceMissingError)


def test_the_error_of_an_absent_device_names_it_with_advice(bench, said):
    bench.bus.label(0x61, "SCD30")
    with pytest.raises(DeviceMissingError) as caught:
        bench.bus.writeto(0x61, b"\x00")
    error = caught.value
    said(str(error))
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
def test_other_failures_keep_the_kernels_number_and_leave_the_buffer_alone(bench, number, words):
    bench.broken, buffer = number, bytearray(b"ab")
    with pytest.raises(TransferError, match=words) as caught:
        bench.bus.readfrom_into(0x50, buffer)
    assert buffer == b"ab"
    assert not isinstance(caught.value, DeviceMissingError)
    assert (caught.value.errno, caught.value.address) == (number, 0x50)


def test_one_driver_at_a_time_holds_the_bus_and_a_closed_one_says_so(bench):
    assert bench.bus.try_lock()
    assert not bench.bus.try_lock()
    bench.bus.unlock()
    assert bench.bus.try_lock()
    bench.bus.close()
    bench.bus.close()
    with pytest.raises(TransferError, match="bus is closed") as caught:
        bench.bus.writeto(0x50, b"\x00")
    assert caught.value.errno == errno.EBADF


def in_another_thread(function, *args):
    """What it returns or raises there."""
    answers = []

    def call():
        try:
            answers.append(function(*args))
        except TransferError as error:
            answers.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return answers[0]


@pytest.mark.parametrize("number", [errno.ETIMEDOUT, errno.EAGAIN])
@pytest.mark.parametrize("can_clear", [True, False])
def test_a_hung_bus_is_cleared_and_opened_again_at_the_next_use(bench, number, can_clear):
    bench.can_clear = can_clear
    bench.broken = number
    with pytest.raises(TransferError):
        bench.bus.writeto(0x50, b"\x10a")
    assert (bench.opens, bench.cleared, bench.bus.recoveries) == (1, [], 0)
    bench.broken = None
    bench.bus.writeto(0x50, b"\x10a")
    bench.bus.writeto(0x50, b"\x10b")
    assert (bench.opens, bench.cleared, bench.bus.recoveries) == (2, [1], 1)
    assert bench.memory.cells[0x10:0x11] == b"b"


def test_a_chip_that_does_not_answer_is_no_reason_to_clear_the_bus(bench):
    for number in (errno.EREMOTEIO, errno.EIO):
        bench.broken = number
        with pytest.raises(TransferError):
            bench.bus.writeto(0x50, b"\x10a")
    assert (bench.opens, bench.cleared) == (1, [])


def test_a_missing_bus_is_tried_again_at_each_use(bench):
    bench.broken = errno.ETIMEDOUT
    with pytest.raises(TransferError):
        bench.bus.writeto(0x50, b"\x10a")
    bench.broken, bench.adapter.number = None, 2
    kernel = I2CKernel({2: bench.adapter})
    bench.bus._open_smbus = smbus_over(kernel)
    for _ in range(2):
        with pytest.raises(HardwareUnavailableError, match="switch I2C on with `growd setup-pi`"):
            bench.bus.writeto(0x50, b"\x10a")
    assert bench.cleared == [1]


def test_a_thread_that_lost_the_bus_cannot_use_it(bench):
    bench.bus.writeto(0x50, b"\x10a")
    assert bench.bus.try_lock()  # and hangs in a transfer
    in_another_thread(bench.bus.take_over)
    for use in (lambda: bench.bus.writeto(0x50, b"\x10b"), bench.bus.try_lock):
        with pytest.raises(TransferError, match="another thread has taken the bus over") as caught:
            use()
        assert caught.value.errno == errno.EOWNERDEAD
    bench.bus.unlock()
    assert bench.memory.cells[0x10:0x11] == b"a"


def test_after_a_takeover_the_bus_is_cleared_and_unlocked(bench):
    bench.bus.writeto(0x50, b"\x10a")
    assert bench.bus.try_lock()

    def use():
        bench.bus.take_over()
        taken = bench.bus.try_lock()
        bench.bus.writeto(0x50, b"\x10b")
        bench.bus.unlock()
        return taken, bench.bus.try_lock()

    assert in_another_thread(use) == (True, True)
    assert (bench.opens, bench.cleared) == (2, [1])
    assert bench.memory.cells[0x10:0x11] == b"b"


def test_a_bus_that_opens_after_it_was_taken_over_is_closed_again(bench, said):
    closed = []

    class Late:
        def close(self):
            closed.append(self)

    def open_late(_number):
        in_another_thread(bench.bus.take_over)
        return Late()

    bench.bus._open_smbus = open_late
    with said.raises(TransferError):
        bench.bus.writeto(0x50, b"\x10a")
    assert len(closed) == 1
    assert bench.bus._smbus is None


def test_a_transfer_that_ends_after_the_bus_was_taken_over_leaves_it_alone(bench, said):
    bench.bus.writeto(0x50, b"\x10a")

    def hang_until_taken_over(_message, _forward):
        in_another_thread(bench.bus.take_over)
        raise OSError(errno.ETIMEDOUT, "from the kernel")

    bench.adapter._wire = hang_until_taken_over
    with said.raises(TransferError):
        bench.bus.writeto(0x50, b"\x10b")
    bench.adapter._wire = bench.wire
    assert bench.opens == 1
    in_another_thread(bench.bus.take_over)
    assert bench.bus.recoveries == 0


def test_data_read_after_a_takeover_is_dropped(bench, said):
    bench.bus.writeto(0x50, b"\x10a")
    buffer = bytearray(b"-")

    def answer_once_taken_over(message, forward):
        in_another_thread(bench.bus.take_over)
        return forward(message)

    bench.adapter._wire = answer_once_taken_over
    with said.raises(TransferError):
        bench.bus.readfrom_into(0x50, buffer)
    assert buffer == b"-"
