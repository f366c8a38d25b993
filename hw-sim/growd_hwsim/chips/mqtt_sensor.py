"""A simulated sensor that publishes by MQTT, such as an ESP32 or a Zigbee2MQTT device."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from growd_hwsim.chip import SENSORS, Chip

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL_S = 2.0


class SimulatedMqttSensor(Chip):
    """It publishes `truth()` every `INTERVAL_S`: as a number, or at the path `key` of a JSON document.

    The number is `(truth - offset) / scale`.
    """

    name = "mqtt"
    faults = ("absent", "garbled", "frozen", "partial")

    def __init__(
        self,
        truth: Callable[[], float],
        topic: str,
        *,
        key: str = "",
        scale: float = 1.0,
        offset: float = 0.0,
    ) -> None:
        self.topic = topic
        self._truth = truth
        self._key = key
        self._scale = scale
        self._offset = offset

    def body(self) -> bytes:
        """What it publishes now."""
        document: object = (self._truth() - self._offset) / self._scale
        for name in reversed(self._key.split(".") if self._key else ()):
            document = {name: document} if not name.isdecimal() else [document] * (int(name) + 1)
        return json.dumps(document).encode()


SENSORS[SimulatedMqttSensor.name] = SimulatedMqttSensor
