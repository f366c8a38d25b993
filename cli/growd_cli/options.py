"""Options that several commands share, and how commands end on errors."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar

import click
import msgspec
from click.core import ParameterSource

from growd.config import ConfigError, load
from growd.config.profiles import PROFILES, profile_path
from growd.runtime.files import EncodingError, exists_already, read_text
from growd_cli.client import HINTS, REFUSED, WRONG_USAGE, address_of, exit_status_of
from growd_cli.terminal import echo_text
from growd_client.address import Login
from growd_client.connection import TIMEOUT_S, DaemonClient
from growd_client.errors import GrowdError, UsageError
from growd_client.trust import trusting, trusting_only

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Sequence

    from growd.config import Config
    from growd_client.address import Address

P = ParamSpec("P")
T = TypeVar("T")

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as shells report a program ended by SIGINT."""
PIPE_CLOSED: Final = 141
"""Exit status after the reader of the output ended, as shells report SIGPIPE."""


def _keep_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    context.meta["profile"] = name


def _file_or_profile(context: click.Context, _: click.Parameter, file: Path | None) -> Path | None:
    profile = context.meta.get("profile")
    if file is not None and context.get_parameter_source("profile") is ParameterSource.COMMANDLINE:
        raise click.BadParameter("has no effect with --config", param_hint="--profile")
    if file is not None or profile is None:
        return file  # a GROWD_PROFILE, even an invalid one, must not prevent a start with --config
    if profile not in PROFILES:
        raise click.BadParameter(
            f"there is no profile {profile!r}; expected one of {', '.join(PROFILES)}",
            param_hint="--profile or GROWD_PROFILE",
        )
    return profile_path(profile)


_file_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    callback=_file_or_profile,
    metavar="FILE",
    help="Configuration file (TOML).",
)
_profile_option = click.option(
    "--profile",
    metavar=f"[{'|'.join(PROFILES)}]",
    envvar="GROWD_PROFILE",
    show_envvar=True,
    is_eager=True,
    expose_value=False,
    callback=_keep_profile,
    help="Configuration that ships with growd, used if there is no --config.",
)


def config_option(command: Callable[P, T]) -> Callable[P, T]:
    """`--config` and `--profile`; the parameter `config` is a file or None."""
    return _file_option(_profile_option(command))


set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SECTION.OPTION=VALUE",
    help="Set one option of the configuration; repeatable.",
)
data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data"),
    envvar="GROWD_DATA",
    show_default=True,
    help="The data folder.",
)
environment_option = click.option(
    "--environment", metavar="ID", help="Use this environment.  [default: the first one]"
)
format_option = click.option(
    "--format", "kind", type=click.Choice(["csv", "parquet"]), default="csv", show_default=True
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
replace_option = click.option("--replace", is_flag=True, help="Replace FILE if it exists.")
replace_part_option = click.option(
    "--replace", is_flag=True, help="Replace FILE and FILE.part if they exist, and start from the beginning."
)
faults_option = click.option("--faults", metavar="FILE", help="Faults of the simulated hardware (TOML).")


def refuse_existing(path: Path | None, *, replace: bool) -> None:
    """End the program if an output file exists and may not be replaced."""
    if path is not None and path.is_file() and not replace:
        refuse(exists_already(path))


def output_option(
    help_text: str, *, required: bool = False, allow_dash: bool = False
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`-o` and `--output`; the parameter `path` is a file or None."""
    return click.option(
        "-o",
        "--output",
        "path",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=allow_dash),
        required=required,
        metavar="FILE",
        help=help_text,
    )


def require_package(name: str, what: str) -> None:
    """End the program if an optional package is missing."""
    if importlib.util.find_spec(name) is None:
        refuse(f"{what} needs {name}: run pip install {name} in growd's environment")


def write_page(path: Path, page: bytes) -> None:
    """Write a page to a file, or end the program."""
    try:
        path.write_bytes(page)
    except OSError as error:
        refuse(f"{path} can't be written: {error.strerror}")
    echo_text(f"growd: {path} has {len(page) / 1000:.0f} kB", err=True)


def hardware_of(config: Config) -> str:
    """The kind of hardware, in words."""
    return "simulated hardware" if config.simulator.enabled else "the hardware of this machine"


class DaemonOptions(msgspec.Struct, frozen=True):
    """The options for the daemon's address and the login; see `client_options`."""

    config: Path | None = None
    settings: tuple[str, ...] = ()
    url: str | None = None
    user: str | None = None
    password_file: Path | None = None
    ca: Path | None = None
    insecure: bool = False
    may_ask: bool = True  # prompt for a password

    def configuration(self) -> Config:
        """Raises `ConfigError`."""
        return load(self.config, self.settings)

    def environment(self, named: str | None) -> str:
        """The named environment, else the first one. Raises `ConfigError`."""
        return named or self.configuration().environment.id

    def is_direct(self) -> bool:
        """Whether data goes to the configured CouchDB, not through growd. Raises `ConfigError`."""
        return self.url is None and bool(self.configuration().couchdb.url)

    def address(self) -> Address:
        """Raises `ConfigError` and `UsageError`."""
        config = self.configuration()
        return address_of(config.http, self.url, config.tls)

    def login(self, address: Address) -> Login | None:
        """From --user, else from the URL, else from GROWD_USER; prompts for a missing password.

        Raises `UsageError` if there is no terminal to prompt at.
        """
        login = address.login
        if self.user is None and login is not None and login.password:
            return login
        user = self.user or (login.user if login else os.environ.get("GROWD_USER"))
        return Login(user, self._password(user)) if user else None

    def tls(self, address: Address) -> ssl.SSLContext | None:
        """Trust as the options say, else only the configuration's certificate.

        Raises `ConfigError` and `UsageError`.
        """
        if address.scheme != "https":
            return None
        certificate = self.configuration().tls.certificate
        # a name without a folder is a systemd credential, which only the daemon can read
        if self.url is None and self.ca is None and not self.insecure and "/" in certificate:
            return trusting_only(Path(certificate))
        return trusting(self.ca, insecure=self.insecure, what="--ca")

    def client(self, timeout_s: float = TIMEOUT_S) -> DaemonClient:
        """Raises `ConfigError` and `UsageError`."""
        address = self.address()
        return DaemonClient(address, self.login(address), self.tls(address), timeout_s, HINTS)

    def _password(self, user: str) -> str:
        if self.password_file is not None:
            return first_line(self.password_file, "--password-file")
        if (password := os.environ.get("GROWD_PASSWORD")) is not None:
            return password
        if not (self.may_ask and sys.stdin.isatty()):
            raise UsageError(f"no password for {user}: use --password-file FILE or GROWD_PASSWORD")
        password = click.prompt(
            f"Password for {user}", hide_input=True, default="", show_default=False, err=True
        )
        return str(password)


def first_line(file: Path, option: str) -> str:
    """The first line of the file of an option. Raises `UsageError`."""
    try:
        return read_text(file).partition("\n")[0]
    except (OSError, EncodingError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{option} {file} can't be read: {why}") from None


_CLIENT_OPTIONS: Final = (
    config_option,
    set_option,
    click.option(
        "--url",
        metavar="URL",
        envvar="GROWD_URL",
        show_envvar=True,
        show_default="http://127.0.0.1:5984/_svc",
        help="Address of the daemon.",
    ),
    click.option(
        "--user", metavar="NAME", help="Log in as this user; prompts for the password.  [env var: GROWD_USER]"
    ),
    click.option(
        "--password-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Read the password from FILE instead of GROWD_PASSWORD.",
    ),
    click.option(
        "--ca",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Trust the certificates in FILE (https).",
    ),
    click.option(
        "--insecure", is_flag=True, help="Accept any certificate. Unsafe: another server may answer."
    ),
)
_NAMES: Final = ("config", "settings", "url", "user", "password_file", "ca", "insecure")


def bundled(
    parameter: str, make: Callable[..., object], names: Sequence[str], options: Sequence[Callable[..., Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options with these names, passed to the command as one object that `make` makes; see `plain_errors`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_object(**given: Any) -> None:
            own = {name: given.pop(name) for name in names}
            with plain_errors():
                command(**{parameter: make(**own)}, **given)

        optioned: Callable[..., None] = with_object
        for option in reversed(options):
            optioned = option(optioned)
        return optioned

    return decorate


def client_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options for the daemon and the login, passed to the command as `daemon`; see `plain_errors`."""
    return bundled("daemon", DaemonOptions, _NAMES, _CLIENT_OPTIONS)(command)


@contextmanager
def plain_errors() -> Iterator[None]:
    """End the program on an expected error: with a message and an exit status, without a traceback."""
    try:
        yield
        echo_text(nl=False)  # flushes; standard output may be closed
    except ConfigError as error:
        refuse(error)
    except GrowdError as error:
        refuse(error, exit_status_of(error))
    except UnicodeEncodeError:  # bytes of the command line (PEP 383), or \ud800 in JSON
        refuse("an argument is not UTF-8", WRONG_USAGE)
    except BrokenPipeError:
        _discard_output()
        sys.exit(PIPE_CLOSED)
    except OSError as error:  # of standard output, for example a full disk
        _discard_output()
        refuse(f"can't write the output: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _discard_output() -> None:
    """Buffered output must not fail again while Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse(error: str | Exception, exit_status: int = REFUSED) -> NoReturn:
    """End the program with a message on standard error; one line for each fault of a configuration."""
    sentences = error.sentences if isinstance(error, ConfigError) else ()
    if len(sentences) > 1:
        echo_text(f"growd: the configuration has {len(sentences)} faults:", err=True)
        echo_text("\n".join(f"  {sentence}" for sentence in sentences), err=True)
    else:
        echo_text(f"growd: {error}", err=True)
    sys.exit(exit_status)
