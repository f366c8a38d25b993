"""What is wrong with a configuration: all of it at once, each with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from growd.config.alerts import AlertOptions, Notify
    from growd.config.devices import Sensor
    from growd.config.root import Config

Path: TypeAlias = tuple[str | int, ...]
"""A place in the tree of the configuration: ("light", "channel", 0, "pin")."""

_CHAMBER = "chamber"


class ConfigError(ValueError):
    """The configuration can't be used: a sentence for each fault, each on a line of its own."""

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: where, and what would be right.

    Where `is_numbered`, an entry of a list is shown by its name, `entry`, or by its number (from 0).
    """

    path: Path
    reason: str
    is_numbered: bool = False
    entry: str = ""

    @property
    def sentence(self) -> str:
        """As "[section] option: reason"; the sections of a further environment begin with chamber."""
        return f"{self.where}: {self.reason}"

    @property
    def where(self) -> str:
        """The section, and the option in it."""
        depth = 3 if self.path[:1] == (_CHAMBER,) else 1
        section = ".".join(map(str, self.path[:depth]))
        option = ".".join(
            self.entry or str(part) if isinstance(part, int) else part
            for part in self.path[depth:]
            if self.is_numbered or not isinstance(part, int)
        )
        return f"[{section}] {option}".rstrip()


@dataclass(frozen=True, slots=True)
class Source:
    """What a configuration was made from: values as given, variables of the environment, the file if any."""

    values: Mapping[str, Any]
    environ: Mapping[str, str]
    path: pathlib.Path | None = None


if TYPE_CHECKING:
    Doubt: TypeAlias = Callable[[Config, Source], Iterable[Finding]]
    """Finds what is valid but probably a mistake. Each reason ends with the remedy."""


def of_other_kinds(
    path: Path, entry: AlertOptions | Notify | Sensor, kinds_with: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    """The options of the entry at `path` that only entries of other kinds have."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(type(entry))}
    article = "an" if entry.kind[0] in "aeiou" else "a"
    for option, kinds in kinds_with.items():
        if entry.kind not in kinds and getattr(entry, option) != defaults[option]:
            reason = (
                f"{entry.name} is {article} {entry.kind}; it is for {', '.join(kinds)} only: leave it out"
            )
            yield Finding((*path, option), reason)


def refuse(findings: Iterable[Finding]) -> None:
    """Raise `ConfigError` for what was found without a file, if anything was."""
    if sentences := [finding.sentence for finding in findings]:
        raise ConfigError(*sentences)
