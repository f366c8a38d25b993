"""Replication to another server through the database `_replicator`.

CouchDB copies the documents, also while growd is down. growd writes the documents of `_replicator`, and
restarts a job soon after the other server is back: CouchDB's scheduler waits 30 s after a failure, then twice
as long each time, up to 8.5 hours (`couch_replicator_scheduler:backoff_micros`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from growd.runtime.pauses import Pauses
from growd.runtime.sentence import plain
from growd.store.couch import Couch
from growd.store.errors import CouchError, CouchRefusedError, CouchUnavailableError
from growd.store.replication_documents import (
    ReplicationServer,
    configured_jobs,
    id_prefix,
    is_of,
    is_same,
    restarted,
)
from growd.store.replication_status import ReplicationState, ReplicationStatus
from growd_cloud.access import NO_LOGIN, CloudAccess, refuses_login
from growd_cloud.replication_health import ReplicationHealth, ReplicationLag

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.config import Replication
    from growd.store.couch import Document
    from growd.store.database import Database
    from growd.store.replication_documents import ReplicationJob

_log = logging.getLogger(__name__)

_REPLICATOR: Final = "_replicator"
_SETTINGS: Final = "replicator"
_CA_FILE: Final = "ssl_trusted_certificates_file"
_VERIFY: Final = "verify_ssl_certificates"
_REMOTE_TIMEOUT_S: Final = 20.0  # of growd's own requests to the other server
_COMING_UP_S: Final = 60.0  # for the local database to come up before it counts as a failure
_REFUSED_PROBES: Final = 10  # a refused login is tried this much less often: CouchDB locks accounts out
# https://docs.couchdb.org/en/3.5.x/replication/replicator.html#replication-states
_CRASHING: Final = frozenset({"crashing", "error"})
_ENDED: Final = frozenset({"failed", "completed"})
_PROGRESS: Final = ("revisions_checked", "docs_read", "docs_written")  # counters of a working job

RESTARTS: Final = Pauses(30.0, 3_600.0)


@dataclass(frozen=True)
class ReplicationPace:
    """Intervals in real seconds, because the other server is real."""

    look_s: float = 15.0
    """Between checks of the jobs."""

    starting_s: float = 2.0
    """The same while a job has just begun."""

    probe_s: float = 60.0
    """Between requests to the other server while a job fails."""

    restarts: Pauses = RESTARTS
    """Between writes of a document whose job fails."""

    hang_s: float = 900.0
    """Without progress before a job is restarted. CouchDB writes large batches, slowly on a slow line."""


class Replicator:
    """Writes the configured documents of `_replicator` and reports the state of their jobs.

    Documents without this device's mark are never changed. Without a configured replication this device's
    documents are deleted. Node `replication`: the parameters `replication/<name>/...`, and `replications` and
    `device_id` in its information.
    """

    def __init__(
        self,
        bus: Bus,
        database: Database,
        options: Replication,
        device: str,
        *,
        access: CloudAccess = NO_LOGIN,
        pace: ReplicationPace | None = None,
    ) -> None:
        self.node = bus.node("replication")
        self._database = database
        self._options = options
        self._device = device
        self._access = access
        self._pace = pace or ReplicationPace()
        jobs = configured_jobs(options, database.names, device)
        self._jobs = [(job, self._new_health(job)) for job in jobs]
        self._wake = asyncio.Event()
        self._is_verified = False
        self._has_come_up = False
        self.node.describe("device_id", lambda: device)  # needed to enrol the device, before it replicates
        self.node.describe("replications", lambda: plain(self.statuses()))

    def statuses(self) -> list[ReplicationStatus]:
        """The state of each replication."""
        return [health.status for _, health in self._jobs]

    def look_now(self) -> None:
        """Check all jobs at once: the local database has come up, maybe at another address."""
        self._is_verified = False
        self._has_come_up = True
        self._wake.set()

    async def run(self) -> None:
        """Check the jobs until cancelled. Without any, return when this device's documents are deleted."""
        connector = aiohttp.TCPConnector(ssl=self._access.context)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            remote = Couch(
                session, self._options.url, credentials=self._access.credentials, timeout=_REMOTE_TIMEOUT_S
            )
            login = _RemoteLogin(remote, self._options, self._pace.probe_s)
            watches = [
                _JobWatch(job, health, self._database.couch, login, self._pace) for job, health in self._jobs
            ]
            began = time.monotonic()
            while (
                not await self._look(watches, login, is_new=time.monotonic() - began < _COMING_UP_S)
                or watches
            ):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s()):
                        await self._wake.wait()
                self._wake.clear()  # not before the wait: a wake-up during the check causes another one

    def _new_health(self, job: ReplicationJob) -> ReplicationHealth:
        ends = f"{job.local} here", f"{self._options.url.rstrip('/')}/{job.remote}"
        return ReplicationHealth(self.node, job.name, *(ends if job.goes_up else reversed(ends)))

    def _pause_s(self) -> float:
        states = {health.state for _, health in self._jobs}
        is_starting = ReplicationState.STARTING in states
        return min(self._pace.look_s, self._pace.starting_s) if is_starting else self._pace.look_s

    async def _look(self, watches: list[_JobWatch], login: _RemoteLogin, *, is_new: bool) -> bool:
        """Check all jobs. Returns whether no document is left that may not run."""
        if self._has_come_up:
            self._has_come_up = False
            for watch in watches:
                watch.forget_pauses()
        try:
            await self._verify_certificates(watches)
            permitted = await self._permitted(watches, login)
            is_clean = await self._reconcile(permitted)
            for watch in permitted:
                try:
                    await watch.look()
                except CouchRefusedError as error:  # its local database may be missing
                    watch.local_failed(error, is_new=is_new)
        except CouchError as error:
            self._is_verified = False
            for watch in watches:
                watch.local_failed(error, is_new=is_new)
            return not watches and isinstance(error, CouchRefusedError)  # not allowed to read the documents
        finally:
            for watch in watches:
                watch.health.publish()
        return is_clean

    async def _permitted(self, watches: list[_JobWatch], login: _RemoteLogin) -> list[_JobWatch]:
        """The jobs that may run: none with a refused login, since CouchDB locks an account after a few."""
        if watches:
            await login.check(watches[0].job.remote)
        if login.fault is None:
            return watches
        for watch in watches:
            watch.login_failed(login.fault)
        return []

    async def _verify_certificates(self, watches: list[_JobWatch]) -> None:
        """Make CouchDB check certificates, which is off by default (`couch_replicator_parse:ssl_params`)."""
        is_asked = self._options.url.startswith("https:")
        if self._is_verified or not is_asked:
            return
        couch = self._database.couch
        present = await couch.setting(_SETTINGS, _CA_FILE)
        file = self._access.ca_file if self._options.ca_file or not present else present
        is_changed = False
        for key, value in ((_CA_FILE, file), (_VERIFY, "true")):
            if await couch.setting(_SETTINGS, key) != value:
                await couch.change_setting(_SETTINGS, key, value)
                _log.info("set [%s] %s = %s in CouchDB", _SETTINGS, key, value)
                is_changed = True
        for watch in watches if is_changed else ():
            watch.restart()  # a job reads these settings when it starts
        self._is_verified = True

    async def _reconcile(self, watches: list[_JobWatch]) -> bool:
        """Write and delete this device's documents. Returns whether none is left that may not run."""
        prefix = id_prefix(self._device)
        rows = await self._database.couch.all_docs(
            _REPLICATOR, startkey=prefix, endkey=prefix + "\ufff0", include_docs=True
        )
        present = {row["id"]: row["doc"] for row in rows}
        configured = {watch.job.id for watch in watches}
        is_clean = True
        for document_id, document in present.items():
            if document_id not in configured and is_of(self._device, document):
                why = "which is not configured" if watches or not self._jobs else "whose login is refused"
                is_clean &= await self._delete(document_id, document["_rev"], why)
        url = "" if self._database.is_embedded else self._database.address or ""
        local = ReplicationServer(url, self._database.credentials)
        remote = ReplicationServer(self._options.url, self._access.credentials)
        for watch in watches:
            await watch.reconcile(watch.job.document(local, remote), present.get(watch.job.id))
        return is_clean

    async def _delete(self, document_id: str, revision: str, why: str) -> bool:
        deletion = {"_id": document_id, "_rev": revision, "_deleted": True}
        if await self._database.couch.put(_REPLICATOR, deletion) is None:
            return False  # changed at the same moment: the next check deletes it
        _log.info("deleted the replication %s, %s", document_id, why)
        return True


class _RemoteLogin:
    """Checks the login at the other server with one request before any job uses it.

    A refused login is tried again after a long pause, and `fault` has the first reason.
    """

    def __init__(self, couch: Couch, options: Replication, interval_s: float) -> None:
        self.couch = couch
        self.fault: str | None = None
        self._file = options.credentials_file
        self._interval_s = interval_s
        self._is_accepted = False
        self._due = 0.0

    async def check(self, database: str) -> None:
        """Ask for `database` with the login, if that is due. A server that does not answer is no fault."""
        now = time.monotonic()
        if self._is_accepted or now < self._due:
            return
        self._due = now + self._interval_s
        try:
            await self.couch.exists(database)
        except CouchRefusedError as error:
            if self.is_refused(error):
                return
        except CouchError:
            return
        self._is_accepted, self.fault = True, None

    def is_refused(self, error: CouchRefusedError) -> bool:
        """Whether `error` refuses the login. Then `fault` is set."""
        if not refuses_login(error):
            return False
        remedy = f"correct the login in {self._file}" if self._file else "set a file with the login"
        if self.fault is None:
            self.fault = (
                f"remote server: {error}; {remedy} ([replication] credentials_file), then restart growd; "
                "a revoked device needs `sudo growd fleet enroll URL CODE --again`"
            )
        self._is_accepted = False
        self._due = time.monotonic() + self._interval_s * _REFUSED_PROBES
        return True


class _JobWatch:
    """Checks one job and restarts it. Raises the errors of the local database, reports those of the other."""

    def __init__(
        self,
        job: ReplicationJob,
        health: ReplicationHealth,
        local: Couch,
        login: _RemoteLogin,
        pace: ReplicationPace,
    ) -> None:
        self.job = job
        self.health = health
        self._local = local
        self._source = local if job.goes_up else login.couch
        self._login = login
        self._remote_fault: str | None = None
        self._probe_due = 0.0
        self._pace = pace
        self._lag = ReplicationLag(job)
        self._measure_due = 0.0
        self._is_stalled = False  # it has a lag, and made no progress since the check before
        self._progress: list[Any] = []
        self._progress_at = 0.0
        self._is_foreign = False  # growd did not write its document
        self._is_to_restart = False
        self._is_just_written = False
        self._writes = 0  # of the document, since the job ran
        self._write_due = 0.0
        self._was_away = False

    def restart(self) -> None:
        """Restart the job with the next check."""
        self._is_to_restart, self._write_due = True, 0.0

    def login_failed(self, fault: str) -> None:
        """Report that the other server refuses the login. Its document is deleted until a login works."""
        self.health.failing(fault)
        self.health.status.lag = None
        self.forget_pauses()

    def local_failed(self, error: CouchError, *, is_new: bool) -> None:
        """Report a failure of the local database, except while it comes up or is created."""
        is_missing = isinstance(error, CouchRefusedError) and error.status == HTTPStatus.NOT_FOUND
        is_coming_up = is_new and (is_missing or isinstance(error, CouchUnavailableError))
        if not is_coming_up or self.health.state is not ReplicationState.STARTING:
            self.health.failing(f"local database: {error}")
        self.forget_pauses()

    def forget_pauses(self) -> None:
        """Make everything due, because the local database went down or came up."""
        self._write_due = self._probe_due = self._measure_due = 0.0

    async def reconcile(self, configured: Document, present: Document | None) -> None:
        """Write the document if it is missing, differs, or its job has to restart, and that is due."""
        self._is_just_written = False
        self._is_foreign = present is not None and not is_of(self.job.device, present)
        if present is None:
            document = configured if await self._local.exists(self.job.local) else None
        elif self._is_foreign or (is_same(configured, present) and not self._is_to_restart):
            document = None
        else:
            document = restarted(configured, present)
        now = time.monotonic()
        if document is None or now < self._write_due:
            return
        if await self._local.put(_REPLICATOR, document) is None:
            return  # changed at the same moment: the next check compares again
        self._is_just_written = True
        self.health.status.restarts += self._is_to_restart
        self._is_to_restart = False
        self._writes += 1
        self._write_due = now + self._pace.restarts.after(self._writes)
        self._probe_due = 0.0

    async def look(self) -> None:
        """Read the state of the job, and ask the other server where that explains more."""
        if self._is_foreign:
            self.health.failing(f"growd did not write the document {self.job.id} in {_REPLICATOR}")
            return
        if self._is_just_written:
            return  # the scheduler may still report the job before
        report = await self._local.scheduled(self.job.id) or {}
        state = report.get("state")
        if state in _ENDED:
            self.health.failing(_error(report))
            self._is_to_restart = True
        elif state in _CRASHING:
            await self._look_at_crash(report)
        elif state is None:
            self._is_to_restart = time.monotonic() >= self._write_due  # lost, or not seen yet
        else:
            await self._look_at_running(report)
        await self._measure(report)

    async def _look_at_crash(self, report: Document) -> None:
        if self.health.state is not ReplicationState.FAILING:
            self._probe_due = 0.0
        await self._probe()
        self.health.failing(self._remote_fault or _error(report))
        if self._remote_fault is not None:
            self._was_away = True
            return
        if self._was_away:
            self._forget_failures()
        self._is_to_restart = True

    async def _look_at_running(self, report: Document) -> None:
        """CouchDB calls a job `running` from its start, also before it has reached both ends."""
        if self.health.state is ReplicationState.RUNNING and not self._is_stalled:
            return
        await self._probe()
        if self._remote_fault is not None:
            self._was_away = True
            self.health.failing(self._remote_fault)
        elif report["state"] == "running" and _counters(report):
            self.health.running()
            self._is_to_restart = False
            self._forget_failures()

    async def _probe(self) -> None:
        """Ask for the other end, if that is due, and remember the fault."""
        if self._login.fault is not None:  # another job has found out
            self._remote_fault = self._login.fault
            return
        now = time.monotonic()
        if now < self._probe_due:
            return
        self._probe_due = now + self._pace.probe_s
        try:
            exists = await self._login.couch.exists(self.job.remote)
            self._remote_fault = None if exists else f"the remote server has no database {self.job.remote}"
        except CouchRefusedError as error:
            is_login = self._login.is_refused(error)
            self._remote_fault = self._login.fault if is_login else f"remote server: {error}"
            self._probe_due = now + self._pace.probe_s * _REFUSED_PROBES
        except CouchError as error:
            self._remote_fault = f"remote server: {error}"

    def _forget_failures(self) -> None:
        self._was_away = False
        self._writes, self._write_due = 0, 0.0

    async def _measure(self, report: Document) -> None:
        self.health.status.refused = int(_counters(report).get("doc_write_failures") or 0)
        now = time.monotonic()
        if now < self._measure_due:
            return
        before = self._lag.through
        try:
            self.health.status.lag = await self._lag.measure(self._local, self._source, report)
        except CouchError:
            if self.job.goes_up:
                raise
            self.health.status.lag = None
        if not self.job.goes_up:
            self._measure_due = now + self._pace.probe_s  # the other server has many devices to answer
        self._is_stalled = self.health.status.lag != 0 and before == self._lag.through
        self._restart_if_hung(report, now)

    def _restart_if_hung(self, report: Document, now: float) -> None:
        """Restart a job that is running and has a lag, but makes no progress."""
        counters = _counters(report)
        progress = [self._lag.through, *(counters.get(name) for name in _PROGRESS)]
        is_running = self.health.state is ReplicationState.RUNNING
        if progress != self._progress or not is_running or not self.health.status.lag:
            self._progress, self._progress_at = progress, now
        elif now - self._progress_at > self._pace.hang_s:
            seconds = now - self._progress_at
            _log.warning("replication %s copied nothing for %.0f s; restarting it", self.job.id, seconds)
            self._is_to_restart, self._progress_at = True, now


def _counters(report: Document) -> dict[str, Any]:
    """The counters of a job, empty before it has read the checkpoints of both ends."""
    info = report.get("info")
    return info if isinstance(info, dict) and "docs_written" in info else {}


def _error(report: Document) -> str:
    """The error of a job on one line; Erlang's terms run over several."""
    info = report.get("info")
    error = info.get("error") if isinstance(info, dict) else info
    if error == "aborted":
        return "CouchDB aborted the replication without a reason"
    return f"replicator: {' '.join(str(error or report.get('state')).split())}"
