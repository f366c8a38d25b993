"""The models of the Raspberry Pi that growd runs on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path


class PiError(Exception):
    """Something on the Raspberry Pi that stops a command; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class PiModel:
    """A model, and the conditional filters of config.txt that hold on it.

    Source of the filters: Raspberry Pi documentation, config.txt, "Model filters".
    """

    name: str
    filters: frozenset[str]

    @property
    def is_pi5(self) -> bool:
        """Whether the pins belong to the RP1 chip."""
        return "pi5" in self.filters


MODEL_FILTERS: Final = frozenset(
    ["pi0", "pi0w", "pi02", "pi1", "pi2", "pi3", "pi3+", "pi4", "pi400", "cm4", "cm4s", "pi5", "pi500", "cm5"]
)
"""All model filters of config.txt."""

MODELS: Final = {
    "3": PiModel("Raspberry Pi 3", frozenset({"pi3"})),
    "4": PiModel("Raspberry Pi 4", frozenset({"pi4"})),
    "5": PiModel("Raspberry Pi 5", frozenset({"pi5"})),
    "zero2": PiModel("Raspberry Pi Zero 2", frozenset({"pi0", "pi0w", "pi02"})),
}
"""The models that `--model` names."""

_FILTERS: Final = (
    (r"Pi 3 Model [AB] Plus", {"pi3", "pi3+"}),
    (r"Pi 3 |Compute Module 3", {"pi3"}),
    (r"Pi 400", {"pi4", "pi400"}),
    (r"Compute Module 4S", {"pi4", "cm4s"}),
    (r"Compute Module 4", {"pi4", "cm4"}),
    (r"Pi 4 ", {"pi4"}),
    (r"Pi 500", {"pi5", "pi500"}),
    (r"Compute Module 5", {"pi5", "cm5"}),
    (r"Pi 5 ", {"pi5"}),
    (r"Pi Zero 2", {"pi0", "pi0w", "pi02"}),
)


def model_named(name: str | None) -> PiModel | None:
    """The model with this name in the device tree; None for another machine or a model without growd."""
    for pattern, filters in _FILTERS:
        if re.search(pattern, f"{name} "):
            return PiModel(str(name), frozenset(filters))
    return None


def model_at(root: Path) -> PiModel | None:
    """The model that runs from the file system at `root`, by its device tree. Blocking."""
    try:
        text = (root / "proc/device-tree/model").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return model_named(text.strip(" \n\0"))
