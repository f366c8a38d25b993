"""Latency for another client, and growth of memory, while clients are slow or hostile.

Client, attacker (nice 10) and server are separate processes. The client sends at a steady rate and counts
from when a request was due, without its own delay of up to 100 ms; each 20th request opens a connection. A
refused, broken or 10 s late request counts as 10 s. Each round under attack follows a quiet one: the ratio
is the median of the rounds. Memory is the peak of all rounds less the memory before the first.
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
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from measuring import API, Options, Process, Row, main, server, spread_of
from raw_client import AnswerError, Connection, head, request

from growd.runtime.event_loop import allow_open_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.process import BaseProcess
    from multiprocessing.synchronize import Event

RATE = 250.0  # requests a second that the client asks
PATIENCE_S = 10.0  # how late an answer may be before the client gives up
ALLOWED = 3.0  # times the quiet p99
SETTLE_S = 0.5  # from the end of an attack, whose connections growd then closes, to the next quiet round
CORE = ("--topics", 20, "--publish", 50)
# growd gives a head 2 s in place of 10 s: a round is to hold the whole life of a slow one, and its end
IMPATIENT = ("--header-timeout", 2)
TARGET = f"{API}/param/chamber/parameter_0"
STREAM = f"{API}/topic_stream/chamber/measured/variable_0"
GET = head("GET", TARGET)
LIST = head("GET", f"{API}/topic")
LIST_OF_ONES = b"[" + b"1," * 12 + b"1]"
LARGE = request("POST", TARGET, b'{"value":[' + b",".join([LIST_OF_ONES] * 4_500) + b"]}")
# a process that is forked from one with threads may hang: attackers are started afresh
_context = multiprocessing.get_context("spawn")


# the client


def p99_ms(port: int, seconds: float) -> float:
    """The 99th percentile of the time to a good answer, in ms, of `RATE` requests a second.

    Raises `AnswerError`, `ConnectionError` or `TimeoutError` for a request that gets no good answer.
    """
    waits = []
    connection = Connection(port, timeout_s=PATIENCE_S)
    begin = time.monotonic() + 0.05
    for number in range(int(RATE * seconds)):
        begin += sleep_until(begin + number / RATE)
        due = begin + number / RATE
        if number % 20 == 0:
            connection.socket.close()
            connection = Connection(port, timeout_s=PATIENCE_S)
        connection.send("GET", TARGET)
        connection.check_answer()
        waits.append(time.monotonic() - due)
        if waits[-1] > PATIENCE_S:
            raise TimeoutError(f"an answer came {waits[-1]:.1f} s late")
    connection.socket.close()
    return statistics.quantiles(waits, n=100)[98] * 1000


def sleep_until(due: float) -> float:
    """Sleep until `due`, in monotonic time. Returns how many seconds late the machine woke the client.

    0 where an earlier answer came after `due`, so that a server that stands still is seen.
    """
    left = due - time.monotonic()
    if left <= 0:
        return 0.0
    time.sleep(left)
    return max(0.0, time.monotonic() - due)


# the attacks: each goes on until its process is ended, and says when it is under way


def idle(port: int, ready: Event, count: int = 1_000, turn_s: float = 4.0) -> None:
    """Connections that never say a word. One that growd closed is opened again within `turn_s`."""
    _hold(partial(_connect, port), ready, count, turn_s, lambda connection, _: not _is_over(connection))


def dribble(port: int, ready: Event, count: int = 500, turn_s: float = 1.0) -> None:
    """Heads without end, a byte each `turn_s`. One that growd refused is begun anew within that time."""
    beginning = GET[:-2] + b"X: "

    def send_a_byte(connection: socket.socket, turn: int) -> bool:
        connection.send(beginning[turn : turn + 1] or b"a")
        return not _is_over(connection)

    _hold(partial(_connect, port), ready, count, turn_s, send_a_byte)


def slow_streams(port: int, ready: Event, count: int = 100, turn_s: float = 1.0) -> None:
    """Streams of which a byte is read each `turn_s`, with receive buffers as small as they go."""

    def open_stream() -> socket.socket:
        connection = _connect(port, receive_bytes=1)  # the system takes its least, 2 304 (socket(7))
        connection.sendall(head("GET", STREAM))
        return connection

    def read_a_byte(connection: socket.socket, _: int) -> bool:
        try:
            return connection.recv(1) != b""
        except BlockingIOError:
            return True

    _hold(open_stream, ready, count, turn_s, read_a_byte)


def crowd(port: int, ready: Event) -> None:
    """500 new connections a second, and 4 000 open, where 3 000 may be."""
    held = deque(_connect(port) for _ in range(4_000))
    ready.set()
    while True:
        time.sleep(0.002)
        held.popleft().close()
        held.append(_connect(port))


def pipeline(port: int, ready: Event) -> None:
    """10 000 requests in one go, again and again, whose answers are read."""
    _flood(port, ready, 1, GET * 10_000, reads=True)


def deaf(port: int, ready: Event, count: int = 20) -> None:
    """Requests for a list without end, whose answers nobody reads."""
    _flood(port, ready, count, LIST * 1_000, reads=False)


def garbage(port: int, ready: Event) -> None:
    """Lines of 64 KiB, 10 000 fields, a head of 8 MB, chunk extensions without end, and noise."""
    ready.set()
    chunked = head("POST", TARGET, "Content-Type: application/json", "Transfer-Encoding: chunked")
    rubbish = (
        b"GET /" + b"a" * 70_000,
        GET[:-2] + b"X: " + b"a" * 70_000,
        GET[:-2] + b"A: b\r\n" * 10_000,
        GET[:-2] + b"".join(b"A%d: %b\r\n" % (number, b"a" * 64_000) for number in range(120)),
        chunked + b"1;" + b"a" * 1_000_000,
        b"\x16\x03\x01" + bytes(range(256)) * 100,
    )
    for data in itertools.cycle(rubbish):
        with _connect(port) as connection, suppress(TimeoutError, ConnectionError):  # growd closes it
            connection.settimeout(0.1)
            connection.sendall(data)
            connection.recv(4_096)


def large_bodies(port: int, ready: Event, count: int = 12) -> None:
    """Bodies as large as growd takes, with as many lists as it takes, each client's once a second."""

    def post_again_and_again(client: int) -> None:
        time.sleep(client / count)
        while True:
            with Connection(port) as connection, suppress(ConnectionError):  # growd closes after a refusal
                while True:
                    connection.socket.sendall(LARGE)
                    connection.status()
                    time.sleep(1)

    with ThreadPoolExecutor(count) as pool:
        posting = [pool.submit(post_again_and_again, client) for client in range(count)]
        ready.set()
        for ended in as_completed(posting):
            ended.result()  # which raises what ended it


def _connect(port: int, receive_bytes: int | None = None) -> socket.socket:
    connection = socket.socket()
    if receive_bytes is not None:  # before the connection is made, as that tells the window
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", port))
    return connection


def _is_over(connection: socket.socket) -> bool:
    """Whether the server has closed it, or said why it will: it was asked nothing."""
    try:
        connection.recv(4_096)
    except BlockingIOError:
        return False
    return True


def _hold(
    connect: Callable[[], socket.socket],
    ready: Event,
    count: int,
    turn_s: float,
    act: Callable[[socket.socket, int], bool],
) -> None:
    """Keep `count` connections open and give each its turn, one after the other, in `turn_s` seconds.

    `act` is told how many turns this connection has had, and tells whether it is still open. One that is not
    is replaced, in its turn.
    """
    held = [_Held(connect) for _ in range(count)]
    ready.set()
    begin = time.monotonic()
    for number in itertools.count():
        time.sleep(max(0.0, begin + number * turn_s / count - time.monotonic()))
        held[number % count].take_turn(act)


class _Held:
    """A place among the connections that an attack keeps open."""

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._open()

    def take_turn(self, act: Callable[[socket.socket, int], bool]) -> None:
        try:
            is_open = act(self._connection, self._turns)
        except ConnectionError:
            is_open = False
        self._turns += 1
        if not is_open:
            self._connection.close()
            self._open()

    def _open(self) -> None:
        self._connection = self._connect()
        self._connection.setblocking(False)
        self._turns = 0


def _flood(port: int, ready: Event, count: int, block: bytes, *, reads: bool) -> None:
    """Send `block`, which is whole requests, on each of `count` connections again and again."""
    selector = selectors.DefaultSelector()
    for _ in range(count):
        flooding = Flooding(_connect(port), block)
        events = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)
        selector.register(flooding.connection, events, flooding)
    ready.set()
    while True:
        for key, possible in selector.select():
            if possible & selectors.EVENT_READ:
                key.data.read()
            if possible & selectors.EVENT_WRITE:
                key.data.send()


class Flooding:
    """A connection on which a block is sent again and again, each to its end before the next."""

    def __init__(self, connection: socket.socket, block: bytes) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._block = block
        self._unsent = memoryview(b"")

    def send(self) -> None:
        self._unsent = self._unsent or memoryview(self._block)
        self._unsent = self._unsent[self.connection.send(self._unsent) :]

    def read(self) -> None:
        if not self.connection.recv(1 << 20):
            raise ConnectionError("the server closed a connection whose requests are well-formed")


@dataclass(frozen=True)
class Attack:
    """What is done, and how much growd may grow by: `each_kb` for each of `number`.

    `core` is what growd is started with besides; a round lasts `lasts` times as long as others.
    """

    run: Callable[[int, Event], None]
    name: str
    number: int
    each_kb: float
    core: tuple[object, ...] = ()
    lasts: float = 1.0

    @property
    def growth_mb(self) -> float:
        return self.number * self.each_kb / 1000


ATTACKS = (
    # asyncio's and aiohttp's objects for a connection take 7 kB, of which growd has at most 3 000
    Attack(idle, "1 000 idle connections", 1_000, 10, IMPATIENT, lasts=2),
    Attack(crowd, "4 000 connections, and 500 new ones a second", 3_000, 10),
    Attack(dribble, "500 heads sent a byte a second", 500, 12, IMPATIENT, lasts=2),
    # what one read of the socket brings, up to 256 KiB, as requests that wait; and some slack for a lone one
    Attack(pipeline, "10 000 requests in one go, again and again", 1, 4_000),
    Attack(deaf, "20 connections that ask and read no answer", 20, 750),
    # a connection, 64 messages, and twice what the transport may hold
    Attack(slow_streams, "100 streams at 500 Hz read a byte a second", 100, 60, ("--publish", 500)),
    Attack(garbage, "heads and chunks of megabytes, and noise", 1, 15_000),
    # the 4 MiB that bodies under way may take together, in Python's objects
    Attack(large_bodies, "12 clients that post 4 500 lists in 125 kB once a second", 1, 60_000),
)


def _run(attack: Attack, port: int, ready: Event) -> None:
    os.nice(10)
    allow_open_files()
    attack.run(port, ready)


@contextmanager
def under_way(attack: Attack, port: int) -> Iterator[BaseProcess]:
    """Attack meanwhile. `RuntimeError` if the attack does not begin, or ends before its time."""
    ready = _context.Event()
    process = _context.Process(target=_run, args=(attack, port, ready), daemon=True)
    process.start()
    try:
        while not ready.wait(0.1):
            _check(process, attack)
        yield process
        _check(process, attack)
    finally:
        process.kill()
        process.join()


def _check(process: BaseProcess, attack: Attack) -> None:
    if not process.is_alive():
        raise RuntimeError(f"the attack ended with status {process.exitcode}: {attack.name}")


def measure(options: Options) -> list[Row]:
    with ProcessPoolExecutor(1, mp_context=_context) as client:
        return [row for attack in ATTACKS for row in _rows(attack, client, options)]


def _rows(attack: Attack, client: ProcessPoolExecutor, options: Options) -> list[Row]:
    with server("core", *CORE, *attack.core) as growd:
        client.submit(p99_ms, growd.port, 1.0).result()  # the first requests make growd grow, too
        before = growd.rss_mb()
        rounds = [_round(attack, growd, client, options.seconds) for _ in range(options.rounds)]
    grown = max(each.peak_mb for each in rounds) - before
    by_each = f"{attack.number:,} x {attack.each_kb:,g} kB"
    limit = f"at most {attack.growth_mb:g} MB: {by_each}"
    return [
        _waits(attack, rounds),
        Row(f"memory: {attack.name}", "MB", grown, None, None, limit, grown <= attack.growth_mb),
    ]


@dataclass(frozen=True)
class Round:
    """The other client's p99 in ms without and with the attack, and the most memory under attack."""

    quiet: float
    attacked: float
    peak_mb: float


def _round(attack: Attack, growd: Process, client: ProcessPoolExecutor, seconds: float) -> Round:
    time.sleep(SETTLE_S)
    quiet = client.submit(p99_ms, growd.port, seconds).result()
    growd.forget_peak()
    with under_way(attack, growd.port):
        try:
            attacked = client.submit(p99_ms, growd.port, seconds * attack.lasts).result()
        except (AnswerError, ConnectionError, TimeoutError):
            attacked = PATIENCE_S * 1000
        return Round(quiet, attacked, growd.peak_mb())


def _waits(attack: Attack, rounds: list[Round]) -> Row:
    ratios = [each.attacked / each.quiet for each in rounds]
    ratio = statistics.median(ratios)
    worst = max(each.attacked for each in rounds)
    return Row(
        f"p99: {attack.name} (worst round: {worst:.3g} ms)",
        "ms",
        statistics.median(each.attacked for each in rounds),
        statistics.median(each.quiet for each in rounds),
        ratio,
        f"at most {ALLOWED:g} times the quiet value",
        ratio <= ALLOWED,
        spread_of(ratios),
    )


if __name__ == "__main__":
    main(measure, rounds=3, seconds=3.0)
