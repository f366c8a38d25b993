"""Every option of the configuration, with its documentation from the source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from growd.config.devices import Sensor
from growd.config.reading import section_in
from growd.config.root import ChamberOptions, Config
from growd.config.types import described, unit_of
from growd.device_kinds import SENSOR_KINDS, kinds_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.base import Section

REQUIRED = msgspec.NODEFAULT


@dataclass(frozen=True)
class Option:
    """One option of a section: its type and range in words, unit ("" for none), default, what it does."""

    name: str
    kind: Any
    words: str
    unit: str
    default: Any
    doc: str

    @property
    def is_required(self) -> bool:
        """It has no default."""
        return self.default is REQUIRED


@dataclass(frozen=True)
class Group:
    """A section of the file, with its options and inner sections.

    `header` is its line in TOML, "[light]" or "[[sensor]]"; `entries` are the default entries of a list.
    """

    header: str
    doc: str
    options: tuple[Option, ...]
    inner: tuple[Group, ...]
    entries: tuple[Section, ...] = ()

    def all(self) -> Iterator[Group]:
        """This group and all inner groups."""
        yield self
        for group in self.inner:
            yield from group.all()


def groups(kind: type[Section], within: str = "") -> Iterator[Group]:
    """The sections below a struct. Blocking: reads source text."""
    docs = _member_docs(kind)
    for member in msgspec.structs.fields(kind):
        section = section_in(member.type)
        if section is ChamberOptions:
            continue
        if section is None:
            if kind is Config:
                yield Group(
                    f"[{member.name}]", f"{docs[member.name]} It is {described(member.type)}.", (), ()
                )
            continue
        default = member.default_factory() if member.default_factory is not REQUIRED else member.default
        is_list = get_origin(member.type) is tuple
        place = f"{within}{member.name}" + (".NAME" if get_origin(member.type) is dict else "")
        yield Group(
            f"[[{place}]]" if is_list else f"[{place}]",
            inspect.cleandoc(section.__doc__ or docs.get(member.name, "")),
            tuple(_options(section, default)),
            tuple(groups(section, f"{place}.")),
            tuple(default) if is_list and default is not REQUIRED else (),
        )


def _options(section: type[Section], default: Any) -> Iterator[Option]:
    docs = _member_docs(section)
    for member in msgspec.structs.fields(section):
        if section_in(member.type) is not None:
            continue
        value = member.default_factory() if member.default_factory is not REQUIRED else member.default
        if isinstance(default, section):
            value = getattr(default, member.name)
        doc = docs.get(member.name, "")
        if section is Sensor:
            doc = _sensor_doc(member.name, doc)
        yield Option(member.name, member.type, described(member.type), unit_of(member.name), value, doc)


def _sensor_doc(option: str, doc: str) -> str:
    """The text of an option of [[sensor]], with what the table of kinds says of it."""
    if option == "kind":
        kinds = (
            f"{each.part} ({', '.join(each.variables.values()) or 'by variable'})"
            for each in SENSOR_KINDS.values()
        )
        return f"{'; '.join(kinds)}."
    parts = ", ".join(SENSOR_KINDS[name].part for name in kinds_with(option))
    begins_with_a_word = doc[1:2].islower() or doc[1:2] == " "
    return f"{parts}: {doc[0].lower() if begins_with_a_word else doc[0]}{doc[1:]}" if parts else doc


def _member_docs(kind: type) -> dict[str, str]:
    """The text below each member, including its bases."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not issubclass(each, msgspec.Struct) or each.__module__.startswith("msgspec"):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        if isinstance(body, ast.ClassDef):
            found |= _docs_in(body)
    return found


def _docs_in(body: ast.ClassDef) -> dict[str, str]:
    found = {}
    for member, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(member, ast.AnnAssign)
            and isinstance(member.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[member.target.id] = " ".join(str(text.value.value).split())
    return found


def example(option: Option) -> Any:
    """A value for an option that has no default."""
    words = get_args(option.kind)
    if words and isinstance(words[0], str):
        return words[0]
    return option.name if option.words.startswith(("text", "a name")) else 0
