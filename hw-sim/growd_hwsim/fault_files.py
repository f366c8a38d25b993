"""Faults from a file, and from the entries of one. docs/faults.md describes the file."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from growd_hwsim.errors import FaultError, FaultFileError
from growd_hwsim.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "device": (str,),
    "at": (int, float),
    "for": (int, float),
    "probability": (int, float),
    "seed": (int,),
    "amount": (int, float),
}
_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number"}


def load_faults(path: Path) -> list[Fault]:
    """The faults of a file, in its order. Raises `FaultFileError` with file, entry, key and reason."""
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise FaultFileError(str(path), "is not a regular file")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FaultFileError(str(path), f"can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise FaultFileError(str(path), "is not in UTF-8; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise FaultFileError(str(path), f"is not TOML: {error}") from error
    entries = document.pop("fault", [])
    if document:
        unknown = ", ".join(document)
        raise FaultFileError(str(path), f"unknown key {unknown}; faults are [[fault]] entries", key=unknown)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise FaultFileError(str(path), "faults are [[fault]] entries", key="fault")
    return [_fault(str(path), number, entry) for number, entry in enumerate(entries, 1)]


def parse_fault(entry: Mapping[str, Any]) -> Fault:
    """The fault of an entry of a file. Raises `FaultError`."""
    for key, value in entry.items():
        if key not in _TYPES:
            raise FaultError(f"unknown key {key!r}; known are {', '.join(_TYPES)}", key=key)
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            raise FaultError(f"{key} must be {_TYPE_NAMES[_TYPES[key][-1]]}, not {value!r}", key=key)
    for key in ("kind", "device"):
        if key not in entry:
            raise FaultError(f"{key} is missing", key=key)
    return Fault(**{"duration" if key == "for" else key: value for key, value in entry.items()})


def _fault(path: str, number: int, entry: dict[str, Any]) -> Fault:
    try:
        return parse_fault(entry)
    except FaultError as error:
        raise FaultFileError(path, str(error), entry=number, key=error.key) from error
