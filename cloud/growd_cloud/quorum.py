"""Whether the node of CouchDB that the receiver uses reaches most nodes of its cluster."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from growd.store.couch_answers import checked
from growd.store.errors import CouchError, CouchUnavailableError

if TYPE_CHECKING:
    from growd.store.couch import Couch

PATIENCE_S: Final = 5.0
MEMBERS_S: Final = 60.0  # for so long the names of the nodes are remembered
_SETTING: Final = ("_config", "couchdb", "database_dir")  # each node has it, and answers from memory


class _Membership(msgspec.Struct):
    """The nodes that this node is connected to, itself included, and those of the cluster."""

    all_nodes: list[str]
    cluster_nodes: list[str]


class Quorum:
    """Asks the nodes through the receiver's own; requests that wait at the same time share a question.

    CouchDB answers 201 to documents with `new_edits` off even if no other node has them: it counts the
    answers of nodes only for new edits (`fabric_doc_update`). So the receiver asks after each write.
    `/_membership` alone is not enough: if a network loses packets, or nodes hang, it lists them for up to
    75 s more (`net_ticktime`, kernel(6)). So most nodes have to answer, each within `patience_s`.
    """

    def __init__(self, couch: Couch, patience_s: float = PATIENCE_S) -> None:
        self._couch = couch
        self._patience_s = patience_s
        self._lock = asyncio.Lock()
        self._begun = self._answered = 0  # questions
        self._found: tuple[int, int] | CouchError = (1, 1)
        self._members: _Membership | None = None
        self._members_until = 0.0
        self._late: dict[str, int] = {}  # the last question that a node did not answer in time

    async def check(self) -> None:
        """`CouchUnavailableError` if the node reaches half of the cluster or less, or does not answer."""
        wanted = self._begun + 1  # the first question that begins after now
        async with self._lock:
            if self._answered < wanted:
                self._begun += 1
                try:
                    self._found = await self._ask()
                except CouchError as error:  # for all that wait: a CouchDB that hangs is asked once
                    self._found = error
                self._answered = self._begun
            found = self._found
        if isinstance(found, CouchError):
            raise found.with_traceback(None)
        there, all_nodes = found
        if there * 2 <= all_nodes:
            raise CouchUnavailableError(f"CouchDB reaches {there} of {all_nodes} nodes of its cluster")

    async def _ask(self) -> tuple[int, int]:
        """How many nodes are reached, at most as many as are needed, and how many the cluster has."""
        members = await self._known_members()
        cluster = set(members.cluster_nodes)
        connected = cluster.intersection(members.all_nodes)
        if len(cluster) == 1:
            return len(connected), 1
        if len(connected) * 2 <= len(cluster):
            self._members = None
            return len(connected), len(cluster)
        there = 0
        for node in sorted(connected, key=lambda name: (self._late.get(name, 0), name)):
            there += await self._answers(node)
            if there * 2 > len(cluster):
                return there, len(cluster)
        self._members = None  # the next question learns at once which are not connected
        return there, len(cluster)

    async def _known_members(self) -> _Membership:
        now = asyncio.get_running_loop().time()
        if self._members is None or now >= self._members_until:
            status, answer = await self._get("_membership")
            self._members = msgspec.convert(checked("GET /_membership", status, answer), _Membership)
            self._members_until = now + MEMBERS_S
        return self._members

    async def _answers(self, node: str) -> bool:
        """Whether a node answers. They are asked in turn, so that few requests wait for nodes that hang."""
        try:
            status, _ = await self._get("_node", node, *_SETTING)
        except CouchUnavailableError:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        if status != HTTPStatus.OK:
            self._late[node] = self._begun
        return status == HTTPStatus.OK

    async def _get(self, *segments: str) -> tuple[int, bytes]:
        """An answer that comes in time. A node may ask others for the account of the login first."""
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._couch.send("GET", segments)
        except TimeoutError:
            request = "/".join(segments)
            raise CouchUnavailableError(
                f"CouchDB did not answer GET /{request} within {self._patience_s:g} s"
            ) from None
