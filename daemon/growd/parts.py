"""Optional parts of a running daemon: what stands in rooms of its own and registers with it.

The daemon does not import them. `PARTS` names what opens each, and `Surroundings` has all that a part may
use: it adds operations to the API, nodes to the bus, and runs its own tasks while it is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from growd.config import ConfigError
from growd.runtime.sentence import Sentence, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from growd.api.api import Api
    from growd.bus import Bus, Node
    from growd.config import Chamber, Config
    from growd.control.calibration_log import CalibrationLog
    from growd.control.controllers import LightController
    from growd.control.interlocks.node import Interlocks
    from growd.control.interlocks.saved_states import Memory
    from growd.control.loop import LoopController
    from growd.control.pumps import Pumps
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
    "prometheus": "growd_home.part:prometheus",
    "web": "growd_web.part:opened",
    "alerts": "growd_alerts.part:opened",
    "csv": "growd_analysis.points.part:opened",
    "runs": "growd_analysis.runs.part:opened",
    "recipes": "growd_analysis.recipes.part:opened",
    "simulations": "growd_simulation.recipes.part:opened",
    "home": "growd_home.part:opened",
    "rosbridge": "growd_home.part:rosbridge",
    "cloud": "growd_cloud.part:opened",
    "camera": "growd_camera.part:opened",
    "commissioning": "growd_commissioning.part:opened",
    "setup": "growd_machine.setup.part:opened",
    "data_folder": "growd_machine.data_folder:opened",
}
SIMULATION: Final = {
    "loop": "growd_simulation.simulated_clock:SimulatedLoop",
    "clock": "growd_simulation.machine:clock",
    "hardware": "growd_simulation.machine:hardware",
}
"""What takes the place of the machine's own if [simulator] is enabled."""

OPENS_S: Final = 30.0
"""The longest time for a part to open: on a slow card an import takes seconds. The outputs wait meanwhile."""

CLOSES_S: Final = 5.0
_log = logging.getLogger(__name__)


class Devices(msgspec.Struct, frozen=True):
    """The hardware, the threads of its buses, and why outputs are held, "" if they are not."""

    hardware: Hardware
    workers: Workers
    held: Callable[[], str]


class ConfigurationFile(msgspec.Struct, frozen=True):
    """The file that the daemon was started with, None without one.

    `read` reads another text in place of its own, with the checks of a start. Blocking; raises `ConfigError`.
    """

    path: Path | None
    read: Callable[[str], Config]


class NodeTask(Protocol):
    """A component that runs under the name of its node."""

    node: Node

    async def run(self) -> None:
        """Until cancelled."""


class ControlledChamber(msgspec.Struct, frozen=True):
    """What experiments may use of an environment."""

    chamber: Chamber
    bus: Bus
    hardware: Hardware
    interlocks: Interlocks
    memory: Memory
    lamp: LightController | None
    loops: Mapping[str, LoopController]
    """By variable."""
    pumps: Pumps
    litres: Callable[[str], float | None]
    """The volume that an output has given, None while it is not known."""
    log: CalibrationLog | None


class Experiments:
    """The experiments with outputs that parts offer. They run beside the control of their environment."""

    def __init__(self) -> None:
        self.failed: dict[str, dict[str, Any]] = {}
        """The problems of parts whose experiments could not be made, by part."""
        self._makers: dict[str, Callable[[ControlledChamber], Iterable[NodeTask]]] = {}

    def offer(self, part: str, make: Callable[[ControlledChamber], Iterable[NodeTask]]) -> None:
        """Have new experiments made for each environment. Their commands must end by themselves."""
        self._makers[part] = make

    def of(self, control: ControlledChamber) -> list[NodeTask]:
        """All for one environment. A part that can't make them is a failed one; the chamber goes on."""
        made: dict[str, NodeTask] = {}
        for name, make in self._makers.items():
            own: dict[str, NodeTask] = {}
            try:
                for each in make(control):
                    own[each.node.name] = each
            except Exception as error:  # noqa: BLE001  a part must not take the chamber with it
                self.failed[name] = _failure(name, error)
                for each in own.values():
                    each.node.close()  # nobody runs it: its services must not answer
            else:
                made |= own
        return [*made.values()]


class Surroundings(msgspec.Struct, frozen=True):
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
    experiments: Experiments
    restart: Callable[[], None]
    """Ends the daemon, with safe outputs, and starts it again."""


@contextlib.asynccontextmanager
async def parts_opened(
    around: Surroundings, parts: Mapping[str, str] = PARTS, *, stopped: asyncio.Event | None = None
) -> AsyncIterator[None]:
    """Open all parts for the body, one after the other, until `stopped`.

    A part is a function that takes `Surroundings` and returns an asynchronous context manager. One that fails
    or hangs, then or later, is a failed component; the others go on. Raises `ConfigError` for options of a
    part that can't be used.
    """
    failed: dict[str, dict[str, Any]] = {}
    problems = failed, around.experiments.failed
    around.bus.node("parts").describe("problems", lambda: [one for each in problems for one in each.values()])
    opened: list[_Part] = []
    stop = asyncio.create_task((stopped or asyncio.Event()).wait(), name="parts: stop")
    try:
        for name, place in parts.items():
            opened.append(_Part(name, failed, around.api))
            await opened[-1].open(place, around, stop)
            if stop.done():
                break
        yield
    finally:
        stop.cancel()
        for each in reversed(opened):
            await each.close()


class _Part:
    """A part in a task of its own, so that it can neither end nor hold up the daemon."""

    def __init__(self, name: str, failed: dict[str, dict[str, Any]], api: Api) -> None:
        self._name = name
        self._failed = failed
        self._api = api
        self._offered = slice(len(api.of_parts), None)  # which operations of parts are its own
        self._opened = asyncio.get_running_loop().create_future()
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, place: str, around: Surroundings, stop: asyncio.Task[Any]) -> None:
        """Wait until it is open or has failed. Raises `ConfigError`."""
        self._task = asyncio.create_task(self._run(place, around), name=f"part {self._name}")
        await asyncio.wait((self._opened, stop), timeout=OPENS_S, return_when=asyncio.FIRST_COMPLETED)
        if self._opened.done():
            self._opened.result()
            return
        self._task.cancel()
        if not stop.done():
            self._fail(TimeoutError(f"it did not open within {OPENS_S:g} s"))

    async def close(self) -> None:
        """End it; one that does not end in time is left behind."""
        if self._task is None:
            return
        self._end.set()
        await asyncio.wait((self._task,), timeout=CLOSES_S)
        if not self._task.done():
            _log.warning("the part %s did not end within %g s", self._name, CLOSES_S)
            self._task.cancel()

    async def _run(self, place: str, around: Surroundings) -> None:
        try:
            opened = await asyncio.to_thread(found, place)
            async with opened(around):
                self._offered = slice(self._offered.start, len(self._api.of_parts))
                self._opened.set_result(None)
                await self._end.wait()
        except ConfigError as error:
            if self._opened.done():
                self._fail(error)
            else:
                self._opened.set_exception(error)
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001  as for experiments
            if self._task is None or not self._task.cancelling():
                self._fail(error)
        finally:
            if not self._opened.done():
                self._opened.set_result(None)

    def _fail(self, error: BaseException) -> None:
        failure = self._failed[self._name] = _failure(self._name, error)
        self._api.withdraw(self._api.of_parts[self._offered], failure["text"])


def found(place: str) -> Any:
    """What a place in a table of parts names, as module:name. Blocking: it imports. Raises ImportError."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _failure(part: str, error: BaseException) -> dict[str, Any]:
    """Log and describe a part that failed."""
    _log.error("the part %s failed", part, exc_info=error)
    reason = f"{type(error).__name__}: {error}"
    said = Sentence(f"the part {part} failed: {reason}", "part_failed", part=part, reason=reason)
    return problem(said, name=part, is_failure=True)
