"""The index at the API's root, for programs and for browsers."""

from __future__ import annotations

import re

import pytest


@pytest.mark.parametrize("path", ["", "/"])
async def test_programs_get_the_addresses_of_all_resources(daemon, path):
    answer = await daemon.ask("GET", path)
    assert answer.status == 200
    assert answer.json["topic"] == f"{daemon.api.prefix}/topic"
    for address in (answer.json[name] for name in ("param", "service", "topic", "node", "openapi.json")):
        assert (await daemon.ask("GET", address.removeprefix(daemon.api.prefix))).status == 200
    paths = (await daemon.ask("GET", "/openapi.json")).json["paths"]
    for name in ("topic_data", "topic_stream"):
        assert answer.json[name].removeprefix(daemon.api.prefix) in paths


async def test_a_browser_gets_a_page_with_each_operation_that_loads_nothing(daemon):
    answer = await daemon.ask("GET", "/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert answer.headers["Content-Type"].startswith("text/html")
    page = answer.body.decode()
    document = (await daemon.ask("GET", "/openapi.json")).json
    shown = re.findall(r"<code>(?:GET|POST|DELETE) ([^<]+)</code>", page)
    assert set(shown) == set(document["paths"])
    assert "<script" not in page
    assert "src=" not in page


async def test_names_are_escaped(daemon):
    async def handler():
        return {"success": True, "message": ""}

    daemon.bus.node("odd").serve("a<b", "t", handler, doc="<script>alert(1)</script>")
    answer = await daemon.ask("GET", "/", headers={"Accept": "text/html"})
    assert b"&lt;script&gt;" in answer.body
    assert b"<script>" not in answer.body
