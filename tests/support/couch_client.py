"""A small HTTP client for tests of document databases; design documents from their files."""

from __future__ import annotations

import asyncio
import io
import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from growd.store.bootstrap import read_design

if TYPE_CHECKING:
    from collections.abc import Mapping

COUCHDB_ADDRESS = "GROWD_TEST_COUCHDB"
"""The variable with the address of an Apache CouchDB for the tests."""
FILES = Path(__file__).parents[2] / "couchdb"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # case-insensitive
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Client:
    """Sends requests to one server, with unchanged paths and queries."""

    def __init__(self, session, url):
        self.session = session
        self.url = url

    async def __call__(self, method, path, body=None, *, headers=None, **query):
        async with self.open(method, path, body, headers=headers, **query) as response:
            return Answer(response.status, response.headers.copy(), await response.read())

    def open(self, method, path, body=None, *, headers=None, **query):
        """A streamed response, as an asynchronous context manager. Query values are encoded as JSON."""
        is_bytes = isinstance(body, bytes)
        content = body if is_bytes or body is None else io.BytesIO(json.dumps(body).encode())
        default = {} if is_bytes else {"Content-Type": "application/json"}
        return self.session.request(
            method, self._address(path, query), data=content, headers=default | (headers or {})
        )

    def _address(self, path, query):
        texts = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in query.items()
        }
        return URL(self.url + path + ("?" + urlencode(texts, quote_via=quote) if texts else ""), encoded=True)


@asynccontextmanager
async def client_of(url, auth=None):
    headers = {"Authorization": aiohttp.encode_basic_auth(*auth)} if auth else None
    timeout = aiohttp.ClientTimeout(total=None, sock_read=30)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        yield Client(session, url)


async def install_design(couch, database, folder, *, has_last=False):
    design = await asyncio.to_thread(read_design, FILES / "design" / folder, "svc", has_last)
    assert design is not None
    assert (await couch("PUT", f"{database}/_design/svc", design)).status == 201


def reduces():
    """Whether to use CouchDB's built-in `_last`; tests run with and without it."""
    return [False, True] if COUCHDB_ADDRESS in os.environ else [False]
