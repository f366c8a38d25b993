"""Sensors whose values others send: by MQTT, or on a topic of growd."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.control.receiving import Receiver
from growd.control.topics import posted
from growd.variables import VARIABLES
from growd.wiring.sensors import plausibility_of

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.config import Chamber, Sensor
    from growd_drivers.hardware import Hardware

_MOST_BYTES: Final = 65_536
_SHOWN: Final = 40  # characters of a wrong payload
_WORDS: Final = {"on": 1.0, "off": 0.0, "true": 1.0, "false": 0.0, "open": 1.0, "closed": 0.0}
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def receiver_of(bus: Bus, chamber: Chamber, sensor: Sensor, hardware: Hardware) -> Receiver:
    """The receiver of a sensor. A retained message does not reach it, since its age is not known."""
    topic = posted(chamber.environment, sensor.name)
    is_mqtt, mqtt = sensor.kind == "mqtt", hardware.mqtt
    receiver = Receiver(
        bus,
        chamber.environment,
        sensor.name,
        decode=partial(value_of, sensor),
        plausibility=plausibility_of(sensor),
        absent=f"its messages have no {sensor.key}",
        source=f"MQTT topic {sensor.topic}" if is_mqtt else f"topic {topic}",
        name=sensor.confirms or sensor.variables[0],
        stale_after_s=sensor.stale_after_s,
        posted="" if is_mqtt else topic,
        why_silent=lambda: mqtt.problem if is_mqtt and mqtt is not None else "",
        confirms=sensor.confirms,
        shared=chamber.shared,
    )
    if is_mqtt and mqtt is not None:
        mqtt.subscribe(sensor.topic, partial(_take_fresh, receiver))
    return receiver


def value_in(body: bytes, key: str, *, is_switch: bool = False) -> float | None:
    """The number in a payload: the whole text, or what a JSON document has at a path such as "tank.0.ph".

    None if the document lacks the path: devices send parts of their state on one topic. For a switch, words
    such as ON, OFF, true and false are 1 and 0. Raises ValueError for what is no number, null included.
    """
    if len(body) > _MOST_BYTES:
        raise ValueError(f"the payload has {len(body)} bytes, which is more than {_MOST_BYTES}")
    if not key:
        return _number(body.decode(errors="replace"), is_switch=is_switch)
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"the payload is not JSON: {_shown(body.decode(errors='replace'))}") from None
    for name in key.split("."):
        if not isinstance(found, dict | list):
            break
        members = found if isinstance(found, dict) else dict(enumerate(found))
        place = int(name) if isinstance(found, list) and name.isdecimal() else name
        if place not in members:
            return None
        found = members[place]
    else:
        return _number(found, is_switch=is_switch)
    raise ValueError(f"the payload has {_shown(str(found))} where {key} should be")


def _take_fresh(receiver: Receiver, body: bytes, is_retained: bool) -> None:  # noqa: FBT001  of MqttClient
    if not is_retained:
        receiver.take(body)


def value_of(sensor: Sensor, message: Any) -> float | None:
    """The value in a message, in the unit of the variable; None if it has none. Raises ValueError."""
    is_payload = isinstance(message, bytes)
    number = value_in(message, sensor.key, is_switch=_is_switch(sensor)) if is_payload else float(message)
    return None if number is None else number * sensor.scale + sensor.offset


def _is_switch(sensor: Sensor) -> bool:
    return bool(sensor.confirms) or VARIABLES[sensor.variable].unit == "switch"


def _number(found: Any, *, is_switch: bool) -> float:
    text = str(found).strip()
    is_word = text.lower() in _WORDS
    if is_word and is_switch:
        return _WORDS[text.lower()]
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        only = "; words count only for a switch" if is_word else ""
        raise ValueError(f"the payload is no number: {_shown(text)}{only}")
    return number


def _shown(text: str) -> str:
    return repr(text[:_SHOWN])
