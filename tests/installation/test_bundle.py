"""Bundles: one file with a version folder, and what runs it."""

import json
import shutil
import stat
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from growd import __version__
from growd_machine.installation.bundle import refuse_other_machines, unpack_bundle, write_bundle
from growd_machine.installation.machine import InstallError, Machine, run_program
from growd_machine.installation.options import InstallChoices
from growd_machine.installation.service import install_steps
from growd_machine.installation.sources import source_at
from growd_machine.installation.targets import Target, target_of
from growd_machine.installation.tree import VersionTree, merge
from support.fresh_machine import CHECKOUT, Fresh, wheel

HERE = target_of(Path("/nowhere"))  # of the Python that runs the tests


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle of growd 1.2.0 without a program, and its folder, which has a link and a program."""
    folder = tmp_path_factory.mktemp("bundle")
    tree = VersionTree(source_at(wheel(folder, "1.2.0")), HERE.machine, (HERE.python,))
    version = folder / tree.name
    tree.build(version, Fresh(folder / "root").run, with_byte_code=False)
    (version / "lib/link").symlink_to("growd")
    write_bundle(version, folder / "growd-1.2.0.pyz")
    return folder / "growd-1.2.0.pyz", version


@pytest.fixture
def file(made, tmp_path):
    """A copy of that bundle, which the test may damage."""
    return Path(shutil.copy(made[0], tmp_path))


def test_a_bundle_installs_the_folder_that_it_was_made_of(fresh, made, tmp_path):
    file, version = made
    fresh.install(file)
    current = fresh.home / "current"
    assert current.readlink().name == version.name
    for path in version.rglob("*"):
        if path.is_dir() and not any(path.iterdir()):
            continue  # a bundle has files only
        copy = current / path.relative_to(version)
        assert copy.lstat().st_mode == path.lstat().st_mode
        if path.is_file():
            assert copy.read_bytes() == path.read_bytes()
    assert (current / "lib/link").readlink() == Path("growd")
    assert all("compileall" in command for command in fresh.commands)  # neither pip nor npm
    assert fresh.install(file) == []
    write_bundle(version, tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == file.read_bytes()


def test_an_interrupted_unpacking_and_too_little_space_leave_no_folder(fresh, file, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    fresh.machine = Machine(fresh.root, interrupt)
    with pytest.raises(KeyboardInterrupt):
        fresh.install(file)
    monkeypatch.setattr("growd_machine.installation.bundle._MARGIN", 1e15)
    with pytest.raises(InstallError, match=r"has \d+ MB free, and \d+ MB are needed"):
        fresh.install(file)
    assert list((fresh.home / "versions").iterdir()) == []


def test_a_damaged_bundle_is_refused(fresh, file):
    with zipfile.ZipFile(file) as archive:
        entry = archive.getinfo("version/lib/growd/config/shipped/minimal.toml")
    content = bytearray(file.read_bytes())
    middle = entry.header_offset + 100 + entry.compress_size // 2
    content[middle : middle + 20] = bytes(20)
    file.write_bytes(content)
    with pytest.raises(InstallError, match=r"growd-1\.2\.0\.pyz is damaged: "):
        unpack_bundle(file, fresh.home / "versions/1.2.0-0", HERE, fresh.run)
    assert list((fresh.home / "versions").iterdir()) == []
    file.write_bytes(content[:1000])
    with pytest.raises(InstallError, match="is neither a wheel nor a bundle"):
        source_at(file)


def changed(file, name, content, mode=0o644):
    """The bundle with an entry more, or with other content of one."""
    changed_file = file.with_name("changed.pyz")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed_file, "w") as new:
        for entry in old.infolist():
            if entry.filename != name:
                new.writestr(entry, old.read(entry))
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        new.writestr(entry, content)
    return changed_file


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"machine": "x86_64" if HERE.machine == "aarch64" else "aarch64"}, "take the bundle for"),
        ({"pythons": ["3.99"]}, "is for Python 3.99, and this machine has Python"),
        ({"version": "../../../../outside"}, "version in version.json is '../../../../outside'"),
        ({"version": None}, "version in version.json is None"),
        ({"digest": "../" * 30}, "digest in version.json is '../"),
        ({"machine": ["x86_64"]}, "machine in version.json is "),
        ({"pythons": None}, "pythons in version.json is None"),
        ({"pythons": [3.11]}, "pythons in version.json is "),
        ("{", ""),
    ],
)
def test_a_version_file_of_another_form_is_refused(fresh, file, changes, words):
    with zipfile.ZipFile(file) as archive:
        known = json.loads(archive.read("version/version.json"))
    text = changes if isinstance(changes, str) else json.dumps(known | changes)
    wrong = changed(file, "version/version.json", text)
    words = words if words.startswith(("is for", "take")) else rf"changed\.pyz is damaged: {words}"
    with pytest.raises(InstallError, match=words):
        fresh.install(wrong)
    assert list(fresh.root.iterdir()) == []


@pytest.mark.parametrize(
    "entry",
    [
        ("version/../../../../outside", "text", 0o644),
        ("version/lib/../../outside", "text", 0o644),
        ("version/lib/other", "/etc", stat.S_IFLNK | 0o777),
        ("version/lib/other", "../../../outside", stat.S_IFLNK | 0o777),
        ("version/lib/link/../../../outside", "text", 0o644),
    ],
)
def test_an_entry_that_leads_out_of_its_folder_is_refused(fresh, file, tmp_path, entry):
    file = changed(file, *entry)
    with pytest.raises(InstallError, match=r"changed\.pyz is damaged: .* leads out of the version"):
        fresh.install(file)
    assert list((fresh.home / "versions").iterdir()) == []
    assert not list(tmp_path.rglob("outside"))


def test_no_file_is_written_through_a_link(fresh, file):
    file = changed(file, "version/lib/link/outside", "text")
    with pytest.raises(OSError, match="File exists"):  # the link comes after the file
        fresh.install(file)
    assert list((fresh.home / "versions").iterdir()) == []


def test_any_damage_is_one_sentence(fresh, file, tmp_path):
    whole, generator = file.read_bytes(), Random(15)
    for number in range(30):
        content = bytearray(whole)
        for _ in range(10):
            content[generator.randrange(len(content))] = generator.randrange(256)
        file.write_bytes(content if number % 3 else content[: generator.randrange(len(content))])
        with suppress(InstallError, OSError):
            source = source_at(file)
            refuse_other_machines(source.version_file(), HERE, file)
            source.profile("minimal")
            unpack_bundle(file, tmp_path / "versions/1.2.0", HERE, fresh.run)


def test_a_bundle_whose_own_code_is_damaged_is_one_sentence(file, tmp_path):
    file = changed(file, "version/lib/growd_machine/installation/__main__.py", "$$$")
    command = [sys.executable, "-IS", file, "--root", tmp_path / "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"growd: {file} is damaged: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_differs_between_pythons_names_its_package(tmp_path):
    for python in ("3.11", "3.13"):
        (tmp_path / python / "yarl").mkdir(parents=True)
        (tmp_path / python / "yarl/_url.py").write_text(python)
        (tmp_path / python / "yarl-1.0.dist-info").mkdir()
        (tmp_path / python / "yarl-1.0.dist-info/WHEEL").write_text(python)
        (tmp_path / python / f"yarl/quoting.cpython-{python}.so").write_text(python)
    merge(tmp_path / "3.11", tmp_path / "lib")
    with pytest.raises(InstallError, match="the package yarl has another _url"):
        merge(tmp_path / "3.13", tmp_path / "lib")


# --- The machine


def system(root, python, header):
    """A file system with a Python, of which only the ELF header is there."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin" / python).write_bytes(header)
    (root / "usr/bin/python3").symlink_to(python)
    return root


def elf(bits, machine):
    return b"\x7fELF" + bytes([bits // 32]) + bytes(13) + machine.to_bytes(2, "little")


@pytest.mark.parametrize(("machine", "name"), [(62, "x86_64"), (183, "aarch64")])
def test_the_target_is_that_of_the_file_system(tmp_path, machine, name):
    root = system(tmp_path, "python3.13", elf(64, machine))
    assert target_of(root) == Target(name, "3.13", "/usr/bin/python3")


@pytest.mark.parametrize(
    ("python", "header", "words"),
    [
        ("python3.11", elf(32, 40), "growd needs a 64-bit system"),
        ("python3.9", elf(64, 183), r"has Python 3\.9; growd needs 3\.11 or newer"),
    ],
)
def test_an_unusable_system_is_one_sentence(tmp_path, python, header, words):
    with pytest.raises(InstallError, match=words):
        target_of(system(tmp_path, python, header))


def test_the_launcher_refuses_another_python(fresh, tmp_path):
    tree = VersionTree(source_at(wheel(tmp_path, "1.2.0")), HERE.machine, ("3.99",))
    tree.build(tmp_path / "v", fresh.run, with_byte_code=False)
    command = [sys.executable, "-I", tmp_path / "v/bin/growd"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"growd 1.2.0 in {tmp_path}/v is for Python 3.99, and ")
    assert done.stderr.endswith(": install growd again\n")


# --- The real thing


@pytest.mark.timeout(300)
@pytest.mark.nightly
@pytest.mark.usefixtures("index")
def test_a_real_bundle_installs_and_starts(fresh, tmp_path):
    other = "3.13" if HERE.python != "3.13" else "3.12"
    tree = VersionTree(
        source_at(CHECKOUT), HERE.machine, (HERE.python, other), with_database=False, with_node=False
    )
    tree.build(tmp_path / tree.name, run_program, with_byte_code=False)
    write_bundle(tmp_path / tree.name, file := tmp_path / f"growd-{__version__}.pyz")
    done = subprocess.run(
        [sys.executable, file, "--root", fresh.root, "--profile", "sim"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith(f"Installed growd {__version__}; ")
    program = [sys.executable, "-I", (fresh.home / "current/bin/growd").resolve()]
    check = [*program, "check", "--config", fresh.root / "etc/growd/growd.toml"]
    checked = subprocess.run(check, capture_output=True, text=True, check=False)
    assert "The configuration is valid" in checked.stdout
    known = json.loads((fresh.home / "current/version.json").read_text())
    assert known["pythons"] == [HERE.python, other]
    compiled = {path.name.split(".")[-2] for path in (fresh.home / "current/lib").rglob("*.cpython-3*.so")}
    assert compiled == {
        f"cpython-{python.replace('.', '')}-{HERE.machine}-linux-gnu" for python in known["pythons"]
    }
    assert install_steps(fresh.machine, source_at(file), HERE, InstallChoices(root=fresh.root))[0].is_done()
