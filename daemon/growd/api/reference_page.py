"""The index at the API's root: JSON for programs, a page with every operation for browsers.

The page comes from the OpenAPI document, needs no script and loads nothing from other hosts.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.api.operations import Api

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color-scheme: light dark }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { overflow-x: auto; padding: .5rem; border: 1px solid; border-radius: .3rem }
summary { cursor: pointer } summary code { font-weight: bold }
details { margin: .3rem 0 } td, th { text-align: left; padding-right: 1rem; vertical-align: top }
"""


class ApiIndex:
    """Answers `<root>`, `<root>/` and the API's prefix, with and without a slash behind it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        for path in (api.root, api.prefix):
            api.pages |= {path: self._answer, f"{path}/": self._answer}

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if "text/html" not in request.headers.get("Accept", ""):
            return web.json_response(_links(self._api))
        return web.Response(
            text=_html(self._api.document()),
            content_type="text/html",
            headers={"Vary": "Accept"},
        )


def _links(api: Api) -> dict[str, str]:
    listed = {name: f"{api.prefix}/{name}" for name in ("param", "service", "topic", "node", "openapi.json")}
    named = {name: f"{api.prefix}/{name}/{{topic}}" for name in ("topic_data", "topic_stream")}
    beside = {name: f"{api.root}/{name}" for name in ("health", "ready", "metrics")}
    return listed | named | beside


def _html(document: dict[str, Any]) -> str:
    info, prefix = document["info"], document["servers"][0]["url"]
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>growd API</title><style>{_STYLE}</style></head><body>
<h1>growd {escape(info["version"])}: {escape(info["summary"])}</h1>
<p>All paths are below <code>{escape(prefix)}</code>. Bodies and answers are JSON. A request with a body needs
<code>Content-Type: application/json</code>. For programs:
<a href="{escape(prefix)}/openapi.json">openapi.json</a>, or
<a href="{escape(prefix)}/openapi.json?generic">?generic</a> without the names of this chamber.</p>
{"".join(_sections(document["paths"], prefix))}
</body></html>"""


def _sections(paths: dict[str, Any], prefix: str) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method, path, operation, prefix))
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>{''.join(operations)}"


def _operation(method: str, path: str, operation: dict[str, Any], prefix: str) -> str:
    call = f"<code>{method.upper()} {escape(path)}</code>"
    if method == "get" and not operation.get("parameters"):
        call = f'<a href="{escape(prefix + path)}">{call}</a>'
    rows = "".join(_parameter(each) for each in operation.get("parameters", ()))
    table = f"<table><tr><th>parameter<th>in<th>about</tr>{rows}</table>" if rows else ""
    return (
        f"<details><summary>{call} {escape(operation['summary'])}</summary>"
        f"{table}{_body(operation)}<p>Answers: {escape(', '.join(operation['responses']))}</p></details>"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    about = parameter.get("description") or parameter["schema"].get("description", "")
    cells = f"<code>{escape(parameter['name'])}</code>", escape(parameter["in"]), escape(about)
    return f"<tr><td>{'<td>'.join(cells)}</tr>"


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return ""
    return f"<p>Body:</p><pre>{escape(json.dumps(content['schema'], indent=1, ensure_ascii=False))}</pre>"
