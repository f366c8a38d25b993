"""Which values become points: the one place that interprets the options of `[store.variable.<name>]`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from growd.config import Store

if TYPE_CHECKING:
    from growd.store.points import Value
    from growd.variables import Variable

_LATER_S: Final = 2e-6  # in one moment: points have microseconds, and a float not much more
_MOMENT_S: Final = 1e-3


def sparser(settings: Store, interval_s: float) -> Store:
    """The settings with at most one value of each variable in `interval_s`."""

    def longest(*intervals: float | None) -> float:
        return max(each or 0 for each in (interval_s, *intervals))

    variables = {
        name: msgspec.structs.replace(
            rule,
            minimum_interval_s=longest(rule.minimum_interval_s, settings.minimum_interval_s),
            maximum_interval_s=longest(rule.maximum_interval_s, settings.maximum_interval_s),
        )
        for name, rule in settings.variable.items()
    }
    return msgspec.structs.replace(
        settings,
        minimum_interval_s=longest(settings.minimum_interval_s),
        maximum_interval_s=longest(settings.maximum_interval_s),
        variable=variables,
    )


class StorageRule:
    """Decides which measured values or commands of one variable are stored.

    At most one each `minimum_interval_s`, at least one each `maximum_interval_s` (monotonic seconds, while
    values come at all), and in between only a value that differs from the last stored one by more than the
    dead band. 0 is a value like any other. Bands that are not configured are those of the variable. The
    configured bands are in the unit of measured values, so they do not apply to commands (`is_command`).
    """

    def __init__(
        self, variable: Variable, settings: Store | None = None, *, is_command: bool = False
    ) -> None:
        self._options = options = (settings or Store()).rule_of(variable.name)
        self._absolute, self._relative = variable.absolute_band, variable.relative_band
        if options.absolute_band is not None and not is_command:
            self._absolute, self._relative = options.absolute_band, 0.0
        self._stored_at: float | None = None
        self._stored: Value = None

    def admits(self, value: Value, now: float) -> bool:
        """Whether to store `value`, measured at `now` (monotonic seconds); True counts as stored.

        None, NaN and infinity are never stored. The caller passes only values of quality `ok`.
        """
        if not _is_measurement(value) or not self._is_due(value, now):
            return False
        self._stored, self._stored_at = value, now
        return True

    def reset(self) -> None:
        """Store the next value in any case."""
        self._stored_at = None

    def _is_due(self, value: Value, now: float) -> bool:
        if self._stored_at is None:
            return True
        elapsed = now - self._stored_at
        if elapsed < (self._options.minimum_interval_s or 0):
            return False
        is_late = elapsed >= (self._options.maximum_interval_s or 0)
        return is_late or _has_moved(value, self._stored, self._absolute, self._relative)


class ChangeRule:
    """Decides which desired values of one variable are stored: those that differ from the last one.

    A publisher that repeats its value may ramp it from message to message. Then only values beyond the dead
    band of the variable are stored, and the one on which the ramp ends.
    """

    def __init__(self, variable: Variable) -> None:
        self._bands = variable.absolute_band, variable.relative_band
        self._stored: list[Value] = []
        self._newest: Value = None
        self._at = -math.inf

    def admits(self, value: Value, *, repeats: bool = False) -> bool:
        """Whether to store `value`, of a publisher that may repeat it; True counts as stored."""
        is_moving, self._newest = repeats and value != self._newest, value
        if self._stored == [value] or (isinstance(value, float) and not math.isfinite(value)):
            return False
        is_number = value is not None and self._stored not in ([], [None])
        if is_moving and is_number and not _has_moved(value, self._stored[0], *self._bands):
            return False
        self._stored = [value]
        return True

    def moment(self, time: float) -> float:
        """The UNIX time to store: after that of the value before, also if a simulated clock stood still."""
        self._at = self._at + _LATER_S if 0.0 <= self._at - time < _MOMENT_S else time
        return self._at


def _has_moved(value: Value, stored: Value, absolute: float, relative: float) -> bool:
    if isinstance(value, str) or isinstance(stored, str):
        return value != stored
    last, new = float(stored or 0), float(value or 0)
    return abs(new - last) > max(absolute, relative * abs(last))


def _is_measurement(value: Value) -> bool:
    return value is not None and (isinstance(value, str) or math.isfinite(value))
