"""The calls of the API about runs: the list, one run, figures, reports and comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiohttp import hdrs, web

from growd.api.operation import Call, Operation, Repeated
from growd.bus.fields import Field, Kind
from growd.bus.names import normalise
from growd.server.client_request import client_of
from growd.server.json_answer import json_answer
from growd.variable_names import LANGUAGES
from growd_analysis.reports.rows import MOST_RUNS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from growd.api.api import Api
    from growd.store.history.history import History
    from growd_analysis.reports.service import RunReports
    from growd_analysis.runs.archive import RunArchive

_LANGUAGE: Final = Field("lang", Kind.STRING, default="en", doc="the language", choices=LANGUAGES)


class RunCalls:
    """Answers these calls; `operations` are what the API offers. `reports` makes reports when it is asked."""

    def __init__(
        self, archive: RunArchive, history: History, reports: Callable[[], Awaitable[RunReports]]
    ) -> None:
        self._archive = archive
        self._history = history
        self._reports = reports
        self.operations: tuple[Operation, ...] = (
            Operation(
                "GET", "runs", "environment", "List the runs of recipes, the newest first", self._list,
                query=(
                    Field("limit", Kind.INT64, 1, 500, default=50, doc="the most runs"),
                    Field(
                        "before", Kind.FLOAT64, 0, unit="s", default=0.0,
                        doc="only runs that started before this UNIX time; 0: all",
                    ),
                ),
                answer="runs", refusals=(404, 503), schemas=_schemas,
            ),
            Operation(
                "GET", "run", "run", "Read a run: its record, notes, measurements by hand and events",
                self._read, answer="run", refusals=(404, 503),
            ),
            Operation(
                "GET", "figures", "run", "Read the figures of a run", self._figures,
                answer="figures", refusals=(404, 503),
            ),
            Operation(
                "GET", "report", "run", "Read the report of a run, a page that prints well", self._report,
                query=(_LANGUAGE,), answer="page", refusals=(404, 503),
            ),
            Operation(
                "GET", "compare", "", "Compare runs on one axis of time since their starts", self._compare,
                query=(
                    Repeated(
                        Field("run", Kind.STRING, min_length=1, max_length=200, doc="the id of a run"),
                        least=2, most=MOST_RUNS,
                    ),
                    _LANGUAGE,
                ),
                answer="page", refusals=(404, 503),
            ),
        )  # fmt: skip

    async def _list(self, _: Api, call: Call) -> web.StreamResponse:
        environment = normalise(call.name)
        self._history.check_environment(environment)
        runs, more = await self._archive.newest(
            environment, call.query["limit"], call.query["before"] or None
        )
        return json_answer({"environment": environment, "runs": runs, "more": more})

    async def _read(self, api: Api, call: Call) -> web.StreamResponse:
        now = api.bus.clock.time()
        run = await self._archive.find(call.name)
        described = await self._archive.describe(run, now)
        span = run["environment"], run["started"], run["ended"] or now
        described |= await self._history.events(*span, client_of(call.request))
        return json_answer(described)

    async def _figures(self, _: Api, call: Call) -> web.StreamResponse:
        return json_answer(await (await self._reports()).figures(call.name))

    async def _report(self, _: Api, call: Call) -> web.StreamResponse:
        return report_page(await (await self._reports()).report(call.name, call.query["lang"]))

    async def _compare(self, _: Api, call: Call) -> web.StreamResponse:
        reports = await self._reports()
        return report_page(await reports.comparison(call.query["run"], call.query["lang"]))


def report_page(page: bytes) -> web.Response:
    """A page with its own content security policy: no scripts, and nothing from elsewhere."""
    from growd_analysis.reports.elements import POLICY  # noqa: PLC0415  imported with the first page

    headers = {"Content-Security-Policy": POLICY, hdrs.CONTENT_TYPE: "text/html; charset=utf-8"}
    return web.Response(body=page, headers=headers)


def _schemas() -> Mapping[str, Any]:
    from growd_analysis.runs.schemas import SCHEMAS  # noqa: PLC0415  only the document has them

    return SCHEMAS
