"""The node `cloud`: sends reports of this device to its cloud, beside the replications."""

from __future__ import annotations

import logging
import platform
import random
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec
from msgspec.structs import replace

from growd import __version__
from growd.runtime.supervisor import TaskFault
from growd.status.model import CloudStatus
from growd.store.couch_answers import checked, unavailable_as
from growd.store.errors import CouchRefusedError, CouchUnavailableError
from growd_cloud.access import refuses_login
from growd_cloud.device_report import alerts_of, clock_fault, report_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.runtime.clock import Clock
    from growd.status.status_node import StatusNode
    from growd_cloud.access import CloudAccess
    from growd_cloud.device_report import DeviceReport

LOOK_S: Final = 5.0
"""Between looks at the status, and so between reports while alerts change."""

CHANGED_S: Final = 60.0
"""Between reports while something else changes."""

SAME_S: Final = 300.0
"""Between reports while nothing changes."""

REFUSED_S: Final = 600.0
"""After a refusal: CouchDB locks an account after five wrong passwords in five minutes."""

NO_REPORTS_S: Final = 3_600.0
"""After the answer that the server takes no reports."""

_TIMEOUT_S: Final = 20.0
_MOST_ANSWER: Final = 64 * 1024
_REVOKED: Final = (
    "the server refuses this device's login ({reason}): the device was revoked, or its login is wrong; "
    "`sudo growd fleet enroll URL CODE --again` with a new code makes a new one"
)
_log = logging.getLogger(__name__)


class CloudReporter:
    """Sends a report each minute while it changes, at least each five minutes, and soon after a new alert.

    `address` gives the address of this growd's API. Intervals are those of the
    machine's clock, because the server is real.
    """

    def __init__(
        self,
        bus: Bus,
        source: StatusNode,
        url: str,
        address: Callable[[], str],
        *,
        access: CloudAccess,
        clock: Clock,
    ) -> None:
        self.node = bus.node("cloud")
        self.status = CloudStatus(url.rstrip("/"))
        self._source = source
        self._address = address
        self._trust = access.context
        self._clock = clock
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if access.credentials is not None:
            self._headers["Authorization"] = aiohttp.encode_basic_auth(*access.credentials)
        self._due = 0.0  # not earlier than this, whatever changes
        cloud = f"the cloud {self.status.server}"
        self._fault = TaskFault(_log, f"{cloud} took no report", f"{cloud} takes reports")
        self._sent_at = 0.0
        self._sent: DeviceReport | None = None
        self._sent_alerts: list[tuple[str, ...]] = []
        self.node.describe("cloud", lambda: msgspec.to_builtins(self.status))
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Report until cancelled."""
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=1)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            while True:
                if self._clock.monotonic() >= self._due:
                    await self._look(session)
                await self._clock.sleep(LOOK_S)

    async def _look(self, session: aiohttp.ClientSession) -> None:
        """Send a report if it is due; none before growd has started, as it would lack the chamber."""
        age = self._clock.monotonic() - self._sent_at
        status = self._source.snapshot()
        if status.stage == "starting":
            return
        is_database_away = status.database is not None and not status.database.reachable
        if self._sent is None or age >= CHANGED_S or is_database_away:
            await self._source.look_up()
            status = self._source.snapshot()
        alerts = alerts_of(status)
        report = report_of(status, platform.node(), __version__, self._address())
        is_due = self._sent is None or alerts != self._sent_alerts or age >= SAME_S
        if self._sent is not None and not is_due:
            is_begun = report.environments.keys() != self._sent.environments.keys()  # after the start
            is_due = is_begun or (age >= CHANGED_S and report.essence != self._sent)
        if is_due and await self._was_taken(session, report):
            self._sent, self._sent_alerts = report.essence, alerts
            self._sent_at = self._clock.monotonic()

    async def _was_taken(self, session: aiohttp.ClientSession, report: DeviceReport) -> bool:
        try:
            answer = await self._put(session, report.encoded())
        except CouchRefusedError as error:
            self._refused(error)
            return False
        except CouchUnavailableError as error:
            self._failed("away", str(error), CHANGED_S)
            return False
        if self.status.state == "starting":
            _log.info("the cloud %s takes reports", self.status.server)
        self._fault.succeeded()
        received = answer.get("received") if isinstance(answer, dict) else None
        clock = clock_fault(report.time, received) if isinstance(received, int | float) else ""
        if clock and not self.status.clock:
            _log.warning("%s", clock)
        self.status = CloudStatus(self.status.server, "reporting", time.time(), clock=clock)
        return True

    def _problems(self) -> list[dict[str, Any]]:
        return [{"text": self.status.clock, "code": "cloud_clock_differs"}] if self.status.clock else []

    async def _put(self, session: aiohttp.ClientSession, body: bytes) -> Any:
        request, timeout = "PUT /_device", aiohttp.ClientTimeout(total=_TIMEOUT_S)
        url = f"{self.status.server}/_device"
        with unavailable_as(request, _TIMEOUT_S):
            async with session.put(
                url, data=body, headers=self._headers, timeout=timeout, allow_redirects=False
            ) as response:
                return checked(request, response.status, await response.content.read(_MOST_ANSWER))

    def _refused(self, error: CouchRefusedError) -> None:
        if error.status == HTTPStatus.NOT_FOUND or _is_of_couchdb(error):
            self._failed("none", "the server takes no reports", NO_REPORTS_S)
        elif refuses_login(error):
            self._failed("refused", _REVOKED.format(reason=error.reason), REFUSED_S)
        else:
            self._failed("refused", str(error), REFUSED_S)

    def _failed(self, state: str, fault: str, pause_s: float) -> None:
        """Try again after a pause, which differs from device to device."""
        self._fault.failed(fault, logging.INFO if state == "none" else logging.WARNING)
        self._due = self._clock.monotonic() + pause_s * random.uniform(1.0, 1.25)  # noqa: S311  no secret
        self.status = replace(self.status, state=state, fault=fault)


def _is_of_couchdb(error: CouchRefusedError) -> bool:
    """Whether a CouchDB itself refused: it takes the path for a database that only administrators make."""
    return error.error == "illegal_database_name" or "server admin" in error.reason
