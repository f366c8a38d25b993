from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import struct
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pip
import pytest
from click.testing import CliRunner

from growd.cli.main import main
from growd.config.profiles import profile_text
from growd.installation.machine import PLACES, WATCHDOG, InstallError, Machine, run_program
from growd.installation.service import install_steps, refuse_older, uninstall_steps
from growd.installation.sources import source_at
from growd.store.errors import LocalStoreError
from growd.store.local import SCHEMA_VERSION, LocalStore
from growd.store.outbox import Outbox
from support.clock import ManualClock

CHECKOUT = Path(__file__).parents[2]
TEXT = profile_text("minimal")


class Fresh:
    """An empty file system; stand-in programs create what growd looks for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[list[str]] = []
        self.machine = Machine(root, self.run)

    def run(self, command: list[str]) -> None:
        self.commands.append(command)
        programs = self.root / "opt/growd/bin"
        programs.mkdir(parents=True, exist_ok=True)
        if "pip" in command:
            (programs / "growd").write_text(f"#!{programs}/python\n")

    def install(self, wheel: Path, **options: Any) -> list[str]:
        """The steps that were not done already, in words."""
        done = []
        for step in install_steps(self.machine, source_at(wheel), "minimal", **options):
            if not step.is_done():
                step.do()
                done.append(step.words)
        return done

    def uninstall(self, *, purge: bool = False) -> None:
        for step in uninstall_steps(self.machine, purge=purge):
            step.do()

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): str(path.readlink()) if path.is_symlink() else path.read_text()
            for path in sorted(self.root.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


@pytest.fixture
def fresh(tmp_path: Path) -> Fresh:
    root = tmp_path / "root"
    root.mkdir()
    return Fresh(root)


def wheel(folder: Path, version: str, more: str = "") -> Path:
    """A wheel without a program; `more` is added to its unit and its configuration."""
    path = folder / f"growd-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*PLACES, WATCHDOG.name):
            archive.writestr(f"growd/_systemd/{name}", (CHECKOUT / "systemd" / name).read_text() + more)
        archive.writestr("growd/config/shipped/minimal.toml", TEXT + more)
        archive.writestr("growd/config/shipped/food-computer.toml", TEXT)
    return path


def test_all_files_are_installed_in_their_places(fresh: Fresh, tmp_path: Path):
    fresh.install(wheel(tmp_path, "1.2.0"))
    files = fresh.files()
    for name, place in PLACES.items():
        assert files[str(place)] == (CHECKOUT / "systemd" / name).read_text()
    assert files["etc/growd/growd.toml"] == TEXT
    assert files["etc/systemd/system/multi-user.target.wants/growd.service"] == "../growd.service"
    assert "etc/systemd/system/sockets.target.wants/growd.socket" not in files
    assert files["opt/growd/bin/growd"] == "#!/opt/growd/bin/python\n"  # as the machine will find it
    assert json.loads(files["opt/growd/installed.json"])["version"] == "1.2.0"
    assert not [command for command in fresh.commands if "systemctl" in command]  # of another machine


def test_a_checkout_installs_exactly_the_locked_packages(fresh: Fresh):
    for step in install_steps(fresh.machine, source_at(CHECKOUT), "minimal"):
        step.do()
    pips = [
        " ".join(command[command.index("install") + 1 :]) for command in fresh.commands if "pip" in command
    ]
    assert pips == [
        f"--require-hashes --no-deps -r {CHECKOUT}/requirements/build.lock",
        f"--require-hashes --no-deps -r {CHECKOUT}/requirements/run.lock",
        f"--no-deps --no-build-isolation {CHECKOUT}",
    ]


def test_a_second_time_changes_nothing(fresh: Fresh, tmp_path: Path):
    source = wheel(tmp_path, "1.2.0")
    fresh.install(source)
    before, commands = fresh.files(), len(fresh.commands)
    assert fresh.install(source) == []
    assert fresh.files() == before
    assert len(fresh.commands) == commands


def test_an_interrupted_installation_continues(fresh: Fresh, tmp_path: Path):
    source = wheel(tmp_path, "1.2.0")
    for step in install_steps(fresh.machine, source_at(source), "minimal")[:4]:
        step.do()
    assert not fresh.machine.record()
    fresh.install(source)
    assert fresh.machine.record()["version"] == "1.2.0"
    assert fresh.install(source) == []


def test_an_interrupted_upgrade_keeps_its_choices(fresh: Fresh, tmp_path: Path):
    source = wheel(tmp_path, "1.2.0")
    fresh.install(source, with_socket=True)
    run = fresh.run

    def cut(command: list[str]) -> None:
        if "pip" in command:
            raise InstallError("no network")
        (fresh.root / "opt/growd/installed.json").unlink()  # as venv --clear does
        run(command)

    fresh.machine = Machine(fresh.root, cut)
    with pytest.raises(InstallError, match="no network"):
        fresh.install(wheel(tmp_path, "1.3.0", "# new\n"))
    fresh.machine = Machine(fresh.root, run)
    assert fresh.machine.record()["profile"] == "minimal"
    assert uninstall_steps(fresh.machine, purge=False) != []
    assert any(
        words.startswith("install growd 1.2.0") for words in fresh.install(source)
    )  # it may be neither
    assert "etc/systemd/system/sockets.target.wants/growd.socket" in fresh.machine.record()["files"]


def test_links_out_of_the_root_are_refused(fresh: Fresh, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (fresh.root / "etc").symlink_to(outside)
    source = str(wheel(tmp_path, "1.2.0"))
    said = CliRunner().invoke(main, ["install", source, "--root", str(fresh.root)])
    assert said.exit_code == 1
    assert f"leads out of {fresh.root}, to {outside}" in said.output
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", ["{outside}/file", "../outside/file", "etc/../../outside/file", "."])
def test_only_files_below_the_root_are_removed(fresh: Fresh, tmp_path: Path, name: str):
    file = tmp_path / "outside/file"
    file.parent.mkdir()
    file.write_text("of another")
    record = fresh.root / "opt/growd/installed.json"
    record.parent.mkdir(parents=True)
    (fresh.root / "etc").mkdir()
    record.write_text(json.dumps({"files": [name.format(outside=file.parent)]}))
    said = CliRunner().invoke(main, ["uninstall", "--root", str(fresh.root)])
    assert said.exit_code == 1
    assert "leads out of" in said.output
    assert file.exists()
    assert record.exists()


def test_an_upgrade_preserves_socket_configuration_and_data(fresh: Fresh, tmp_path: Path):
    fresh.install(wheel(tmp_path, "1.2.0"), with_socket=True)
    mine = fresh.root / "etc/growd/growd.toml"
    mine.write_text("# my own\n")
    data = fresh.root / "var/lib/growd/points.log"
    data.parent.mkdir(parents=True)
    data.write_text("points")
    newer = wheel(tmp_path, "1.10.0", "# an option that is new\n")
    refuse_older(fresh.machine, source_at(newer))
    fresh.install(newer)
    assert (fresh.root / "etc/systemd/system/growd.service").read_text().endswith("# an option that is new\n")
    assert mine.read_text() == "# my own\n"
    assert mine.with_name("growd.toml.new").read_text() == TEXT + "# an option that is new\n"
    assert data.read_text() == "points"
    assert fresh.machine.record()["version"] == "1.10.0"
    assert "etc/systemd/system/sockets.target.wants/growd.socket" in fresh.machine.record()["files"]
    mine.with_name("growd.toml.new").unlink()
    assert fresh.install(newer) == []  # it is not put there again


def test_an_older_version_is_refused(fresh: Fresh, tmp_path: Path):
    fresh.install(wheel(tmp_path, "1.10.0"))
    with pytest.raises(InstallError, match=r"growd 1\.9\.0 is older than the installed 1\.10\.0"):
        refuse_older(fresh.machine, source_at(wheel(tmp_path, "1.9.0")))


def newer_schema(data: Path) -> None:
    data.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(data / "growd.sqlite3")) as connection:
        connection.execute("CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT)")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def newer_log(data: Path) -> None:
    data.mkdir(parents=True, exist_ok=True)
    header = struct.pack("<4sIQQQ", b"gLO2", 2, 1, 1, 0)
    frame = header + struct.pack("<I", crc32(b"{}", crc32(header))) + b"{}"
    (data / "points.log").write_bytes(frame.ljust(1024 * 1024, b"\0"))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (newer_schema, f"schema is {SCHEMA_VERSION + 1}, this growd knows up to {SCHEMA_VERSION}"),
        (newer_log, "format is 2, this growd knows up to 1"),
    ],
)
async def test_data_of_a_newer_growd_are_refused(fresh, tmp_path, write, words):
    data = fresh.root / "var/lib/growd"
    await asyncio.to_thread(write, data)
    before = await asyncio.to_thread(contents, data)
    with pytest.raises(InstallError, match=words):
        await asyncio.to_thread(lambda: refuse_older(fresh.machine, source_at(wheel(tmp_path, "1.0.0"))))
    with pytest.raises(LocalStoreError, match=words):
        await opened(data)
    after = await asyncio.to_thread(contents, data)
    assert before.items() <= after.items()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def opened(data: Path) -> None:
    local = await LocalStore.open(data / "growd.sqlite3")
    try:
        await (await Outbox.open(local, ManualClock())).close()
    finally:
        await local.close()


@pytest.mark.parametrize("purge", [False, True])
def test_uninstall_removes_what_was_installed(fresh: Fresh, tmp_path: Path, *, purge: bool):
    others = fresh.root / "etc/systemd/system/other.service"
    others.parent.mkdir(parents=True)
    others.write_text("[Service]\n")
    fresh.install(wheel(tmp_path, "1.2.0"), with_socket=True)
    (fresh.root / "var/lib/growd").mkdir(parents=True)
    (fresh.root / "var/lib/growd/growd.sqlite3").write_text("data")
    assert (fresh.root / "etc/systemd/system/sockets.target.wants/growd.socket").is_symlink()
    fresh.uninstall(purge=purge)
    left = ["etc/systemd/system/other.service"]
    if not purge:
        left += ["etc/growd/growd.toml", "var/lib/growd/growd.sqlite3"]
    assert sorted(fresh.files()) == sorted(left)
    assert not (fresh.root / "opt/growd").exists()
    if not purge:
        assert fresh.machine.record() == {}
        assert uninstall_steps(fresh.machine, purge=False) == []


def test_the_hardware_watchdog_is_installed_and_removed(fresh: Fresh, tmp_path: Path):
    file = fresh.root / "etc/systemd/system.conf.d/growd-watchdog.conf"
    fresh.install(wheel(tmp_path, "1.2.0"))
    assert not file.exists()
    fresh.install(wheel(tmp_path, "1.2.0"), with_watchdog=True)
    assert "RuntimeWatchdogSec=15s\n" in file.read_text()
    fresh.install(wheel(tmp_path, "1.3.0", "# newer\n"))
    assert file.read_text().endswith("# newer\n")
    fresh.uninstall()
    assert not file.exists()


@pytest.mark.parametrize("with_watchdog", [True, False])
def test_systemd_is_reexecuted_for_the_hardware_watchdog(
    with_watchdog, fresh: Fresh, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(Machine, "is_live", True)
    fresh.install(wheel(tmp_path, "1.2.0"), with_watchdog=with_watchdog)
    assert (["systemctl", "daemon-reexec"] in fresh.commands) == with_watchdog
    fresh.commands.clear()
    fresh.uninstall()
    assert (["systemctl", "daemon-reexec"] in fresh.commands) == with_watchdog


def test_a_dry_run_prints_the_steps_only(fresh: Fresh, tmp_path: Path):
    source = str(wheel(tmp_path, "1.2.0"))
    said = CliRunner().invoke(main, ["install", source, "--root", str(fresh.root), "--dry-run"])
    assert said.exit_code == 0, said.output
    assert f"would create a virtual environment in {fresh.root}/opt/growd" in said.output
    assert f"would write {fresh.root}/etc/systemd/system/growd.service" in said.output
    assert f"would write the configuration {fresh.root}/etc/growd/growd.toml" in said.output
    assert list(fresh.root.iterdir()) == []
    fresh.install(Path(source))
    before = fresh.files()
    said = CliRunner().invoke(main, ["uninstall", "--root", str(fresh.root), "--dry-run", "--purge"])
    assert f"would remove {fresh.root}/opt/growd" in said.output
    assert fresh.files() == before
    said = CliRunner().invoke(main, ["install", source, "--root", str(fresh.root), "--dry-run"])
    assert f"already done: write {fresh.root}/etc/systemd/system/growd.service" in said.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("install", "{folder}/nothing"), "is neither a checkout nor a wheel of growd"),
        (("install", "{folder}/other-1.0-py3-none-any.whl"), "is not a wheel of growd"),
        (("install", "{folder}/growd-1.0-py3-none-any.whl"), "can't be read: No such file"),
        (("uninstall",), "growd is not installed in"),
    ],
)
def test_impossible_installations_are_one_sentence(fresh: Fresh, tmp_path: Path, arguments, words):
    given = [argument.format(folder=tmp_path) for argument in arguments]
    said = CliRunner().invoke(main, [*given, "--root", str(fresh.root)])
    assert said.exit_code == 1
    assert said.output.startswith("growd: ")
    assert words in said.output
    assert list(fresh.root.iterdir()) == []


def test_an_invalid_wheel_changes_nothing(fresh: Fresh, tmp_path: Path):
    (tmp_path / "growd-1.0-py3-none-any.whl").write_text("no archive")
    with pytest.raises(InstallError, match=r"growd-1.0-py3-none-any.whl is damaged: it is not a zip archive"):
        fresh.install(tmp_path / "growd-1.0-py3-none-any.whl")
    assert list(fresh.root.iterdir()) == []


def test_a_failed_program_ends_the_installation_with_its_output(tmp_path: Path):
    with pytest.raises(InstallError, match=r"failed: no network"):
        run_program([sys.executable, "-c", "import sys; sys.exit('no network')"])
    with pytest.raises(InstallError, match="can't be started: No such file"):
        run_program([str(tmp_path / "nothing")])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    subprocess.run([*build, "-w", str(folder), str(CHECKOUT)], check=True)
    (path,) = folder.glob("*.whl")
    return path


def with_pip_of_the_tests(command: list[str]) -> None:
    """Run a program, but install no pip into an environment, which is slow."""
    if "venv" not in command:
        run_program(command)
        return
    run_program([*command, "--without-pip"])
    (packages,) = Path(command[-1]).glob("lib/python*/site-packages")
    (packages / "pip").symlink_to(Path(pip.__file__).parent)


@pytest.mark.timeout(240)
@pytest.mark.install
def test_a_wheel_contains_everything(built: Path, fresh: Fresh, monkeypatch):
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
    assert {f"growd/_systemd/{name}" for name in PLACES} <= names
    monkeypatch.setattr("growd.cli.install.Machine", lambda root: Machine(root, with_pip_of_the_tests))
    monkeypatch.setenv("PIP_NO_DEPS", "1")  # without the network; what it depends on is not looked at
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    umask = os.umask(0o077)  # as careful administrators have it; the user growd has to read all of it
    try:
        # as the command line names them, but as a machine of its own: pip sees the true environment
        said = CliRunner().invoke(
            main, ["install", str(built), "--root", str(fresh.root), "--profile", "minimal"]
        )
    finally:
        os.umask(umask)
    assert said.exit_code == 0, said.output
    made = [path for path in fresh.root.rglob("*") if not path.is_symlink()]
    assert {path for path in made if path.stat().st_mode & 0o044 != 0o044} == set()
    assert {path for path in made if path.stat().st_mode & 0o022} == set()
    program = fresh.root / "opt/growd/bin/growd"
    assert program.read_text().splitlines()[0].startswith("#!/opt/growd/bin/python")
    assert os.access(program, os.X_OK)
    assert (fresh.root / "etc/growd/growd.toml").read_text() == TEXT
    again = CliRunner().invoke(main, ["install", str(built), "--root", str(fresh.root)])
    assert again.exit_code == 0, again.output
    assert "already done: install growd" in again.output
    gone = CliRunner().invoke(main, ["uninstall", "--root", str(fresh.root), "--purge"])
    assert gone.exit_code == 0, gone.output
    assert fresh.files() == {}
