"""The documentation: its links, its index, and the parts that must agree with the program."""

from __future__ import annotations

import asyncio
import re
import sys
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from growd.variables import VARIABLES
from support.checkout import ROOT
from support.program import PATIENCE_S, home_on, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.database import DatabaseServer

DOCS = ROOT / "docs"
PAGES = sorted(
    chain(
        ROOT.glob("*.md"), DOCS.glob("*.md"), *(ROOT.glob(f"couchdb/{each}README.md") for each in ("", "*/"))
    )
)


def _prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _broken(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_points_to_a_file_and_a_heading(page: Path):
    assert list(_broken(page)) == []


def test_the_index_lists_every_page():
    linked = set(re.findall(r"\]\(([\w.-]+\.md)", (DOCS / "README.md").read_text(encoding="utf-8")))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} == linked


def test_the_readme_fits_on_one_page():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def test_the_table_of_variables_agrees_with_the_program():
    page = (DOCS / "variables.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) to (\S+) \|", page, re.MULTILINE)
    assert rows == [(v.name, v.unit, f"{v.minimum:g}", f"{v.maximum:g}") for v in VARIABLES.values()]


async def test_the_python_client_sets_the_light_and_reads_it_back(
    tmp_path: Path, database_server: DatabaseServer
):
    page = (DOCS / "clients.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    async with (
        home_on(database_server, shared=True) as home,
        started(tmp_path / "data", "--profile", "sim", *home.arguments) as program,
    ):
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", example, program.address, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await asyncio.wait_for(client.communicate(), PATIENCE_S)
    assert client.returncode == 0
    assert re.fullmatch(r"\d+ lux", printed.decode().splitlines()[-1])
