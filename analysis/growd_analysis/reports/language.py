"""Texts, numbers and times of a report in one language and time zone."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Final

from growd.runtime import text
from growd.variable_names import LANGUAGES, VARIABLE_NAMES
from growd.variables import VARIABLES
from growd_analysis.reports.words import WORDS

if TYPE_CHECKING:
    from datetime import tzinfo

_WITHOUT_UNIT: Final = frozenset(("switch", "fraction", "pH", "plants", "leaves"))
_HOUR_S: Final = 3600
_NO_VALUE: Final = "–"  # noqa: RUF001  a dash


class Language:
    """English ("en") or German ("de"); `zone` None is that of the machine."""

    def __init__(self, code: str, zone: tzinfo | None) -> None:
        self.code = code
        self.zone = zone
        self._column = LANGUAGES.index(code)

    def say(self, key: str, **values: str | int) -> str:
        """A text by its key, with `values` in it."""
        return WORDS[key][self._column].format(**values)

    def variable(self, name: str) -> str:
        """The name of a variable for people."""
        names = VARIABLE_NAMES.get(name)
        return names[self._column] if names else name.replace("_", " ")

    def unit(self, unit: str) -> str:
        """A unit as people write it."""
        return "" if unit in _WITHOUT_UNIT else text.symbol(unit)

    def number(self, value: float | None, decimals: int = 1) -> str:
        """A number with its thousands apart; a dash for None."""
        if value is None or not math.isfinite(value):
            return _NO_VALUE
        shown = f"{value:,.{decimals}f}"
        if float(shown.replace(",", "")) == 0:
            shown = shown.lstrip("-")
        return shown.translate(str.maketrans(",.", ".,")) if self.code == "de" else shown

    def amount(self, value: float | None) -> str:
        """What an output used, with three digits, of which at most three are decimals."""
        if not value or not math.isfinite(value):
            return self.number(value)
        return self.number(value, max(0, min(3, 2 - math.floor(math.log10(abs(value))))))

    def value(self, value: float | None, variable: str) -> str:
        """A value of a variable with the decimals with which it is stored, at most two."""
        known = VARIABLES.get(variable)
        return self.number(value, min(known.precision, 2) if known else 2)

    def typed(self, value: float) -> str:
        """A value that somebody typed, with the decimals that it has."""
        decimals = len(f"{value:.6f}".rstrip("0").partition(".")[2])
        return self.number(value, decimals)

    def share(self, share: float | None) -> str:
        """A share as a percentage."""
        return self.number(None if share is None else 100 * share) + ("" if share is None else " %")

    def points(self, share: float) -> str:
        """A difference of shares in percentage points."""
        return self.say("points", number=self.number(100 * share))

    def inside(self, key: str) -> str:
        """A text by its key, as it is written inside of a line: German nouns keep their capital."""
        return self.say(key) if self.code == "de" else self.say(key)[:1].lower() + self.say(key)[1:]

    def times(self, start: float, end: float) -> str:
        """The time zone of a report, with the offsets from UTC at its start and end."""
        offsets = [
            datetime.fromtimestamp(time, self.zone).astimezone(self.zone).strftime("UTC%z")
            for time in (start, end)
        ]
        offsets = [f"{each[:6]}:{each[6:8]}" for each in offsets]
        shown = offsets[0] if offsets[0] == offsets[1] else " / ".join(offsets)
        return f"{self.zone} ({shown})" if self.zone is not None else shown

    def duration(self, seconds: float) -> str:
        """A duration to the minute from an hour on: "1 d 5 h 59 min"."""
        if seconds < _HOUR_S - 0.5:
            return text.duration(seconds)
        hours, minutes = divmod(round(seconds / 60), 60)
        days, hours = divmod(hours, 24)
        parts = ((days, "d"), (hours, "h"), (minutes, "min"))
        return " ".join(f"{count} {unit}" for count, unit in parts if count)

    def moment(self, seconds: float) -> str:
        """A UNIX time as date and time of day."""
        return self._shown(round(seconds), "%d.%m.%Y %H:%M" if self.code == "de" else "%Y-%m-%d %H:%M")

    def day(self, seconds: float) -> str:
        """The date of a UNIX time."""
        return self._shown(seconds, "%d.%m.%Y" if self.code == "de" else "%Y-%m-%d")

    def short_day(self, seconds: float) -> str:
        """Day and month, for an axis."""
        return self._shown(seconds, "%d.%m." if self.code == "de" else "%m-%d")

    def time_of_day(self, seconds: float) -> str:
        """The time of day, for an axis."""
        return self._shown(seconds, "%H:%M")

    def _shown(self, seconds: float, form: str) -> str:
        try:
            return datetime.fromtimestamp(seconds, self.zone).strftime(form)
        except (OverflowError, OSError, ValueError):  # beyond the years 1 to 9999
            return _NO_VALUE
