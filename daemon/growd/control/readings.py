"""The readings of one device, checked and published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from growd.bus.errors import InvalidValueError
from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64, Quality
from growd.control.topics import feedback, raw
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from growd.bus import Node


class Readings:
    """Publishes each variable of a device on `<environment>/raw/<variable>`.

    A value out of its variable's range is a fault of that variable alone. A variable in `shared` is measured
    by other sensors too: its raw topic then ends in the device's name. A device that `confirms` an output has
    no variable; its reading, by the name of the output, is on `<environment>/feedback/<output>`.
    """

    def __init__(
        self,
        node: Node,
        environment: str,
        device: str,
        variables: Iterable[str],
        *,
        shared: Collection[str] = (),
        confirms: str = "",
    ) -> None:
        self._checks = {variable: _field(variable).checker() for variable in variables}
        self._publishers = {
            variable: node.advertise(
                raw(environment, variable, device if variable in shared else ""), FLOAT64
            )
            for variable in self._checks
        }
        if confirms:
            self._checks[confirms] = Field(confirms, Kind.FLOAT64).checker()
            self._publishers[confirms] = node.advertise(feedback(environment, confirms), FLOAT64)
        self._last_quality: dict[str, Quality] = {}

    def publish(self, reading: Mapping[str, Any]) -> str:
        """Publish the values, and return what is wrong with them, or ""."""
        wrong = []
        for name, check in self._checks.items():
            try:
                value = check(reading.get(name))
            except InvalidValueError as error:
                wrong.append(str(error))
                self._publish_none(name, Quality.FAULT)
            else:
                self._publishers[name].publish(value)
                self._last_quality[name] = Quality.OK
        return "; ".join(wrong)

    def publish_none(self, quality: Quality) -> None:
        """Publish for each variable that it has no value, once per change of the quality."""
        for name in self._publishers:
            self._publish_none(name, quality)

    def _publish_none(self, name: str, quality: Quality) -> None:
        if self._last_quality.get(name) is not quality:
            self._publishers[name].publish(None, quality)
            self._last_quality[name] = quality


def _field(variable: str) -> Field:
    known = VARIABLES[variable]
    return Field(variable, Kind.FLOAT64).within(known.minimum, known.maximum, known.unit)
