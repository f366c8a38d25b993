"""Message types with their ROS names, and the message itself."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from growd.bus.errors import InvalidArgumentsError, counted, shown
from growd.bus.fields import WORDS, Field, Kind

if TYPE_CHECKING:
    from collections.abc import Callable


class Quality(StrEnum):
    """The quality of a value. Only `ok` is stored as a measurement or drives an actuator."""

    OK = "ok"
    WARM_UP = "warm-up"
    STALE = "stale"
    FAULT = "fault"


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message on a topic.

    `value` is the bare value of a type with one field, an object by field name for a type with more, or None
    without a value (a fault). `time` is wall time in UNIX seconds, `node` the name of the publishing node,
    and `number` counts the messages of the topic from 1. `valid_s` is the time for which the value holds,
    such as the rest of a dose; None: until another message.
    """

    topic: str
    value: Any
    time: float
    quality: Quality
    node: str
    number: int
    valid_s: float | None = None

    @property
    def known(self) -> Any:
        """The value, None if it is not ok."""
        return self.value if self.quality is Quality.OK else None


class MessageType(msgspec.Struct, frozen=True):
    """A message type: its ROS name, and its fields in the order of the constructor."""

    name: str
    fields: tuple[Field, ...]

    def construct(self, arguments: Any) -> Any:
        """The value of a message from constructor arguments in order.

        Raises `InvalidArgumentsError` (no array, wrong count) or `InvalidValueError` (type, range).
        """
        if not isinstance(arguments, (list, tuple)):
            raise InvalidArgumentsError(
                f"{self.name} is made from an array of its arguments {self.signature()}, "
                f"not {shown(arguments)}"
            )
        if len(arguments) != len(self.fields):
            raise InvalidArgumentsError(
                f"{self.name} takes {counted(len(self.fields), 'argument')} {self.signature()}, "
                f"got {len(arguments)}"
            )
        if len(self.fields) == 1:
            return self.fields[0].check(arguments[0])
        return {
            field.name: field.check(argument) for field, argument in zip(self.fields, arguments, strict=True)
        }

    def check(self, value: Any) -> Any:
        """Check the value of a message: bare for one field, an object for more."""
        if len(self.fields) == 1:
            return self.fields[0].check(value)
        if not isinstance(value, dict) or len(value) != len(self.fields):
            raise self._other_fields(value)
        try:
            return {field.name: field.check(value[field.name]) for field in self.fields}
        except KeyError:
            raise self._other_fields(value) from None

    def _other_fields(self, value: Any) -> InvalidArgumentsError:
        return InvalidArgumentsError(f"{self.name} has the fields {self.signature()}, not {shown(value)}")

    def checker(self) -> Callable[[Any], Any]:
        """`check` for many values; see `Field.checker`."""
        return self.fields[0].checker() if len(self.fields) == 1 else self.check

    def within(self, minimum: float, maximum: float, unit: str, note: str = "") -> MessageType:
        """The same type of one number with the range of a variable."""
        (field,) = self.fields
        return MessageType(self.name, (field.within(minimum, maximum, unit, note),))

    def signature(self) -> str:
        return "[" + ", ".join(f"{field.name}: {WORDS[field.kind]}" for field in self.fields) + "]"


# the control panel of openag_brain sends true and false for numbers
FLOAT64 = MessageType("std_msgs/Float64", (Field("data", Kind.FLOAT64, takes_flags=True),))
INT64 = MessageType("std_msgs/Int64", (Field("data", Kind.INT64),))
BOOL = MessageType("std_msgs/Bool", (Field("data", Kind.BOOL),))
STRING = MessageType("std_msgs/String", (Field("data", Kind.STRING),))
VECTOR3 = MessageType(
    "geometry_msgs/Vector3",
    tuple(Field(name, Kind.FLOAT64, takes_flags=True) for name in "xyz"),
)
DIAGNOSTIC_STATUS = MessageType(
    "diagnostic_msgs/DiagnosticStatus",
    (Field("level", Kind.INT64, 0, 3), Field("name", Kind.STRING), Field("message", Kind.STRING)),
)
MESSAGE_TYPES = {kind.name: kind for kind in (FLOAT64, INT64, BOOL, STRING, VECTOR3, DIAGNOSTIC_STATUS)}
