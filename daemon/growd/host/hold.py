"""The files of a hold: all outputs stay safe until it is released, also over restarts and power cuts.

Each holder has a file of its own in the data folder, so no holder releases another one's hold. A file that
cannot be read holds too. A running growd reads the files at SIGHUP, so a holder with access to the folder
needs no login, as root in an upgrade:

    save_hold(data, Hold(Holder.UPGRADE, "trial of 0.3.0", "growd upgrade", time.time()))  # growd is stopped
    systemctl start growd       # begins held
    release_hold(data, Holder.UPGRADE)
    systemctl reload growd      # outputs follow their commands again

While growd runs, `save_hold` and `systemctl reload growd` hold as well.
"""

from __future__ import annotations

import os
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from growd.runtime.files import read_regular, sync_folder, write_atomically
from growd.runtime.text import printable

if TYPE_CHECKING:
    from pathlib import Path

MOST_CHARACTERS: Final = 200
"""Largest length of a reason, and of a name."""

_MOST_BYTES: Final = 4_096


class Holder(StrEnum):
    """Who can hold the outputs; each holder has one hold at most."""

    PERSON = "person"
    UPGRADE = "upgrade"


_FILES: Final = {Holder.PERSON: "hold.json", Holder.UPGRADE: "hold-upgrade.json"}
_RELEASE: Final = {
    Holder.PERSON: "release with `growd safe --release`",
    Holder.UPGRADE: "the upgrade releases it by itself",
}


class Hold(msgspec.Struct, frozen=True):
    """A hold: its reason, who set it (each may be empty), and when (UNIX seconds; 0: unknown)."""

    holder: Holder
    reason: str = ""
    by: str = ""
    since: float = 0.0

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, *, is_safe: bool = True) -> str:
        """It in words; `is_safe`: whether all outputs are known to be safe."""
        began = f" since {_moment(self.since)}" if self.since else ""
        state = "safe" if is_safe else "held, but not all are known to be safe,"
        return f"all outputs are {state}{began}{self.why}; {_RELEASE[self.holder]}"

    @property
    def why(self) -> str:
        """By whom and for what reason, in one line: " by ann: cleaning"; "" if neither is known."""
        text = f"{f' by {self.by}' if self.by else ''}{f': {self.reason}' if self.reason else ''}"
        return printable(text).replace("\n", "\\n")


class _Saved(msgspec.Struct):
    """The content of a file."""

    reason: str
    by: str
    since: float


def file_of(data: Path, holder: Holder) -> Path:
    """The file of a holder in the data folder."""
    return data / _FILES[holder]


def read_holds(data: Path) -> list[Hold]:
    """The present holds. A file that is damaged or cannot be read is one. Blocking."""
    return [hold for holder in Holder if (hold := _read(data, holder)) is not None]


def save_hold(data: Path, hold: Hold) -> None:
    """Save a hold, in place of an earlier one of its holder; it is on disk at the return.

    Blocking. Raises OSError.
    """
    content = msgspec.json.encode(_Saved(hold.reason, hold.by, hold.since))
    write_atomically(file_of(data, hold.holder), msgspec.json.format(content) + b"\n")


def release_hold(data: Path, holder: Holder) -> bool:
    """Remove the hold of this holder; False if it had none. It is off the disk at the return.

    Blocking. Raises OSError.
    """
    try:
        file_of(data, holder).unlink()
    except FileNotFoundError:
        return False
    sync_folder(data)
    return True


def _read(data: Path, holder: Holder) -> Hold | None:
    file = file_of(data, holder)
    try:
        content = read_regular(file, _MOST_BYTES)
        if content is None:
            return None
        saved = msgspec.json.decode(content, type=_Saved)
        return Hold(holder, saved.reason[:MOST_CHARACTERS], saved.by[:MOST_CHARACTERS], saved.since)
    except OSError as error:
        return Hold(holder, f"{file.name} cannot be read: {error.strerror or error}")
    except (ValueError, msgspec.DecodeError):  # ValueError: text that is not UTF-8
        return Hold(holder, f"{file.name} is damaged, so the reason is not known", since=_changed_at(file))


def _changed_at(file: Path) -> float:
    try:
        return os.lstat(file).st_mtime
    except OSError:
        return 0.0


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
