"""A serial line that one thread takes over from another, which hangs."""

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from growd_drivers.errors import TransferError
from growd_drivers.serial_line import SerialLine

PLACE = "/dev/serial0"


class Port:
    """Echoes; `meanwhile` happens while it reads."""

    def __init__(self):
        self.is_open = True
        self.written = b""
        self.meanwhile = lambda: None

    def read(self, size=1):
        self.meanwhile()
        if not self.is_open:
            raise TypeError("as pyserial, whose descriptor is None then")
        return self.written[:size]

    def write(self, data, /):
        self.written += data
        return len(data)

    def reset_input_buffer(self):
        self.written = b""

    def close(self):
        self.is_open = False


class Bench:
    def __init__(self):
        self.ports = []
        self.meanwhile = lambda: None
        self.line = SerialLine(self.open, PLACE, baud=9600, timeout_s=1.0)

    def open(self, *_):
        self.meanwhile()
        self.ports.append(Port())
        return self.ports[-1]


@pytest.fixture
def bench():
    return Bench()


def in_another_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_a_thread_that_lost_the_line_cannot_use_it(bench):
    bench.line.send(b"a")
    in_another_thread(bench.line.take_over)
    for use in (lambda: bench.line.send(b"b"), lambda: bench.line.read(1)):
        with pytest.raises(
            TransferError, match=f"{PLACE} .*another thread has taken the line over"
        ) as caught:
            use()
        assert caught.value.errno == errno.EOWNERDEAD
    assert [(port.written, port.is_open) for port in bench.ports] == [(b"a", False)]


def test_after_a_takeover_the_port_is_opened_again(bench):
    bench.line.send(b"a")

    def use():
        bench.line.take_over()
        bench.line.send(b"b")
        return bench.line.read(1)

    assert in_another_thread(use) == b"b"
    assert [(port.written, port.is_open) for port in bench.ports] == [(b"a", False), (b"b", True)]


def take_over_and_use(bench):
    bench.line.take_over()
    bench.line.send(b"new")


def test_a_read_that_ends_after_the_line_was_taken_over_leaves_the_new_port_alone(bench, said):
    bench.line.send(b"a")
    bench.ports[0].meanwhile = lambda: in_another_thread(lambda: take_over_and_use(bench))
    with said.raises(TransferError):
        bench.line.read(1)
    assert [port.is_open for port in bench.ports] == [False, True]


def test_a_port_that_is_open_only_after_the_line_was_taken_over_is_closed_again(bench, said):
    def meanwhile():
        bench.meanwhile = lambda: None
        in_another_thread(lambda: take_over_and_use(bench))

    bench.meanwhile = meanwhile
    with said.raises(TransferError):
        bench.line.send(b"old")
    taken_over, late = bench.ports
    assert (taken_over.is_open, taken_over.written) == (True, b"new")
    assert (late.is_open, late.written) == (False, b"")
