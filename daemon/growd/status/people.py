"""Names for people in place of the ids of a status, in English."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from growd.variable_names import VARIABLE_NAMES

if TYPE_CHECKING:
    from growd.status.model import Status

_IDS: Final = re.compile(
    r"(?<![\w/.])(" + "|".join(sorted(VARIABLE_NAMES, key=len, reverse=True)) + r")(?![\w/])"
)
"""Ids of variables that are no part of a path."""


class People:
    """How a status names things for people: environments only if there are several."""

    def __init__(self, status: Status) -> None:
        found = {each.environment for each in status.variables}
        found |= {each.environment for each in status.attainment}
        found |= {each.environment for each in status.recipes}
        names = [*(each.name for each in status.devices), *(each.name for each in status.interlocks)]
        found |= {name.partition("/")[0] for name in names}
        self._environment = next(iter(found)) if len(found) == 1 else ""

    def said(self, text: str) -> str:
        """A sentence with the names of variables, and without the only environment."""
        if (only := self._environment) and text.startswith((f"{only}: ", f"{only}/")):
            text = text[len(only) + 1 :].lstrip()
        return with_names(text)

    def place(self, name: str) -> str:
        """The name of a device or variable of an environment, such as "environment_1/scd30_1"."""
        environment, _, rest = name.partition("/")
        rest = variable_name(rest.rpartition("/")[2])
        return rest if environment == self._environment else f"{environment}: {rest}"


def with_names(text: str) -> str:
    """A sentence with the English names of variables in place of their ids."""
    return _IDS.sub(lambda found: variable_name(found[1]), text)


def variable_name(name: str) -> str:
    """The English name of a variable; another name stays as it is."""
    return VARIABLE_NAMES[name][0] if name in VARIABLE_NAMES else name
