"""Queries that are asked for at the same time, in one request to the database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MOST_AT_ONCE: Final = 1_000  # rows in one answer


class QueryAnswers(msgspec.Struct):
    """The answer of a database to several queries."""

    results: list[msgspec.Raw]


class _Group:
    """Queries for one request, and the number of rows that they may have."""

    def __init__(self) -> None:
        self.queries: list[dict[str, Any]] = []
        self.answers: list[asyncio.Future[msgspec.Raw]] = []
        self.rows = 0


class QueryBatch:
    """Sends the queries of a view, or of `_all_docs`, that different tasks ask for at the same time.

    `send` gets the body of a POST to `.../queries`, and returns the answers.
    """

    def __init__(self, send: Callable[[dict[str, Any]], Awaitable[QueryAnswers]]) -> None:
        self._send = send
        self._group: _Group | None = None

    async def answer(self, query: dict[str, Any], rows: int) -> msgspec.Raw:
        """The answer to a query with about `rows` rows at most. Raises `StoreError`."""
        group = self._group
        if group is not None and group.rows + rows > MOST_AT_ONCE:
            group = None
        is_first = group is None
        group = self._group = group or _Group()
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        group.queries.append(query)
        group.answers.append(answer)
        group.rows += rows
        if is_first:  # the task that sends it for all
            await self._send_group(group)
        return await answer

    async def _send_group(self, group: _Group) -> None:
        try:
            try:
                await asyncio.sleep(0)  # so that the other tasks ask, too
            finally:
                if self._group is group:
                    self._group = None
            found = await self._send({"queries": group.queries})
        except StoreError as error:
            for answer in group.answers:
                if not answer.done():
                    answer.set_exception(error)
                    answer.exception()  # it may be that nobody waits any more
        else:
            for answer, result in zip(group.answers, found.results, strict=True):
                if not answer.done():
                    answer.set_result(result)
        finally:
            for answer in group.answers:
                answer.cancel()  # no effect on those that are done
