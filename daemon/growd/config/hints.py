"""How to write what was probably meant: the ends of sentences about faults in a file."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from growd.own_kinds import OUTPUTS, SENSORS, offers
from growd.runtime.files import read_text
from growd.runtime.text import most_like

if TYPE_CHECKING:
    import pathlib

    from growd.config.findings import OptionPath

_SWITCHES: Final = {
    "true": "true",
    "yes": "true",
    "on": "true",
    "false": "false",
    "no": "false",
    "off": "false",
}
_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|-?\d+(\.\d+)?")

HEADER_PINS: Final = {29: 5, 31: 6, 32: 12, 33: 13, 35: 19, 36: 16, 37: 26, 38: 20, 40: 21}
"""Header pins of a Raspberry Pi whose numbers are not GPIO (BCM) numbers, and their GPIO numbers."""

_GPIO_NAME: Final = re.compile(r"(?:GPIO|BCM)[ _]?(\d+)", re.IGNORECASE)
_BARE_TEXT: Final = re.compile(r"\s*([\w.-]+)\s*=\s*([^\W\d][^\s\"'#]*|/[^\s\"'#]*)\s*(?:#.*)?")
"""An option with a string without quotation marks."""

_DECIMAL_COMMA: Final = re.compile(r"\s*([\w.-]+)\s*=\s*([+-]?\d+),(\d+)\s*(?:#.*)?")
_TEXT: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|#.*")
"""A string or a comment. TOML takes characters beyond ASCII there only."""

_CHOICE: Final = re.compile(r'"([^"]+)"')
_LETTERS: Final = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
_OTHER_KINDS: Final = (
    "; another kind needs a driver: sudo growd install --with PACKAGE==VERSION (docs/drivers.md)"
)


def not_toml(path: pathlib.Path, error: Exception) -> str:
    """The error of a file with its line, and how to correct it."""
    found = re.search(r" \(at line (\d+), column \d+\)$", str(error))
    if found is None:
        return f"{path}: is not TOML: {error}"
    number, reason = int(found[1]), str(error)[: found.start()]
    lines = read_text(path).split("\n")
    return f"{path}:{number}: is not TOML: {reason}{_line_hint(lines[number - 1])}"


def _line_hint(line: str) -> str:
    """Without the text of the option, which may be a password."""
    if comma := _DECIMAL_COMMA.fullmatch(line):
        return f"; numbers have a decimal point: {comma[1]} = {comma[2]}.{comma[3]}"
    bare = _BARE_TEXT.fullmatch(line)
    if bare and bare[2].lower() in _SWITCHES:
        return f"; write {bare[1]} = {_SWITCHES[bare[2].lower()]}, if it is a switch"
    if bare:
        return f'; text needs quotation marks: {bare[1]} = "..."'
    sign = next((letter for letter in _TEXT.sub("", line) if not letter.isascii()), "")
    if not sign:
        return ""
    name = unicodedata.name(sign, "unnamed")
    if "QUOTATION MARK" in name:
        return f'; {sign} is a typographic quotation mark: write the plain " instead'
    return f"; {sign!r} ({name}) belongs into text only: type it again"


def hint_for(path: OptionPath, expected: str, value: Any) -> str:
    """How to write the value that was probably meant, or ""."""
    option = path[-1]
    if option == "pin":
        return _pin_hint(value)
    if isinstance(value, str) and (hint := _text_hint(option, expected, value)):
        return hint
    if option == "kind" and ("sensor" in path or "output" in path):
        return _installed_kinds("sensor" in path) + _OTHER_KINDS
    if path == ("chamber",) and isinstance(value, list):
        return "; name the chamber in the section, such as [[chamber.shelf_2.sensor]]"
    return ""


def _text_hint(option: str | int, expected: str, text: str) -> str:
    """Where a text is given."""
    if expected.startswith(("a number", "a whole number")) and _NUMBER.fullmatch(text):
        return f"; write {text} without quotation marks"
    if expected.startswith("a name of letters") and (name := _as_name(text)):
        return f"; write {name}, without umlauts, accents and spaces"
    if expected.startswith("a list, ") and ("@" not in text or option == "recipients"):
        return f'; write {option} = ["{text}"]'
    return _meant(text, expected) if expected.startswith("one of ") else ""


def _pin_hint(value: object) -> str:
    number = _GPIO_NAME.fullmatch(value.strip()) if isinstance(value, str) else None
    if number or (isinstance(value, str) and value.isdecimal()):
        return f"; write pin = {int(number[1] if number else str(value))}"
    gpio = HEADER_PINS.get(value) if isinstance(value, int) else None
    known = "" if gpio is None else f": pin {value} of the header is GPIO {gpio}"
    return f"; pins are GPIO (BCM) numbers, not those of the header{known}"


def _as_name(text: str) -> str:
    """The text with the letters that names may have."""
    spelled = "".join(_LETTERS.get(letter, letter) for letter in unicodedata.normalize("NFC", text.strip()))
    plain = unicodedata.normalize("NFKD", spelled).encode("ascii", "ignore").decode()
    return re.sub(r"[^\w.-]+", "_", plain).strip("_.-")


def _meant(text: str, expected: str) -> str:
    """The expected name that is written almost like this, such as scd4x for "SCD41"; "" if there is none."""
    name, known = text.lower().replace("-", "_"), _CHOICE.findall(expected)
    ending = [each for each in known if each.endswith(f"_{name}")]
    meant = ending or most_like(name, known, 0.8)
    return f"; did you mean {meant[0]}?" if meant else ""


def _installed_kinds(is_sensor: bool) -> str:  # noqa: FBT001  of one group or the other
    """The kinds that installed packages bring, for the end of a sentence; "" if there are none."""
    names = dict.fromkeys(offer.name for offer in offers(SENSORS if is_sensor else OUTPUTS))
    return f"; packages bring {', '.join(names)}" if names else ""
