"""A release: its files, twice the same bytes, and growd from its wheel. The documentation as a site."""

import json
import re
import signal
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes

import pytest

from growd import __version__
from support.checkout import ROOT
from support.package_index import index_error

WHEEL_BYTES = 2 << 20


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_site_has_no_dead_link_and_each_page_of_the_index(tmp_path):
    site = tmp_path / "site"
    options = ("-q", "-W", "--keep-going", "-c", ROOT / "tools/site", "-d", tmp_path / "doctrees")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ROOT, site], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    front = (site / "README.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f'href="docs/{page.stem}.html"' in front, page.name


def release(folder, architecture):
    done = subprocess.run(
        [sys.executable, ROOT / "tools/release", architecture, "--output", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (folder / "SHA256SUMS").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    if reason := index_error():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("release")
    return folder, release(folder, "amd64")


@pytest.mark.nightly
@pytest.mark.install
@pytest.mark.timeout(1800)
def test_two_releases_of_a_commit_have_the_same_bytes(built, tmp_path):
    _, sums = built
    assert len(sums.splitlines()) == 5
    assert release(tmp_path / "again", "amd64") == sums


@pytest.mark.nightly
@pytest.mark.install
@pytest.mark.timeout(1800)
def test_a_release_lists_its_parts_and_its_wheel_is_small(built):
    folder, _ = built
    parts = json.loads((folder / f"growd-{__version__}.cdx.json").read_text(encoding="utf-8"))
    assert parts["metadata"]["component"]["version"] == __version__
    locks = "".join((ROOT / f"requirements/{name}.lock").read_text() for name in ("run", "node"))
    named = {part["purl"] for part in parts["components"]}
    assert {
        f"pkg:pypi/{name}@{version}" for name, version in re.findall(r"^(\S+)==(\S+)", locks, re.MULTILINE)
    } <= named
    assert {"pkg:npm/preact", "pkg:npm/pouchdb-node"} <= {name.partition("@")[0] for name in named}
    wheel = next(folder.glob("*.whl"))
    assert wheel.stat().st_size < WHEEL_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = message_from_bytes(archive.read(f"growd-{__version__}.dist-info/METADATA"))
    assert metadata["Version"] == __version__
    assert "growd/_page/node_modules/preact/dist/preact.mjs" in names
    assert [name for name in names if "_docs/images/" in name] == []


@pytest.mark.nightly
@pytest.mark.install
@pytest.mark.timeout(1800)
def test_growd_from_the_wheel_in_an_empty_environment_names_what_the_embedded_database_needs(built, tmp_path):
    folder, _ = built
    venv.create(tmp_path / "venv", with_pip=True)
    install = ["pip", "install", "--quiet", "--disable-pip-version-check", next(folder.glob("*.whl"))]
    subprocess.run([tmp_path / "venv/bin/python", "-m", *install], check=True)
    growd = tmp_path / "venv/bin/growd"
    assert subprocess.check_output([growd, "--version"], text=True) == f"growd, version {__version__}\n"
    run = [growd, "run", "--profile", "sim", "--port", "0", "--data", tmp_path / "data"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        said = next(line for line in program.stdout if " npm packages: " in line)
        program.send_signal(signal.SIGINT)
        rest = program.stdout.read()
    assert f"`npm ci --omit=dev --prefix {tmp_path}" in said
    assert program.returncode in {0, 130}, rest
