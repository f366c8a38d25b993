"""The database of the daemon: the embedded one, or an external server."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
from yarl import URL

from growd.store.bootstrap import Databases, bootstrap
from growd.store.couch import Couch
from growd.store.embedded import EmbeddedDatabase
from growd.store.errors import CouchError, CouchUnavailableError
from growd.store.index_builds import index_build

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from growd.store.index_builds import IndexBuild

READY_S: Final = 60.0
"""How long to wait for the embedded server before an error."""

START_S: Final = 4.0
"""How long a recipe waits for the embedded server to start: less than `FETCH_S`."""

PROGRESS_S: Final = 0.4
"""How long to wait for the progress of an index."""

_PASSWORDS: Final = frozenset({"_replicator", "_node"})
"""Where a server has the passwords of replications, and its settings."""


class Database:
    """One database server: its present address, a client for it, and its setup.

    With `url` it is an external server (credentials in the address, or in `credentials`). Without it is the
    embedded one, which `run` supervises, with its files in `data`.
    """

    def __init__(
        self,
        *,
        files: Path,
        data: Path,
        design_name: str,
        url: str = "",
        credentials: tuple[str, str] | None = None,
        prefix: str = "",
        node: str = "node",
        client_design_documents: bool = False,
        owner: tuple[int, int] | None = None,
    ) -> None:
        self.names = Databases.prefixed(prefix)
        self.folder = data
        """The files of the embedded server."""
        self.design = design_name
        """The name of growd's design documents."""
        self._files = files
        self._external = URL(url) if url else None
        self._credentials = credentials
        self.embedded = EmbeddedDatabase(
            node,
            files / "embedded" / "server.mjs",
            data,
            client_design_documents=client_design_documents,
            owner=owner,
        )
        self.prepared = asyncio.Event()  # set by the first `prepare` that succeeds
        self.made: set[str] = set()
        """The databases that the first `prepare` has made."""
        self.on_lost: Callable[[str], None] = lambda _: None  # gets each that a later `prepare` has made
        self._preparing = asyncio.Lock()  # two at once would conflict
        self._is_silent = False
        self._when_up: list[Callable[[], None]] = []
        self._limits: set[asyncio.Timeout] = set()
        self.on_silent: Callable[[], None] = lambda: None  # called when the embedded server does not answer
        self.embedded.on_up, self.embedded.on_silent = self._come_up, self._give_up
        self._session: aiohttp.ClientSession | None = None
        self.couch: Couch
        self.stranger: Couch
        """The client without a login: CouchDB (3.4) locks out a wrong login that is used repeatedly."""

    async def __aenter__(self) -> Self:
        # One connection for each request: if a proxy answers twice, the second answer must not be taken for
        # that of the next request.
        connector = aiohttp.TCPConnector(force_close=True)
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        base = (
            str(self._external)
            if self._external is not None
            else lambda: self._running(self.embedded.owner_url)
        )
        self.couch = Couch(
            self._session, base, credentials=self._credentials, heard=self._heard, waiting=self.waiting
        )
        self.stranger = Couch(self._session, lambda: self._running(self.address), heard=self._heard)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def is_embedded(self) -> bool:
        return self._external is None

    @property
    def closed(self) -> frozenset[str]:
        """Databases hidden from clients: the embedded server has no users, so growd blocks them."""
        return _PASSWORDS if self._external is None else frozenset()

    @property
    def address(self) -> str | None:
        """The present address without credentials; None while the embedded server is down or silent."""
        if self._external is None:
            return self.embedded.url
        return str(self._external.with_user(None)).rstrip("/")

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User and password, from `credentials` or the address."""
        url = self._external
        if self._credentials is None and url is not None and url.user is not None:
            return url.user, url.password or ""
        return self._credentials

    def when_up(self, call: Callable[[], None]) -> None:
        """Also call this each time the server starts to listen, or answers again."""
        self._when_up.append(call)

    @contextlib.asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Raises TimeoutError in the body when the embedded server does not answer any more."""
        async with asyncio.timeout(None) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    async def run(self) -> None:
        """Keep the embedded server running until cancelled; does nothing for an external server."""
        if self.is_embedded:
            await self.embedded.run()

    async def until_up(self) -> None:
        """Wait for the embedded server. Raises `CouchUnavailableError` after `READY_S`."""
        try:
            async with asyncio.timeout(READY_S):
                await self.embedded.ready()
        except TimeoutError:
            sentence = f"the embedded database has not come up within {READY_S:g} s{self._why_down()}"
            raise CouchUnavailableError(sentence) from None

    async def prepare(self) -> None:
        """Set it up; safe to repeat. Raises `CouchError`."""
        if self.is_embedded:
            await self.until_up()
        async with self._preparing:
            on_made = self.on_lost if self.prepared.is_set() else self.made.add
            await bootstrap(self.couch, self._files, self.design, self.names, on_made)
        self.prepared.set()

    async def index_build(self, database: str) -> IndexBuild | None:
        """The progress of the index of growd's views; None if it is not being built, or unknown."""
        try:
            async with asyncio.timeout(PROGRESS_S):
                return await index_build(self.couch, database, self.design)
        except (TimeoutError, CouchError):
            return None

    def _heard(self, is_answer: bool) -> None:  # noqa: FBT001  of a request
        if is_answer and self._is_silent:
            self._come_up()
        self._is_silent = not is_answer

    def _give_up(self) -> None:
        limits, self._limits = self._limits, set()  # one that is expiring can't be moved again
        for limit in limits:
            limit.reschedule(0)
        self.on_silent()

    def _come_up(self) -> None:
        self._is_silent = False
        for call in self._when_up:
            call()

    def _running(self, address: str | None) -> str:
        """The address. Raises `CouchUnavailableError` with the reason if the embedded server is down."""
        if address is None:
            raise CouchUnavailableError(f"no database is running{self._why_down()}")
        return address

    def _why_down(self) -> str:
        return f": {self.embedded.fault}" if self.embedded.fault else ""

    async def recipe(self, recipe_id: str) -> dict[str, Any]:
        """A recipe by its id, with `_conflicts`. Raises LookupError if there is none, and `CouchError`.

        Waits up to `START_S` seconds for the embedded server to start.
        """
        if self.is_embedded:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    await self.embedded.ready()
                    await self.prepared.wait()
            if self.address is None:
                sentence = (
                    "it is not up yet; try again in some seconds, and see growd status if it does not start"
                )
                raise CouchUnavailableError(sentence)
        recipe = await self.couch.get(self.names.recipes, recipe_id, conflicts=True)
        if recipe is None:
            raise LookupError(recipe_id)
        return recipe
