"""The calls of the API about figures, reports and comparisons of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from growd.api.operation import Call, Operation, Repeated
from growd.bus.errors import UnknownNameError
from growd.bus.fields import Field, Kind
from growd.runs.reports.rows import MOST_RUNS
from growd.server.errors import ApiError
from growd.server.json_answer import json_answer
from growd.store.errors import StoreError
from growd.variable_names import LANGUAGES

if TYPE_CHECKING:
    from growd.api.operations import Api
    from growd.runs.reports.service import RunReports


async def read_figures(api: Api, call: Call) -> web.StreamResponse:
    """Answer with the figures of a run."""
    try:
        return json_answer(await _reports(api, call.name).figures(call.name))
    except StoreError as error:
        raise _unavailable(error) from None


async def read_report(api: Api, call: Call) -> web.StreamResponse:
    """Answer with the report of a run."""
    try:
        return _page(await _reports(api, call.name).report(call.name, call.query["lang"]))
    except StoreError as error:
        raise _unavailable(error) from None


async def compare_runs(api: Api, call: Call) -> web.StreamResponse:
    """Answer with a comparison of runs."""
    runs = call.query["run"]
    try:
        return _page(await _reports(api, runs[0]).comparison(runs, call.query["lang"]))
    except StoreError as error:
        raise _unavailable(error) from None


async def read_simulation_report(api: Api, _: Call) -> web.StreamResponse:
    """Answer with the report of the last simulation."""
    report = None if api.simulation is None else api.simulation.report
    if report is None:
        sentence = "there is no report of a simulation; the node simulator/recipe has its state"
        raise ApiError(404, "not_found", sentence)
    return _page(report)


def _reports(api: Api, run: str) -> RunReports:
    if api.reports is None:
        raise UnknownNameError("run", run)
    return api.reports


def _page(page: bytes) -> web.Response:
    """A page with its own content security policy: no scripts, and nothing from elsewhere."""
    from growd.runs.reports.elements import POLICY  # noqa: PLC0415  imported with the first page

    headers = {"Content-Security-Policy": POLICY, hdrs.CONTENT_TYPE: "text/html; charset=utf-8"}
    return web.Response(body=page, headers=headers)


def _unavailable(error: StoreError) -> ApiError:
    return ApiError(503, "database_unavailable", str(error), {"Retry-After": "5"})


_LANGUAGE: Final = Field("lang", Kind.STRING, default="en", doc="the language", choices=LANGUAGES)
REPORT_OPERATIONS: Final = (
    Operation(
        "GET", "figures", "run", "Read the figures of a run", read_figures,
        answer="figures", refusals=(404, 503),
    ),
    Operation(
        "GET", "report", "run", "Read the report of a run, a page that prints well", read_report,
        query=(_LANGUAGE,), answer="page", refusals=(404, 503),
    ),
    Operation(
        "GET", "compare", "", "Compare runs on one axis of time since their starts", compare_runs,
        query=(
            Repeated(
                Field("run", Kind.STRING, min_length=1, max_length=200, doc="the id of a run"),
                least=2, most=MOST_RUNS,
            ),
            _LANGUAGE,
        ),
        answer="page", refusals=(404, 503),
    ),
    Operation(
        "GET", "simulation_report", "", "Read the report of the last simulation of a recipe",
        read_simulation_report, answer="page", refusals=(404,),
    ),
)  # fmt: skip
