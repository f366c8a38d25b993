"""Home Assistant's device-based discovery: one message for growd, and one for each environment."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from growd.variable_names import VARIABLE_NAMES
from growd.variables import DEGREE_DAYS, SOIL_MOISTURE, VARIABLES
from growd_home.layout import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from growd_home.layout import HomePlace, TopicNames


SWITCH: Final = "switch"

_UNITS: Final = {
    "degC": "°C",
    "percent": "%",
    "lux": "lx",
    "g/m3": "g/m³",
    "degC d": "°C·d",
    "umol/m2/s": "μmol/m²/s",
    "mol/m2": "mol/m²",
    "index": "UV index",
    "pH": "",
    "fraction": "",
    "switch": "",
    "number": "",
}
_CLASSES: Final = {
    "degC": "temperature",
    "ppm": "carbon_dioxide",
    "lux": "illuminance",
    "hPa": "atmospheric_pressure",
    "pH": "ph",
    "mS/cm": "conductivity",
    "mV": "voltage",
    "h": "duration",
}
_OF_VARIABLES: Final = {
    "air_humidity": "humidity",
    "room_humidity": "humidity",
    SOIL_MOISTURE: "moisture",
    "water_volume": "volume_storage",
}
_OF_SWITCHES: Final = {"door_open": "door"}


def unit_of(variable: str) -> str:
    """The unit as Home Assistant writes it, "" for none."""
    unit = VARIABLES[variable].unit
    return _UNITS.get(unit, unit)


def device_class_of(variable: str) -> str:
    """The device class of a sensor of this variable, "" for none. One without could be shown in any unit.

    VPD has none: Home Assistant would show a pressure in psi where people use that.
    """
    return _OF_VARIABLES.get(variable) or _CLASSES.get(VARIABLES[variable].unit, "")


def switch_class_of(variable: str) -> str:
    """The device class of a binary sensor of a switch, "" for none."""
    return _OF_SWITCHES.get(variable, "")


def state_class_of(variable: str) -> str:
    """What Home Assistant's statistics make of it."""
    return "total_increasing" if variable == DEGREE_DAYS else "measurement"


def step_of(variable: str) -> float:
    """The step of a set point: a hundredth of a small unit, a whole one of a large one."""
    return {0: 1.0, 1: 0.1}.get(VARIABLES[variable].precision, 0.01)


Component = dict[str, Any]

EVENT_TYPES: Final = ("critical", "warning", "info", "ended", "refused", "remark")
PRESS: Final = b"PRESS"
"""The message of a button."""

NO_RECIPE: Final = "-"
"""What the choice of a recipe shows while none is chosen."""

_EXPIRE_S: Final = 300  # each message is published once a minute at least
_EXPIRING: Final = {"sensor", "binary_sensor"}  # the platforms whose states can expire
_WATERING: Final = {"water_fill", "water_irrigation"}  # what they let through is used; a drain's is not
_ON_OFF: Final = "{{ 'None' if value_json.%s is none else 'ON' if value_json.%s else 'OFF' }}"
_HOURS_LEFT: Final = (
    "{{ (value_json.remaining_s / 3600) | round(2) if value_json.state != 'idle' else 'None' }}"
)
_BY_HAND: Final = "{{ (value_json.value * 100) | round(1) if value_json.by == 'hand' else 'None' }}"


@dataclass(frozen=True)
class Discovery:
    """Makes the messages of one growd. Without `commands` there is nothing to set."""

    prefix: str
    topics: TopicNames
    host: str
    version: str
    commands: bool

    def topic(self, environment: str = "") -> str:
        """The topic of the message of an environment, or of growd itself."""
        return f"{self.prefix}/device/{self._id(environment)}/config"

    @property
    def all_topics(self) -> str:
        """The topics of all devices, also those of others, with a wildcard."""
        return f"{self.prefix}/device/+/config"

    @property
    def birth(self) -> str:
        """Has "online" when Home Assistant has started."""
        return f"{self.prefix}/status"

    def is_own(self, topic: str) -> bool:
        """Whether a message of this growd belongs on the topic, now or earlier."""
        own = self._id("")
        return topic == self.topic() or topic.startswith(f"{self.prefix}/device/{own}_")

    def messages(self, places: Iterable[HomePlace], recipes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The documents by topic; `recipes` are the ids that can be chosen."""
        found = {self.topic(): self._message("", f"growd {self.host}", self._of_growd())}
        for place in places:
            name = f"growd {self.host} {place.environment}"
            found[self.topic(place.environment)] = self._message(
                place.environment, name, _Entities(self.topics, place, commands=self.commands).all(recipes)
            )
        return found

    def _message(self, environment: str, name: str, components: dict[str, Component]) -> dict[str, Any]:
        identifier = self._id(environment)
        device = {
            "identifiers": [identifier],
            "name": name,
            "manufacturer": "growd",
            "sw_version": self.version,
        }
        device |= (
            {"model": "growing chamber", "via_device": self._id("")} if environment else {"model": "daemon"}
        )
        unique = {
            key: {**each, "unique_id": f"{identifier}_{key}"} for key, each in sorted(components.items())
        }
        for each in unique.values():
            if each["platform"] in _EXPIRING:
                each["expire_after"] = _EXPIRE_S
        return {
            "device": device,
            "origin": {"name": "growd", "sw_version": self.version},
            "availability_topic": self.topics.availability,
            "qos": 1,
            "components": unique,
        }

    def _of_growd(self) -> dict[str, Component]:
        status, alerts = self.topics("status"), self.topics("alerts")
        return {
            "problem": _problem("Problem", status, "{{ 'OFF' if value_json.state == 'ok' else 'ON' }}"),
            "verdict": _entity(
                "sensor", "Verdict", status, "{{ value_json.verdict.text }}", icon="mdi:sprout"
            ),
            "replication": _entity(
                "binary_sensor", "Replication", status, _on_off("replication"),
                device_class="connectivity", entity_category="diagnostic",
            ),
            "alerts": _entity(
                "sensor", "Open alerts", alerts, "{{ value_json.count }}", icon="mdi:bell-alert",
                state_class="measurement", json_attributes_topic=alerts,
            ),
            "event": {
                "platform": "event",
                "name": "Event",
                "icon": "mdi:message-alert",
                "state_topic": self.topics("event"),
                "event_types": [*EVENT_TYPES],
            },
            "hold": self._hold(self.topics("hold")),
        }  # fmt: skip

    def _hold(self, topic: str) -> Component:
        """A switch, or without commands what can only be seen."""
        held = _problem("Outputs held safe", topic, _on_off("held"))
        if not self.commands:
            return {**held, "device_class": "safety"}
        return _entity(
            "switch", "Outputs held safe", topic, _on_off("held"), icon="mdi:hand-back-left",
            json_attributes_topic=topic, command_topic=f"{topic}/set",
        )  # fmt: skip

    def _id(self, environment: str) -> str:
        return re.sub(
            r"[^a-zA-Z0-9_-]", "_", "_".join(filter(None, ("growd", self.topics.device, environment)))
        )


class _Entities:
    """The components of an environment."""

    def __init__(self, topics: TopicNames, place: HomePlace, *, commands: bool) -> None:
        self._topics = topics
        self._place = place
        self._commands = commands

    def all(self, recipes: Sequence[str]) -> dict[str, Component]:
        """The components by key."""
        place = self._place
        found = {f"measured_{name}": self._measured(name) for name in place.known}
        for name, variable in place.outputs.items():
            found |= self._output(name, variable)
        for name in self._shown_set_points():
            found |= self._set_point(name)
        for name in place.levels if self._commands else ():
            found |= self._by_hand(name)
        for name in place.cameras:
            found[f"camera_{name}"] = {
                "platform": "image",
                "name": f"Camera {name}",
                "image_topic": self._topic("photo", name),
                "content_type": "image/jpeg",
            }
        found |= self._of_recipe(recipes)
        interlocks, devices = self._topic("interlocks"), self._topic("devices")
        found["interlocks"] = _problem("Interlocks", interlocks, _on_off("problem"))
        found["devices"] = _problem("Failed devices", devices, _on_off("failed"))
        return found

    def _shown_set_points(self) -> Iterable[str]:
        """Those of variables, and of outputs that nothing else drives: the others are commanded by hand."""
        return (
            name
            for name in self._place.set_points
            if not VARIABLES[name].is_output or name in self._place.undriven
        )

    def _measured(self, name: str) -> Component:
        topic = self._topic("measured", name)
        if VARIABLES[name].unit == SWITCH:
            switch = _entity("binary_sensor", _name(name), topic, _on_off("value"))
            return _filled(switch, device_class=switch_class_of(name))
        sensor = _entity(
            "sensor", _name(name), topic, "{{ value_json.value }}", state_class=state_class_of(name),
            suggested_display_precision=VARIABLES[name].precision,
        )  # fmt: skip
        return _filled(sensor, device_class=device_class_of(name), unit_of_measurement=unit_of(name))

    def _output(self, name: str, variable: str) -> dict[str, Component]:
        topic = self._topic("outputs", name)
        is_shared = sum(each == variable for each in self._place.outputs.values()) > 1
        words = f"{_name(variable)} {name}" if is_shared else _name(variable)
        level = _entity(
            "sensor", f"{words}, level", topic, _percent("level"), unit_of_measurement="%",
            state_class="measurement", suggested_display_precision=0, icon="mdi:gauge",
            json_attributes_topic=topic,
        )  # fmt: skip
        found = {f"output_{name}": level}
        if name in self._place.powered:
            found[f"energy_{name}"] = _counter(f"{words}, energy", topic, "energy_kwh", "energy", "kWh")
        if name in self._place.metered:
            kind = "water" if variable in _WATERING else "volume"
            found[f"volume_{name}"] = _counter(f"{words}, {kind}", topic, "volume_l", kind, "L")
        return found

    def _set_point(self, name: str) -> dict[str, Component]:
        topic, words = self._topic("desired", name), f"{_name(name)}, set point"
        shown = _entity("sensor", words, topic, "{{ value_json.value }}", json_attributes_topic=topic)
        shown = _filled(shown, device_class=device_class_of(name), unit_of_measurement=unit_of(name))
        if not self._commands:
            return {f"desired_{name}": shown | {"suggested_display_precision": VARIABLES[name].precision}}
        low, high = self._place.set_points[name]
        number = {"platform": "number", "command_topic": f"{topic}/set", "mode": "box"}
        step = step_of(name)
        limits = {"min": low, "max": _whole_steps(high, step), "step": step}
        return {
            f"desired_{name}": shown | number | limits,
            f"release_{name}": _button(f"{_name(name)}, release set point", f"{topic}/set", "null"),
        }

    def _by_hand(self, name: str) -> dict[str, Component]:
        """A command by hand ends by itself; the number is empty while a controller commands."""
        topic = self._topic("commanded", name)
        number = _entity(
            "number", f"{_name(name)}, by hand", topic, _BY_HAND, icon="mdi:hand-back-right",
            entity_category="config", command_topic=f"{topic}/set", command_template="{{ value / 100 }}",
            min=0, max=100, step=1, mode="slider", unit_of_measurement="%",
        )  # fmt: skip
        end = _button(f"{_name(name)}, end by hand", f"{topic}/set", "null")
        return {f"hand_{name}": number, f"hand_off_{name}": end}

    def _of_recipe(self, recipes: Sequence[str]) -> dict[str, Component]:
        topic = self._topic("recipe")
        found = {
            "recipe_state": _entity(
                "sensor", "Recipe", topic, "{{ value_json.state }}", icon="mdi:sprout", device_class="enum",
                options=["idle", "waiting", "running", "paused"], json_attributes_topic=topic,
            ),
            "recipe_phase": _entity(
                "sensor", "Recipe phase", topic, "{{ value_json.phase or 'None' }}", icon="mdi:stairs"
            ),
            "recipe_left": _entity(
                "sensor", "Recipe time left", topic, _HOURS_LEFT, device_class="duration",
                unit_of_measurement="h", suggested_display_precision=1,
            ),
        }  # fmt: skip
        if not self._commands:
            return found
        selected = self._topic("recipe", "selected")
        actions = {
            f"recipe_{name}": _button(f"Recipe, {name}", self._topic("recipe", name), PRESS.decode())
            for name in ACTIONS
        }
        choice = _entity(
            "select", "Recipe to start", selected, "{{ value_json.recipe_id }}",
            icon="mdi:book-open-variant", options=[NO_RECIPE, *recipes], command_topic=f"{selected}/set",
        )  # fmt: skip
        return {**found, **actions, "recipe_selected": choice}

    def _topic(self, *names: str) -> str:
        return self._topics(self._place.environment, *names)


def _name(variable: str) -> str:
    return VARIABLE_NAMES[variable][0]


def _entity(platform: str, name: str, topic: str, template: str, **more: Any) -> Component:
    """An entity that shows what comes on a topic."""
    return {"platform": platform, "name": name, "state_topic": topic, "value_template": template, **more}


def _problem(name: str, topic: str, template: str) -> Component:
    more = {"device_class": "problem", "json_attributes_topic": topic}
    return _entity("binary_sensor", name, topic, template, **more)


def _button(name: str, topic: str, press: str) -> Component:
    return {
        "platform": "button",
        "name": name,
        "entity_category": "config",
        "command_topic": topic,
        "payload_press": press,
    }


def _counter(name: str, topic: str, member: str, device_class: str, unit: str) -> Component:
    return _entity(
        "sensor", name, topic, f"{{{{ value_json.{member} }}}}", device_class=device_class,
        state_class="total_increasing", unit_of_measurement=unit, suggested_display_precision=2,
    )  # fmt: skip


def _on_off(member: str) -> str:
    return _ON_OFF % (member, member)


def _percent(member: str) -> str:
    return f"{{{{ 'None' if value_json.{member} is none else (value_json.{member} * 100) | round(1) }}}}"


def _whole_steps(value: float, step: float) -> float:
    """The highest value in whole steps."""
    each = round(1 / step)
    return math.floor(round(value * each, 6)) / each


def _filled(component: Component, **more: str) -> Component:
    """The component with those that are not empty."""
    return component | {name: value for name, value in more.items() if value}
