"""`growd restore`: a backup into an empty data folder and empty databases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from growd.bus.errors import counted
from growd.config import ConfigError
from growd.host.data_folder import StartError, running_in
from growd.runtime.event_loop import run_on_loop
from growd.store.errors import CouchUnavailableError, StoreError
from growd_cli.backup import checked, passphrase, passphrase_option
from growd_cli.chamber import ChamberPlace
from growd_cli.client import NOT_REACHED
from growd_cli.options import DaemonOptions, config_option, data_option, plain_errors, refuse, set_option
from growd_cli.setup_pi import INSTALLED
from growd_cli.terminal import echo_text, progress
from growd_machine.backup.archive import BackupError, Manifest, reading
from growd_machine.backup.files import SECRETS, RestoredFiles
from growd_machine.backup.making import DATABASES, ORDER
from growd_machine.backup.restoring import Restoration
from growd_machine.backup.unpacking import DataFolder

if TYPE_CHECKING:
    from growd_machine.backup.archive import ArchiveReader


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@passphrase_option
@click.option("--without-secrets", is_flag=True, help="Leave out the encrypted passwords and keys.")
@click.option(
    "--replace-configuration",
    is_flag=True,
    help="Replace a configuration, and the files that it names, which differ from those of the backup.",
)
@click.option(
    "--other-files",
    type=click.Choice(["write", "leave"]),
    help="Write, or leave out, the files outside /etc/growd that the configuration names.",
)
@data_option
@config_option
@set_option
def restore(
    *,
    file: Path,
    passphrase_file: Path | None,
    without_secrets: bool,
    replace_configuration: bool,
    other_files: str | None,
    data: Path,
    config: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Restore the backup FILE on a new machine, or after the data were moved away.

    growd must not run. The data folder must be empty, and so must the databases. The configuration goes where
    it was in /etc/growd, or to --config. A file that exists stays, unless --replace-configuration is given.
    Files outside /etc/growd are named first (--other-files). At the end each document is compared with FILE.
    If the restore is interrupted, run the same command again.

    Exit status: 0 if all is restored and was compared; 1 if FILE is damaged, or something refuses; 2 for a
    usage error; 3 if the database does not answer (run the command again).
    """
    with plain_errors():
        try:
            manifest = checked(file)
            with reading(file) as archive:
                folder = DataFolder(data, archive)
                _check_folder(folder)
                phrase = _phrase(archive, passphrase_file, without_secrets=without_secrets)
                files = RestoredFiles(archive, config, phrase, home=(Path("/") / INSTALLED).parent)
                _check_others(files, other_files)
                files.write(replace=replace_configuration, others=other_files == "write")
                chamber = ChamberPlace(data, DaemonOptions(files.path, settings))
                folder.stage()
                number, refused = run_on_loop(_restore(chamber, folder, archive, manifest))
                folder.finish()
        except CouchUnavailableError as error:
            refuse(f"{error}; the same command continues here", NOT_REACHED)
        except (ConfigError, StoreError, StartError) as error:
            refuse(error)
        _report(manifest, number, folder, files, refused, others=other_files == "write")


def _check_folder(folder: DataFolder) -> None:
    owner = running_in(folder.path)
    if owner is not None:
        raise BackupError(
            f"growd is running in the data folder {folder.path} (process {owner}): stop it "
            "(systemctl stop growd, or Ctrl-C)"
        )
    folder.check()


def _check_others(files: RestoredFiles, choice: str | None) -> None:
    """A backup that somebody else made could write any file of the machine."""
    if files.others and choice is None:
        named = ", ".join(f"{path} ({option})" for option, path in files.others)
        raise BackupError(
            f"the backup would write files outside /etc/growd: {named}; add --other-files write if you trust "
            "it, or --other-files leave"
        )


def _phrase(archive: ArchiveReader, file: Path | None, *, without_secrets: bool) -> str | None:
    if without_secrets or SECRETS not in archive.names():
        return None
    return passphrase(file)


async def _restore(
    chamber: ChamberPlace, folder: DataFolder, archive: ArchiveReader, manifest: Manifest
) -> tuple[int, list[str]]:
    """Write and compare all documents; their number, and the databases that refused their `_security`."""
    number = sum(manifest.documents(f"{DATABASES}/{name}") for name in ORDER)
    async with chamber.own_database(to_restore=True) as couch:
        with progress("documents", 2 * number) as report:
            restoration = Restoration(
                archive, couch, chamber.names, design=chamber.config.http.name, report=report
            )
            if not folder.is_resumed:
                await restoration.check_empty()
            await restoration.prepare()
            await restoration.write(folder.written, folder.note_written)
            found = await restoration.compare()
            return found, await restoration.restore_security()


def _report(
    manifest: Manifest,
    number: int,
    folder: DataFolder,
    files: RestoredFiles,
    refused: list[str],
    *,
    others: bool,
) -> None:
    echo_text(f"restored and compared {counted(number, 'document')}; the data folder is {folder.path}")
    for path in files.written:
        echo_text(f"wrote {path}")
    for path in files.kept:
        echo_text(f"kept {path}, which differs from the backup: --replace-configuration replaces it")
    for option in files.record.removed if files.path is not None else []:
        echo_text(f"{option} has lost its secret: complete it in {files.path}")
    for missing in files.missing:
        echo_text(f"{missing.option}: write the file {missing.path}, which the backup does not have")
    for left, path in [] if others else files.others:
        echo_text(f"{left}: left out the file {path}")
    for name in refused:
        echo_text(f"_security of {name} could not be written: set it as the administrator of the CouchDB")
    echo_text(
        f"This is the device {manifest.device} now. Never start growd with the old data folder "
        "again: two devices with one id look like one to other servers."
    )
