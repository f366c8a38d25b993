"""The lock files are complete, have no addresses, and match pyproject.toml."""

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from growd import __version__
from support.checkout import ROOT

LOCKS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "requirements").glob("*.lock")}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def lines(file):
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    return [line for full in text.splitlines() if (line := full.partition("#")[0].strip())]


REQUIREMENTS = {
    "run": PROJECT["dependencies"],
    "test": PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"],
    "build": [*PYPROJECT["build-system"]["requires"], *lines("build.in")],
    "node": lines("node.in"),
    "release": lines("release.in"),
}


def entries(lock):
    """The version and the hashes of each package, by its canonical name."""
    blocks = re.findall(r"^([\w.-]+)==([^\s;]+)[^\n]*((?:\n +[^\n]*)*)", LOCKS[lock], re.MULTILINE)
    return {
        canonicalize_name(name): (
            Version(version),
            re.findall(r"--hash=sha256:[0-9a-f]{64}(?= \\$|$)", rest, re.MULTILINE),
        )
        for name, version, rest in blocks
    }


@pytest.mark.parametrize("lock", sorted(REQUIREMENTS))
def test_each_requirement_is_locked_with_hashes_and_without_an_address(lock):
    locked = entries(lock)
    assert len(locked) == len([line for line in LOCKS[lock].splitlines() if line and line[0] not in " #"])
    assert [name for name, (_, hashes) in locked.items() if not hashes] == []
    for requirement in map(Requirement, REQUIREMENTS[lock]):
        version, _ = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is locked at {version}"
    assert "://" not in LOCKS[lock]
    assert not re.search(
        r"^\s*(-i|-f|--index|--extra-index|--find-links|--trusted-host)", LOCKS[lock], re.MULTILINE
    )


def test_all_locks_have_the_same_versions():
    versions = {(name, version) for lock in LOCKS for name, (version, _) in entries(lock).items()}
    assert len(versions) == len({name for name, _ in versions})


@pytest.mark.parametrize("folder", ["couchdb/embedded", "page"])
def test_the_npm_lock_has_hashes_and_no_address(folder):
    lock = ROOT / folder / "package-lock.json"
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    wanted = json.loads((ROOT / folder / "package.json").read_text(encoding="utf-8"))
    assert {wanted["version"], packages[""]["version"], __version__} == {PROJECT["version"]}
    assert packages[""]["dependencies"] == wanted["dependencies"]
    fetched = {path: package for path, package in packages.items() if path}
    assert fetched
    assert [path for path, package in fetched.items() if "resolved" in package] == []
    assert [path for path, package in fetched.items() if "integrity" not in package] == []
