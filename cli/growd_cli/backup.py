"""`growd backup`: everything that a chamber needs in one file, and the check of such a file."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from growd.bus.errors import counted
from growd.config import ConfigError
from growd.config.profiles import PROFILES, profile_path
from growd.host.data_folder import StartError
from growd.runtime.event_loop import run_on_loop
from growd.runtime.files import read_text
from growd.store.errors import CouchUnavailableError, StoreError
from growd_analysis.points.part_file import PartFile
from growd_cli.chamber import ChamberPlace
from growd_cli.client import NOT_REACHED
from growd_cli.options import client_options, data_option, first_line, refuse, replace_part_option
from growd_cli.terminal import echo_text, progress
from growd_machine.backup.archive import ATTACHMENTS, BackupError, Manifest, reading
from growd_machine.backup.copies import named_files, without_secrets
from growd_machine.backup.files import SECRETS, TOML, CopiedConfiguration
from growd_machine.backup.making import DATABASES, ORDER, Backup
from growd_machine.backup.sealing import opened
from growd_machine.backup.state import device_of, left_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_cli.options import DaemonOptions

passphrase_option: Final = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read the passphrase of the secrets from the first line of FILE.  [env var: GROWD_PASSPHRASE]",
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--secrets", is_flag=True, help="Also copy passwords and keys, encrypted with a passphrase.")
@passphrase_option
@click.option("--verify", is_flag=True, help="Check FILE, and change nothing.")
@replace_part_option
@data_option
@client_options
@click.pass_context
def backup(
    context: click.Context,
    *,
    file: Path,
    secrets: bool,
    passphrase_file: Path | None,
    verify: bool,
    replace: bool,
    data: Path,
    daemon: DaemonOptions,
) -> None:
    """Copy everything a chamber needs into FILE: databases, data folder and configuration.

    growd may run meanwhile. Whatever it had acknowledged when the command was typed is in FILE. Without
    --secrets the files with passwords and keys are left out, and so are logins in addresses. If the backup is
    interrupted, run the same command again: it continues FILE.part.

    Without --data and without a folder data here, the installed growd is meant (use sudo).

    Exit status: 0 if FILE is complete and was read back; 1 if it can't be written or is damaged, or if
    something refuses; 2 for a usage error; 3 if the database does not answer (run the command again).
    """
    try:
        if verify:
            _verify(file, passphrase_file)
            return
        chamber = ChamberPlace.chosen(context, data, daemon)
        _check_folder(chamber.data)
        phrase = passphrase(passphrase_file, confirm=True) if secrets else None
        _back_up(chamber, file, phrase, replace=replace)
        _verify(file, None)
    except CouchUnavailableError as error:
        refuse(f"{error}; the same command continues here", NOT_REACHED)
    except (ConfigError, StoreError, StartError) as error:
        refuse(error)


def passphrase(file: Path | None, *, confirm: bool = False) -> str:
    """From a file, else from GROWD_PASSPHRASE, else from a prompt. Raises `BackupError` and `UsageError`."""
    phrase = os.environ.get("GROWD_PASSPHRASE")
    if file is not None:
        phrase = first_line(file, "--passphrase-file")
    if phrase is None:
        if not sys.stdin.isatty():
            raise BackupError("no passphrase: use --passphrase-file FILE or GROWD_PASSPHRASE")
        phrase = click.prompt(
            "Passphrase of the secrets", hide_input=True, confirmation_prompt=confirm, err=True
        )
    if not phrase:
        raise BackupError("the passphrase is empty")
    return str(phrase)


def checked(file: Path) -> Manifest:
    """The manifest of a file that was read whole, with a progress bar. Raises `BackupError`."""
    with reading(file) as archive, progress("checking", file.stat().st_size) as report:
        return archive.checked(report)


def _back_up(chamber: ChamberPlace, path: Path, phrase: str | None, *, replace: bool) -> None:
    configuration = _copied(chamber)
    configuration.check(with_secrets=phrase is not None)
    query = {
        "--data": str(chamber.data.absolute()),
        "device": device_of(chamber.data),
        "databases": ", ".join(chamber.names.names_by_folder().values()),
    }
    with PartFile(path, query, replace=replace, is_private=True) as file:
        if file.mark.rows:
            echo_text(
                f"growd: resuming behind {counted(file.mark.rows, 'document')} in {file.part}", err=True
            )
        try:
            with progress("documents", 1) as report:
                run_on_loop(_run(chamber, file, configuration, phrase, report))
        except BaseException:
            file.save()
            raise
    for name in left_out(chamber.data):
        echo_text(f"growd: left out the damaged file {chamber.data / name}", err=True)


async def _run(
    chamber: ChamberPlace,
    file: PartFile,
    configuration: CopiedConfiguration,
    phrase: str | None,
    report: Callable[..., None],
) -> None:
    async with chamber.couch() as couch:
        name = chamber.config.http.name
        made = Backup(file, couch, chamber.names, chamber.data, design=name, report=report)
        await made.run(lambda: configuration.members(phrase))
    for name in made.missing:
        echo_text(f"growd: there is no database {name}", err=True)


def _copied(chamber: ChamberPlace) -> CopiedConfiguration:
    """The configuration, without one that ships. Raises `ConfigError`."""
    config = chamber.daemon.config
    own = None if config in {profile_path(name) for name in PROFILES} else config
    text, removed = without_secrets(read_text(own)) if own is not None else ("", [])
    named = named_files(chamber.config)
    return CopiedConfiguration(
        None if own is None else own.absolute(),
        text,
        removed,
        [(each.option, each.path) for each in named if not each.is_secret],
        [(each.option, each.path) for each in named if each.is_secret],
    )


def _verify(file: Path, passphrase_file: Path | None) -> None:
    """Read the whole file, and print what it has."""
    manifest = checked(file)
    names = {member.name for member in manifest.members}
    if passphrase_file is not None and SECRETS in names:
        with reading(file) as archive:
            opened(archive.read(SECRETS), passphrase(passphrase_file))
    began = datetime.fromtimestamp(manifest.began, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    echo_text(f"{file}: a complete backup of the device {manifest.device}, begun {began} UTC")
    for folder in ORDER:
        number = manifest.documents(f"{DATABASES}/{folder}")
        if number:
            echo_text(f"  {counted(number, 'document')} of {folder}")
    echo_text("  (a document that came or changed while the backup was made may count twice)")
    photos = sum(name.startswith(ATTACHMENTS) for name in names)
    if photos:
        echo_text(f"  {counted(photos, 'attachment')}")
    with_secrets = "with its secrets, encrypted" if SECRETS in names else "without its secrets"
    configuration = " and the configuration" if TOML in names else ""
    echo_text(f"  the data folder{configuration}, {with_secrets}")


def _check_folder(data: Path) -> None:
    """Raises `BackupError` if this is no data folder of growd."""
    try:
        found = (data / "growd.sqlite3").exists()
    except OSError as error:
        raise BackupError(f"the data folder {data} can't be read: {error.strerror}; use sudo") from None
    if not found:
        raise BackupError(f"{data} is not a data folder of growd: name it with --data")
