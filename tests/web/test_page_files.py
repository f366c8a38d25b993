"""The page and the API page: what a browser gets, what programs get, and how files are kept."""

import gzip
import json
import re
import tomllib

import pytest
import pytest_asyncio
from yarl import URL

from growd.server.client_limits import ClientLimits, Clients
from growd_hwsim.fault_kinds import KINDS
from growd_web.part import PageFiles
from growd_web.served_page import read_page
from support.checkout import ROOT
from support.daemon import serving

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
OWN = {"api.js": "api();\n", "style.css": "body {}\n", "texts/en/frame.js": "1;\n"}
VENDOR = {"preact.js": "preact/p.mjs", "hooks.js": "preact/h.mjs", "rapidoc.js": "rapidoc/r.js"}
API_PAGE = {"api.html", "api.css", "api.js", "vendor/rapidoc.js"}
FLEET_PAGE = {"fleet.html", "fleet.css", "fleet.js", "texts/en/fleet.js"}
MAIN = 'import { Now } from "./views/now.js";\nimport("./views/data.js");\n'
INDEX = '<script type="module" src="page/main.js"></script><link href="page/style.css"><a href="api/">x</a>'


@pytest.fixture
def folder(tmp_path):
    """A page with the libraries, as in a checkout."""
    files = {
        **OWN,
        "index.html": INDEX,
        "main.js": MAIN,
        "views/now.js": 'import { h } from "../vendor/preact.js";\nexport const Now = h;\n',
        "views/data.js": 'import { Now as Other } from "./now.js";\nexport function Data() {}\n',
        "worker.js": "self;\n",
        "api.html": '<script src="../page/main.js"></script>',
        "fleet.html": "",
        "README.md": "not served",
        ".main.js": "not served",
        "package.json": json.dumps({"vendor": VENDOR}),
        "node_modules/rapidoc/r.js": "1;\n",
        "node_modules/preact/p.mjs": "export const h = 1;\n//# sourceMappingURL=p.mjs.map\n",
        "node_modules/preact/h.mjs": 'import{h as a}from"preact";\n//# sourceMappingURL=h.mjs.map',
        "node_modules/preact/other.js": "not served",
    }
    for name, text in files.items():
        file = tmp_path / "page" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "page"


@pytest_asyncio.fixture
async def site(folder):
    async with serving() as daemon:
        PageFiles(daemon.api, folder, ROOT / "docs", is_edited=True)
        yield Site(daemon)


class Site:
    """A daemon with a page, and a browser's requests to it. Answers stay compressed."""

    def __init__(self, daemon):
        self.daemon = daemon

    async def get(self, path, method="GET", **headers):
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        async with self.daemon.session.request(
            method,
            URL(self.daemon.origin + path, encoded=True),
            headers=BROWSER | sent,
            allow_redirects=False,
        ) as answer:
            self.text = await answer.text()
            return answer

    async def folder(self):
        """The address of the page's files."""
        await self.get("/_svc/")
        return "/_svc/" + re.search(r'src="(page/[0-9a-f]+/)main.js"', self.text)[1]


async def test_a_browser_is_sent_to_the_page(site):
    for method in ("GET", "HEAD"):
        answer = await site.get("/", method)
        assert (answer.status, answer.headers["Location"], answer.headers["Vary"]) == (302, "_svc/", "Accept")
    assert (await site.get("/_svc")).headers["Location"] == "_svc/"
    assert (await site.get("/_svc/api")).headers["Location"] == "api/"
    assert site.daemon.database.targets == []


@pytest.mark.parametrize(
    ("method", "path", "accept"),
    [
        ("GET", "/", "*/*"),
        ("GET", "/", "application/json"),
        ("GET", "/", "application/json, text/html;q=0.5"),
        ("GET", "/", "text/html;q=0"),
        ("GET", "/", ""),
        ("POST", "/", "text/html"),
        ("GET", "/_utils/", "text/html"),
        ("GET", "/app/_design/x/index.html", "text/html"),
    ],
)
async def test_all_else_gets_the_answer_of_the_database(site, method, path, accept):
    answer = await site.get(path, method, Accept=accept)
    assert (answer.status, site.text, answer.headers["X-Database"]) == (200, "database", "1")


async def test_the_page_names_its_files_with_their_digest(site):
    answer = await site.get("/_svc/")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    [policy] = answer.headers.getall("Content-Security-Policy")
    assert policy.startswith("default-src 'self'; ")
    assert "unsafe" not in policy
    shown = re.fullmatch(
        r'<script type="module" src="page/(\w+)/main.js"></script>'
        r'<link href="page/(\w+)/style.css"><a href="api/">x</a>',
        site.text,
    )
    assert shown[1] == shown[2]


async def test_a_file_is_kept_for_ever(site):
    pages = await site.folder()
    for name, text in OWN.items():
        answer = await site.get(pages + name)
        assert (answer.status, site.text) == (200, text)
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        kind = "css" if name.endswith("css") else "javascript"
        assert answer.headers["Content-Type"] == f"text/{kind}; charset=utf-8"


async def test_libraries_load_each_other_and_no_source_maps(site):
    vendor = await site.folder() + "vendor/"
    await site.get(vendor + "hooks.js")
    assert site.text == 'import{h as a}from"./preact.js";\n'
    await site.get(vendor + "preact.js")
    assert site.text == "export const h = 1;\n"


async def test_other_files_are_not_found(site):
    pages = await site.folder()
    for name in (
        *("none.js", "README.md", ".main.js", "package.json", "index.html", ""),
        *("node_modules/preact/other.js", "../main.js", "%2e%2e/main.js", "views/../main.js"),
    ):
        answer = await site.get(pages + name)
        assert answer.status == 404, name
        assert json.loads(site.text)["error"] == "not_found"


async def test_an_edited_file_appears_at_the_next_load_and_one_of_another_edition_is_not_found(site, folder):
    before = await site.folder()
    (folder / "views/now.js").write_text("edited();\n")
    after = await site.folder()
    assert before != after
    await site.get(after + "main.js")
    assert "edited();" in site.text
    for path in (before + "main.js", "/_svc/page/0123456789abcdef/main.js", "/_svc/page/"):
        assert (await site.get(path)).status == 404


async def test_the_compressed_file_goes_to_those_who_accept_it(site):
    address = await site.folder() + "api.js"
    async with site.daemon.session.get(
        site.daemon.origin + address, headers={"Accept-Encoding": "br, gzip;q=0.5"}
    ) as answer:
        assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
        assert await answer.text() == OWN["api.js"]
        assert int(answer.headers["Content-Length"]) == len(gzip.compress(OWN["api.js"].encode(), 9))
    for accepted in ("identity", "gzip;q=0", "br"):
        answer = await site.get(address, Accept_Encoding=accepted)
        assert "Content-Encoding" not in answer.headers
        assert int(answer.headers["Content-Length"]) == len(OWN["api.js"])


async def test_what_a_browser_has_is_not_sent_again(site):
    for path in ("/_svc/", await site.folder() + "main.js"):
        tag = (await site.get(path)).headers["ETag"]
        answer = await site.get(path, If_None_Match=f'W/"x", {tag}')
        assert (answer.status, answer.headers["ETag"], site.text) == (304, tag, "")
        head = await site.get(path, "HEAD")
        assert (head.status, head.headers["ETag"], site.text) == (200, tag, "")
        assert (await site.get(path, "POST")).status == 405


async def test_modules_are_joined_into_those_of_the_first_view_and_the_rest(site, folder):
    pages = await site.folder()
    await site.get(pages + "main.js")
    assert re.findall(r'modules\["([^"]+)"\] =', site.text) == ["vendor/preact.js", "views/now.js", "main.js"]
    assert 'const { Now } = modules["views/now.js"];' in site.text
    assert 'later("views/data.js");' in site.text
    await site.get(pages + "main.rest.js")
    assert 'const { Now: Other } = modules["views/now.js"];' in site.text
    assert "return { Data };" in site.text
    assert (await site.get(pages + "views/now.js")).status == 404
    (folder / "views/now.js").write_text("export default 1;\n")
    answer = await site.get("/_svc/")
    assert (answer.status, "views/now.js: " in site.text) == (503, True)


async def test_an_installed_page_does_not_change(folder):
    async with serving() as daemon:
        PageFiles(daemon.api, folder, ROOT / "docs", is_edited=False)
        site = Site(daemon)
        before = await site.folder()
        (folder / "main.js").write_text("edited")
        assert await site.folder() == before
        assert (await site.get(before + "main.js")).status == 200


async def test_missing_libraries_are_named_until_they_are_installed(site, folder):
    library = folder / "node_modules/preact/p.mjs"
    text = library.read_text()
    library.unlink()
    answer = await site.get("/_svc/")
    assert (answer.status, answer.headers["Content-Type"]) == (503, "text/plain; charset=utf-8")
    assert site.text.startswith(f"The page can't be shown: {library}: No such file or directory.\n")
    assert f"npm ci --omit=dev --prefix {folder}" in site.text
    assert (await site.get("/_svc/page/x/main.js")).status == 404
    library.write_text(text)
    assert (await site.get("/_svc/")).status == 200


async def test_only_the_api_page_needs_rapidoc_which_the_wheel_does_not_have(folder):
    (library := folder / "node_modules/rapidoc/r.js").unlink()
    async with serving() as daemon:
        PageFiles(daemon.api, folder, ROOT / "docs", is_edited=False)
        site = Site(daemon)
        assert (await site.get("/_svc/")).status == 200
        assert (await site.get("/_svc/api/")).status == 503
        assert f"npm ci --omit=dev --prefix {folder}" in site.text
        library.write_text("1;")
        assert (await site.get("/_svc/api/")).status == 200


@pytest.mark.parametrize("path", ["", "/"])
async def test_programs_get_the_addresses_of_all_resources(site, path):
    answer = await site.daemon.ask("GET", path)
    assert answer.status == 200
    prefix = site.daemon.api.prefix
    assert answer.json["topic"] == f"{prefix}/topic"
    for address in (answer.json[name] for name in ("param", "service", "topic", "node", "openapi.json")):
        assert (await site.daemon.ask("GET", address.removeprefix(prefix))).status == 200
    paths = (await site.daemon.ask("GET", "/openapi.json")).json["paths"]
    for name in ("topic_data", "topic_stream", "history"):
        assert answer.json[name].removeprefix(prefix) in paths
    routed = {path.split("/")[1] for path in paths}
    beside = {"health", "ready", "metrics", "rosbridge"}
    assert set(answer.json) == routed | beside | {"openapi.json"}
    await site.get(f"/_svc{path}", Accept="*/*")
    assert json.loads(site.text) == answer.json


async def test_a_browser_is_sent_from_the_prefix_to_the_api_page(site):
    assert (await site.get("/_svc/api/0.0.1")).headers["Location"] == "./"
    assert (await site.get("/_svc/api/0.0.1/")).headers["Location"] == "../"
    answer = await site.get("/_svc/api/")
    assert re.fullmatch(r'<script src="\.\./page/\w+/main.js"></script>', site.text)
    assert "script-src" not in answer.headers["Content-Security-Policy"]


async def test_a_limit_of_requests_does_not_stop_the_page(folder):
    clients = Clients(ClientLimits(requests_hz=1), is_own=lambda _: False, monotonic=lambda: 0.0)
    async with serving(clients=clients) as daemon:
        PageFiles(daemon.api, folder, ROOT / "docs", is_edited=False)
        site = Site(daemon)
        address = await site.folder() + "main.js"
        assert [(await site.get(address)).status for _ in range(30)] == [200] * 30
        assert [(await daemon.ask("GET", "/topic")).status for _ in range(4)] == [200, 200, 429, 429]


@pytest.fixture
def shipped():
    """The page of the checkout as growd sends it."""
    if not (ROOT / "page/node_modules").is_dir():
        pytest.skip("page/node_modules is not installed (./run does that)")
    return read_page(ROOT / "page").files


def test_the_first_view_takes_at_most_50_kb(shipped):
    """What a browser loads until it shows the view Now, compressed, in units of 1000 bytes."""
    first = shipped["main.js"].content.decode()
    imported = {path.removeprefix("./") for path in re.findall(r'(?m)^import .*"([^"]+)";$', first)}
    imported.add("texts/en/frame.js")  # chosen by the language
    assert 'modules["views/now.js"] = ' in first
    assert "vendor/preact.js" in imported
    assert_at_most(50_000, shipped, {"index.html", "style.css", "icon.svg", "main.js", *imported})
    preloaded = re.findall(
        r'<link rel="modulepreload" href="page/\w+/([^"]+)"', shipped["index.html"].content.decode()
    )
    assert {*preloaded} == imported


def test_all_views_take_at_most_120_kb(shipped):
    """With libraries and one language, without API page, page of a fleet, and icons of the app."""
    icons = {name for name in shipped if name.endswith(".png")}
    others = {name for name in shipped if name.startswith("texts/de/")}
    assert_at_most(120_000, shipped, shipped.keys() - API_PAGE - FLEET_PAGE - icons - others)


def test_both_languages_have_the_same_texts(shipped):
    """Only sentences of growd need none in English: growd writes them."""
    keys = re.compile(r'(?m)^"?([\w-]+)"?: "')
    for name in (each for each in shipped if each.startswith("texts/en/")):
        texts = (shipped[each].content.decode() for each in (name, name.replace("/en/", "/de/")))
        english, german = (set(keys.findall(text)) for text in texts)
        said = {each for each in german if each.startswith(("said_", "remedy_"))}
        assert english <= german
        assert german - english <= said


def assert_at_most(limit, shipped, names):
    sizes = {name: len(shipped[name].compressed) for name in names}
    table = "\n".join(f"{size:6} {name}" for name, size in sorted(sizes.items(), key=lambda each: -each[1]))
    assert sum(sizes.values()) <= limit, f"{sum(sizes.values())} bytes:\n{table}"


def test_what_a_document_names_is_served_and_no_source_maps_are_named(shipped):
    for name in ("index.html", "api.html"):
        text = shipped[name].content.decode()
        for named in re.findall(r'(?:src|href)="(?:\.\./)?page/\w+/([^"]+)"', text):
            assert named in shipped
        assert "<script>" not in text
        assert "style=" not in text
    assert [name for name, file in shipped.items() if b"sourceMappingURL" in file.content] == []


def test_each_kind_of_fault_has_a_text(shipped):
    texts = shipped["texts/en/views.js"].content.decode()
    assert [kind for kind in KINDS if f"\nfault_{kind}: " not in texts] == []


def test_the_wheel_takes_what_is_served():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    served = json.loads((ROOT / "page/package.json").read_text())["vendor"].values()
    packed = {name.removeprefix("page/node_modules/") for name in build["artifacts"]}
    assert {name for name in packed if "LICENSE" not in name} == {*served} - {"rapidoc/dist/rapidoc-min.js"}
    assert {name.partition("/")[0] for name in packed if "LICENSE" in name} == {"htm", "preact"}
