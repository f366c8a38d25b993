"""Queries that are asked for at the same time go to the database in one request."""

import asyncio

import msgspec
import pytest

from growd.store.errors import StoreError
from growd.store.reading.queries import MOST_AT_ONCE, QueryAnswers, QueryBatch


class Server:
    """Answers each query with its number; `sent` has the numbers of each request."""

    def __init__(self, error=None):
        self.sent = []
        self.error = error
        self.batch = QueryBatch(self.answer)

    async def answer(self, body):
        self.sent.append([query["limit"] for query in body["queries"]])
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return QueryAnswers([msgspec.Raw(str(query["limit"]).encode()) for query in body["queries"]])

    async def ask(self, number, rows=1):
        return int(bytes(await self.batch.answer({"limit": number}, rows)))


async def test_each_gets_its_own_answer():
    server = Server()
    assert await asyncio.gather(*(server.ask(n) for n in range(5))) == [*range(5)]
    assert await server.ask(7) == 7
    assert server.sent == [[0, 1, 2, 3, 4], [7]]


async def test_an_answer_is_not_longer_than_a_limit():
    server = Server()
    found = await asyncio.gather(*(server.ask(n, MOST_AT_ONCE // 2) for n in range(3)), server.ask(3, 10_000))
    assert found == [0, 1, 2, 3]
    assert server.sent == [[0, 1], [2], [3]]


async def test_all_get_the_error():
    server = Server(StoreError("no"))
    found = await asyncio.gather(*(server.ask(n) for n in range(3)), return_exceptions=True)
    assert [str(each) for each in found] == ["no"] * 3
    assert server.sent == [[0, 1, 2]]


async def test_nobody_waits_for_a_request_that_was_given_up():
    server = Server()
    first, second = (asyncio.create_task(server.ask(n)) for n in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await server.ask(3) == 3
