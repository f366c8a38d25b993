"""When growd restarts a replication, with a scripted stand-in of CouchDB's scheduler."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from growd.bus import Bus
from growd.config import Replication
from growd.runtime.clock import RealClock
from growd.runtime.pauses import Pauses
from growd.store.database import Database
from growd_cloud.replicator import ReplicationPace, Replicator
from support.http_server import serving_http
from support.running import in_tasks
from support.waiting import PATIENCE_S

DEVICE = "0123456789ab"
FIRST, SECOND = 30_000, 30_001


class Scheduler:
    """A server with one `_replicator` document, whose job has the state that the test sets.

    It is also the other server, which answers requests for its database with the status `far`.
    """

    def __init__(self):
        self.state = "crashing"
        self.info = {"error": "{worker_died,\n    <0.1.0>}"}
        self.far = 200
        self.reason = "y"  # in the answers of the other server
        self.asked = 0  # requests to the other server
        self.lag = 0
        self.is_local_missing = False
        self.growing = None  # the counter in `info` that grows with each check
        self.documents = {}
        self.written = []  # the connection_timeout of each document
        self.conflicts = 0  # this many writes are answered with a conflict
        self.looks = 0
        self.looked = asyncio.Event()
        self.meanwhile = lambda: None  # called once, during a check
        self.url = ""

    async def after_looks(self, number):
        """Wait until growd has asked the scheduler this many times more."""
        end = self.looks + number
        async with asyncio.timeout(PATIENCE_S):
            while self.looks < end:
                self.looked.clear()
                await self.looked.wait()

    async def answer(self, request):
        segments = request.path.removeprefix("/").split("/")
        if segments == ["_replicator", "_all_docs"]:
            if self.far in (401, 403):  # then growd asks for no jobs
                self._count_look()
            return web.json_response({"rows": [{"id": name, "doc": d} for name, d in self.documents.items()]})
        if segments[0] == "_replicator":
            return await self._write(segments[1], request)
        if segments[0] == "_scheduler":
            self._count_look()
            meanwhile, self.meanwhile = self.meanwhile, lambda: None
            meanwhile()
            if self.growing is not None:
                self.info[self.growing] += 1
            return web.json_response({"state": self.state, "info": self.info, "id": None})
        if segments[1:] == ["_changes"] and self.is_local_missing:
            return web.json_response({"error": "not_found", "reason": "y"}, status=404)
        if segments[1:] == ["_changes"]:
            return web.json_response({"results": [{}] * self.lag, "last_seq": 0, "pending": 0})
        is_far = segments[0].startswith("cloud_")
        self.asked += is_far
        return web.json_response({"error": "x", "reason": self.reason}, status=self.far if is_far else 200)

    def _count_look(self):
        self.looks += 1
        self.looked.set()

    async def _write(self, name, request):
        if self.conflicts:
            self.conflicts -= 1
            return web.json_response({"error": "conflict", "reason": "y"}, status=409)
        document = await request.json()
        if document.get("_deleted"):
            del self.documents[name]
        else:
            self.written.append(document["connection_timeout"])
            self.documents[name] = document | {"_rev": f"{len(self.written)}-0"}
        return web.json_response({"ok": True, "rev": f"{len(self.written)}-0"}, status=201)


@pytest.fixture
async def scheduler():
    scheduler = Scheduler()
    async with serving_http(scheduler.answer) as scheduler.url:
        yield scheduler


@asynccontextmanager
async def replicating(scheduler, folder, *, events="off", **pace):
    wanted = Replication(
        url=scheduler.url, recipes="off", prefix="cloud_", events=events, credentials_file="/etc/growd/cloud"
    )
    async with Database(files=folder, data=folder, design_name="svc", url=scheduler.url) as database:
        quick = ReplicationPace(**{"look_s": 0.02, "probe_s": 0.02} | pace)
        replication = Replicator(Bus(RealClock()), database, wanted, DEVICE, pace=quick)
        async with in_tasks(replication):
            await scheduler.after_looks(3)
            yield replication


async def test_a_job_restarts_when_the_other_server_is_back(scheduler, tmp_path):
    scheduler.far = 503
    async with replicating(scheduler, tmp_path, restarts=Pauses(1_000)) as replication:
        await scheduler.after_looks(5)
        assert scheduler.written == [FIRST]
        (status,) = replication.statuses()
        assert (status.state, status.last_error) == (
            "failing",
            "remote server: the database answered GET /cloud_environmental_data_point with 503 x: y",
        )
        scheduler.far = 200
        await scheduler.after_looks(5)
        assert scheduler.written == [FIRST, SECOND]
        (status,) = replication.statuses()
        assert (status.failures, status.restarts) == (1, 1)


async def test_a_crashing_job_restarts_after_growing_pauses(scheduler, tmp_path):
    async with replicating(scheduler, tmp_path, restarts=Pauses(1_000)) as replication:
        await scheduler.after_looks(10)
        assert scheduler.written == [FIRST]
        (status,) = replication.statuses()
        assert status.last_error == "replicator: {worker_died, <0.1.0>}"
        replication.look_now()  # the local database has come up, which ends all pauses
        await scheduler.after_looks(5)
        assert scheduler.written == [FIRST, SECOND]
    scheduler.documents.clear()
    scheduler.written.clear()
    async with replicating(scheduler, tmp_path, restarts=Pauses(0.01, 0.01)):
        await scheduler.after_looks(10)
        assert scheduler.written[:4] == [FIRST, SECOND, FIRST, SECOND]


async def test_a_database_that_comes_up_during_a_check_causes_another_check(scheduler, tmp_path):
    scheduler.state, scheduler.info = "running", {"docs_written": 7, "through_seq": 3}
    async with replicating(scheduler, tmp_path) as replication:
        replication._pace = ReplicationPace(look_s=3_600.0)
        scheduler.meanwhile = replication.look_now
        replication.look_now()
        await scheduler.after_looks(2)


async def test_a_running_job_without_progress_restarts(scheduler, tmp_path, caplog):
    scheduler.state, scheduler.info = "running", {"docs_written": 7, "through_seq": 3}
    async with replicating(scheduler, tmp_path, hang_s=0.0) as replication:
        assert scheduler.written == [FIRST]  # there is nothing to copy
        scheduler.lag = 2
        await scheduler.after_looks(5)
        assert scheduler.written[:2] == [FIRST, SECOND]
        (status,) = replication.statuses()
        assert (status.state, status.failures) == ("running", 0)
        assert status.restarts > 0
    told = f"replication growd-{DEVICE}-points copied nothing for 0 s; restarting it"
    assert told in caplog.messages


@pytest.mark.parametrize("count", ["docs_written", "revisions_checked"])
async def test_a_job_with_progress_is_not_restarted(scheduler, tmp_path, count):
    scheduler.state, scheduler.lag, scheduler.growing = "running", 2, count
    scheduler.info = {"docs_written": 7, "revisions_checked": 7, "through_seq": 3}
    async with replicating(scheduler, tmp_path, hang_s=0.0):
        await scheduler.after_looks(10)
        assert scheduler.written == [FIRST]


@pytest.mark.parametrize("state", ["failed", "completed"])
async def test_a_job_that_ended_restarts(scheduler, tmp_path, state):
    scheduler.state, scheduler.info = state, {"error": "no such thing"}
    async with replicating(scheduler, tmp_path, restarts=Pauses(0.01, 0.01)) as replication:
        await scheduler.after_looks(5)
        assert scheduler.written[:2] == [FIRST, SECOND]
        (status,) = replication.statuses()
        assert status.last_error == "replicator: no such thing"


async def test_a_lost_job_restarts_without_a_failure(scheduler, tmp_path):
    scheduler.state = scheduler.info = None
    async with replicating(scheduler, tmp_path, restarts=Pauses(0.01, 0.01)) as replication:
        await scheduler.after_looks(5)
        assert scheduler.written[:2] == [FIRST, SECOND]
        (status,) = replication.statuses()
        assert (status.state, status.failures) == ("starting", 0)


async def test_a_local_database_that_is_not_created_yet_is_no_failure(scheduler, tmp_path, caplog):
    scheduler.state, scheduler.info = None, None
    scheduler.is_local_missing = True
    async with replicating(scheduler, tmp_path) as replication:
        await scheduler.after_looks(3)
        assert replication.statuses()[0].state == "starting"
        scheduler.is_local_missing = False
        scheduler.state, scheduler.info = "running", {"docs_written": 0, "through_seq": 0}
        await scheduler.after_looks(3)
        (status,) = replication.statuses()
        assert (status.state, status.failures) == ("running", 0)
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


async def test_running_needs_counters_and_an_answer_of_the_other_server(scheduler, tmp_path):
    scheduler.state, scheduler.info, scheduler.far = "running", None, 401
    async with replicating(scheduler, tmp_path) as replication:
        (status,) = replication.statuses()
        assert (status.state, "401" in status.last_error) == ("failing", True)
        scheduler.info = {"docs_written": 0, "doc_write_failures": 3, "through_seq": 0}
        await scheduler.after_looks(5)  # a refused login is not tried again so soon
        assert replication.statuses()[0].state == "failing"
    scheduler.far = 200
    scheduler.info = None
    async with replicating(scheduler, tmp_path) as replication:
        assert replication.statuses()[0].state == "starting"
        scheduler.info = {"docs_written": 0, "doc_write_failures": 3, "through_seq": 0}
        await scheduler.after_looks(3)
        (status,) = replication.statuses()
        assert (status.state, status.refused, status.lag) == ("running", 3, 0)
    assert scheduler.written == [FIRST]


async def test_an_unconfigured_replication_is_deleted_despite_conflicts(scheduler, tmp_path, caplog):
    caplog.set_level("INFO")
    async with replicating(scheduler, tmp_path):
        assert len(scheduler.documents) == 1
    scheduler.conflicts = 2
    async with (
        asyncio.timeout(PATIENCE_S),
        Database(files=tmp_path, data=tmp_path, design_name="svc", url=scheduler.url) as database,
    ):
        await Replicator(
            Bus(RealClock()), database, Replication(), DEVICE, pace=ReplicationPace(look_s=0.01)
        ).run()
    assert scheduler.documents == {}
    assert caplog.text.count("which is not configured") == 1


async def test_a_refused_login_is_asked_once_and_runs_no_job(scheduler, tmp_path):
    name = f"growd-{DEVICE}-points"
    scheduler.documents[name] = {"_id": name, "_rev": "1-0", "growd": {"device": DEVICE}}
    scheduler.far, scheduler.reason = 401, "Name or password is incorrect."
    async with replicating(scheduler, tmp_path, events="up", probe_s=1_000) as replication:
        await scheduler.after_looks(5)
        assert (scheduler.asked, scheduler.documents, scheduler.written) == (1, {}, [])
        for status in replication.statuses():
            assert status.state == "failing"
            assert "401 x: Name or password is incorrect; correct the login in /etc/growd/cloud" in (
                status.last_error
            )
            assert "a revoked device needs `sudo growd fleet enroll URL CODE --again`" in status.last_error


async def test_the_first_reason_of_a_refused_login_stays_until_it_is_accepted(scheduler, tmp_path):
    scheduler.far, scheduler.reason = 401, "Name or password is incorrect."
    async with replicating(scheduler, tmp_path, probe_s=0.002) as replication:
        scheduler.far, scheduler.reason = 403, "Account is temporarily locked"
        await scheduler.after_looks(5)
        (status,) = replication.statuses()
        assert "401 x: Name or password is incorrect; " in status.last_error
        scheduler.far = 200
        scheduler.state, scheduler.info = "running", {"docs_written": 0}
        await scheduler.after_looks(5)
        assert scheduler.written == [FIRST]
        assert replication.statuses()[0].state == "running"


async def test_a_login_that_is_refused_later_deletes_its_jobs(scheduler, tmp_path):
    scheduler.state, scheduler.info = "running", {"docs_written": 0}
    async with replicating(scheduler, tmp_path, probe_s=1_000) as replication:
        await scheduler.after_looks(3)
        scheduler.far = 401
        scheduler.state, scheduler.info = "crashing", {"error": "unauthorized"}
        await scheduler.after_looks(6)
        assert scheduler.documents == {}
        assert "credentials_file" in replication.statuses()[0].last_error


async def test_a_job_that_couchdb_aborted_has_an_error_in_words(scheduler, tmp_path, said):
    scheduler.info = {"error": "aborted"}
    async with replicating(scheduler, tmp_path) as replication:
        (status,) = replication.statuses()
        said(status.last_error)
