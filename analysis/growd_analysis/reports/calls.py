"""The calls of the API about figures, reports and comparisons of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from aiohttp import hdrs, web

from growd.api.operation import Call, Operation, Repeated
from growd.bus.fields import Field, Kind
from growd.server.errors import ApiError
from growd.server.json_answer import json_answer
from growd.store.errors import StoreError
from growd.variable_names import LANGUAGES
from growd_analysis.reports.rows import MOST_RUNS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.api.operations import Api
    from growd_analysis.reports.service import RunReports

T = TypeVar("T")

_LANGUAGE: Final = Field("lang", Kind.STRING, default="en", doc="the language", choices=LANGUAGES)


class ReportCalls:
    """Answers these calls from what `reports` returns; `operations` are what the API offers."""

    def __init__(self, reports: Callable[[], Awaitable[RunReports]]) -> None:
        self._reports = reports
        self.operations: tuple[Operation, ...] = (
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

    async def _figures(self, _: Api, call: Call) -> web.StreamResponse:
        return json_answer(await self._asked(lambda reports: reports.figures(call.name)))

    async def _report(self, _: Api, call: Call) -> web.StreamResponse:
        return report_page(await self._asked(lambda reports: reports.report(call.name, call.query["lang"])))

    async def _compare(self, _: Api, call: Call) -> web.StreamResponse:
        runs, lang = call.query["run"], call.query["lang"]
        return report_page(await self._asked(lambda reports: reports.comparison(runs, lang)))

    async def _asked(self, ask: Callable[[RunReports], Awaitable[T]]) -> T:
        try:
            return await ask(await self._reports())
        except StoreError as error:
            later = {"Retry-After": "5"}
            raise ApiError(503, "database_unavailable", str(error), later) from None


def report_page(page: bytes) -> web.Response:
    """A page with its own content security policy: no scripts, and nothing from elsewhere."""
    from growd_analysis.reports.elements import POLICY  # noqa: PLC0415  imported with the first page

    headers = {"Content-Security-Policy": POLICY, hdrs.CONTENT_TYPE: "text/html; charset=utf-8"}
    return web.Response(body=page, headers=headers)
