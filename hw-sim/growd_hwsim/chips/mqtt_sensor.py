"""Simulated sensors that publish by MQTT, such as an ESP32 or a Zigbee2MQTT device, and their broker."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from growd_hwsim.chip import SENSORS, Chip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd_hwsim.faults import Faults

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


HISTORY_LENGTH = 1_000


class SimulatedBroker:
    """As `growd_drivers.mqtt.MqttClient`. `history` has what was sent: topic, body, whether retained.

    Someone has to call `step` on the event loop, every `INTERVAL_S` or more often.
    """

    def __init__(
        self,
        sensors: Sequence[SimulatedMqttSensor],
        faults: Faults,
        monotonic: Callable[[], float],
        on_send: Callable[[str, bytes], None] = lambda _topic, _body: None,
    ) -> None:
        self._on_send = on_send
        self.history: deque[tuple[str, bytes, bool]] = deque(maxlen=HISTORY_LENGTH)
        self.sensors = tuple(sensors)
        self._faults = faults
        self._monotonic = monotonic
        self._due = monotonic()
        self._receivers: defaultdict[str, list[Callable[[bytes, bool], None]]] = defaultdict(list)

    @property
    def problem(self) -> str:
        """As `MqttClient`."""
        return ""

    def subscribe(self, topic: str, receive: Callable[[bytes, bool], None]) -> None:
        """As `MqttClient`."""
        self._receivers[topic].append(receive)

    def of_output(self, topic: str) -> SimulatedBroker:
        """As `MqttClient`."""
        del topic
        return self

    def send(self, topic: str, body: bytes, *, retain: bool = False) -> None:
        """As `MqttClient`."""
        self.history.append((topic, body, retain))
        self._on_send(topic, body)

    def publish(self, topic: str, body: bytes, *, is_retained: bool = False) -> None:
        """Give a message of another client to the receivers. On the event loop."""
        for receive in self._receivers[topic]:
            receive(body, is_retained)

    def step(self) -> None:
        """Let the sensors publish, if it is time."""
        if self._monotonic() < self._due:
            return
        self._due = self._monotonic() + INTERVAL_S
        for sensor in self.sensors:
            body = self._faults.payload(sensor.topic, sensor.body())
            if body is not None:
                self.publish(sensor.topic, body)
