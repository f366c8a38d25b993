"""How long another client waits, and what memory grows by, while clients are slow or hostile.

Client, attacker and server are processes of their own. The client asks at a steady, modest rate and counts
from when each request was due, so that a server that stands still is seen; each 20th request opens a
connection. Attack and quiet are measured turn by turn. The machine's own pauses are longer than growd's and
only add to what is measured, while an attack lasts through all of its rounds: of both, the best round counts.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import selectors
import socket
import statistics
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from measuring import API, Options, Row, limited, main, server

from growd.cli import allow_open_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.synchronize import Event

RATE = 250.0  # requests a second that the client asks
ALLOWED = 3.0  # times the quiet p99
CORE = ("--topics", 20, "--publish", 50)
TARGET = f"{API}/param/chamber/parameter_0"
STREAM = f"{API}/topic_stream/chamber/measured/variable_0"
LIST = f"{API}/topic"
# a process that is forked from one with threads may hang: attackers are started afresh
_context = multiprocessing.get_context("spawn")


def _get(path: str, *fields: str) -> bytes:
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: growd", *fields, "", "")).encode()


GET = _get(TARGET)


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


# the client


def p99_ms(port: int, seconds: float) -> float:
    """The 99th percentile of the time to an answer, in ms, of `RATE` requests a second."""
    waits = []
    connection = _connect(port)
    begin = time.monotonic() + 0.05
    for number in range(int(RATE * seconds)):
        due = begin + number / RATE
        time.sleep(max(0.0, due - time.monotonic()))
        if number % 20 == 0:
            connection.close()
            connection = _connect(port)
        connection.sendall(GET)
        _read_answers(connection, 1)
        waits.append(time.monotonic() - due)
    connection.close()
    return statistics.quantiles(waits, n=100)[98] * 1000


def _read_answers(connection: socket.socket, count: int) -> None:
    """Read so many answers of small requests, each of which begins with the status line."""
    begun, end = 0, b""
    while begun < count or not end.endswith(b"}"):
        data = connection.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        begun += (end[-8:] + data).count(b"HTTP/1.1 ") - end[-8:].count(b"HTTP/1.1 ")
        end = (end + data)[-16:]


# the attacks: each goes on until its process is ended, and says when it is under way


def idle(port: int, ready: Event) -> None:
    """1 000 connections that never say a word; one that is closed is opened again."""
    _hold(port, ready, 1_000, b"", _nothing)


def dribble(port: int, ready: Event) -> None:
    """500 connections that send their head a byte a second."""
    letters = itertools.cycle(GET[:-4] + b"\r\nX: ")

    def send_a_byte(connection: socket.socket) -> None:
        connection.send(bytes([next(letters)]))

    _hold(port, ready, 500, b"", send_a_byte)


def _nothing(_: socket.socket) -> None:
    pass


def _hold(
    port: int, ready: Event, count: int, first: bytes, each_second: Callable[[socket.socket], None]
) -> None:
    """Keep `count` connections open, and do something with each of them once a second, spread out."""
    held = []
    for number in range(count):
        held.append(_connect(port))
        held[-1].sendall(first)
        held[-1].setblocking(False)
        if number % 50 == 0:
            time.sleep(0.005)  # the crowd comes within a tenth of a second or two
    ready.set()
    for number in itertools.cycle(range(count)):
        time.sleep(1 / count)
        try:
            each_second(held[number])
            closed = not first and held[number].recv(4_096) == b""
        except BlockingIOError:
            continue
        except ConnectionError:
            closed = True
        if closed:
            held[number].close()
            held[number] = _connect(port)
            held[number].setblocking(False)


def crowd(port: int, ready: Event) -> None:
    """500 new connections a second, and 4 000 open, where 3 000 may be."""
    held: deque[socket.socket] = deque()
    for _ in range(4_000):
        held.append(_connect(port))
    ready.set()
    while True:
        time.sleep(0.002)
        held.popleft().close()
        held.append(_connect(port))


def pipeline(port: int, ready: Event) -> None:
    """10 000 requests in one go, again and again."""
    connection = _connect(port)
    selector = selectors.DefaultSelector()
    connection.setblocking(False)
    selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
    ready.set()
    unsent = memoryview(b"")
    while True:
        for _, events in selector.select():
            if events & selectors.EVENT_READ:
                connection.recv(1 << 20)
            if events & selectors.EVENT_WRITE:
                unsent = unsent or memoryview(GET * 10_000)
                unsent = unsent[connection.send(unsent) :]


def deaf(port: int, ready: Event) -> None:
    """20 connections that send requests for a list without end, and read no answer."""
    connections = [_connect(port) for _ in range(20)]
    selector = selectors.DefaultSelector()
    for connection in connections:
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_WRITE)
    ready.set()
    while True:
        for key, _ in selector.select():
            with suppress(BlockingIOError):
                connections[connections.index(key.fileobj)].send(_get(LIST) * 1_000)  # type: ignore[arg-type]


def slow_streams(port: int, ready: Event) -> None:
    """100 streams of which a byte a second is read, with receive buffers as small as they go."""

    def read_a_byte(connection: socket.socket) -> None:
        connection.recv(1)

    _hold(port, ready, 100, _get(STREAM), read_a_byte)


def garbage(port: int, ready: Event) -> None:
    """Lines of 64 KiB, 10 000 fields, a head of 8 MB, chunk extensions without end, and noise."""
    ready.set()
    chunked = f"POST {TARGET} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n".encode()
    rubbish = (
        b"GET /" + b"a" * 70_000,
        GET[:-2] + b"X: " + b"a" * 70_000,
        GET[:-2] + b"A: b\r\n" * 10_000,
        GET[:-2] + b"".join(b"A%d: %b\r\n" % (number, b"a" * 64_000) for number in range(120)),
        chunked + b"Content-Type: application/json\r\n\r\n1;" + b"a" * 1_000_000,
        b"\x16\x03\x01" + bytes(range(256)) * 100,
    )
    for data in itertools.cycle(rubbish):
        with suppress(OSError), _connect(port) as connection:
            connection.settimeout(0.1)
            connection.sendall(data)
            connection.recv(4_096)


@dataclass(frozen=True)
class Attack:
    """What is done, and how many MB growd may grow by."""

    run: Callable[[int, Event], None]
    name: str
    growth_mb: float


ATTACKS = (
    Attack(idle, "1 000 idle connections", 20),
    Attack(crowd, "4 000 connections, and 500 new ones a second", 60),
    Attack(dribble, "500 heads sent a byte a second", 12),
    Attack(pipeline, "10 000 requests in one go, again and again", 10),
    Attack(deaf, "20 connections that ask and read no answer", 15),
    Attack(slow_streams, "100 streams read a byte a second", 15),
    Attack(garbage, "heads and chunks of megabytes, and noise", 15),
)


def _run(attack: Attack, port: int, ready: Event) -> None:
    """An attacker computes elsewhere: it is to take what growd gives, not the processor from it."""
    os.nice(10)
    allow_open_files()
    attack.run(port, ready)


@contextmanager
def under_way(attack: Attack, port: int) -> Iterator[None]:
    ready = _context.Event()
    process = _context.Process(target=_run, args=(attack, port, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(30):
            raise RuntimeError(f"the attack never began: {attack.name}")
        yield
    finally:
        process.kill()
        process.join()


def measure(options: Options) -> list[Row]:
    with ProcessPoolExecutor(1, mp_context=_context) as client:
        return [row for attack in ATTACKS for row in _rows(attack, client, options)]


def _rows(attack: Attack, client: ProcessPoolExecutor, options: Options) -> list[Row]:
    def quiet() -> float:
        return client.submit(p99_ms, growd.port, options.seconds).result()

    def attacked() -> float:
        with under_way(attack, growd.port):
            waited = quiet()
            memory.append(growd.rss_mb())
        return waited

    memory: list[float] = []
    with server("core", *CORE) as growd:
        quiet()  # the first requests make growd grow, too
        before = growd.rss_mb()
        taken = [(attacked(), quiet()) for _ in range(options.rounds)]
    mine, other = (min(waits) for waits in zip(*taken, strict=True))
    target = f"at most {ALLOWED:g} times the quiet value"
    row = Row(f"p99: {attack.name}", "ms", mine, other, mine / other, target, mine <= ALLOWED * other)
    return [row, limited(f"memory: {attack.name}", "MB", max(memory) - before, attack.growth_mb)]


if __name__ == "__main__":
    main(measure, rounds=6, seconds=1.5)
