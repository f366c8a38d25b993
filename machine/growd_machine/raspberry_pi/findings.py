"""What a check of a Raspberry Pi found, and what it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

    from growd.config import Config
    from growd.host.machine import MachineStatus
    from growd_machine.raspberry_pi.files import PiFiles
    from growd_machine.raspberry_pi.model import PiModel

SETUP: Final = "sudo growd setup-pi --write, then sudo reboot"
"""The remedy for a missing boot setting."""

Grade = Literal["ok", "warning", "failure", "not checked"]


class PiFinding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `remedy` is a command or what to do, "" if all is well."""

    subject: str
    state: Grade
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class PiScene:
    """A machine to check: its files, its state, its model (None for another machine), and growd on it.

    `user` is who asks, "" for root. `data` is growd's data folder.
    """

    files: PiFiles
    machine: MachineStatus
    model: PiModel | None
    config: Config
    user: str
    data: Path


def well(subject: str, text: str) -> PiFinding:
    return PiFinding(subject, "ok", text)


def warned(subject: str, text: str, remedy: str) -> PiFinding:
    return PiFinding(subject, "warning", text, remedy)


def failed(subject: str, text: str, remedy: str) -> PiFinding:
    return PiFinding(subject, "failure", text, remedy)


def unchecked(subject: str, text: str, remedy: str = "") -> PiFinding:
    return PiFinding(subject, "not checked", text, remedy)
