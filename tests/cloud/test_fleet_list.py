"""The list of a fleet: one reading for all who ask, compressed, and whole or refused."""

import gzip
import json

import pytest
from aiohttp.test_utils import make_mocked_request

from growd.store.errors import CouchUnavailableError
from growd_cloud.devices import FleetList
from support.clock import ManualClock


class Pages:
    """Stands in for the database, which has so many devices on each page."""

    def __init__(self, *sizes):
        self.sizes = sizes
        self.readings = 0
        self.fails = False

    async def rows(self):
        self.readings += 1
        for page, size in enumerate(self.sizes):
            yield [{"device": f"{page}-{number}"} for number in range(size)]
        if self.fails:
            raise CouchUnavailableError("no answer")


def listing(*sizes):
    pages, clock = Pages(*sizes), ManualClock()
    return FleetList(pages, clock), pages, clock


async def devices(listed, encoding="gzip"):
    request = make_mocked_request("GET", "/_fleet", {"Accept-Encoding": encoding})
    answer = await listed.answer(request)
    assert answer.headers.get("Content-Encoding", "identity") == encoding
    if encoding == "gzip":
        body = gzip.decompress(answer.body)
    else:
        body = b"".join([piece async for piece in answer.body._iter])
    return [each["device"] for each in json.loads(body)["devices"]]


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_all_pages_are_one_list(encoding):
    for sizes in ((0,), (2, 1), (0, 2, 0), (20_000,)):
        expected = [f"{page}-{number}" for page, size in enumerate(sizes) for number in range(size)]
        assert await devices(listing(*sizes)[0], encoding) == expected


async def test_pages_that_are_open_at_the_same_time_share_a_reading():
    listed, pages, clock = listing(3)
    for _ in range(10):
        assert len(await devices(listed)) == 3
    assert pages.readings == 1
    await clock.advance(6)
    pages.sizes = (4,)
    assert len(await devices(listed)) == 4


async def test_a_reading_that_fails_is_no_answer():
    listed, pages, _ = listing(2, 2)
    pages.fails = True
    for _ in range(2):
        with pytest.raises(CouchUnavailableError):
            await devices(listed)
    pages.fails = False
    assert len(await devices(listed)) == 4
