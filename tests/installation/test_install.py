import json
import os
import re
import socket
import stat
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from urllib.error import URLError

import pytest
from click.testing import CliRunner

from growd import __version__
from growd_cli.main import main
from growd_machine.installation import installer, packages, tree
from growd_machine.installation.machine import PLACES, InstallError, Machine, ProgramError, run_program
from growd_machine.installation.options import InstallChoices
from growd_machine.installation.service import install_steps, refuse_older, uninstall_steps
from growd_machine.installation.sources import source_at
from growd_machine.installation.targets import target_of
from growd_machine.installation.versions import locked
from support.fresh_machine import CHECKOUT, TEXT, Fresh, wheel
from support.mount_namespace import mounted


def use_couchdb(fresh):
    (fresh.root / "etc/growd").mkdir(parents=True)
    (fresh.root / "etc/growd/growd.toml").write_text('[couchdb]\nurl = "http://127.0.0.1:5985"\n')


def test_all_files_are_installed_in_their_places(fresh, tmp_path):
    fresh.install(wheel(tmp_path, "1.2.0"))
    files = fresh.files()
    for name, place in PLACES.items():
        assert files[str(place)] == (CHECKOUT / "systemd" / name).read_text()
    assert files["etc/growd/growd.toml"] == TEXT
    assert files["etc/systemd/system/multi-user.target.wants/growd.service"] == "../growd.service"
    assert "etc/systemd/system/sockets.target.wants/growd.socket" not in files
    assert files["usr/local/bin/growd"] == "/opt/growd/current/bin/growd"
    assert files["opt/growd/bin"] == "current/bin"
    current = "opt/growd/" + files["opt/growd/current"]
    assert current.startswith("opt/growd/versions/1.2.0-")
    assert files[f"{current}/bin/growd"].startswith("#!/usr/bin/python3 -I\n")
    assert files[f"{current}/lib/growd/config/shipped/minimal.toml"] == TEXT
    assert f"{current}/lib/click/node" in files
    assert f"{current}/node/bin/node" in files
    assert (fresh.root / current / "lib/growd/_couchdb/embedded/node_modules").is_dir()
    record = json.loads(files["opt/growd/installed.json"])
    assert record["version"] == "1.2.0"
    assert record["digest"] == json.loads(files[f"{current}/version.json"])["digest"]
    assert not [command for command in fresh.commands if "systemctl" in command]  # of another machine
    assert_locked(fresh.commands)


def assert_locked(commands):
    """Exactly the locked packages were installed."""
    pips = [command for command in commands if "pip" in command]
    assert {Path(command[-1]).name for command in pips} >= {"run.lock"}
    assert {Path(command[-1]).name for command in pips} <= {"run.lock", "node.lock"}
    assert all({"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(command) for command in pips)


def test_from_a_checkout_npm_adds_the_libraries_of_the_page_and_nothing_else(fresh):
    use_couchdb(fresh)
    fresh.install(CHECKOUT)
    assert_locked(fresh.commands)
    page = fresh.home / "current/lib/growd/_page"
    assert (page / "index.html").read_bytes() == (CHECKOUT / "page/index.html").read_bytes()
    served = json.loads((page / "package.json").read_text())["vendor"].values()
    modules = page / "node_modules"
    made = {path.relative_to(modules).as_posix() for path in modules.rglob("*") if path.is_file()}
    assert made == {*served, "preact/LICENSE"}
    assert not (modules / "lit").exists()
    assert len([command for command in fresh.commands if "ci" in command]) == 1


def test_with_a_couchdb_neither_node_nor_the_embedded_database_is_installed(fresh, tmp_path):
    use_couchdb(fresh)
    fresh.install(wheel(tmp_path, "1.2.0"))
    words = [word for command in fresh.commands for word in command]
    assert not [word for word in words if word.endswith(("embedded", "node.lock"))]
    assert not (fresh.home / "current/node").exists()
    assert json.loads((fresh.home / "current/version.json").read_text())["database"] is False
    (fresh.root / "etc/growd/growd.toml").write_text("")  # the embedded one again
    fresh.install(wheel(tmp_path, "1.2.0"))
    assert json.loads((fresh.home / "current/version.json").read_text())["database"] is True


def test_a_second_time_changes_nothing_and_an_incomplete_folder_is_removed_and_built_again(fresh, tmp_path):
    source = wheel(tmp_path, "1.2.0")
    fresh.install(source)
    before, commands = fresh.files(), len(fresh.commands)
    assert fresh.install(source) == []
    assert fresh.files() == before
    assert len(fresh.commands) == commands
    folder = (fresh.home / "current").resolve()
    part = folder.with_name("1.3.0-00000000.part")
    part.mkdir()
    (folder / "version.json").unlink()
    (folder / "stray").touch()
    assert fresh.install(source)
    assert not part.exists()
    assert not (folder / "stray").exists()
    assert (folder / "version.json").exists()


def test_an_installation_interrupted_before_any_step_continues(fresh, tmp_path):
    source = source_at(wheel(tmp_path, "1.2.0"))
    choices = InstallChoices("minimal", root=fresh.root)
    count = len(install_steps(fresh.machine, source, target_of(fresh.root), choices))
    for done in range(count):
        machine = Fresh(fresh.root / str(done))
        machine.root.mkdir()
        for step in install_steps(machine.machine, source, target_of(machine.root), choices)[:done]:
            step.do()
        machine.install(source.path)
        assert machine.machine.record()["version"] == "1.2.0"
        assert machine.install(source.path) == []


def test_a_failed_upgrade_changes_nothing(fresh, tmp_path):
    fresh.install(wheel(tmp_path, "1.2.0"), with_socket=True)
    before, run = fresh.files(), fresh.run

    def cut(command):
        run(command)
        if "pip" in command:
            raise InstallError("no network")

    fresh.machine = Machine(fresh.root, cut)
    with pytest.raises(InstallError, match="no network"):
        fresh.install(wheel(tmp_path, "1.3.0", "# new\n"))
    assert fresh.files() == before


@pytest.mark.parametrize(("umask", "mode"), [(0, 0o777), (0o077, 0o700)])
def test_each_part_that_takes_long_is_named_and_all_may_read_and_root_write_whatever_the_umask_is(
    fresh, tmp_path, umask, mode
):
    """And whatever the modes of folders before are."""
    lines = []
    program = fresh.run

    def run(command):
        lines.append(next((word for word in ("pip", "ci", "compileall") if word in command), "another"))
        program(command)

    folders = [fresh.home, fresh.home / "versions"]
    folders[1].mkdir(parents=True)
    for folder in folders:
        folder.chmod(mode)
    fresh.machine = Machine(fresh.root, run)
    choices = InstallChoices("minimal", root=fresh.root)
    was = os.umask(umask)
    try:
        installer.install(source_at(wheel(tmp_path, "1.2.0")), choices, lines.append, fresh.machine)
    finally:
        os.umask(was)
    assert [(lines[at - 1], ran) for at, ran in enumerate(lines) if ran in ("pip", "ci", "compileall")] == [
        ("  installing the Python packages", "pip"),
        ("  installing the embedded database", "ci"),
        ("  installing Node", "pip"),
        (f"  compiling for Python {target_of(fresh.root).python}", "compileall"),
    ]
    assert lines[-1].endswith(" systemd starts it at the next boot.")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in fresh.root.rglob("*") if path.exists()}
    assert modes == {0o755, 0o644}


@pytest.mark.parametrize("has_room", [True, False])
def test_after_a_failure_the_next_try_has_what_was_downloaded(fresh, tmp_path, monkeypatch, has_room):
    if not has_room:
        monkeypatch.setattr(tree, "_ROOM_BYTES", float("inf"))
    caches = set()
    program, fails = fresh.run, True

    def run(command):
        caches.update(Path(after) for word, after in pairwise(command) if word in ("--cache-dir", "--cache"))
        if "ci" in command and fails:
            raise ProgramError(command, "no network")
        for cache in caches:
            cache.mkdir(parents=True, exist_ok=True)
        program(command)

    fresh.machine = Machine(fresh.root, run)
    with pytest.raises(InstallError, match="no network"):
        fresh.install(wheel(tmp_path, "1.2.0"))
    assert [cache.name for cache in caches if cache.exists()] == ["pip"] * has_room
    assert not [*fresh.home.glob("versions/*.part")]
    before, fails = set(caches), False
    fresh.install(wheel(tmp_path, "1.2.0"))
    assert caches == before
    assert [path.name for path in fresh.home.glob("versions/*")] == [(fresh.home / "current").readlink().name]


@pytest.mark.parametrize(
    ("cause", "ending"),
    [
        ("Temporary failure in name resolution", "; connect a network, or use a bundle"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES", "HASHES"),
        (None, "Temporary failure in name resolution; connect a network, or use a bundle"),  # for pip itself
    ],
)
def test_without_a_network_a_bundle_is_named(fresh, tmp_path, monkeypatch, cause, ending):
    def fail(command, *_):
        if cause is None:
            raise URLError(socket.gaierror(-3, "Temporary failure in name resolution"))
        raise ProgramError(command, cause)

    if cause is None:
        monkeypatch.setattr(packages, "fetch_pip", fail)
        monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: None)
    else:
        fresh.machine = Machine(fresh.root, fail)
    with pytest.raises(InstallError) as said:
        fresh.install(wheel(tmp_path, "1.2.0"))
    assert str(said.value).endswith(ending)


def test_the_previous_version_stays_and_older_ones_go(fresh, tmp_path):
    for version in ("1.2.0", "1.3.0", "1.4.0"):
        fresh.install(wheel(tmp_path, version))
    assert fresh.versions() == ["1.3.0", "1.4.0"]
    assert "/1.3.0-" in str((fresh.home / "previous").readlink())
    assert "/1.4.0-" in str((fresh.home / "current").readlink())


def test_a_program_growd_of_somebody_else_stays(fresh, tmp_path):
    command = fresh.root / "usr/local/bin/growd"
    command.parent.mkdir(parents=True)
    command.write_text("mine")
    fresh.install(wheel(tmp_path, "1.2.0"))
    fresh.uninstall()
    assert command.read_text() == "mine"


@pytest.mark.parametrize("link", ["etc", "opt/growd/versions"])
def test_a_link_or_a_path_out_of_the_root_is_refused(fresh, tmp_path, link):
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (fresh.root / link).parent.mkdir(parents=True, exist_ok=True)
    (fresh.root / link).symlink_to(outside)
    with pytest.raises(InstallError, match=f"leads out of {fresh.root}, to {outside}"):
        fresh.install(wheel(tmp_path, "1.2.0"))
    if link != "etc":
        with pytest.raises(InstallError, match="leads out of"), locked(fresh.machine):
            pass
    assert [path.name for path in outside.iterdir()] == ["folder"]
    for place in ("../outside", "etc/../../outside", "/etc"):
        with pytest.raises(InstallError, match="is no path below"):
            fresh.machine.at(Path(place))


def test_a_failed_program_ends_the_installation_and_a_log_that_is_a_link_is_replaced(
    tmp_path,
):
    with pytest.raises(InstallError, match=r"failed: no network"):
        run_program([sys.executable, "-c", "import sys; sys.exit('no network')"])
    with pytest.raises(InstallError, match="can't be started: No such file"):
        run_program([str(tmp_path / "nothing")])
    outside, log = tmp_path / "outside", tmp_path / "install.log"
    outside.write_text("of another")
    log.symlink_to(outside)
    run_program([sys.executable, "-c", "print('said')"], log)
    assert outside.read_text() == "of another"
    assert log.read_text().endswith("\nsaid\n")


@pytest.mark.parametrize(
    "files", [["{outside}/file"], ["../outside/file"], [".."], ["."], ["etc"], 5, [{}], {"etc": 1}]
)
def test_uninstall_removes_known_files_only(fresh, tmp_path, files):
    file, other = tmp_path / "outside/file", fresh.root / "etc/hosts"
    for path in (file, other):
        path.parent.mkdir()
        path.write_text("of another")
    fresh.home.mkdir(parents=True)
    text = json.dumps({"version": "1.2.0", "files": files})
    (fresh.home / "installed.json").write_text(text.replace("{outside}", str(file.parent)))
    said = CliRunner().invoke(main, ["uninstall", "--root", str(fresh.root)])
    assert said.exit_code == 0, said.output
    assert (file.exists(), other.exists(), fresh.home.exists()) == (True, True, False)


def test_a_purge_empties_a_data_folder_that_is_a_disk_of_its_own(fresh, tmp_path):
    fresh.install(wheel(tmp_path, "1.2.0"))
    data = fresh.root / "var/lib/growd"
    data.mkdir(parents=True)
    script = (
        'mount -t tmpfs none "$1/var/lib/growd" && mkdir "$1/var/lib/growd/backups" && '
        'touch "$1/var/lib/growd/points.log" "$1/var/lib/growd/backups/file" && '
        'uninstall() { "$2" -m growd_cli uninstall --purge --root "$1"; }; '
        'uninstall "$@" && uninstall "$@"; '
        'find "$1/var/lib/growd" "$1/opt" "$1/etc/growd"; true'
    )
    left = mounted(script, str(fresh.root), sys.executable).splitlines()
    assert left[-2:] == [str(data), f"{fresh.root}/opt"]


def test_uninstall_refuses_while_an_installation_is_at_work_and_removes_no_folder_in_place_of_a_file(
    fresh, tmp_path
):
    fresh.install(wheel(tmp_path, "1.2.0"))
    before = fresh.files()
    uninstall = ["uninstall", "--root", str(fresh.root)]
    with locked(fresh.machine):
        said = CliRunner().invoke(main, uninstall)
    assert (said.exit_code, said.output) == (
        1,
        "growd: another installation or upgrade of growd is at work\n",
    )
    assert fresh.files() == before
    place = fresh.root / PLACES["growd.service"]
    place.unlink()
    (place / "folder").mkdir(parents=True)
    said = CliRunner().invoke(main, uninstall)
    assert said.exit_code == 1
    assert said.output.endswith(f"growd: {place}: Is a directory\n")
    assert (place / "folder").exists()


@pytest.mark.parametrize("is_same", [True, False])
def test_only_a_change_restarts_the_service(fresh, tmp_path, monkeypatch, is_same):
    monkeypatch.setattr(Machine, "is_live", True)
    fresh.install(wheel(tmp_path, "1.2.0"))
    fresh.commands.clear()
    fresh.install(wheel(tmp_path, "1.2.0" if is_same else "1.3.0"))
    starts = [command[1] for command in fresh.commands if command[-1] == "growd.service"]
    assert starts == ["reset-failed", "start" if is_same else "restart"]


def test_a_place_that_cannot_be_written_is_one_sentence(fresh, tmp_path):
    (fresh.root / "opt").write_text("a file")
    said = CliRunner().invoke(main, ["install", str(CHECKOUT), "--root", str(fresh.root)])
    assert (said.exit_code, said.output) == (1, f"growd: {fresh.home}/versions: Not a directory\n")


def test_an_upgrade_preserves_socket_configuration_and_data(fresh, tmp_path):
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


def test_an_older_version_and_an_invalid_wheel_are_refused(fresh, tmp_path):
    (tmp_path / "growd-1.0-py3-none-any.whl").write_text("no archive")
    with pytest.raises(InstallError, match=r"growd-1.0-py3-none-any.whl is damaged: File is not a zip file"):
        fresh.install(tmp_path / "growd-1.0-py3-none-any.whl")
    assert list(fresh.root.iterdir()) == []
    fresh.install(wheel(tmp_path, "1.10.0"))
    with pytest.raises(InstallError, match=r"growd 1\.9\.0 is older than the installed 1\.10\.0"):
        refuse_older(fresh.machine, source_at(wheel(tmp_path, "1.9.0")))


@pytest.mark.parametrize("purge", [False, True])
def test_uninstall_removes_what_was_installed(fresh, tmp_path, *, purge):
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


@pytest.mark.parametrize("with_watchdog", [True, False])
def test_the_hardware_watchdog_is_installed_and_removed(with_watchdog, fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(Machine, "is_live", True)
    file = fresh.root / "etc/systemd/system.conf.d/growd-watchdog.conf"
    fresh.install(wheel(tmp_path, "1.2.0"), with_watchdog=with_watchdog)
    assert (["systemctl", "daemon-reexec"] in fresh.commands) == file.exists() == with_watchdog
    if with_watchdog:
        assert "RuntimeWatchdogSec=15s\n" in file.read_text()
        fresh.install(wheel(tmp_path, "1.3.0", "# newer\n"))
        assert file.read_text().endswith("# newer\n")
    fresh.commands.clear()
    fresh.uninstall()
    assert (["systemctl", "daemon-reexec"] in fresh.commands) == with_watchdog
    assert not file.exists()


def test_a_dry_run_prints_the_steps_only(fresh, tmp_path):
    arguments = ["install", "--root", str(fresh.root), "--dry-run", "--profile", "minimal"]
    said = CliRunner().invoke(main, arguments)
    assert said.exit_code == 0, said.output
    words = f"would build growd {__version__} from the checkout {CHECKOUT} in {fresh.home}/versions/"
    assert words in said.output
    assert f"would write {fresh.root}/etc/systemd/system/growd.service" in said.output
    assert f"would write the configuration {fresh.root}/etc/growd/growd.toml" in said.output
    assert list(fresh.root.iterdir()) == []
    fresh.install(CHECKOUT)
    before = fresh.files()
    said = CliRunner().invoke(main, ["uninstall", "--root", str(fresh.root), "--dry-run", "--purge"])
    assert f"would remove {fresh.root}/opt/growd" in said.output
    assert fresh.files() == before
    said = CliRunner().invoke(main, arguments)
    assert f"already done: write {fresh.root}/etc/systemd/system/growd.service" in said.output
    assert "growd.toml.new" not in said.output  # there is none


def test_the_help_has_no_option_of_upgrades():
    own = subprocess.run([CHECKOUT / "install", "--help"], capture_output=True, text=True, check=True)
    for text in (own.stdout, CliRunner().invoke(main, ["install", "--help"]).output):
        assert "--profile" in text
        assert "--only" not in text


def test_output_that_nobody_reads_ends_the_command_quietly(fresh):
    command = f"{CHECKOUT}/install --root {fresh.root} --dry-run | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("would build growd")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("install", "{folder}/nothing.pyz"),
            "there is no {folder}/nothing.pyz: name a bundle, a wheel or a",
        ),
        (("install", "{folder}"), "{folder} is not a checkout of growd: name one, or a bundle or a wheel"),
        (("install", "{folder}/a text"), "is neither a wheel nor a bundle of growd"),
        (
            ("install", "--profile", "lamp"),
            "there is no profile lamp; there are climate, food-computer, minimal, sim",
        ),
        (("install", "{folder}/other-1.0-py3-none-any.whl"), "is not a wheel of growd"),
        (
            ("install", "{folder}/growd-1.0-py3-none-any.whl"),
            "there is no {folder}/growd-1.0-py3-none-any.whl",
        ),
        (("install", "{folder}/empty.pyz"), "does not contain version.json"),
        (
            ("install", "{folder}/growd-2.0-py3-none-any.whl"),
            "does not contain growd_machine/installation/__main__.py",
        ),
        (("uninstall",), "growd is not installed in"),
    ],
)
def test_impossible_installations_are_one_sentence(fresh, tmp_path, arguments, words):
    (tmp_path / "a text").write_text("text")
    (tmp_path / "other-1.0-py3-none-any.whl").touch()
    for name in ("empty.pyz", "growd-2.0-py3-none-any.whl"):
        zipfile.ZipFile(tmp_path / name, "w").close()
    given = [argument.format(folder=tmp_path) for argument in arguments]
    said = CliRunner().invoke(main, [*given, "--root", str(fresh.root)])
    assert said.exit_code == 1
    assert said.output.startswith("growd: ")
    assert words.format(folder=tmp_path) in said.output
    assert list(fresh.root.iterdir()) == []


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    subprocess.run([*build, "-w", str(folder), str(CHECKOUT)], check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.timeout(240)
@pytest.mark.install
@pytest.mark.usefixtures("index")
def test_a_wheel_installs_itself_with_nothing_but_python(built, fresh):
    use_couchdb(fresh)
    command = [sys.executable, "-I", f"{built}/growd_machine/installation", "--root", fresh.root]
    umask = os.umask(0o077)  # as careful administrators have it; the user growd has to read all of it
    try:
        done = subprocess.run([*command, "--profile", "minimal"], capture_output=True, text=True, check=False)
    finally:
        os.umask(umask)
    assert (done.returncode, done.stderr) == (0, "")
    made = [path for path in fresh.home.parent.rglob("*") if not path.is_symlink()]
    assert {path for path in made if path.stat().st_mode & 0o044 != 0o044} == set()
    assert {path for path in made if path.stat().st_mode & 0o022} == set()
    program = (fresh.home / "current/bin/growd").resolve()
    asked = subprocess.run(
        [sys.executable, "-I", program, "--version"], capture_output=True, text=True, check=True
    )
    assert asked.stdout == f"growd, version {__version__}\n"
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "already done: build growd" in again.stdout
    gone = CliRunner().invoke(main, ["uninstall", "--root", str(fresh.root), "--purge"])
    assert gone.exit_code == 0, gone.output
    assert fresh.files() == {}


RAPIDOC = "rapidoc/dist/rapidoc-min.js"


@pytest.mark.install
def test_a_wheel_has_the_files_of_the_checkout_and_the_libraries_of_the_page(built, fresh):
    if not (CHECKOUT / "page/node_modules").is_dir():
        pytest.skip("page/node_modules is not installed (./run does that)")
    checkout = dict(source_at(CHECKOUT).files())
    packed = dict(source_at(built).files())
    served = {name for name in packed if name.startswith("growd/_page/node_modules/")}
    own = {name for name in packed if ".dist-info" not in name} - served
    assert own <= set(checkout)
    assert all(packed[name] == checkout[name] for name in own)
    needed = re.compile(r".*\.(py|js|mjs|css|toml|lock|service)|.*/_docs/[\w-]+\.md|.*/_docs/wiring\.svg")
    assert {name for name in checkout if needed.fullmatch(name)} <= own
    wanted = {*json.loads(packed["growd/_page/package.json"])["vendor"].values()} - {RAPIDOC}
    licences = {name for name in served if name.endswith(("LICENSE", "LICENSE.txt"))}
    assert served - licences == {f"growd/_page/node_modules/{name}" for name in wanted}
    assert {name.split("/")[3] for name in licences} == {name.partition("/")[0] for name in wanted}
    fresh.install(built)
    assert (fresh.home / "current/lib/growd/_page/node_modules" / RAPIDOC).exists()
