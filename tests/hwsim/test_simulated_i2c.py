"""The contract between smbus2 and the simulated kernel: what runs is smbus2's code down to the ioctl."""

import errno
import fcntl
import os
import threading

import pytest
import smbus2
import smbus2.smbus2
from smbus2 import i2c_msg

from growd_hwsim.i2c import I2CAdapter, I2CKernel, I2CSlave, smbus_over


class Echo(I2CSlave):
    """Answers with what was written last."""

    name = "echo"

    def __init__(self):
        super().__init__()
        self.last = b""

    def on_write(self, data):
        self.last = data

    def on_read(self, length):
        return self.last[:length]


@pytest.fixture
def echo():
    return Echo()


@pytest.fixture
def adapter(echo):
    adapter = I2CAdapter(1)
    adapter.attach(0x42, echo)
    return adapter


@pytest.fixture
def bus(adapter):
    with smbus_over(I2CKernel({1: adapter}))(1) as bus:
        yield bus


def test_it_is_smbus2_itself_with_the_functions_of_the_adapter(bus):
    assert isinstance(bus, smbus2.SMBus)
    assert type(bus).i2c_rdwr.__code__ is smbus2.SMBus.i2c_rdwr.__code__
    assert smbus2.smbus2.ioctl is fcntl.ioctl
    assert smbus2.smbus2.os is os
    assert bus.funcs & smbus2.I2cFunc.I2C
    assert not bus.funcs & smbus2.I2cFunc.SMBUS_QUICK


def test_bytes_are_written_and_a_longer_read_is_filled_with_ones(bus, echo):
    answer = i2c_msg.read(0x42, 4)
    bus.i2c_rdwr(i2c_msg.write(0x42, [1, 0, 255]), answer)
    assert bytes(answer) == b"\x01\x00\xff\xff"
    bus.i2c_rdwr(i2c_msg.write(0x42, b""))  # asks for an acknowledge
    assert list(echo.written) == [b"\x01\x00\xff", b""]


def test_a_missing_acknowledge_has_the_errno_of_the_pi_and_no_message_after_it_is_sent(bus, echo):
    with pytest.raises(OSError, match="Remote I/O error") as caught:
        bus.i2c_rdwr(i2c_msg.write(0x43, b"a"), i2c_msg.write(0x42, b"b"))
    assert caught.value.errno == errno.EREMOTEIO == 121
    assert not echo.written


def test_a_transaction_has_1_to_42_messages_and_what_the_adapter_lacks_is_refused(bus, adapter):
    for count in (0, 43):
        with pytest.raises(OSError, match="Invalid argument") as caught:
            bus.i2c_rdwr(*(i2c_msg.write(0x42, b"a") for _ in range(count)))
        assert caught.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="Inappropriate ioctl") as caught:
        bus.read_byte(0x42)
    assert caught.value.errno == errno.ENOTTY
    with pytest.raises(FileNotFoundError) as caught:
        smbus_over(I2CKernel({1: adapter}))(2)
    assert caught.value.filename == "/dev/i2c-2"


def test_a_closed_descriptor_is_bad(adapter, said):
    kernel = I2CKernel({1: adapter})
    bus = smbus_over(kernel)(1)
    descriptor = bus.fd
    bus.close()
    assert bus.fd is None
    with said.raises(OSError):
        kernel.ioctl(descriptor, smbus2.smbus2.I2C_RDWR, None)
    with said.raises(OSError):
        kernel.close(descriptor)


def test_transactions_of_two_openers_do_not_mix(adapter, echo):
    kernel = I2CKernel({1: adapter})
    wrong = []

    def talk(letter):
        with smbus_over(kernel)(1) as bus:
            for _ in range(200):
                answer = i2c_msg.read(0x42, 8)
                bus.i2c_rdwr(i2c_msg.write(0x42, letter * 8), answer)
                wrong.extend([bytes(answer)] if bytes(answer) != letter * 8 else [])

    threads = [threading.Thread(target=talk, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(echo.written) == 600
