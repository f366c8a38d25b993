"""Options and words that several commands share."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar

import click
import msgspec

from growd.cli.client import (
    REFUSED,
    TIMEOUT_S,
    WRONG_USAGE,
    ClientError,
    DaemonClient,
    Login,
    UsageError,
    address_of,
    trusting,
    trusting_only,
)
from growd.config import ConfigError, load
from growd.config.profiles import PROFILES, profile_path
from growd.runtime.text import printable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from growd.cli.client import Address
    from growd.config import Config

P = ParamSpec("P")
T = TypeVar("T")

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C, as a shell reports a program that SIGINT ended."""
PIPE_CLOSED: Final = 141
"""That where nobody reads the output any more, as a shell reports a program that SIGPIPE ended."""


def _keep_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    context.meta["profile"] = name


def _file_or_profile(context: click.Context, _: click.Parameter, file: Path | None) -> Path | None:
    profile = context.meta.get("profile")
    if file is not None or profile is None:
        return file  # a wrong GROWD_PROFILE must not keep a start with --config from making outputs safe
    if profile not in PROFILES:
        raise click.BadParameter(f"there is no profile {profile!r}; there is {', '.join(PROFILES)}")
    return profile_path(profile)


_file_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    callback=_file_or_profile,
    metavar="FILE",
    help="Configuration file, in TOML.",
)
_profile_option = click.option(
    "--profile",
    metavar=f"[{'|'.join(PROFILES)}]",
    envvar="GROWD_PROFILE",
    is_eager=True,
    expose_value=False,
    callback=_keep_profile,
    help="A configuration that comes with growd, used without --config.",
)


def config_option(command: Callable[P, T]) -> Callable[P, T]:
    """The configuration: the parameter `config` is a file, that of a profile, or None."""
    return _file_option(_profile_option(command))


set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SECTION.OPTION=VALUE",
    help="Set one option of the configuration. Repeatable.",
)
data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data"),
    envvar="GROWD_DATA",
    show_default=True,
    help="Folder for everything growd keeps.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
faults_option = click.option("--faults", metavar="FILE", help="Faults of the simulated hardware, in TOML.")


def hardware_of(config: Config) -> str:
    """What hardware it is, in words."""
    return "simulated hardware" if config.simulator.enabled else "the hardware of this machine"


class DaemonOptions(msgspec.Struct, frozen=True):
    """What a command line says about which daemon it asks, and as whom; see `client_options`."""

    config: Path | None = None
    settings: tuple[str, ...] = ()
    url: str | None = None
    user: str | None = None
    password_file: Path | None = None
    ca: Path | None = None
    insecure: bool = False
    may_ask: bool = True  # a person for a password

    def configuration(self) -> Config:
        """Raises `ConfigError`."""
        return load(self.config, self.settings)

    def address(self) -> Address:
        """Raises `ConfigError` and `UsageError`."""
        config = self.configuration()
        return address_of(config.http, self.url, config.tls)

    def login(self, address: Address) -> Login | None:
        """As --user says, else as the URL does, else as GROWD_USER does. A password that lacks is asked for.

        Raises `UsageError` where there is nobody to ask.
        """
        login = address.login
        if self.user is None and login is not None and login.password:
            return login
        user = self.user or (login.user if login else os.environ.get("GROWD_USER"))
        return Login(user, self._password(user)) if user else None

    def tls(self, address: Address) -> ssl.SSLContext | None:
        """Whom to trust: as the options say, else whoever holds the certificate of the configuration.

        Raises `ConfigError` and `UsageError`.
        """
        if address.scheme != "https":
            return None
        certificate = self.configuration().tls.certificate
        # a name without a folder is one of systemd's credentials, which the daemon alone can read
        if self.url is None and self.ca is None and not self.insecure and "/" in certificate:
            return trusting_only(Path(certificate))
        return trusting(self.ca, insecure=self.insecure)

    def client(self, timeout_s: float = TIMEOUT_S) -> DaemonClient:
        """Raises `ConfigError` and `UsageError`."""
        address = self.address()
        return DaemonClient(address, self.login(address), self.tls(address), timeout_s)

    def _password(self, user: str) -> str:
        if self.password_file is not None:
            return _first_line(self.password_file)
        if (password := os.environ.get("GROWD_PASSWORD")) is not None:
            return password
        if not (self.may_ask and sys.stdin.isatty()):
            raise UsageError(f"the password of {user} lacks: give --password-file FILE or GROWD_PASSWORD")
        password = click.prompt(
            f"Password of {user}", hide_input=True, default="", show_default=False, err=True
        )
        return str(password)


def _first_line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").partition("\n")[0].removesuffix("\r")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"--password-file {file} can't be read: {why}") from None


_CLIENT_OPTIONS: Final = (
    config_option,
    set_option,
    click.option(
        "--url",
        metavar="URL",
        envvar="GROWD_URL",
        help="Address of the daemon.  [env: GROWD_URL; default: http://127.0.0.1:5984/_svc]",
    ),
    click.option(
        "--user", metavar="NAME", help="User to log in as; asks for the password.  [env: GROWD_USER]"
    ),
    click.option(
        "--password-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="File with the password, in place of GROWD_PASSWORD.",
    ),
    click.option(
        "--ca", type=click.Path(path_type=Path), metavar="FILE", help="Certificates to trust, for https."
    ),
    click.option(
        "--insecure", is_flag=True, help="Accept any certificate. Unsafe: another server may answer."
    ),
)
_NAMES: Final = ("config", "settings", "url", "user", "password_file", "ca", "insecure")


def client_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of all commands that ask the daemon; the command is given them as `daemon`.

    What goes wrong is a sentence on standard error and an exit status: see `plain_errors`.
    """

    @functools.wraps(command)
    def with_daemon(**given: Any) -> None:
        daemon = DaemonOptions(**{name: given.pop(name) for name in _NAMES})
        with plain_errors():
            command(daemon=daemon, **given)

    optioned: Callable[..., None] = with_daemon
    for option in reversed(_CLIENT_OPTIONS):
        optioned = option(optioned)
    return optioned


@contextmanager
def plain_errors() -> Iterator[None]:
    """Leave the program with a sentence where the daemon can't be asked, and quietly where nobody reads."""
    try:
        yield
        click.echo(nl=False)  # flushes; there may be no standard output at all
    except ConfigError as error:
        refuse(error)
    except ClientError as error:
        refuse(error, error.exit_status)
    except UnicodeEncodeError:  # bytes of the command line (PEP 383), or \ud800 in JSON
        refuse("what is to be sent is not UTF-8", WRONG_USAGE)
    except BrokenPipeError:
        _print_nothing_more()
        sys.exit(PIPE_CLOSED)
    except OSError as error:  # of a full disk; whatever else may fail is a sentence by now
        _print_nothing_more()
        refuse(f"what was found can't be written: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _print_nothing_more() -> None:
    """What is still buffered must not fail once more while Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse(error: str | Exception, exit_status: int = REFUSED) -> NoReturn:
    """Leave the program with a sentence on standard error; several of a configuration are a line each."""
    sentences = error.sentences if isinstance(error, ConfigError) else ()
    if len(sentences) > 1:
        click.echo(f"growd: there are {len(sentences)} faults:", err=True)
        click.echo(printable("\n".join(f"  {sentence}" for sentence in sentences)), err=True)
    else:
        click.echo(f"growd: {printable(str(error))}", err=True)
    sys.exit(exit_status)
