"""The part of a running daemon by which clients add, name, try and remove sensors and outputs."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import TYPE_CHECKING, Any, Final

from growd.api.operation import Body, Call, Operation
from growd.bus.fields import Field, Kind
from growd.config import ConfigError
from growd.device_kinds import LAMP_CHANNELS, SENSOR_KINDS
from growd.output_roles import ROLES, OutputClass
from growd.runtime.event_loop import load
from growd.server.client_request import address_of
from growd.server.errors import ApiError, error_fields
from growd.server.json_answer import json_answer
from growd.variable_names import LANGUAGES, VARIABLE_NAMES
from growd.variables import VARIABLES
from growd_machine.setup.changes import (
    Changed,
    DeviceChange,
    InvalidDeviceError,
    changed,
    device_in,
    devices_of,
    why_not,
    write,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import web

    from growd.api.api import Api
    from growd.parts import Devices, Surroundings

_DEVICE: Final = (
    Field("environment", Kind.STRING, doc="the environment of the device"),
    Field("section", Kind.STRING, choices=("sensor", "output"), doc="what it is"),
)
_OPTIONS: Final = "its options as in growd.toml, such as name, kind and pin"


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Offer the calls."""
    around.api.offer(SetupCalls(around).operations)
    yield


class SetupCalls:
    """The calls about devices of the configuration file. One change at a time."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._changing = asyncio.Lock()
        self._is_over = False
        trial = Body((dict,), members=(*_DEVICE, Field("options", Kind.JSON, doc=_OPTIONS)))
        change = Body(
            (dict,),
            members=(
                *_DEVICE,
                Field("name", Kind.STRING, default="", doc="its present name; empty adds a device"),
                Field("options", Kind.JSON, default=None, doc=f"{_OPTIONS}; null removes it"),
            ),
        )
        self.operations = (
            Operation(
                "GET", "setup", "", "Read which devices can be set up, and why they can't be", self.read
            ),
            Operation(
                "POST", "setup_scan", "", "Look what is on the buses, and which pins are free", self.scan,
                refusals=(503,), is_administrative=True,
            ),
            Operation(
                "POST", "setup_trial", "", "Read a new sensor once, or switch a new output on for a second",
                self.attempt, body=trial, refusals=(403, 409, 503), is_administrative=True,
            ),
            Operation(
                "POST", "setup", "", "Add, change or remove a device in growd.toml, and start growd again",
                self.change, body=change, refusals=(403, 409, 503), is_administrative=True,
            ),
        )  # fmt: skip

    async def read(self, _: Api, call: Call) -> web.StreamResponse:
        """What a form for a device needs."""
        file = self._around.file.path
        return json_answer(
            {
                "file": "" if file is None else str(file),
                "refusal": await self._refusal(call),
                "devices": devices_of(self._around.present()),
                "kinds": {name: _kind(name) for name in SENSOR_KINDS},
                "outputs": [*map(_output, (*ROLES, *(f"light_intensity_{each}" for each in LAMP_CHANNELS)))],
            }
        )

    async def scan(self, _: Api, __: Call) -> web.StreamResponse:
        """What is on the buses now."""
        await load("growd_machine.setup.trying")  # few look, and what tries devices needs much of the wiring
        from growd_machine.setup.trying import scanned  # noqa: PLC0415

        around = self._around
        return json_answer(await scanned(self._devices(), around.present(), around.bus.clock))

    async def attempt(self, _: Api, call: Call) -> web.StreamResponse:
        """Try a device that is not in the file, with the checks of one that is."""
        file, wanted, devices = await self._file(call), _wanted(call.body, ""), self._devices()
        try:
            change = await self._changed(file, wanted)
        except ConfigError as error:
            return _invalid(error)
        await load("growd_machine.setup.trying")
        from growd_machine.setup.trying import output_tried, sensor_tried  # noqa: PLC0415

        device = device_in(change.config, wanted)
        tried: Any = sensor_tried if wanted.section == "sensor" else output_tried
        return json_answer(await tried(devices, device, self._around.bus.clock))

    async def change(self, api: Api, call: Call) -> web.StreamResponse:
        """Write the file, and start again, also for a client that goes away meanwhile."""
        file, wanted = await self._file(call), _wanted(call.body, call.body["name"])
        return await api.to_end(self._change(file, wanted), "setup: change")

    async def _change(self, file: Path, wanted: DeviceChange) -> web.StreamResponse:
        async with self._changing:
            if self._is_over:
                raise ApiError(503, "closing", "growd starts again; try again then")
            try:
                await asyncio.to_thread(write, file, await self._changed(file, wanted))
            except ConfigError as error:
                return _invalid(error)
            except OSError as error:
                raise ApiError(503, "not_kept", f"{file} can't be written: {error.strerror}") from None
            self._is_over = True
        asyncio.get_running_loop().call_soon(self._around.restart)
        return json_answer({"message": f"{file} is written; growd starts again"})

    async def _changed(self, file: Path, wanted: DeviceChange) -> Changed:
        around = self._around
        return await asyncio.to_thread(changed, file, around.file.read, around.present(), wanted)

    def _devices(self) -> Devices:
        devices = self._around.devices()
        if devices is None:
            raise ApiError(503, "starting", "growd is starting; try again in a moment")
        return devices

    async def _file(self, call: Call) -> Path:
        """The file. Raises `ApiError` if this client can't change it."""
        file, refusal = self._around.file.path, await self._refusal(call)
        if file is None or refusal:
            raise ApiError(403, "read_only", refusal)
        return file

    async def _refusal(self, call: Call) -> str:
        """Why this client can't change devices, "" if it can."""
        if self._around.present().http.access == "open" and not _is_local(address_of(call.request)):
            return (
                'without logins ([http] access = "open") devices are changed only from the machine itself: '
                'set access = "couchdb" to do it from here'
            )
        return await asyncio.to_thread(why_not, self._around.file.path)


def _wanted(body: dict[str, Any], name: str) -> DeviceChange:
    options = body["options"]
    if not isinstance(options, dict) and (options is not None or not name):
        raise ApiError(400, "invalid_value", "options must be an object with the options of the device")
    if isinstance(options, dict) and not name and not isinstance(options.get("name"), str):
        raise ApiError(400, "invalid_value", "options must have a name")
    return DeviceChange(body["environment"], body["section"], name, options)


def _invalid(error: ConfigError) -> web.StreamResponse:
    fields = error.fields if isinstance(error, InvalidDeviceError) else {}
    return json_answer({**error_fields("invalid_device", str(error)), "fields": fields}, status=400)


def _is_local(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _kind(name: str) -> dict[str, Any]:
    """A kind of sensor for a form. `choices`: the variables that it may measure, if it has a choice."""
    kind = SENSOR_KINDS[name]
    units = kind.units or {each.unit for each in VARIABLES.values()}
    can_choose = "variable" in kind.options
    choices = [each.name for each in VARIABLES.values() if each.unit in units and not each.is_derived]
    return {
        "part": kind.part,
        "opens": kind.opens,
        "variables": [each for each in kind.variables.values() if each],
        "choices": choices if can_choose else [],
        "needs": list(kind.needs),
    }


def _output(variable: str) -> dict[str, Any]:
    """What an output can do, for a form."""
    role = ROLES.get(variable)
    return {
        "variable": variable,
        "names": dict(zip(LANGUAGES, VARIABLE_NAMES[variable], strict=True)),
        "is_dosing": role is not None and role.output_class is OutputClass.DOSING,
    }
