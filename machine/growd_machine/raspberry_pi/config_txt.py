"""Wanted settings in the text of config.txt, and back.

Each line that growd adds stands below a comment of growd with the reason, and each line that it changes below
a comment with the old line. The comment has a checksum of the line below it, so a line that was edited since
is left alone. Other lines are never touched. `undone` gives the exact text of before.

The rules of the file: Raspberry Pi documentation, config.txt, "File format" and "Conditional filters".
Filters of one kind replace each other, filters of different kinds add up, and [all] ends them. A later
setting overrides an earlier one, so growd's lines are at the end of the file. A `dtparam` goes to the overlay
before it if that has such a parameter; an empty `dtoverlay=` ends the overlay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

from growd_machine.raspberry_pi.model import MODEL_FILTERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_ADDED: Final = re.compile(r"# growd(?P<joined>\+?) (?P<sum>[0-9a-f]{8}): ")
_CHANGED: Final = re.compile(r"# growd (?P<sum>[0-9a-f]{8}) changed: (?P<old>.*)", re.DOTALL)
_ALIASES: Final = {
    "i2c": "i2c_arm",
    "i2c1": "i2c_arm",
    "i2c_baudrate": "i2c_arm_baudrate",
    "i2c1_baudrate": "i2c_arm_baudrate",
    "i2c0": "i2c_vc",
    "i2c0_baudrate": "i2c_vc_baudrate",
}
"""Names of one parameter on the models with 40 pins (the firmware's overlays/README, base DTB)."""

_SWITCHES: Final = dict.fromkeys(("", "1", "y", "yes", "true"), "on") | dict.fromkeys(
    ("0", "n", "no", "false"), "off"
)
_PWM: Final = ("pwm", "pwm-2chan")
"""Two overlays for one peripheral: a file has one of them."""

_LAST_GPIO: Final = 57


@dataclass(frozen=True, slots=True)
class Wanted:
    """A line that config.txt should have, or a word of cmdline.txt, and the reason."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class LineChange:
    """One change: a line that is added, or that replaces the line `before`."""

    line: str
    reason: str
    before: str | None = None


_OPENING: Final = Wanted("[all]", "the lines of growd; `growd setup-pi --undo` takes them back")
_NO_OVERLAY: Final = Wanted("dtoverlay=", "ends the parameters of an overlay above")
FRAME: Final = (_OPENING.line, _NO_OVERLAY.line)
"""Lines that only separate growd's lines from those above."""


def with_wanted(
    text: str, wanted: Sequence[Wanted], filters: Collection[str]
) -> tuple[str, tuple[LineChange, ...]]:
    """The text with these lines on a model with these filters, and what changed against `undone(text)`."""
    draft = _Draft(_lines(undone(text)))
    missing = [item for item in wanted if not draft.agrees_to(item, filters)]
    if missing:
        missing = [_OPENING, _NO_OVERLAY, *missing]
    changes = [*draft.changes(), *(LineChange(item.line, item.reason) for item in missing)]
    return "".join(draft.text(missing)), tuple(changes)


def undone(text: str) -> str:
    """The text without the changes of growd."""
    result: list[str] = []
    cut_off = ""  # the line end that growd wrote after the last line of the owner
    lines = _lines(text)
    while lines:
        line = lines.pop(0)
        added, changed = _ADDED.match(line), _CHANGED.match(line)
        note = added or changed
        if note is None:
            result.append(line)
            cut_off = ""
        elif not lines or note["sum"] != _sum(lines[0]):
            continue  # the line below was edited or removed: it is no longer a line of growd
        elif changed is not None:
            result.append(_content(changed["old"]) + _ending(lines.pop(0)))
        else:
            lines.pop(0)
            cut_off = cut_off or (_ending(line) if note["joined"] else "")
    if result:
        result[-1] = result[-1].removesuffix(cut_off)
    return "".join(result)


def value_of(text: str, key: str, filters: Collection[str]) -> str | None:
    """The value of a plain option such as `cmdline` on a model with these filters; None without one."""
    lines = _lines(text)
    found = None
    for line, holds in zip(lines, _holding(lines, filters), strict=True):
        name, equals, value = line.strip().partition("=")
        if holds and equals and name == key:
            found = value.strip()
    return found


def includes_in(text: str) -> list[str]:
    """The files that `include` names."""
    return re.findall(r"^\s*include\s+(\S+)", text, re.MULTILINE)


def settings_in(text: str, filters: Collection[str]) -> list[str]:
    """The lines that hold on a model with these filters, without comments."""
    lines = _lines(text)
    return [
        line.strip()
        for line, holds in zip(lines, _holding(lines, filters), strict=True)
        if holds and line.strip() and not line.strip().startswith(("#", "["))
    ]


def software_buses(text: str, filters: Collection[str]) -> set[int]:
    """The numbers of the I2C buses that the kernel drives in software (overlays/README, i2c-gpio)."""
    overlays = [line for line in settings_in(text, filters) if line.startswith("dtoverlay=i2c-gpio,")]
    return {int(found[1]) for line in overlays if (found := re.search(r",bus=(\d+)", line))}


class _Draft:
    """The lines of the owner, with those that had to change."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._before: dict[int, str] = {}
        self._reasons: dict[int, list[str]] = {}

    def agrees_to(self, wanted: Wanted, filters: Collection[str]) -> bool:
        """Whether the owner's lines say so by themselves. Lines that say otherwise are changed in place.

        A line in a section that may or may not hold stays, and counts as a contradiction.
        """
        if wanted.line.startswith("gpio="):
            return _drives(self._lines, wanted.line, filters)
        agrees = False
        for number, holds in enumerate(_holding(self._lines, filters)):
            content = _content(self._lines[number]).strip()
            new = None if holds is False else _agreeing(content, wanted.line)
            if new is None:
                continue
            if holds and new != content:
                self._change(number, new, wanted.reason)
            agrees = bool(holds) or (agrees and new == content)
        return agrees

    def changes(self) -> Iterator[LineChange]:
        """The lines that were changed in place."""
        for number, before in sorted(self._before.items()):
            reason = "; ".join(self._reasons[number])
            yield LineChange(_content(self._lines[number]), reason, _content(before))

    def text(self, missing: Sequence[Wanted]) -> Iterator[str]:
        """All lines with the notes of growd, and the missing ones at the end."""
        newline = "\r\n" if any(line.endswith("\r\n") for line in self._lines) else "\n"
        for number, line in enumerate(self._lines):
            if number in self._before:
                before = self._before[number]
                yield f"# growd {_sum(line)} changed: {_content(before)}{_ending(before) or newline}"
            yield line
        mark = ""
        if missing and self._lines and not _ending(self._lines[-1]):
            yield newline
            mark = "+"
        for item in missing:
            yield f"# growd{mark} {_sum(item.line)}: {item.reason}{newline}"
            yield f"{item.line}{newline}"
            mark = ""

    def _change(self, number: int, new: str, reason: str) -> None:
        self._before.setdefault(number, self._lines[number])
        self._reasons.setdefault(number, []).append(reason)
        self._lines[number] = new + _ending(self._lines[number])


def _agreeing(line: str, wanted: str) -> str | None:
    """The line as it must be for `wanted`; None if it is about something else."""
    key, _, value = wanted.partition("=")
    its_key, equals, its_value = line.partition("=")
    if not equals or key != its_key:
        return None
    if key == "dtparam":
        return _agreeing_parameters(its_value, *value.split("=", 1))
    if key == "dtoverlay":
        return _agreeing_overlay(its_value, value)
    return line if value == its_value.strip() else wanted


def _agreeing_parameters(text: str, name: str, value: str) -> str | None:
    parts = text.split(",")
    is_about = False
    for number, part in enumerate(parts):
        its_name, _, its_value = part.partition("=")
        if _ALIASES.get(its_name.strip(), its_name.strip()) == name:
            is_about = True
            if _SWITCHES.get(its_value.strip().lower(), its_value.strip()) != value:
                parts[number] = f"{its_name}={value}"
    return f"dtparam={','.join(parts)}" if is_about else None


def _agreeing_overlay(text: str, wanted: str) -> str | None:
    name, *its = (part.strip() for part in text.split(","))
    wanted_name, *parameters = wanted.split(",")
    if wanted_name in _PWM and name in _PWM:
        return f"dtoverlay={text}" if _pwm_pins(wanted) <= _pwm_pins(text) else f"dtoverlay={wanted}"
    if name != wanted_name:
        return None
    if set(parameters) <= set(its):
        return f"dtoverlay={text}"
    names = {parameter.partition("=")[0] for parameter in parameters}
    kept = [part for part in its if part.partition("=")[0] not in names]
    return "dtoverlay=" + ",".join((name, *kept, *parameters))


def _pwm_pins(overlay: str) -> set[str]:
    """The pins with their functions; the defaults are 18 and 19 with ALT5 (overlays/README, pwm-2chan)."""
    name, *parameters = overlay.split(",")
    given = dict(part.strip().partition("=")[::2] for part in parameters)
    pins = {f"{given.get('pin', '18')}:{given.get('func', '2')}"}
    if name == "pwm-2chan":
        pins.add(f"{given.get('pin2', '19')}:{given.get('func2', '2')}")
    return pins


def _drives(lines: Sequence[str], wanted: str, filters: Collection[str]) -> bool:
    """Whether the last words about each pin make it an output at the wanted level."""
    levels: dict[int, str | None] = {}
    for line, holds in zip(lines, _holding(lines, filters), strict=True):
        pins, words = _gpio(line)
        for pin in pins if holds is not False else ():
            levels[pin] = words if holds else None
    pins, words = _gpio(wanted)
    return all(levels.get(pin) == words for pin in pins)


def _gpio(line: str) -> tuple[list[int], str]:
    """Pins and attributes of a line such as `gpio=3-4,23=op,dh`, without pulls; no pins for another line."""
    found = re.fullmatch(r"gpio=([\d,\-]+)=([a-z0-9,]+)", line.strip())
    if found is None:
        return [], ""
    pins: list[int] = []
    for part in found[1].split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            pins += range(int(first), min(int(last or first), _LAST_GPIO) + 1)
    words = [word for word in found[2].split(",") if word not in {"pu", "pd", "pn", "np"}]
    return pins, ",".join(words)


def _holding(lines: Sequence[str], filters: Collection[str]) -> Iterator[bool | None]:
    """Whether each line holds on the model; None if it depends on a monitor, a pin, or a serial number."""
    active: dict[str, bool | None] = {}
    for line in lines:
        found = re.match(r"\s*\[(.*?)\]", line)
        if found is not None:
            name = found[1].strip()
            if name == "all":
                active = {}
            elif name == "none":
                active["none"] = False
            elif name in MODEL_FILTERS:
                active["model"] = name in filters
            else:
                active[re.split(r"[=:]", name)[0]] = None
        states = active.values()
        yield False if False in states else (None if None in states else True)


def _sum(line: str) -> str:
    return f"{crc32(_content(line).encode()):08x}"


def _lines(text: str) -> list[str]:
    """The lines with their ends; the firmware knows no line ends but these."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _content(line: str) -> str:
    return line[: len(line) - len(_ending(line))]


def _ending(line: str) -> str:
    return next((end for end in ("\r\n", "\n") if line.endswith(end)), "")
