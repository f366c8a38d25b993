"""What a configuration consists of: its text, the files that it names, and which parts are secret."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from growd.config.findings import ConfigError
from growd.config.reading import FILES
from growd.config.secrets import secret_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from growd.config.root import Config

_PUBLIC: Final = frozenset({"ca_file", "certificate", "faults", "replay"})
_LOGIN: Final = re.compile(r"""://[^/\s"']*@""")


class NamedFile(NamedTuple):
    """A file that an option names, where it is, and whether it is secret."""

    option: str
    path: Path
    is_secret: bool


def named_files(config: Config) -> list[NamedFile]:
    """The files that a configuration names, each once."""
    found = {
        secret_path(value): (".".join(path), path[-1] not in _PUBLIC)
        for path, value in _texts(msgspec.to_builtins(config), ())
        if path[-1] in FILES and value
    }
    return [NamedFile(option, path.absolute(), is_secret) for path, (option, is_secret) in found.items()]


def without_secrets(text: str) -> tuple[str, list[str]]:
    """The text of a configuration without the secrets in it, and the options that lost some.

    Addresses lose their login, also in comments. Raises `ConfigError`.
    """
    before = dict(_texts(tomllib.loads(text), ()))
    public = _LOGIN.sub("://", text)
    after = dict(_texts(tomllib.loads(public), ()))
    for path, value in after.items():
        if _LOGIN.search(value):
            raise ConfigError(f"{'.'.join(path)}: has a secret in a form that can't be left out")
    return public, [".".join(path) for path in before if before[path] != after.get(path)]


def _texts(values: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """All texts in a tree, each with its place; entries of a list have their names or numbers."""
    if isinstance(values, str):
        yield path, values
        return
    pairs: Iterable[tuple[str, Any]] = ()
    if isinstance(values, dict):
        pairs = values.items()
    elif isinstance(values, list | tuple):
        pairs = [(_name_of(entry, number), entry) for number, entry in enumerate(values)]
    for name, value in pairs:
        yield from _texts(value, (*path, name))


def _name_of(entry: Any, number: int) -> str:
    return str(entry.get("name", number)) if isinstance(entry, dict) else str(number)
