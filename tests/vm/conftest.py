"""Virtual machines for the tests: one with nothing but Debian, and one in which growd runs.

The tests need a processor with virtualization; `tools/vm test` runs them without it, ten times slower.
GROWD_VM_BUNDLE names a bundle to install; without it one is built. GROWD_VM_FOLDER names a folder that keeps
the installed machine for further runs. GROWD_VM_LOG names a file for the lines that each scenario prints.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from virtual_machine import ROOT, Image, VirtualMachine, has_kvm, locked, missing, new_disk

from support.chamber_machine import ChamberMachine

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("vm")
            item.add_marker(pytest.mark.timeout(600 if has_kvm() else 3600))


class Scenario:
    """Prints a line with the seconds of a scenario, and what it measured."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.line(f"{name}: {time.monotonic() - began:.1f} s")

    def line(self, text: str) -> None:
        with self._capture.disabled():
            print(f"\nvm: {text}", flush=True)  # noqa: T201
        if log := os.environ.get("GROWD_VM_LOG"):
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {text}\n")


@pytest.fixture
def scenario(capsys: pytest.CaptureFixture[str]) -> Scenario:
    return Scenario(capsys)


@pytest.fixture(scope="session")
def image() -> Image:
    if reason := missing():
        pytest.skip(reason)
    if not has_kvm() and "GROWD_VM_EMULATE" not in os.environ:
        pytest.skip("the processor has no virtualization for KVM; tools/vm test emulates one")
    image = Image(os.environ.get("GROWD_VM_SUITE", "trixie"))
    image.build()
    return image


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of the bundle and the installed machine, the same for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "vm"
    folder = Path(os.environ.get("GROWD_VM_FOLDER", folder))
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def share(image: Image, common: Path) -> Path:
    """The folder that machines see below /host, with the bundle growd.pyz."""
    folder = common / "host"
    with locked(common / "share.lock"):
        bundle = folder / "growd.pyz"
        if not bundle.exists():
            folder.mkdir(exist_ok=True)
            named = os.environ.get("GROWD_VM_BUNDLE")
            if named is None:
                command = [ROOT / "tools/bundle", image.architecture, "--output", common / "built"]
                subprocess.run(command, check=True)
                (named,) = (common / "built").glob("*.pyz")
            shutil.copyfile(named, folder / "new")
            (folder / "new").rename(bundle)
    return folder


@pytest.fixture
def fresh(image: Image, share: Path, tmp_path: Path) -> Iterator[VirtualMachine]:
    """Debian that has just booted."""
    with image.machine(tmp_path, share=share) as machine:
        yield machine


@pytest.fixture(scope="session")
def installed(image: Image, common: Path, share: Path) -> Path:
    """A folder with the disk and the state of a machine in which growd was installed and runs."""
    folder = common / "installed"
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
def chamber(image: Image, share: Path, installed: Path, tmp_path: Path) -> Iterator[ChamberMachine]:
    """A machine in which growd has run for some seconds."""
    disk = new_disk(tmp_path / "root.qcow2", installed / "root.qcow2")
    with VirtualMachine(image, disk, tmp_path, share=share) as machine:
        machine.resume(installed / "state")
        yield ChamberMachine(machine)
