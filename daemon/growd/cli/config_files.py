"""The files that a configuration names, read as the start reads them: what `growd check` says of them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from growd.config import ConfigError
from growd.config.secrets import secret_path
from growd.server.tls import CertificateError, read_pair
from growd.wiring.alert_channels import read_trusted, secret_of
from growd.wiring.files import read_credentials, read_trust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.config import Config

_SECRETS = ("password_file", "secret_file", "token_file")


def faults_of_files(config: Config) -> Iterator[str]:
    """A sentence for each file without which growd would not start. Blocking: reads all of them."""
    for name, read in _reads(config):
        if is_left_to_systemd(name):
            continue
        try:
            read()
        except (ConfigError, CertificateError) as error:
            yield str(error)


def left_to_systemd(config: Config) -> list[str]:
    """The names that can be looked for in the service only, as they are those of credentials."""
    return sorted({name for name, _ in _reads(config) if is_left_to_systemd(name)})


def is_left_to_systemd(name: str) -> bool:
    """Whether a name is bare, and no file here."""
    return bool(name) and "/" not in name and not secret_path(name).exists()


def _reads(config: Config) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What has to be read, each beneath the name that the configuration has of it."""
    couchdb, replication, tls = config.couchdb, config.replication, config.tls
    yield couchdb.credentials_file, functools.partial(read_credentials, couchdb.credentials_file)
    if replication.url:
        file = replication.credentials_file
        yield file, functools.partial(read_credentials, file, "replication", is_secret=True)
        yield "", functools.partial(read_trust, replication)
    if tls.certificate:
        pair = secret_path(tls.certificate), secret_path(tls.key)
        reading = functools.partial(read_pair, *pair)
        yield tls.certificate, reading if not is_left_to_systemd(tls.key) else _nothing
        yield tls.key, _nothing
    for channel in config.notify:
        for option in _SECRETS:
            yield getattr(channel, option), functools.partial(secret_of, channel, option)
        yield "", functools.partial(read_trusted, channel)  # of no systemd: they are no secret


def _nothing() -> None:
    """What is read with another file."""
