"""A proxy between growd and its database that cuts, delays, repeats or halves requests and answers.

It relays bytes unchanged, so it can stop at any byte. A schedule of faults decides about each request.
"""

import asyncio
import itertools
import json
import random
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from support.stand_in import StandIn
from support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Fault = Callable[["Exchange"], Awaitable[None]]

_HEAD_END = b"\r\n\r\n"
_NO_BODY = re.compile(rb"HTTP/1\.1 (1\d\d|204|304) ")


class EndedError(Exception):
    """The connection was cut."""


class Exchange:
    """One request of the client, and what a fault does with it."""

    def __init__(self, proxy, connection, request):
        self.request = request
        self.random = proxy.random
        self._proxy = proxy
        self._connection = connection

    @property
    def path(self):
        return self.request.split(b" ", 2)[1].decode()

    async def hand_on(self):
        """Send the whole request to the database: the answer."""
        reader, writer = await self._connection.far()
        writer.write(self.request)
        await writer.drain()
        return await read_message(reader)

    async def hand_on_unheard(self, length):
        """Send `length` bytes of the request to the database, and cut the connection."""
        _, writer = await self._connection.far()
        writer.write(self.request[:length])
        await writer.drain()
        self.break_off()

    async def answer(self, data):
        self._connection.writer.write(data)
        await self._connection.writer.drain()

    def answer_again(self, data):
        """Send this once more, before the answer to the next request on this connection."""
        self._connection.owed = data

    async def client_gone(self):
        """Wait until the client has closed the connection."""
        async with asyncio.timeout(PATIENCE_S):
            with suppress(OSError):
                while await self._connection.reader.read(65_536):
                    pass

    def break_off(self):
        """Close both sides; the client's at random with a reset."""
        if self.random.random() < 0.5:
            self._connection.writer.transport.abort()
        raise EndedError


class FaultProxy(StandIn):
    """A proxy to the server at `url`, with a random schedule of faults.

    `seen` counts requests by the name of their fault. Between `calm()` and `storm()` there are no faults.
    """

    def __init__(self, url, faults, *, seed, share=0.5):
        super().__init__(self._relay)
        parts = urlsplit(url)
        self.far = (parts.hostname, parts.port)
        self.random = random.Random(seed)
        self.seen = Counter()
        self.watch = lambda *_: None  # called with each fault
        self._faults = self._drawn(list(faults), share)
        self._schedule = self._faults
        self._passed = asyncio.Event()

    def calm(self):
        """Stop the faults."""
        self._schedule = itertools.repeat(served)

    def storm(self):
        """Begin the faults again."""
        self._schedule = self._faults

    async def until(self, number):
        """Wait until `number` requests have come in total."""
        async with asyncio.timeout(PATIENCE_S):
            while self.seen.total() < number:
                self._passed.clear()
                await self._passed.wait()

    def _drawn(self, faults, share):
        """An endless random order in which all faults are equally frequent."""
        deck = []
        while True:
            if self.random.random() >= share:
                yield served
                continue
            if not deck:
                deck = self.random.sample(faults, len(faults))
            yield deck.pop()

    async def _relay(self, reader, writer):
        connection = _Connection(self, reader, writer)
        try:
            while request := await read_message(reader):
                await connection.pay()
                exchange = Exchange(self, connection, request)
                fault = next(self._schedule)
                self.seen[fault.__name__] += 1
                self.watch(fault.__name__, exchange)
                self._passed.set()
                await fault(exchange)
        except (OSError, EOFError, EndedError):
            pass  # only this connection ends
        finally:
            connection.close()


class _Connection:
    """The client's connection, and its connection to the database, made on demand."""

    def __init__(self, proxy, reader, writer):
        self.reader = reader
        self.writer = writer
        self.owed = b""  # an answer that is repeated before the next one
        self._proxy = proxy
        self._far = None

    async def far(self):
        if self._far is None:
            self._far = await asyncio.open_connection(*self._proxy.far)
        return self._far

    async def pay(self):
        """Send the owed answer."""
        owed, self.owed = self.owed, b""
        self.writer.write(owed)
        await self.writer.drain()

    def close(self):
        self.writer.close()
        if self._far is not None:
            self._far[1].transport.abort()


async def read_message(reader):
    """A whole request or answer, unchanged; empty if the other side has closed."""
    try:
        head = await reader.readuntil(_HEAD_END)
    except asyncio.IncompleteReadError:
        return b""
    if re.search(rb"(?i)\r\ntransfer-encoding: *chunked\r\n", head):
        return head + await _read_chunks(reader)
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)\r\n", head)
    if length is None or _NO_BODY.match(head):
        return head
    return head + await reader.readexactly(int(length[1]))


async def _read_chunks(reader):
    chunks = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        chunks += line + await reader.readexactly(size + 2)
        if size == 0:
            return chunks


def body_of(answer):
    """The body of an answer, without chunks."""
    head, _, rest = answer.partition(_HEAD_END)
    if not re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        return rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        body += rest[:length]
        rest = rest[length + 2 :]
    return body


def answer_of(status, body, length=None):
    """An answer with a JSON body; `length` is the Content-Length if it differs from the body's."""
    size = len(body) if length is None else length
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, size) + body


# --- Faults


async def served(exchange):
    await exchange.answer(await exchange.hand_on())


async def cut_before(exchange):
    exchange.break_off()


async def cut_in_the_request(exchange):
    await exchange.hand_on_unheard(exchange.random.randrange(len(exchange.request)))


async def cut_behind_the_request(exchange):
    """The database has the whole request, and may be executing it."""
    await exchange.hand_on_unheard(len(exchange.request))


async def answer_lost(exchange):
    await exchange.hand_on()
    exchange.break_off()


async def cut_in_the_answer(exchange):
    answer = await exchange.hand_on()
    await exchange.answer(answer[: exchange.random.randrange(1, len(answer))])
    exchange.break_off()


async def answer_late(exchange):
    """Answer after the client has given up."""
    answer = await exchange.hand_on()
    await exchange.client_gone()
    await exchange.answer(answer)


async def request_late(exchange):
    """Send the request to the database after the client has given up."""
    await exchange.client_gone()
    await exchange.hand_on()


async def answer_twice(exchange):
    answer = await exchange.hand_on()
    await exchange.answer(answer + answer)


async def answer_again_later(exchange):
    """Repeat the answer when the client sends its next request."""
    answer = await exchange.hand_on()
    await exchange.answer(answer)
    exchange.answer_again(answer)


async def half_the_rows(exchange):
    """Valid JSON with half of the documents."""
    answer = json.loads(body_of(await exchange.hand_on()))
    rows = answer[: len(answer) // 2] if isinstance(answer, list) else {}
    await exchange.answer(answer_of(b"201 Created", json.dumps(rows).encode()))


async def half_of_what_was_said(exchange):
    """The length of the whole body, but only half of it."""
    body = body_of(await exchange.hand_on())
    await exchange.answer(answer_of(b"201 Created", body[: len(body) // 2], len(body)))
    exchange.break_off()


def status(line):
    """This status instead of the answer, without and with the request sent to the database."""
    answer = answer_of(line.encode(), b'{"error":"some_error","reason":"of the proxy"}')

    async def instead(exchange):
        await exchange.answer(answer)

    async def although(exchange):
        await exchange.hand_on()
        await exchange.answer(answer)

    instead.__name__ = f"{line[:3]} instead"
    although.__name__ = f"{line[:3]} although"
    return [instead, although]


CUTS = [cut_before, cut_in_the_request, cut_behind_the_request, answer_lost, cut_in_the_answer]
ANSWERS = [answer_twice, answer_again_later, half_the_rows, half_of_what_was_said]
DELAYS = [answer_late, request_late]
UNWELL = [*status("500 Internal Server Error"), *status("503 Service Unavailable")]
REFUSALS = [*status("401 Unauthorized"), *status("412 Precondition Failed")]
HARMLESS = frozenset({served.__name__, answer_twice.__name__, answer_again_later.__name__})
"""Faults that look like the answer of a healthy database."""
