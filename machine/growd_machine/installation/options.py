"""The options of `growd install` and `growd uninstall`, for click and for a machine that has no click yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

PROFILE: Final = "food-computer"


class InstallOption(NamedTuple):
    """An option: its name, the name of its value, or None for a flag, and what it does."""

    name: str
    flag: str
    metavar: str | None
    help: str
    is_hidden: bool = False
    """For growd itself."""
    is_repeatable: bool = False


PLACE_OPTIONS: Final = (
    InstallOption(
        "root", "--root", "FOLDER", "Use the file system at FOLDER, for example a mounted card.  [default: /]"
    ),
    InstallOption("dry_run", "--dry-run", None, "Print the steps without doing them."),
)
INSTALL_OPTIONS: Final = (
    InstallOption(
        "profile",
        "--profile",
        "NAME",
        f"The initial configuration.  [default: that of the last installation, else {PROFILE}]",
    ),
    InstallOption(
        "with_socket",
        "--socket",
        None,
        "Let systemd keep the address open during restarts (socket activation).",
    ),
    InstallOption(
        "with_watchdog",
        "--hardware-watchdog",
        None,
        "Let the Pi's hardware watchdog reset the machine if the kernel hangs (RuntimeWatchdogSec=).",
    ),
    InstallOption(
        "with_couchdb",
        "--couchdb",
        None,
        "Use Apache CouchDB as the database: Apache's package if it is installed, else a container.",
    ),
    InstallOption(
        "with_packages",
        "--with",
        "PACKAGE==VERSION",
        "Install a package with drivers, or a wheel file of one. It stays over upgrades.",
        is_repeatable=True,
    ),
    InstallOption(
        "without_packages", "--without", "PACKAGE", "Remove a package with drivers.", is_repeatable=True
    ),
    InstallOption(
        "allow_downgrade", "--allow-downgrade", None, "Allow a version older than the installed one."
    ),
    InstallOption(
        "only",
        "--only",
        "PART",
        "Do one part, as an upgrade does: version (make the version folder beside the current one), service "
        "(place the files of the service) or configuration (offer a new default).",
        is_hidden=True,
    ),
    *PLACE_OPTIONS,
)
PARTS: Final = ("version", "service", "configuration")


@dataclass(frozen=True)
class InstallChoices:
    """The values of `INSTALL_OPTIONS`."""

    profile: str | None = None
    with_socket: bool = False
    with_watchdog: bool = False
    with_couchdb: bool = False
    with_packages: Sequence[str] = ()
    without_packages: Sequence[str] = ()
    allow_downgrade: bool = False
    only: str | None = None
    root: Path = Path("/")
    dry_run: bool = False

    @property
    def changes_drivers(self) -> bool:
        """Whether packages with drivers come or go."""
        return bool(self.with_packages or self.without_packages)

    def arguments(self) -> list[str]:
        """The words of the command line that mean the same."""
        words = []
        for option in INSTALL_OPTIONS:
            value = getattr(self, option.name)
            if option.metavar is None:
                words += [option.flag] * value
            elif option.is_repeatable:
                words += [word for each in value for word in (option.flag, each)]
            elif value is not None:
                words += [option.flag, str(value)]
        return words
