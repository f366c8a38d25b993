"""Replication to another server: asked for in CouchDB's `_replicator`, kept going, and told of.

CouchDB does the work and outlives growd doing it. growd says what is wanted, and sees to it that a job comes
back soon after its far side does: CouchDB's scheduler waits 30 s after a crash, then twice as long each time,
up to 8.5 hours (`couch_replicator_scheduler:backoff_micros`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec

from growd.store.couch import Couch
from growd.store.errors import CouchError, CouchRefusedError, CouchUnavailableError
from growd.store.replication_health import ReplicationHealth, ReplicationState, ReplicationStatus
from growd.store.replication_lag import Lag
from growd.store.replication_plan import Server, id_prefix, is_of, is_same, jobs, restarted

if TYPE_CHECKING:
    import ssl

    from growd.bus import Bus
    from growd.config import Replication as Wanted
    from growd.store.couch import Document
    from growd.store.database import Database
    from growd.store.replication_plan import Job

_log = logging.getLogger(__name__)

_REPLICATOR: Final = "_replicator"
_SETTINGS: Final = "replicator"
_CA_FILE: Final = "ssl_trusted_certificates_file"
_VERIFY: Final = "verify_ssl_certificates"
_ANSWER_S: Final = 20.0  # for the far side to answer growd
_STARTING_S: Final = 2.0  # between looks at a job that has just begun
_PATIENCE_S: Final = 60.0  # how long the database may take to come up before that is told
_REFUSED_PROBES: Final = 10  # a wrong password is tried so much less often: CouchDB locks out who guesses
# https://docs.couchdb.org/en/3.5.x/replication/replicator.html#replication-states
_CRASHING: Final = frozenset({"crashing", "error"})
_ENDED: Final = frozenset({"failed", "completed"})
_PROGRESS: Final = ("revisions_checked", "docs_read", "docs_written")  # what a job counts as it works


@dataclass(frozen=True)
class Pace:
    """How often is looked, the far side asked, a job begun anew. Real seconds: the far side is real."""

    look_s: float = 15.0
    probe_s: float = 60.0
    first_restart_s: float = 30.0
    longest_restart_s: float = 3_600.0
    hang_s: float = 900.0  # long: CouchDB writes in batches, and a large one takes its time on a slow line

    def pause_s(self, writes: int) -> float:
        """Before a document may be written again that was written so often: grows, half of it at random."""
        grown = self.first_restart_s * 2.0 ** min(writes, 16)
        return min(grown, self.longest_restart_s) * random.uniform(0.5, 1)  # noqa: S311  no secret


@dataclass(frozen=True)
class Trust:
    """Which certificates growd believes, and the file of the same that CouchDB is told of."""

    context: ssl.SSLContext | bool = True
    ca_file: str = ""


class Replication:
    """Keeps the `_replicator` documents of this device as `wanted` has them, and tells how they fare.

    Documents of others are never touched; with nothing wanted, this device's are deleted and that is all.
    Each look brings the documents in order and asks the scheduler. Node `replication`: the parameters
    `replication/<name>/...`, and `replications` and `device_id` in its information.
    """

    def __init__(
        self,
        bus: Bus,
        database: Database,
        wanted: Wanted,
        device: str,
        *,
        credentials: tuple[str, str] | None = None,
        trust: Trust | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.node = bus.node("replication")
        self._database = database
        self._wanted = wanted
        self._device = device
        self._credentials = credentials
        self._trust = trust or Trust()
        self._pace = pace or Pace()
        self._jobs = jobs(wanted, database.names, device) if wanted.url else []
        self._health = {job.name: self._new_health(job) for job in self._jobs}
        self._wake = asyncio.Event()
        self._is_verified = False
        self._has_come_up = False
        self.node.describe("device_id", lambda: device)  # who enrols the device needs it before it replicates
        self.node.describe("replications", lambda: msgspec.to_builtins(self.statuses()))

    def statuses(self) -> list[ReplicationStatus]:
        """How each replication is."""
        return [health.status() for health in self._health.values()]

    def look_now(self) -> None:
        """The database here has come up, maybe at another address: look at once."""
        self._is_verified = False
        self._has_come_up = True
        self._wake.set()

    async def run(self) -> None:
        """Look until cancelled; with nothing wanted, until that is in order."""
        connector = aiohttp.TCPConnector(ssl=self._trust.context)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            far = Couch(session, self._wanted.url, credentials=self._credentials, timeout=_ANSWER_S)
            watches = [
                _Watch(job, self._health[job.name], self._database.couch, far, self._pace)
                for job in self._jobs
            ]
            began = time.monotonic()
            while not await self._look(watches, is_new=time.monotonic() - began < _PATIENCE_S) or watches:
                is_starting = any(
                    health.state is ReplicationState.STARTING for health in self._health.values()
                )
                pause = min(self._pace.look_s, _STARTING_S) if is_starting else self._pace.look_s
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                self._wake.clear()  # and not before it waits: it may have been woken in the midst of the look

    def _new_health(self, job: Job) -> ReplicationHealth:
        ends = f"{job.here} here", f"{self._wanted.url.rstrip('/')}/{job.far}"
        return ReplicationHealth(self.node, job.name, *(ends if job.goes_up else reversed(ends)))

    async def _look(self, watches: list[_Watch], *, is_new: bool) -> bool:
        """Whether the database here could be asked and has what is wanted."""
        if self._has_come_up:
            self._has_come_up = False
            for watch in watches:
                watch.forget_pauses()
        try:
            await self._verify_certificates(watches)
            is_in_order = await self._reconcile(watches)
            for watch in watches:
                try:
                    await watch.look()
                except CouchRefusedError as error:  # its own database, which may be missing
                    watch.lost(error, is_new=is_new)
        except CouchError as error:
            self._is_verified = False
            for watch in watches:
                watch.lost(error, is_new=is_new)
            return not watches and isinstance(error, CouchRefusedError)  # none of ours where we may not look
        finally:
            for watch in watches:
                watch.health.tell()
        return is_in_order

    async def _verify_certificates(self, watches: list[_Watch]) -> None:
        """CouchDB by itself believes any certificate (`couch_replicator_parse:ssl_params`)."""
        is_asked = self._wanted.url.startswith("https:") and self._wanted.verify_tls
        if self._is_verified or not is_asked:
            return
        couch = self._database.couch
        present = await couch.setting(_SETTINGS, _CA_FILE)
        file = self._trust.ca_file if self._wanted.ca_file or not present else present
        is_changed = False
        for key, value in ((_CA_FILE, file), (_VERIFY, "true")):
            if await couch.setting(_SETTINGS, key) != value:
                await couch.change_setting(_SETTINGS, key, value)
                _log.info("set [%s] %s = %s in CouchDB", _SETTINGS, key, value)
                is_changed = True
        for watch in watches if is_changed else ():
            watch.restart()  # a job has these settings from when its document was read
        self._is_verified = True

    async def _reconcile(self, watches: list[_Watch]) -> bool:
        """Whether all documents that are not wanted have gone, which somebody may have changed meanwhile."""
        prefix = id_prefix(self._device)
        present = {
            row["id"]: row["doc"]
            for row in await self._database.couch.all_docs(
                _REPLICATOR, startkey=prefix, endkey=prefix + "\ufff0", include_docs=True
            )
        }
        wanted = {watch.job.id for watch in watches}
        is_in_order = True
        for document_id, document in present.items():
            if document_id not in wanted and is_of(self._device, document):
                gone = {"_id": document_id, "_rev": document["_rev"], "_deleted": True}
                if await self._database.couch.put(_REPLICATOR, gone) is None:
                    is_in_order = False
                else:
                    _log.info("the replication %s is not wanted any more", document_id)
        url = "" if self._database.is_embedded else self._database.address or ""
        here = Server(url, self._database.credentials)
        far = Server(self._wanted.url, self._credentials)
        for watch in watches:
            await watch.reconcile(watch.job.document(here, far), present.get(watch.job.id))
        return is_in_order


class _Watch:
    """Looks after one job. Errors of the database here go up, those of the far side are told."""

    def __init__(self, job: Job, health: ReplicationHealth, here: Couch, far: Couch, pace: Pace) -> None:
        self.job = job
        self.health = health
        self._here = here
        self._far = far
        self._pace = pace
        self._lag = Lag(job)
        self._is_stalled = False
        self._progress: list[Any] = []
        self._moved_at = 0.0
        self._is_others = False
        self._is_to_restart = False
        self._is_written = False  # by this look
        self._writes = 0  # of the document, since it ran well
        self._write_due = 0.0
        self._probe_due = self._measure_due = 0.0
        self._fault: str | None = None  # what the far side said last; None: it is fine
        self._was_away = False

    def restart(self) -> None:
        """Begin it anew with the next look."""
        self._is_to_restart, self._write_due = True, 0.0

    def lost(self, error: CouchError, *, is_new: bool) -> None:
        """The database here can't be asked."""
        is_coming_up = is_new and isinstance(error, CouchUnavailableError)
        if not is_coming_up or self.health.state is not ReplicationState.STARTING:
            self.health.failing(f"the database here can't be asked: {error}")
        self.forget_pauses()

    def forget_pauses(self) -> None:
        """What waits for its time is due: the database here has gone or come."""
        self._write_due = self._probe_due = self._measure_due = 0.0

    async def reconcile(self, wanted: Document, present: Document | None) -> None:
        """Bring the document in order, or begin the job anew, as soon as that is due."""
        self._is_written = False
        self._is_others = present is not None and not is_of(self.job.device, present)
        if present is None:
            document = wanted if await self._here.exists(self.job.here) else None
        elif self._is_others or (is_same(wanted, present) and not self._is_to_restart):
            document = None
        else:
            document = restarted(wanted, present)
        now = time.monotonic()
        if document is None or now < self._write_due:
            return
        if await self._here.put(_REPLICATOR, document) is None:
            return  # somebody wrote it in this moment: the next look compares again
        self._is_written = True
        self.health.restarts += self._is_to_restart
        self._is_to_restart = False
        self._write_due = now + self._pace.pause_s(self._writes)
        self._writes += 1
        self._probe_due = 0.0

    async def look(self) -> None:
        """Ask the scheduler how the job is, and the far side where that tells more."""
        if self._is_others:
            self.health.failing(f"the document {self.job.id} in {_REPLICATOR} was not made by growd")
            return
        if self._is_written:
            return  # what the scheduler says may still be of the job before
        report = await self._here.scheduled(self.job.id) or {}
        state = report.get("state")
        if state in _ENDED:
            self.health.failing(_words(report))
            self._is_to_restart = True
        elif state in _CRASHING:
            await self._look_at_crash(report)
        elif state is None:
            self._is_to_restart = time.monotonic() >= self._write_due  # gone, or never seen
        else:
            await self._look_at_running(report)
        await self._measure(report)

    async def _look_at_crash(self, report: Document) -> None:
        if self.health.state is not ReplicationState.FAILING:
            self._probe_due = 0.0
        await self._probe()
        self.health.failing(self._fault or _words(report))
        if self._fault is not None:
            self._was_away = True
            return
        if self._was_away:
            self._was_away = False
            self._writes, self._write_due = 0, 0.0
        self._is_to_restart = True

    async def _look_at_running(self, report: Document) -> None:
        """A job that runs has not shown yet that it can: it is `running` from its start to its crash."""
        if self.health.state is ReplicationState.RUNNING and not self._is_stalled:
            return
        await self._probe()
        if self._fault is not None:
            self._was_away = True
            self.health.failing(self._fault)
        elif report["state"] == "running" and _counts(report):
            self.health.running()
            self._was_away = self._is_to_restart = False
            self._writes, self._write_due = 0, 0.0

    async def _measure(self, report: Document) -> None:
        """Its lag. It is stalled where that is above 0 and the job came no further since the last look."""
        self.health.refused = int(_counts(report).get("doc_write_failures") or 0)
        now = time.monotonic()
        if now < self._measure_due:
            return
        before = self._lag.through
        if self.job.goes_up:
            self.health.lag = await self._lag.measure(self._here, self._here, report)
        else:
            self._measure_due = now + self._pace.probe_s  # the far side has many devices to answer
            try:
                self.health.lag = await self._lag.measure(self._here, self._far, report)
            except CouchError:
                self.health.lag = None
        self._is_stalled = self.health.lag != 0 and before == self._lag.through
        self._look_for_hang(report, now)

    def _look_for_hang(self, report: Document, now: float) -> None:
        """Begin a job anew that runs, has something to bring, a far side that answers, and brings nothing."""
        counts = _counts(report)
        progress = [self._lag.through, *(counts.get(name) for name in _PROGRESS)]
        is_running = self.health.state is ReplicationState.RUNNING
        if progress != self._progress or not is_running or not self.health.lag:
            self._progress, self._moved_at = progress, now
        elif now - self._moved_at > self._pace.hang_s:
            _log.warning(
                "replication %s has brought nothing for %.0f s and is begun anew",
                self.job.id,
                now - self._moved_at,
            )
            self._is_to_restart, self._moved_at = True, now

    async def _probe(self) -> None:
        """See whether the far side would have us, if that is due."""
        now = time.monotonic()
        if now < self._probe_due:
            return
        wait = self._pace.probe_s
        try:
            is_there = await self._far.exists(self.job.far)
            self._fault = None if is_there else f"there is no database {self.job.far} on the far side"
        except CouchError as error:
            self._fault = f"the far side: {error}"
            if isinstance(error, CouchRefusedError):
                wait *= _REFUSED_PROBES
        self._probe_due = now + wait


def _counts(report: Document) -> dict[str, Any]:
    """The job's figures: there once it has asked both ends where it came to."""
    info = report.get("info")
    return info if isinstance(info, dict) and "docs_written" in info else {}


def _words(report: Document) -> str:
    """CouchDB's words for an error, on one line; Erlang's terms run over several."""
    info = report.get("info")
    error = info.get("error") if isinstance(info, dict) else info
    return f"CouchDB says: {' '.join(str(error or report.get('state')).split())}"
