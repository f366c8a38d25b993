"""Virtual machines for the tests: one with nothing but Debian, and one in which growd runs.

The tests need a processor with virtualization; GROWD_TEST_VM=yes runs them without it, ten times slower.
GROWD_VM_BUNDLE and GROWD_VM_PACKAGE name the bundle and the Debian package to install; without them they are
built. GROWD_VM_FOLDER names a folder that keeps
the installed machine for further runs. GROWD_VM_LOG names a file for the lines that each scenario prints.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from virtual_machine import ROOT, Image, VirtualMachine, has_kvm, locked, missing, new_disk

from support.chamber_machine import ChamberMachine


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("vm")
            item.add_marker(pytest.mark.timeout(1800 if has_kvm() else 7200))


class Scenario:
    """Prints a line with the seconds of a scenario, and what it measured."""

    def __init__(self, capture):
        self._capture = capture

    @contextmanager
    def __call__(self, name):
        began = time.monotonic()
        yield
        self.line(f"{name}: {time.monotonic() - began:.1f} s")

    def line(self, text):
        with self._capture.disabled():
            print(f"\nvm: {text}", flush=True)  # noqa: T201
        if log := os.environ.get("GROWD_VM_LOG"):
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {text}\n")


@pytest.fixture
def scenario(capsys):
    return Scenario(capsys)


@pytest.fixture(scope="session")
def image():
    if reason := missing():
        pytest.skip(reason)
    if not has_kvm() and os.environ.get("GROWD_TEST_VM") != "yes":
        pytest.skip("the processor has no virtualization for KVM; GROWD_TEST_VM=yes emulates the machines")
    image = Image(os.environ.get("GROWD_VM_SUITE", "trixie"))
    image.build()
    return image


@pytest.fixture(scope="session")
def common(tmp_path_factory, worker_id):
    """The folder of the bundle and the installed machine, the same for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "vm"
    folder = Path(os.environ.get("GROWD_VM_FOLDER", folder))
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def share(image, common):
    """The folder that machines see below /host, with the bundle growd.pyz."""
    folder = common / "host"
    folder.mkdir(exist_ok=True)
    _provide(folder / "growd.pyz", "GROWD_VM_BUNDLE", ROOT / "tools/bundle", image.architecture)
    return folder


@pytest.fixture(scope="session")
def package(image, share):
    """The path of the Debian package in the machine."""
    _provide(share / "growd.deb", "GROWD_VM_PACKAGE", ROOT / "tools/deb", image.architecture)
    return "/host/growd.deb"


def _provide(file, variable, tool, architecture):
    """Copy the file that an environment variable names; without one, build it."""
    with locked(file.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        if file.exists():
            return
        named = os.environ.get(variable)
        if named is None:
            command = [sys.executable, tool, architecture, "--output", scratch]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            (named,) = (str(made) for made in Path(scratch).iterdir() if made.suffix == file.suffix)
        shutil.copyfile(named, Path(scratch, "copy"))
        Path(scratch, "copy").rename(file)


@pytest.fixture
def place(common):
    """The place of the one machine that runs at a time; two would be too slow on a small computer."""
    with locked(common / "place.lock"):
        yield


@pytest.fixture
def fresh(image, share, place, tmp_path):
    """Debian that has just booted."""
    with image.machine(tmp_path, share=share) as machine:
        yield machine


@pytest.fixture(scope="session")
def installed(image, common, share):
    """A folder with the disk and the state of a machine in which growd was installed and runs."""
    folder = common / f"installed-{image.folder.name}"
    with locked(common / "installed.lock"):
        if not (folder / "state").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            with image.machine(folder, share=share) as machine:
                (folder / "output").write_text(machine.run("python3 /host/growd.pyz", timeout_s=300))
                ChamberMachine(machine).wait_until_it_runs()
                machine.save(folder / "saving")
            (folder / "saving").rename(folder / "state")
    return folder


@pytest.fixture
def chamber(image, share, installed, place, tmp_path):
    """A machine in which growd has run for some seconds."""
    disk = new_disk(tmp_path / "root.qcow2", installed / "root.qcow2")
    with VirtualMachine(image, disk, tmp_path, share=share) as machine:
        machine.resume(installed / "state")
        yield ChamberMachine(machine)
