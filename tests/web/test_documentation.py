"""The documentation as pages."""

import re
from pathlib import Path

import pytest_asyncio

from growd_web.part import PageFiles
from support.daemon import serving

ROOT = Path(__file__).parents[2]
HERE = re.compile(r'(?:href|src)="(?!https?:|mailto:|\.\./page/)([^"]*)"')


@pytest_asyncio.fixture
async def daemon():
    async with serving() as daemon:
        PageFiles(daemon.api, ROOT / "page", ROOT / "docs", is_edited=False)
        yield daemon


async def read(daemon, path):
    async with daemon.session.get(f"{daemon.origin}/_svc/docs/{path}") as answer:
        return answer, await answer.text()


async def test_every_page_is_rendered_and_its_links_lead_to_pages_and_headings_that_exist(daemon):
    pages = {path.name: (await read(daemon, path.name))[1] for path in (ROOT / "docs").glob("*.md")}
    ids = {name: set(re.findall(r'id="([^"]+)"', text)) for name, text in pages.items()}
    for name, text in pages.items():
        assert "style=" not in text, name  # the policy forbids it
        for link in HERE.findall(text):
            page, _, heading = link.partition("#")
            if page not in {"../", "./"} and page not in pages and page:
                assert (ROOT / "docs" / page).is_file(), (name, link)
            if heading:
                assert heading in ids[page or name], (name, link)


async def test_the_documentation_begins_with_its_table_of_contents(daemon):
    answer, text = await read(daemon, "")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
    assert "<title>Documentation · growd</title>" in text
    assert 'href="first-grow.md"' in text
    assert "CONTRIBUTING.md" not in text  # it is not among the pages, so its name is no link


async def test_a_dead_link_is_not_found_and_examples_are_shown_as_text_and_never_run(daemon):
    for path in ("nothing.md", "../README.md", "..%2fREADME.md", "images", "page/nothing"):
        assert (await read(daemon, path))[0].status == 404, path
    answer, _ = await read(daemon, "examples/watch.html")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_browser_that_has_a_page_does_not_load_it_again(daemon):
    answer, _ = await read(daemon, "glossary.md")
    headers = {"If-None-Match": answer.headers["ETag"]}
    async with daemon.session.get(f"{daemon.origin}/_svc/docs/glossary.md", headers=headers) as again:
        assert again.status == 304


async def test_a_picture_that_a_wheel_lacks_is_described_in_words(tmp_path):
    (tmp_path / "README.md").write_text("# Title\n\n![The view Now](images/now.png)\n", encoding="utf-8")
    async with serving() as daemon:
        PageFiles(daemon.api, ROOT / "page", tmp_path, is_edited=False)
        _, text = await read(daemon, "")
    assert "<p>The view Now</p>" in text
    assert "now.png" not in text
