"""`growd cloud`: the cloud side of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from growd.config import ConfigError
from growd.config.secrets import read_secret, secret_path
from growd.store.errors import CouchRefusedError, CouchUnavailableError
from growd_cli.client import NOT_REACHED
from growd_cli.lazy_group import Command, LazyGroup
from growd_cli.options import plain_errors, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.store.errors import CouchError
    from growd_cloud.serving import CloudServer

_EMBEDDED: Final = "the embedded server has no "
SUBCOMMANDS: Final = {
    "export": Command("growd_cli.cloud_export:export", "Write the points of all devices as Parquet."),
    "receive": Command("growd_cli.cloud_server:receive", "Run the server that devices replicate into."),
}


@click.group(cls=LazyGroup, places=SUBCOMMANDS)
def cloud() -> None:
    """Set up and run the cloud side: databases of many devices in a CouchDB."""


def _checked_prefix(_: click.Context, __: click.Parameter, text: str) -> str:
    from growd_cloud.months import is_prefix  # noqa: PLC0415  only for these commands

    if not is_prefix(text):
        raise click.BadParameter("must be small letters, digits and _, a letter first", param_hint="--prefix")
    return text


prefix_option: Final = click.option(
    "--prefix",
    default="",
    metavar="TEXT",
    envvar="GROWD_CLOUD_PREFIX",
    show_envvar=True,
    callback=_checked_prefix,
    help="The names of all databases begin with it.",
)


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a CouchDB; `server_of` reads them."""
    for option in (
        prefix_option,
        click.option(
            "--credentials",
            type=click.Path(path_type=Path, dir_okay=False),
            required=True,
            metavar="FILE",
            help="Two lines, user and password of a CouchDB administrator (export: or reader); mode 600.",
        ),
        click.option("--couchdb", required=True, metavar="URL", help="Address of CouchDB, without a login."),
    ):
        command = option(command)
    return command


def server_of(couchdb: str, credentials: Path, prefix: str) -> CloudServer:
    """The CouchDB that the options name. Blocking. Refuses wrong options."""
    from growd_cloud.months import CloudNames  # noqa: PLC0415  only for these commands
    from growd_cloud.serving import CloudServer  # noqa: PLC0415  likewise

    if not couchdb.startswith(("http://", "https://")) or "@" in couchdb:
        raise click.BadParameter("must be http://host:port, without a login", param_hint="--couchdb")
    return CloudServer(couchdb.rstrip("/"), _login(credentials), CloudNames(prefix))


def refuse_couch_error(url: str, error: CouchError, remedy: str = "") -> NoReturn:
    """End the command: the CouchDB at `url` did not answer, or refused."""
    refuse_receiver(url, error)
    if isinstance(error, CouchUnavailableError):
        if error.status is None and url.startswith("https:"):
            plain = url.replace("https:", "http:", 1)
            remedy = f"if it answers without TLS, its address is {plain}{remedy and f'; {remedy}'}"
        refuse(f"{url}: {error}{remedy and f'; {remedy}'}", NOT_REACHED)
    refuse(f"{url}: {error}{remedy and f'; {remedy}'}")


def refuse_receiver(url: str, error: CouchError) -> None:
    """End the command if a receiver has answered where a CouchDB should."""
    from growd_cloud.months import NO_DATABASE, NOT_OF_A_DEVICE  # noqa: PLC0415  only for these commands

    if isinstance(error, CouchRefusedError) and error.reason.endswith((NO_DATABASE, NOT_OF_A_DEVICE)):
        refuse(f"{url} is the address of a receiver; --couchdb is the address of its CouchDB")
    if isinstance(error, CouchRefusedError) and error.reason.startswith(_EMBEDDED):
        refuse(f"{url} is an embedded database, which has no users; a cloud needs an Apache CouchDB")


def _login(file: Path) -> tuple[str, str]:
    where = f"--credentials: {file}"
    with plain_errors():
        try:
            lines = read_secret(where, secret_path(str(file))).decode().splitlines()
        except (ConfigError, UnicodeDecodeError) as error:
            refuse(error)
        if len(lines) < 2 or ":" in lines[0]:  # noqa: PLR2004  user and password
            refuse(f"{where} must have two lines: user, password")
        return lines[0], lines[1]
