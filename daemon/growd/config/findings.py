"""Faults of a configuration, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from growd.variables import VARIABLES, similar_variable

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


OptionPath: TypeAlias = tuple[str | int, ...]
"""A place in the tree of the configuration: ("light", "channel", 0, "pin")."""

Fault: TypeAlias = tuple[str, str]
"""An option of a section, and what is wrong with it."""

_CHAMBER = "chamber"
_CONTROL = "control"


class ConfigError(ValueError):
    """The configuration is not usable. One sentence per fault, each on its own line."""

    def __init__(self, *sentences: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences
        self.findings = findings
        """What the sentences say, with places, as far as the faults have one."""


class Finding(msgspec.Struct, frozen=True):
    """One fault: its place, and what is expected.

    With `is_numbered`, a list entry is shown by its name (`entry`) or by its number, from 0, and so are lists
    in it.
    """

    path: OptionPath
    reason: str
    is_numbered: bool = False
    entry: str = ""

    @property
    def sentence(self) -> str:
        """The section and option, and the reason. Sections of further environments begin with chamber."""
        return f"{self.where}: {self.reason}"

    @property
    def where(self) -> str:
        """The section, and the option in it."""
        depth = 3 if self.path[:1] == (_CHAMBER,) else 1
        depth += self.path[depth - 1 : depth] == (_CONTROL,)  # a section for each variable
        section = ".".join(map(str, self.path[:depth]))
        parts = [part for part in self.path[depth:] if self.is_numbered or isinstance(part, str)]
        number = next((index for index, part in enumerate(parts) if isinstance(part, int)), None)
        if self.entry and number is not None:
            parts[number] = self.entry
        return f"[{section}] {'.'.join(map(str, parts))}".rstrip()


class Source(msgspec.Struct, frozen=True):
    """The sources of a configuration: given values, environment variables, and the file if any."""

    values: Mapping[str, Any]
    environ: Mapping[str, str]
    path: pathlib.Path | None = None


def at(path: OptionPath, faults: Iterable[Fault]) -> Iterator[Finding]:
    """The findings of faults of the entry at `path`."""
    return (Finding((*path, option), reason) for option, reason in faults)


def did_you_mean(variable: str) -> str:
    """The end of a sentence about an unknown variable, "" if no other is like it."""
    meant = similar_variable(variable)
    return f"; did you mean {meant}?" if meant not in ("", variable) else ""


def of_other_kinds(entry: Any, kinds_with: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    """The options of an entry, which has a name and a kind, that only entries of other kinds have."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(type(entry))}
    article = "an" if entry.kind.startswith((*"aeiou", "ssr")) else "a"
    for option, kinds in kinds_with.items():
        if entry.kind not in kinds and getattr(entry, option) != defaults[option]:
            named = f"{entry.name} is {article} {entry.kind}"
            yield option, f"{named}; this is for {', '.join(kinds)} only: remove it"


def beyond_range(variable: str, *, above: float | None, below: float | None) -> Iterator[Fault]:
    """The limits that no reading of a variable can pass."""
    known = VARIABLES.get(variable)
    if known is None:
        return
    limits = f"the range of {variable}, {known.minimum:g} to {known.maximum:g} {known.unit}"
    if above is not None and above > known.maximum:
        yield "above", f"{above:g} is beyond {limits}: no reading is above it"
    if below is not None and below < known.minimum:
        yield "below", f"{below:g} is beyond {limits}: no reading is below it"


def once(path: OptionPath, option: str, values: Sequence[object]) -> Iterator[Finding]:
    """The entries of the list at `path` whose value of an option an earlier entry has."""
    for number, value in enumerate(values):
        if value in values[:number]:
            yield Finding((*path, number, option), f"{value} is given {values.count(value)} times")
