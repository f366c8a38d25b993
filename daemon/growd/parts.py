"""Optional parts of a running daemon: what stands in rooms of its own and registers with it.

The daemon does not import them. `PARTS` names what opens each, and `Surroundings` has all that a part may
use: it adds operations to the API, nodes to the bus, and runs its own tasks while it is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from growd.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from growd.api.operations import Api
    from growd.bus import Bus
    from growd.config import Config
    from growd.host.mqtt import MqttLink
    from growd.proxy.gateway import Gateway
    from growd.recipes.runner import RecipeRunner
    from growd.runtime.worker import Workers
    from growd.status.status_node import StatusNode
    from growd.store.database import Database
    from growd.store.history.history import History
    from growd.store.local import LocalStore
    from growd.store.run_documents import RunDocuments
    from growd.store.shipper import Shipper
    from growd_drivers.hardware import Hardware

PARTS: Final = {
    "prometheus": "growd_home.prometheus_part:opened",
    "web": "growd_web.part:opened",
    "alerts": "growd_alerts.part:opened",
    "csv": "growd_analysis.points.part:opened",
    "runs": "growd_analysis.runs.part:opened",
    "recipes": "growd_analysis.recipes.part:opened",
    "simulations": "growd_simulation.recipes.part:opened",
    "home": "growd_home.part:opened",
    "rosbridge": "growd_home.rosbridge_part:opened",
    "cloud": "growd_cloud.part:opened",
    "camera": "growd_camera.part:opened",
    "setup": "growd_machine.setup.part:opened",
    "data_folder": "growd_machine.data_folder:opened",
}
SIMULATION: Final = {
    "loop": "growd_simulation.simulated_clock:SimulatedLoop",
    "clock": "growd_simulation.machine:clock",
    "hardware": "growd_simulation.machine:hardware",
}
"""What takes the place of the machine's own if [simulator] is enabled."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Devices:
    """The hardware, the threads of its buses, and why outputs are held, "" if they are not."""

    hardware: Hardware
    workers: Workers
    held: Callable[[], str]


@dataclass(frozen=True)
class ConfigurationFile:
    """The file that the daemon was started with, None without one.

    `read` reads another text in place of its own, with the checks of a start. Blocking; raises `ConfigError`.
    """

    path: Path | None
    read: Callable[[str], Config]


@dataclass(frozen=True)
class Surroundings:
    """What a part of a running daemon may use. `present` returns the configuration in force."""

    present: Callable[[], Config]
    bus: Bus
    data: Path
    """The data folder."""
    local: LocalStore
    """The file in it that keeps the state of growd."""
    device: str
    """The id of this device."""
    api: Api
    address: Callable[[], str]
    """The address of the API, without its path."""
    status: StatusNode
    gateway: Gateway
    database: Database
    history: History
    run_documents: RunDocuments
    shipper: Shipper
    runners: Mapping[str, RecipeRunner]
    """Those of recipes, by environment, once they are started."""
    mqtt: MqttLink | None
    """The connection to the broker of [mqtt], if something uses it."""
    file: ConfigurationFile
    offer_reload: Callable[..., None]
    """`Reloader.offer`: takes the names of options, and as `apply` what uses them when they change."""
    devices: Callable[[], Devices | None]
    """None while they are not opened yet."""
    restart: Callable[[], None]
    """Ends the daemon, with safe outputs, and starts it again."""


@contextlib.asynccontextmanager
async def parts_opened(around: Surroundings, parts: Mapping[str, str] = PARTS) -> AsyncIterator[None]:
    """Open all parts for the body. One that fails to open is a failed component; the others go on.

    A part is a function that takes `Surroundings` and returns an asynchronous context manager. Raises
    `ConfigError` for options of a part that can't be used.
    """
    failed: list[dict[str, Any]] = []
    around.bus.node("parts").describe("problems", lambda: failed)
    async with contextlib.AsyncExitStack() as stack:
        for name, place in parts.items():
            try:
                opened = await asyncio.to_thread(found, place)
                await stack.enter_async_context(opened(around))
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001  a part must not take the chamber with it
                _log.exception("the part %s did not start", name)
                text = f"the part {name} did not start: {type(error).__name__}: {error}"
                fields = {"part": name, "reason": f"{type(error).__name__}: {error}"}
                failed.append(
                    {"text": text, "is_failure": True, "code": "part_failed", "fields": fields, "name": name}
                )
        yield


def found(place: str) -> Any:
    """What a place in a table of parts names, as module:name. Blocking: it imports. Raises ImportError."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
