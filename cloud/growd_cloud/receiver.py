"""Answers devices as a CouchDB would, with the databases that replications name by default."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

from aiohttp import web

from growd.server.client_request import add_own_headers, check_framing, prefers_html, split_target
from growd.server.errors import ApiError
from growd.server.json_answer import JsonAnswer, json_answer
from growd.store.errors import CouchConflictError, CouchError, CouchRefusedError
from growd.variable_names import LANGUAGES, VARIABLE_NAMES
from growd_cloud.accounts import EnrolmentError, EnrolmentRequest
from growd_cloud.bodies import (
    MOST_IDS_BODY,
    MOST_OF,
    MOST_POINTS_BODY,
    WHOLE_S,
    Named,
    Revisions,
    WantedRecipes,
    decoded,
    documents_of,
)
from growd_cloud.checkpoints import MOST_CHECKPOINT
from growd_cloud.checks import check_numbers
from growd_cloud.devices import MOST_REPORT, DeviceReport
from growd_cloud.event_upload import store_upload
from growd_cloud.months import EVENTS, NO_DATABASE, POINTS
from growd_cloud.places import Places, Rate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.server.client_limits import Clients
    from growd.server.client_request import ClientRequest
    from growd_cloud.accounts import Accounts
    from growd_cloud.bodies import Bodies
    from growd_cloud.checkpoints import Checkpoints
    from growd_cloud.devices import FleetList, ReportBatches
    from growd_cloud.health import CloudHealth
    from growd_cloud.logins import Logins
    from growd_cloud.point_target import PointTarget
    from growd_cloud.recipe_source import RecipeSource
    from growd_web.served_page import ServedPage

    Answer: TypeAlias = web.StreamResponse
    Operation: TypeAlias = Callable[[ClientRequest], Awaitable[Answer]]

POINTS_DATABASE: Final = "environmental_data_point"
EVENTS_DATABASE: Final = "environmental_event"
PHOTOS_DATABASE: Final = "environmental_photo"
"""Its documents are events with a photo, and are stored among them."""
RECIPES_DATABASE: Final = "recipes"
SERIES_OF: Final = {POINTS_DATABASE: POINTS, EVENTS_DATABASE: EVENTS, PHOTOS_DATABASE: EVENTS}
_DATABASES: Final = frozenset({*SERIES_OF, RECIPES_DATABASE})
MOST_REQUESTS: Final = 2_000
MOST_OF_ONE: Final = 16  # of one device; its four replications have two connections each
MOST_FEEDS: Final = 20_000
MOST_FEEDS_OF_ONE: Final = 32  # those of connections that broke are noticed late
MOST_UPLOADS: Final = 64  # each keeps a connection to CouchDB while its photos come
MOST_ENROLMENTS: Final = 32
MOST_ENROLMENT: Final = 4 * 1024  # bytes
ENROLMENT_S: Final = 5.0
REPORT_S: Final = 2.0  # a device sends one each 5 s at most
MOST_REPORTS: Final = 20  # in a row
MOST_SELECTOR: Final = 16 * 1024  # bytes
_BUSY_S: Final = 60.0  # between lines of the log about it
_WELCOME: Final = {"couchdb": "Welcome", "version": "3.5.0", "vendor": {"name": "growd"}}
_LATER: Final = {"Retry-After": "5"}
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class CloudReceiver:
    """Routes requests. All but the open ones need the account of a device or a reader."""

    _: KW_ONLY
    health: CloudHealth
    checkpoints: Checkpoints
    logins: Logins
    clients: Clients
    bodies: Bodies
    target: PointTarget
    reports: ReportBatches
    devices: FleetList
    accounts: Accounts
    source: RecipeSource
    monotonic: Callable[[], float]
    page: ServedPage | None = None

    def __post_init__(self) -> None:
        self.answered: Counter[int] = Counter()
        """Requests by status."""
        self.is_leaving = False
        self._requests = Places("requests", MOST_REQUESTS, MOST_OF_ONE)
        self._feeds = Places("feeds", MOST_FEEDS, MOST_FEEDS_OF_ONE)
        self._uploads = Places("uploads", MOST_UPLOADS, MOST_OF_ONE)
        self._report_rate = Rate("reports", REPORT_S, MOST_REPORTS, self.monotonic)
        self._enrolments = Places("enrolments", MOST_ENROLMENTS, MOST_ENROLMENTS)
        self._enrolling = Places("enrolments", MOST_ENROLMENTS, 1)
        self._is_silent = False
        self._said_busy = -math.inf
        self._open: dict[str, Operation] = {
            "": self._welcome,
            "/": self._welcome,
            "/_up": self._up,
            "/_enroll": self._enroll,
            "/metrics": self._metrics,
            "/_variables": self._variables,
        }

    @property
    def under_way(self) -> int:
        """Requests, without feeds, which last until a device ends them."""
        return self._requests.taken + self._enrolments.taken

    async def leave(self, seconds: float) -> None:
        """Let the proxy send no more requests, and wait for those under way, for so many seconds at most."""
        self.is_leaving = True
        end = asyncio.get_running_loop().time() + seconds
        while self.under_way and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  a few times in a life
            await asyncio.sleep(0.05)

    async def handle(self, request: ClientRequest) -> Answer:
        """The answer to a request, an error included."""
        try:
            self.clients.recognise(request)
            check_framing(request)
            answer = await self._answer(request)
        except ApiError as error:
            self._note_busy(request, error)
            answer = error.response_to(request)
        except CouchError as error:
            self.health.doubt()
            answer = self._without_couch(error).response_to(request)
        if not (answer.prepared or isinstance(answer, JsonAnswer)):
            add_own_headers(request, answer.headers)
        self.answered[answer.status] += 1
        return answer

    async def _answer(self, request: ClientRequest) -> Answer:
        path, _ = split_target(request.raw_path)
        operation = self._open.get(path)  # this spelling only: a proxy compares paths as they are sent
        if operation is not None:
            return await operation(request)
        names = [unquote(name) for name in path.strip("/").split("/")]
        if names[0] == "page":
            return await self._page_file(request, names)
        if path == "/_fleet":
            with self._requests.place(await self.logins.reader(request)):
                return await self._list(request)
        if path == "/_device" or names[0] in _DATABASES:
            return await self._of_device(request, names, await self.logins.device(request))
        if names[0] != "_session":  # replications use Basic if there is none
            await self.logins.anybody(request)
        raise ApiError(HTTPStatus.NOT_FOUND, "not_found", NO_DATABASE)

    async def _of_device(self, request: ClientRequest, names: list[str], device: str) -> Answer:
        if names == [RECIPES_DATABASE, "_changes"]:
            with self._feeds.place(device):
                return await self._changes(request, device)
        with self._requests.place(device):
            if names[0] == "_device":
                return await self._device(request, device)
            if names[0] == RECIPES_DATABASE:
                return await self._recipes(request, names, device)
            return await self._point_database(request, names, device)

    # without a login

    async def _welcome(self, request: ClientRequest) -> Answer:
        """The page of the fleet for browsers, a CouchDB's greeting for replications."""
        _allow(request, "GET", "HEAD")
        if self.page is None or not prefers_html(request):
            return json_answer(_WELCOME)
        return await self.page.document("fleet.html", request)

    async def _page_file(self, request: ClientRequest, names: list[str]) -> Answer:
        """A file of the page; it has no data, so everybody may load it."""
        _allow(request, "GET", "HEAD")
        if self.page is None:
            raise ApiError(HTTPStatus.NOT_FOUND, "not_found", "this receiver has no page")
        return await self.page.file("/".join(names[1:]), request)

    async def _variables(self, request: ClientRequest) -> Answer:
        """What people call the variables; no data of devices."""
        _allow(request, "GET", "HEAD")
        named = {name: dict(zip(LANGUAGES, names, strict=True)) for name, names in VARIABLE_NAMES.items()}
        return json_answer({"variables": [{"variable": name, "names": named[name]} for name in named]})

    async def _up(self, request: ClientRequest) -> Answer:
        """For the proxy in front: whether CouchDB answers, with most nodes and the databases of devices."""
        _allow(request, "GET", "HEAD")
        if self.is_leaving:
            raise ApiError(503, "closing", "the receiver is stopping", _LATER)
        await self.health.check()
        return json_answer({"status": "ok"})

    async def _enroll(self, request: ClientRequest) -> Answer:
        _allow(request, "POST")
        with self._enrolments.place(""):
            return await self._enrolled(request)

    async def _enrolled(self, request: ClientRequest) -> Answer:
        wanted = await self._read(request, EnrolmentRequest, MOST_ENROLMENT, ENROLMENT_S)
        try:  # no wait after wrong codes: nobody guesses 100 bits, and a school has one address
            with self._enrolling.place(wanted.device):  # the second password would replace the first
                password = await self.accounts.enroll(wanted)
        except EnrolmentError as error:
            _log.warning("refused to enrol %s from %s: %s", wanted.device, request.address, error)
            raise ApiError(error.status, "not_enrolled", str(error)) from None
        _log.info("enrolled %s (%s) from %s", wanted.device, wanted.name, request.address)
        return json_answer({"ok": True, "user": wanted.device, "password": password}, 201)

    async def _metrics(self, request: ClientRequest) -> Answer:
        """For Prometheus. The proxy does not pass this path on."""
        _allow(request, "GET")
        numbers = {
            "growd_receiver_documents_stored_total": self.target.stored,
            "growd_receiver_documents_refused_total": self.target.refused,
            "growd_receiver_requests_under_way": self.under_way,
            "growd_receiver_recipe_feeds": self.source.feeds,
            "growd_receiver_body_bytes": self.bodies.held,
        }
        return web.Response(text=_exposition(numbers, self.answered), content_type="text/plain")

    # reports

    async def _device(self, request: ClientRequest, device: str) -> Answer:
        _allow(request, "PUT")
        self._report_rate.check(device)
        report = await self._read(request, DeviceReport, MOST_REPORT)
        received = await self.reports.store(device, report)
        self._note_answer()
        return json_answer({"ok": True, "received": received}, 201)

    async def _list(self, request: ClientRequest) -> Answer:
        _allow(request, "GET")
        return await self.devices.answer(request)

    # databases of points and events

    async def _point_database(self, request: ClientRequest, names: list[str], device: str) -> Answer:
        series = SERIES_OF[names[0]]
        match (request.method, names[1:]):
            case ("GET" | "HEAD", []):
                return json_answer(await self._database(names[0]))
            case ("POST", ["_revs_diff"]):
                wanted = await self._read(request, Revisions)
                return json_answer(await self.target.missing(series, device, wanted))
            case ("POST", ["_bulk_docs"]):
                return await self._bulk_docs(request, series, device)
            case ("POST", ["_ensure_full_commit"]):
                return await self._commit()
            case ("GET" | "PUT", ["_local", checkpoint]):
                return await self._checkpoint(request, device, names[0], checkpoint)
            case ("PUT", [document_id]) if not document_id.startswith("_"):
                return await self._put(request, series, device, document_id)
        raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", "devices write points and read none")

    async def _bulk_docs(self, request: ClientRequest, series: str, device: str) -> Answer:
        async with self.bodies.body(request, MOST_OF.get(series, MOST_POINTS_BODY), account=device) as body:
            documents = documents_of(body)
            refused = await self.target.store(series, device, documents)
        if len(refused) < len(documents):
            self._note_answer()
        if refused:
            reason = refused[0]["reason"]
            _log.warning("refused %d documents of %s; the first: %s", len(refused), device, reason)
        return json_answer(refused, 201)

    async def _put(self, request: ClientRequest, series: str, device: str, document_id: str) -> Answer:
        """A document for itself, as replications send those with attachments."""
        if request.content_type == "multipart/related" and series == EVENTS:
            with self._uploads.place(device):
                return json_answer(await store_upload(request, self.target, device, document_id), 201)
        async with self.bodies.body(request, MOST_POINTS_BODY, account=device) as body:
            if decoded(body, Named).id != document_id:
                raise ApiError(400, "bad_request", "the document has another id than the request")
            refused = await self.target.store(series, device, [bytes(body)])
        if refused:
            raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", refused[0]["reason"])
        return json_answer({"ok": True, "id": document_id}, 201)

    async def _changes(self, request: ClientRequest, device: str) -> Answer:
        """A feed looks at the login again: a revoked device learns nothing more."""
        _allow(request, "GET", "POST")
        if request.method == "POST":
            await self._read(request, dict[str, Any], MOST_SELECTOR)

        async def still_allowed() -> None:
            await self.logins.device(request)

        return await self.source.changes(request, device, still_allowed)

    async def _recipes(self, request: ClientRequest, names: list[str], device: str) -> Answer:
        match (request.method, names[1:]):
            case ("GET" | "HEAD", []):
                return json_answer(await self._database(RECIPES_DATABASE) | await self.source.info(device))
            case ("POST", ["_ensure_full_commit"]):
                return await self._commit()
            case ("POST", ["_bulk_get"]):
                given = await self._read(request, WantedRecipes)
                return json_answer(await self.source.bulk_get(request, device, given))
            case ("GET" | "PUT", ["_local", checkpoint]):
                return await self._checkpoint(request, device, RECIPES_DATABASE, checkpoint)
            case ("GET", [recipe]):
                return await self.source.open_revs(request, device, recipe)
        raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", "devices read recipes and write none")

    async def _checkpoint(self, request: ClientRequest, device: str, database: str, name: str) -> Answer:
        """A checkpoint of this device: a `_local` document in the database of checkpoints."""
        if request.method == "GET":
            return await self.checkpoints.get(device, database, name)
        document = await self._read(request, dict[str, Any], MOST_CHECKPOINT)
        return await self.checkpoints.put(device, database, name, document)

    async def _database(self, name: str) -> dict[str, Any]:
        """What a replication reads of a database; nothing about what is in it."""
        made = await self.checkpoints.made()
        return {"db_name": name, "doc_count": 0, "update_seq": "0", "instance_start_time": made}

    async def _commit(self) -> Answer:
        return json_answer({"ok": True, "instance_start_time": await self.checkpoints.made()}, 201)

    # parts

    async def _read(
        self, request: ClientRequest, kind: Any, most: int = MOST_IDS_BODY, within_s: float = WHOLE_S
    ) -> Any:
        async with self.bodies.body(request, most, within_s) as body:
            value = decoded(body, kind)
            try:
                check_numbers(value, body)
            except ValueError as error:
                raise ApiError(400, "bad_request", f"the body can't be stored: {error}") from None
            return value

    def _note_busy(self, request: ClientRequest, error: ApiError) -> None:
        now = self.monotonic()
        if error.code == "busy" and now - self._said_busy >= _BUSY_S:
            self._said_busy = now
            _log.warning("refused a request from %s: %s", request.address, error.sentence)

    def _without_couch(self, error: CouchError) -> ApiError:
        """503, so that a replication tries again; logged once, until CouchDB stores something."""
        if isinstance(error, CouchConflictError):
            return ApiError(HTTPStatus.CONFLICT, "conflict", str(error))
        if not self._is_silent:
            self._is_silent = True
            _log.warning("%s; devices try again", error)
        if isinstance(error, CouchRefusedError):
            return ApiError(503, "database_refuses", "the database refuses the receiver; see its log", _LATER)
        return ApiError(503, "database_unavailable", "the database does not answer; try again", _LATER)

    def _note_answer(self) -> None:
        if self._is_silent:
            self._is_silent = False
            _log.info("CouchDB answers again")


def _exposition(numbers: dict[str, int], answered: Counter[int]) -> str:
    """Prometheus's text format 0.0.4."""
    lines = []
    for name, number in numbers.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name} {kind}", f"{name} {number}"]
    lines.append("# TYPE growd_receiver_requests_total counter")
    lines += [
        f'growd_receiver_requests_total{{status="{status}"}} {n}' for status, n in sorted(answered.items())
    ]
    return "\n".join(lines) + "\n"


def _allow(request: ClientRequest, *methods: str) -> None:
    if request.method not in methods:
        allowed = ", ".join(methods)
        sentence = f"the method must be {allowed}"
        raise ApiError(405, "method_not_allowed", sentence, {"Allow": allowed})
