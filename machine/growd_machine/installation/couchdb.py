"""The steps that install an Apache CouchDB for growd, and remove it.

It runs in a container of podman, or it is Apache's package in /opt/couchdb where that is installed. Needs the
standard library alone.
"""

from __future__ import annotations

import configparser
import hashlib
import io
import os
import re
import secrets
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from growd.runtime.files import read_text
from growd_machine.installation.machine import CONFIGURATION, InstallError
from growd_machine.installation.steps import (
    Step,
    command_step,
    digest_of,
    file_step,
    link_step,
    removal_step,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from growd_machine.installation.machine import Machine
    from growd_machine.installation.sources import InstallSource

HOME: Final = Path("var/lib/growd-couchdb")
"""Data and settings of the container, and the administrator's login."""

ADMIN_LOGIN: Final = HOME / "admin"
GROWD_LOGIN: Final = CONFIGURATION / "credentials/couchdb"
URL: Final = "http://127.0.0.1:5985"
_PODMAN_PROGRAM: Final = Path("usr/bin/podman")
_PACKAGE: Final = Path("opt/couchdb")
_UNITS: Final = Path("etc/systemd/system")
_CONTAINER_UNIT: Final = "growd-couchdb.service"
_PACKAGE_UNIT: Final = "couchdb.service"
_DROP_IN: Final = _UNITS / "couchdb.service.d/growd.conf"
_UNIT: Final = _UNITS / _CONTAINER_UNIT
_WANTED: Final = _UNITS / "multi-user.target.wants" / _CONTAINER_UNIT
_SETTINGS: Final = "10-growd.ini"
_ACCOUNTS: Final = "20-growd-accounts.ini"
_CHANGES: Final = "docker.ini"
"""The image's entry point touches this file, and CouchDB writes settings into it that a client changes."""

_CHECK: Final = (
    *("db", "check", "--wait", "--set", f"couchdb.url={URL}"),
    *("--set", f"couchdb.credentials_file=/{GROWD_LOGIN}"),
)
_IMAGE_USER: Final = (5984, 5984)
_ITERATIONS: Final = 10  # the passwords are random; a slow hash protects those that can be guessed
_SHIPPED: Final = re.compile(
    r'^#(?=\[couchdb\]$|url = "http://127\.0\.0\.1:5985"|credentials_file = "couchdb")', re.MULTILINE
)


@dataclass(frozen=True)
class CouchdbPlace:
    """Where CouchDB reads its settings; `owner` are the numbers of its user and group."""

    settings: Path
    owner: tuple[int, int]
    unit: str

    @property
    def is_container(self) -> bool:
        return self.unit == _CONTAINER_UNIT


def couchdb_is_installed(machine: Machine) -> bool:
    """Whether growd has installed a CouchDB, or its settings for one."""
    return machine.at(_UNIT).exists() or machine.at(_DROP_IN).exists()


def couchdb_steps(
    machine: Machine, source: InstallSource, shipped: Collection[str], program: Path
) -> list[Step]:
    """The steps in order. Raises `InstallError` if CouchDB can't run here.

    growd.toml exists before them, and is changed if its digest is in `shipped`. `program` is the growd that
    checks the database.
    """
    place = _place(machine)
    text = source.read("growd/_couchdb/local.d/growd.ini").decode()
    steps = [
        _login(machine, ADMIN_LOGIN, "admin"),
        _login(machine, GROWD_LOGIN, "growd"),
        file_step(machine, place.settings / _SETTINGS, text, "write the settings of CouchDB to"),
        _accounts(machine, place),
        *(_container(machine, source) if place.is_container else _package(machine, source)),
    ]
    if machine.is_live:
        verb = "start" if all(step.is_done() for step in steps) else "restart"
        steps += [
            command_step(machine, "reload systemd's units", "systemctl", "daemon-reload"),
            *([_image(machine, source)] if place.is_container else []),
            command_step(machine, "start CouchDB", "systemctl", verb, place.unit),
            command_step(machine, "wait for CouchDB and check it", str(program), *_CHECK),
        ]
    return [*steps, _configuration(machine, shipped)]


def couchdb_removal_steps(machine: Machine, *, purge: bool) -> list[Step]:
    """The steps in order. Data and accounts stay unless `purge`; Apache's package always stays."""
    is_container, steps = machine.at(_UNIT).exists(), []
    if is_container and machine.is_live:
        steps.append(command_step(machine, "stop CouchDB", "systemctl", "stop", _CONTAINER_UNIT))
    if couchdb_is_installed(machine):
        steps += [removal_step(machine.at(file)) for file in (_WANTED, _UNIT, _DROP_IN)]
        if machine.is_live:
            steps.append(command_step(machine, "reload systemd's units", "systemctl", "daemon-reload"))
    if purge and machine.at(HOME).exists():
        steps.append(removal_step(machine.at(HOME)))
    return steps


def with_couchdb(text: str) -> str:
    """A shipped configuration that uses the installed CouchDB; without such lines in it they are added."""
    changed = _SHIPPED.sub("", text)
    return changed if changed != text else f'{text}\n[couchdb]\nurl = "{URL}"\ncredentials_file = "couchdb"\n'


def _place(machine: Machine) -> CouchdbPlace:
    """A container that is installed stays, since its data do."""
    settings = _PACKAGE / "etc/local.d"
    if machine.at(_PACKAGE / "bin/couchdb").exists() and not machine.at(_UNIT).exists():
        found = machine.at(settings).stat()
        return CouchdbPlace(settings, (found.st_uid, found.st_gid), _PACKAGE_UNIT)
    if machine.at(_PODMAN_PROGRAM).exists():
        return CouchdbPlace(HOME / "local.d", _IMAGE_USER, _CONTAINER_UNIT)
    if not machine.is_live:
        raise InstallError(
            f"CouchDB needs podman, and the system in {machine.root} does not have it: install the packages "
            "podman and crun there first"
        )
    raise InstallError(
        "CouchDB needs podman, which is not installed: sudo apt install --no-install-recommends podman crun; "
        "docs/couchdb.md says how to bring the packages without a network"
    )


def _login(machine: Machine, place: Path, user: str) -> Step:
    """Two lines, user and a new password, readable for root only."""
    path = machine.at(place)
    return Step(
        f"write a login for {user} to {path}",
        lambda: _write_private(path, f"{user}\n{secrets.token_urlsafe(32)}\n"),
        path.exists,
    )


def _accounts(machine: Machine, place: CouchdbPlace) -> Step:
    """The accounts of CouchDB, from the files with the logins. Other settings in the file stay."""
    path = machine.at(place.settings / _ACCOUNTS)
    logins = [machine.at(login) for login in (ADMIN_LOGIN, GROWD_LOGIN)]

    def is_done() -> bool:
        ini = _ini(path)
        return all(login.exists() and _knows(ini, *_read_login(login)) for login in logins)

    def do() -> None:
        ini = _ini(path)
        for section in ("admins", "couchdb", "chttpd_auth"):
            if not ini.has_section(section):
                ini.add_section(section)
        for login in logins:
            user, password = _read_login(login)
            ini["admins"][user] = _hashed(password, secrets.token_hex(16))
        if place.is_container:
            # CouchDB would draw new ones: a replication begins again with another uuid, and sessions end with
            # another secret.
            ini["couchdb"].setdefault("uuid", secrets.token_hex(16))
            ini["chttpd_auth"].setdefault("secret", secrets.token_hex(32))
        text = io.StringIO()
        ini.write(text)
        _write_private(path, text.getvalue(), place.owner)

    return Step(f"write the accounts of CouchDB to {path}", do, is_done)


def _container(machine: Machine, source: InstallSource) -> list[Step]:
    data, changes = machine.folder_at(HOME / "data"), machine.at(HOME / "local.d" / _CHANGES)

    def make_data() -> None:
        data.mkdir(parents=True, exist_ok=True)
        data.chmod(0o750)
        _give(data, _IMAGE_USER)

    return [
        Step(f"create the data folder {data}", make_data, data.is_dir),
        Step(
            f"create {changes}, for settings that CouchDB changes",
            lambda: _write_private(changes, "", _IMAGE_USER),
            changes.exists,
        ),
        file_step(machine, _UNIT, source.unit(_CONTAINER_UNIT)),
        link_step(machine, _WANTED, f"../{_CONTAINER_UNIT}"),
    ]


def _package(machine: Machine, source: InstallSource) -> list[Step]:
    return [file_step(machine, _DROP_IN, source.unit("growd-couchdb.conf"))]


def _image(machine: Machine, source: InstallSource) -> Step:
    found = re.search(r"^Environment=IMAGE=(\S+)$", source.unit(_CONTAINER_UNIT), re.MULTILINE)
    image = found[1] if found else ""

    def is_here() -> bool:
        try:
            machine.run(["podman", "image", "exists", image])
        except InstallError:
            return False
        return True

    def fetch() -> None:
        try:
            machine.run(["podman", "pull", "--quiet", image])
        except InstallError as error:
            raise InstallError(
                f"{error}. Without a network, bring the image as a file and load it: sudo podman load -i FILE"
            ) from None

    return Step(f"fetch the image {image} (about 100 MB)", fetch, is_here)


def _configuration(machine: Machine, shipped: Collection[str]) -> Step:
    """Let growd use CouchDB, unless it uses one. For an edited growd.toml the step names the lines to add."""
    file = machine.at(CONFIGURATION / "growd.toml")
    text = read_text(file) if file.exists() else None
    if text is None or digest_of(text) in shipped:
        return Step(
            f"let growd use CouchDB in {file}",
            lambda: write(file, with_couchdb(read_text(file))),
        )
    if "url" in _couchdb_section(text):
        return Step(f"keep [couchdb] of {file}", lambda: None, lambda: True)
    lines = with_couchdb("").strip().replace("\n", "\n    ")
    return Step(
        f"keep {file}, which was edited. To use CouchDB add these lines, then sudo systemctl restart growd:\n"
        f"    {lines}",
        lambda: None,
    )


def _couchdb_section(text: str) -> Mapping[str, Any]:
    try:
        section = tomllib.loads(text).get("couchdb", {})
    except ValueError:
        return {}  # growd reports it
    return section if isinstance(section, dict) else {}


def _read_login(path: Path) -> tuple[str, str]:
    try:
        user, password = read_text(path).splitlines()[:2]
    except ValueError:
        raise InstallError(f"{path} must have two lines: user, password") from None
    return user, password


def _write_private(path: Path, content: str, owner: tuple[int, int] = (0, 0)) -> None:
    """Write a file that only its owner can read, from its first byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
    umask = os.umask(0o077)
    try:
        write(path, content)
    finally:
        os.umask(umask)
    _give(path, owner)


def _give(path: Path, owner: tuple[int, int]) -> None:
    if os.geteuid() == 0:  # without root, as in an image that is made by a user, its maker sets the owners
        os.chown(path, *owner)


def _ini(path: Path) -> configparser.ConfigParser:
    ini = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    ini.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    if path.exists():
        try:
            ini.read_string(path.read_text(encoding="utf-8"))
        except (configparser.Error, ValueError) as error:
            raise InstallError(f"{path} is damaged: {str(error).splitlines()[0]}") from None
    return ini


def _knows(ini: configparser.ConfigParser, user: str, password: str) -> bool:
    stored = ini.get("admins", user, fallback="")
    return stored == _hashed(password, stored.split(",")[1] if stored.count(",") == 2 else "")  # noqa: PLR2004


def _hashed(password: str, salt: str) -> str:
    """As in couch_passwords:hash_admin_password of CouchDB 3.5."""
    derived = hashlib.pbkdf2_hmac("sha256", password.encode(), salt.encode(), _ITERATIONS).hex()
    return f"-pbkdf2:sha256-{derived},{salt},{_ITERATIONS}"
