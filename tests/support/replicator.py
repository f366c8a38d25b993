"""A replicator that asks both ends what CouchDB 3.5 asks, in its order, and compares what it compares.

https://github.com/apache/couchdb/tree/3.5.0/src/couch_replicator/src: `couch_replicator_scheduler_job.erl`
opens the ends and writes checkpoints, `couch_replicator_worker.erl` copies documents.
"""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.couch_client import Answer, Client

    Row = dict[str, Any]
    Log = dict[str, Any]

MIXED = {"Accept": "multipart/mixed"}
DELAYED = {"X-Couch-Full-Commit": "false"}
PLAIN = "application/json"


class CheckpointError(Exception):
    """A database is not the one of the beginning, as the replicator sees it."""


@dataclass
class End:
    """A database as source or target: `path` on the server of `client`."""

    client: Client
    path: str

    async def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        return await self.client(method, f"{self.path}/{path}", body, **more)

    async def instance(self) -> str:
        answer = await self("GET", "")
        assert answer.status == 200, answer.body
        assert "update_seq" in answer.json
        return str(answer.json["instance_start_time"])

    async def commit(self) -> str:
        answer = await self("POST", "_ensure_full_commit")
        assert answer.status == 201, answer.body
        return str(answer.json["instance_start_time"])


class ScriptedReplicator:
    """One replication, which keeps its position; `start` it, then `copy` all or `copy_next` of a feed."""

    def __init__(self, source: End, target: End, selector: dict[str, Any] | None = None) -> None:
        self.source, self.target = source, target
        self.since: Any = 0
        self._selector = selector
        self._log_path = f"_local/{uuid4().hex}"
        self._instances: list[str] = []

    async def start(self) -> None:
        """Read what is compared before each checkpoint, and the checkpoint of both ends."""
        ends = (self.source, self.target)
        for end in ends:
            await end.instance()
        self._instances = [await end.instance() for end in ends]
        self._logs = [await self._read_log(end) for end in ends]
        sessions = [log.get("session_id") for log in self._logs]
        is_agreed = sessions[0] is not None and sessions[0] == sessions[1]
        self.since = self._logs[0]["source_last_seq"] if is_agreed else 0

    async def copy(self) -> int:
        """Copy all changes once, write a checkpoint, and return how many revisions were written."""
        answer = await self._ask_changes("normal")
        assert answer.status == 200, answer.body
        rows = answer.json["results"]
        written = await self._copy(rows)
        if rows:
            await self._checkpoint(rows[-1]["seq"])
        return written

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[Any]:
        """The continuous feed of changes, from the position on."""
        path, query, headers, body = self._changes("continuous")
        method = "POST" if body else "GET"
        whole = f"{self.source.path}/{path}"
        async with self.source.client.open(method, whole, body, headers=headers, **query) as feed:
            assert feed.status == 200
            yield feed

    async def copy_next(self, feed: Any) -> int:
        """Copy the next change of a feed, and write a checkpoint."""
        line = b""
        while not line.strip():
            line = await feed.content.readline()
            assert line, "the feed ended"
        row = json.loads(line)
        written = await self._copy([row])
        await self._checkpoint(row["seq"])
        return written

    # documents

    def _changes(self, feed: str) -> tuple[str, dict[str, Any], dict[str, str], Any]:
        query = {"feed": feed, "style": "all_docs", "since": self.since, "timeout": 10_000}
        chosen = {"filter": "_selector"} if self._selector else {}
        body = {"selector": self._selector} if self._selector else None
        return "_changes", chosen | query, {"Accept": PLAIN}, body

    async def _ask_changes(self, feed: str) -> Answer:
        path, query, headers, body = self._changes(feed)
        return await self.source("POST" if body else "GET", path, body, headers=headers, **query)

    async def _copy(self, rows: list[Row]) -> int:
        changed = {row["id"]: [each["rev"] for each in row["changes"]] for row in rows}
        answer = await self.target("POST", "_revs_diff", changed)
        assert answer.status == 200, answer.body
        wanted = [(name, rev) for name, diff in answer.json.items() for rev in diff["missing"]]
        designs = [each for each in wanted if each[0].startswith("_design/")]
        docs = await self._get_many([each for each in wanted if each not in designs])
        for name, rev in [*designs, *(each for each in wanted if each not in designs and each not in docs)]:
            await self._copy_one(name, rev)
        await self._put_many([*docs.values()])
        return len(wanted)

    async def _get_many(self, wanted: list[tuple[str, str]]) -> dict[tuple[str, str], Row]:
        """Documents without attachments."""
        flags = {"latest": True, "revs": True, "attachments": False}
        docs = [{"id": name, "rev": rev, "atts_since": []} for name, rev in wanted]
        body = {**flags, "docs": docs}
        answer = await self.source("POST", "_bulk_get", body, headers={"Accept": PLAIN}, **flags)
        assert answer.status == 200, answer.body
        found = [row["docs"][0]["ok"] for row in answer.json["results"]]
        return {each: doc for each, doc in zip(wanted, found, strict=True) if not doc.get("_attachments")}

    async def _copy_one(self, name: str, rev: str) -> None:
        """A design document, or one with attachments, which are sent as they come."""
        query = {"revs": True, "open_revs": [rev], "latest": True}
        answer = await self.source("GET", name, headers=MIXED, **query)
        assert answer.status == 200, answer.body
        ((kind, content),) = parts(answer.headers["Content-Type"], answer.body)
        if kind != PLAIN:
            _doc, *attachments = parts(kind, content)
            assert attachments
        headers = {"Content-Type": kind}
        written = await self.target("PUT", f"{name}?new_edits=false", content, headers=headers)
        assert written.status == 201, written.body

    async def _put_many(self, docs: list[Row]) -> None:
        if docs:
            answer = await self.target(
                "POST", "_bulk_docs", {"new_edits": False, "docs": docs}, headers=DELAYED
            )
            assert (answer.status, answer.json) == (201, [])

    # checkpoints

    async def _read_log(self, end: End) -> Log:
        answer = await end("GET", self._log_path, headers={"Accept": PLAIN})
        assert answer.status == 200 or answer.json["error"] == "not_found"
        return dict(answer.json) if answer.status == 200 else {}

    async def _checkpoint(self, position: Any) -> None:
        ends = (self.source, self.target)
        if [await end.commit() for end in ends] != self._instances:
            raise CheckpointError("instance_start_time has changed since last checkpoint")
        log = {"session_id": uuid4().hex, "source_last_seq": position, "replication_id_version": 4}
        for number, end in enumerate(ends):
            self._logs[number] = await self._write_log(end, log, self._logs[number].get("_rev"))
        self.since = position

    async def _write_log(self, end: End, log: Log, rev: str | None) -> Log:
        based = {"_rev": rev, "_revisions": {"start": 0, "ids": [rev[2:]]}} if rev else {}
        body = {"_id": self._log_path, **log, **based}
        answer = await end("PUT", self._log_path, body, headers=DELAYED)
        assert answer.status == 201, answer.body
        return {**log, "_rev": answer.json["rev"]}


def parts(kind: str, body: bytes) -> list[tuple[str, bytes]]:
    """The type and content of each part of a multipart body (RFC 2046 section 5.1.1)."""
    boundary = re.search('boundary="?([^";]+)', kind)
    assert boundary, kind
    first, *pieces, last = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())
    assert (first, last[:2]) == (b"", b"--"), body
    found = []
    for piece in pieces:
        head, _, content = piece.partition(b"\r\n\r\n")
        (of_type,) = re.findall(r"(?im)^content-type: *([^\r]+)", head.decode())
        found.append((of_type, content))
    return found
