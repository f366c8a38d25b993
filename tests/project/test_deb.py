"""The Debian package of tools/deb: its content, and its life on Debian 12 and 13."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.package_index import index_error

pytestmark = [pytest.mark.install, pytest.mark.nightly, pytest.mark.timeout(900)]

INSTALLED = "Status: install ok installed"
REMOVED = "Status: deinstall ok config-files"
NAMESPACES = [
    "unshare",
    "--mount",
    "--propagation=private",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
FIRST_READING = """
set -e
cd /tmp
setpriv --reuid growd --regid growd --init-groups \
    growd run --profile sim --port 5984 --data /var/lib/growd >log 2>&1 &
for _ in $(seq 120); do growd status >status 2>&1 && break || sleep 1; done
cat status
kill -INT $!
wait $!
tail -n 1 log
"""


def build(folder):
    """Build the package of this machine's type into a folder, as any machine would."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools/deb", "amd64", "--output", folder],
        env={**os.environ, "PATH": f"/usr/bin:/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    if reason := index_error():
        pytest.skip(reason)
    return build(tmp_path_factory.mktemp("package"))


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_two_builds_give_the_same_bytes(package, tmp_path):
    assert build(tmp_path).read_bytes() == package.read_bytes()


def test_the_package_has_the_files_of_the_system_in_their_places(package, tmp_path):
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    for place in (
        "usr/lib/growd/version.json",
        "usr/lib/systemd/system/growd.socket",
        "usr/lib/sysusers.d/growd.conf",
        "usr/lib/tmpfiles.d/growd.conf",
        "usr/lib/udev/rules.d/60-growd.rules",
        "usr/share/doc/growd/copyright",
        "usr/share/doc/growd/changelog.gz",
    ):
        assert (tmp_path / place).is_file(), place
    unit = (tmp_path / "usr/lib/systemd/system/growd.service").read_text(encoding="utf-8")
    own = (ROOT / "systemd/growd.service").read_text(encoding="utf-8")
    assert unit == re.sub(r"/opt/growd/(current/)?bin/growd", "/usr/bin/growd", own)
    assert "ExecStart=/usr/bin/growd run" in unit
    assert not (tmp_path / "etc").exists()  # dpkg asks about configuration files
    assert list(tmp_path.rglob("__pycache__")) == []
    assert output(tmp_path / "usr/bin/growd", "--version").startswith("growd, version ")


def test_lintian_finds_nothing(package):
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    done = subprocess.run(["lintian", "--allow-root", package], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


class Chroot:
    """A Debian without a running systemd."""

    def __init__(self, system, root, package):
        self.root = root
        root.mkdir()
        subprocess.run(["tar", "--extract", "--file", system, "--directory", root], check=True)
        shutil.copy(package, root / "growd.deb")

    def run(self, *command):
        """Run a command in namespaces of its own: no process outlives it."""
        mounts = 'mount -t proc proc "$0/proc" && ip link set lo up && exec chroot "$0" "$@"'
        return subprocess.run(
            [*NAMESPACES, "--net", "sh", "-c", mounts, self.root, *command],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            check=False,
        )

    def dpkg(self, *arguments):
        return self.run("dpkg", *arguments)

    def install(self):
        done = self.dpkg("--install", "/growd.deb")
        assert done.returncode == 0, done.stderr
        assert self.status() == INSTALLED

    def status(self):
        return re.search("Status:.*", self.dpkg("--status", "growd").stdout)[0]

    def set_version(self, old, new):
        """Let dpkg believe that another version is installed."""
        file = self.root / "var/lib/dpkg/status"
        before, entry = file.read_text(encoding="utf-8").split("Package: growd\n")
        entry = entry.replace(f"\nVersion: {old}\n", f"\nVersion: {new}\n", 1)
        file.write_text(f"{before}Package: growd\n{entry}", encoding="utf-8")


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def system(request, tmp_path_factory):
    """A fresh Debian as an archive."""
    if os.geteuid() or shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed, or this is not root")
    archive = tmp_path_factory.mktemp("system") / f"{request.param}.tar"
    # It mounts this machine's /dev/shm into what it makes; nothing but its own namespace may see that.
    command = [*NAMESPACES, "mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,systemd,udev"]
    subprocess.run([*command, request.param, archive], check=True, capture_output=True)
    return archive


@pytest.fixture
def chroot(system, package, tmp_path):
    chroot = Chroot(system, tmp_path / "root", package)
    yield chroot
    shutil.rmtree(chroot.root)


def test_the_life_of_the_package(chroot):
    version = output("dpkg-deb", "--field", chroot.root / "growd.deb", "Version").strip()
    configuration = chroot.root / "etc/growd/growd.toml"
    data = chroot.root / "var/lib/growd"
    chroot.install()
    shipped = ROOT / "daemon/growd/config/shipped/food-computer.toml"
    assert configuration.read_bytes() == shipped.read_bytes()
    assert (chroot.root / "etc/systemd/system/multi-user.target.wants/growd.service").is_symlink()
    assert data.stat().st_mode & 0o777 == 0o750
    assert list((chroot.root / "usr/lib/growd/lib/growd").glob("__pycache__/*.pyc"))

    first = chroot.run("sh", "-c", FIRST_READING)
    assert "database: embedded" in first.stdout, first.stdout + first.stderr
    assert first.stdout.splitlines()[-1] == "growd has stopped: outputs are safe, points are stored."

    with configuration.open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    chroot.set_version(version, "0.0.1")
    chroot.install()
    assert configuration.read_text(encoding="utf-8").endswith("# edited\n")

    # dpkg killed while it configures: as after a power cut
    status = chroot.root / "var/lib/dpkg/status"
    status.write_text(
        status.read_text(encoding="utf-8").replace(
            "Package: growd\nStatus: install ok installed",
            "Package: growd\nStatus: install ok half-configured",
        ),
        encoding="utf-8",
    )
    assert chroot.dpkg("--configure", "--pending").returncode == 0
    assert chroot.status() == INSTALLED

    assert chroot.dpkg("--remove", "growd").returncode == 0
    assert chroot.status() == REMOVED
    assert not (chroot.root / "usr/lib/growd").exists()
    assert (data / "growd.sqlite3").exists()
    chroot.install()
    assert configuration.read_text(encoding="utf-8").endswith("# edited\n")

    assert chroot.dpkg("--purge", "growd").returncode == 0
    assert [path for path in (configuration.parent, data) if path.exists()] == []
    assert not (chroot.root / "etc/systemd/system/multi-user.target.wants/growd.service").is_symlink()


@pytest.mark.parametrize("system", ["trixie"], indirect=True)
def test_the_configuration_of_growd_install_stays_without_a_question(chroot):
    configuration = chroot.root / "etc/growd/growd.toml"
    configuration.parent.mkdir()
    configuration.write_text("# mine\n", encoding="utf-8")
    chroot.install()
    assert configuration.read_text(encoding="utf-8") == "# mine\n"


@pytest.mark.parametrize("system", ["trixie"], indirect=True)
def test_dpkg_killed_while_it_unpacks_can_install_again(chroot):
    chroot.install()
    appeared = "[ -e /usr/lib/growd/bin/growd.dpkg-new ]"
    kill = f"dpkg --install /growd.deb & until {appeared}; do :; done; kill -9 $!"
    chroot.run("sh", "-c", kill)
    assert chroot.status() != INSTALLED
    chroot.dpkg("--configure", "--pending")
    chroot.install()


@pytest.mark.parametrize("system", ["trixie"], indirect=True)
def test_an_installation_of_growd_install_is_refused(chroot):
    (chroot.root / "opt/growd").mkdir(parents=True)
    (chroot.root / "opt/growd/installed.json").write_text("{}", encoding="utf-8")
    refused = chroot.dpkg("--install", "/growd.deb")
    assert refused.returncode == 1
    assert "Remove that first with: sudo growd uninstall" in refused.stderr
    assert not (chroot.root / "usr/lib/growd").exists()
