"""The lock files: whole, without addresses, and what pyproject.toml asks for."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from support.checkout import ROOT

LOCKS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "requirements").glob("*.lock")}
NPM_LOCK = ROOT / "couchdb" / "embedded" / "package-lock.json"


def entries(lock):
    """Canonical name to pinned version and hashes."""
    blocks = re.findall(r"^([\w.-]+)==([^\s;]+)[^\n]*((?:\n +[^\n]*)*)", LOCKS[lock], re.MULTILINE)
    return {canonicalize_name(name): (Version(version), hashes_in(rest)) for name, version, rest in blocks}


def hashes_in(text):
    return re.findall(r"--hash=sha256:([0-9a-f]{64})(?= \\$|$)", text, re.MULTILINE)


def asked_for(lock):
    """The requirements that the lock was made for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    dependencies = project["project"]["dependencies"]
    return {
        "run": dependencies,
        "test": dependencies + project["project"]["optional-dependencies"]["test"],
        "build": [*project["build-system"]["requires"], *lines("build.in")],
        "node": lines("node.in"),
        "pi": lines("pi.in"),
    }[lock]


def lines(file):
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    return [line for full in text.splitlines() if (line := full.partition("#")[0].strip())]


def test_there_is_a_lock_for_each_installation():
    assert sorted(LOCKS) == ["build", "node", "pi", "run", "test"]


def test_a_raspberry_pi_gets_what_the_extra_pi_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extra,), (locked,) = project["optional-dependencies"]["pi"], lines("pi.in")
    assert locked == f"{extra} ; platform_machine == 'aarch64'"


@pytest.mark.parametrize("lock", sorted(LOCKS))
def test_every_entry_has_one_version_and_hashes(lock):
    requirements = [line for line in LOCKS[lock].splitlines() if line and line[0] not in " #"]
    assert len(entries(lock)) == len(requirements) > 0
    assert [name for name, (_, hashes) in entries(lock).items() if not hashes] == []


@pytest.mark.parametrize("lock", sorted(LOCKS))
def test_every_requirement_is_locked_within_its_bounds(lock):
    locked = entries(lock)
    for requirement in map(Requirement, asked_for(lock)):
        version, _ = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is locked at {version}"


def test_no_two_locks_disagree_on_a_version():
    """They go into one environment, one after the other."""
    versions = [{(name, version) for name, (version, _) in entries(lock).items()} for lock in LOCKS]
    together = set.union(*versions)
    assert len(together) == len({name for name, _ in together})


@pytest.mark.parametrize("lock", sorted(LOCKS))
def test_python_locks_hold_no_address(lock):
    assert "://" not in LOCKS[lock]
    assert not re.search(
        r"^\s*(-i|-f|--index|--extra-index|--find-links|--trusted-host)", LOCKS[lock], re.MULTILINE
    )


def test_the_npm_lock_holds_hashes_and_no_address():
    packages = json.loads(NPM_LOCK.read_text(encoding="utf-8"))["packages"]
    fetched = {path: package for path, package in packages.items() if path}
    assert fetched
    assert [path for path, package in fetched.items() if "resolved" in package] == []
    assert [path for path, package in fetched.items() if "integrity" not in package] == []
