"""The database as the daemon has it: the embedded one or one of the owner's, set up and ready to use."""

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
    from collections.abc import Callable
    from pathlib import Path

    from growd.store.index_builds import IndexBuild

READY_S: Final = 60.0
"""How long the embedded server may take until whoever waits for it is told that it is not there."""

START_S: Final = 4.0
"""How long the reader of a recipe waits for an embedded server that starts: less than `FETCH_S`."""

PROGRESS_S: Final = 0.4
"""How long it may take to say how far an index is."""

_PASSWORDS: Final = frozenset({"_replicator", "_node"})
"""Where a server keeps the passwords of replications, and its own settings."""


class Database:
    """One database server: its address at present, a client for it, and its set-up.

    With `url` it is a server that somebody else runs (credentials in the address, or apart); without, the
    embedded one, which `run` starts and keeps running, with its files in `data`.
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
    ) -> None:
        self.names = Databases.prefixed(prefix)
        self._files = files
        self._design_name = design_name
        self._external = URL(url) if url else None
        self._credentials = credentials
        self._embedded = EmbeddedDatabase(
            node,
            files / "embedded" / "server.mjs",
            data,
            client_design_documents=client_design_documents,
        )
        self.prepared = asyncio.Event()  # set by the first `prepare` that succeeds
        self.made: set[str] = set()
        """The databases that `prepare` did not find and made."""
        self._preparing = asyncio.Lock()  # two at once would each take the other for somebody else
        self._session: aiohttp.ClientSession | None = None
        self.couch: Couch
        self.stranger: Couch
        """The same without a login: a wrong one that is tried again and again is locked out (CouchDB 3.4)."""

    async def __aenter__(self) -> Self:
        # A connection for each request, and there are few: where something on the way answers twice, the
        # second is not taken for the answer to what is asked next (another recipe, say).
        connector = aiohttp.TCPConnector(force_close=True)
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        base = str(self._external) if self._external is not None else lambda: self._embedded.owner_url
        self.couch = Couch(self._session, base, credentials=self._credentials)
        self.stranger = Couch(self._session, lambda: self.address)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def is_embedded(self) -> bool:
        return self._external is None

    @property
    def hangs(self) -> int:
        """How often the embedded server was replaced since it did not answer."""
        return self._embedded.hangs

    @property
    def crashes(self) -> int:
        """How often the embedded server ended by itself and was started again."""
        return self._embedded.crashes

    @property
    def closed(self) -> frozenset[str]:
        """What nobody but growd may ask of it: an embedded one knows no users who could be kept from it."""
        return _PASSWORDS if self._external is None else frozenset()

    @property
    def address(self) -> str | None:
        """Where it is at present, without credentials; None while the embedded one is down."""
        if self._external is None:
            return self._embedded.url
        return str(self._external.with_user(None)).rstrip("/")

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User and password for it, given apart or in the address."""
        url = self._external
        if self._credentials is None and url is not None and url.user is not None:
            return url.user, url.password or ""
        return self._credentials

    def when_up(self, call: Callable[[], None]) -> None:
        """Call this too, each time the embedded server begins to listen."""
        earlier = self._embedded.on_up

        def call_all() -> None:
            earlier()
            call()

        self._embedded.on_up = call_all

    async def run(self) -> None:
        """Keep the embedded server running until cancelled; with a server of somebody else's, nothing."""
        if self.is_embedded:
            await self._embedded.run()

    async def prepare(self) -> None:
        """Make what growd needs in it; safe to repeat. Raises `CouchError`."""
        if self.is_embedded:
            await self._until_ready()
        async with self._preparing:
            await bootstrap(self.couch, self._files, self._design_name, self.names, self.made.add)
        self.prepared.set()

    async def index_build(self, database: str) -> IndexBuild | None:
        """How far the index of growd's views in it is; None where it is not being built, or nobody says."""
        try:
            async with asyncio.timeout(PROGRESS_S):
                return await index_build(self.couch, database, self._design_name)
        except (TimeoutError, CouchError):
            return None

    async def _until_ready(self) -> None:
        """Raises `CouchUnavailableError`: one that never comes up is to be told, and no standstill."""
        try:
            async with asyncio.timeout(READY_S):
                await self._embedded.ready()
        except TimeoutError:
            sentence = f"the embedded database has not come up within {READY_S:g} s"
            raise CouchUnavailableError(sentence) from None

    async def recipe(self, recipe_id: str) -> dict[str, Any]:
        """A recipe by its id. Raises LookupError if there is none, and `CouchError`.

        Waits `START_S` seconds where the embedded server has not come up yet.
        """
        if self.is_embedded:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    await self._embedded.ready()
                    await self.prepared.wait()
            if self.address is None:
                sentence = (
                    "it is not up yet; try again in some seconds, and see growd status if it stays away"
                )
                raise CouchUnavailableError(sentence)
        recipe = await self.couch.get(self.names.recipes, recipe_id)
        if recipe is None:
            raise LookupError(recipe_id)
        return recipe
