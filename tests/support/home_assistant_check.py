"""Run by a Python with Home Assistant: checks discovery messages from stdin with its own schemas.

Writes the version and the faults as JSON.
"""

import asyncio
import importlib
import json
import logging
import sys
import tempfile

import voluptuous as vol
from homeassistant.components.mqtt.schemas import DEVICE_DISCOVERY_SCHEMA
from homeassistant.components.sensor.const import DEVICE_CLASS_STATE_CLASSES, DEVICE_CLASS_UNITS
from homeassistant.const import __version__
from homeassistant.core import HomeAssistant

SHARED = ("availability_topic", "qos", "device", "origin")
faults = []


class _Logged(logging.Handler):
    def emit(self, record):
        faults.append(f"logged: {record.getMessage()}")


def _check(message, key, component):
    platform = component.pop("platform")
    module = importlib.import_module(f"homeassistant.components.mqtt.{platform}")
    try:
        taken = module.DISCOVERY_SCHEMA(component | {name: message[name] for name in SHARED})
    except vol.Invalid as error:
        faults.append(f"{key}: {error}")
        return
    faults.extend(f"{key}: the option {option} is not known" for option in component.keys() - taken.keys())
    device_class = component.get("device_class")
    if platform != "sensor" or device_class is None:
        return
    if component.get("unit_of_measurement") not in DEVICE_CLASS_UNITS.get(device_class, {None}):
        faults.append(f"{key}: the unit is not one of {device_class}")
    if component.get("state_class") not in {None, *DEVICE_CLASS_STATE_CLASSES.get(device_class, ())}:
        faults.append(f"{key}: the state class is not one of {device_class}")


async def _check_all(messages):
    """Templates are checked only in the event loop of a Home Assistant."""
    with tempfile.TemporaryDirectory() as folder:
        HomeAssistant(folder)
        for message in messages.values():
            DEVICE_DISCOVERY_SCHEMA(message)
            for key, component in message["components"].items():
                _check(message, key, dict(component))


logging.getLogger().addHandler(_Logged(logging.WARNING))
asyncio.run(_check_all(json.load(sys.stdin)))
sys.stdout.write(json.dumps({"version": __version__, "faults": faults}))
