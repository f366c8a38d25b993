"""Simulates recipes of the database: `growd simulate` in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from growd.bus.fields import Field, Kind
from growd.recipes.formats import RecipeRefusedError
from growd.runtime.files import read_regular
from growd.runtime.text import duration, printable
from growd.variable_names import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd.bus import Bus
    from growd.recipes.library import Library

LIMIT_S: Final = 7_200.0
"""How long a simulation may take, in real time."""

COMMAND: Final = (sys.executable, "-s", "-P", "-m", "growd_cli", "simulate")
FOLDER: Final = "simulation.part"
"""Below the data folder; backups leave out what ends with .part."""

_MOST_OUTPUT: Final = 8 << 20  # bytes, as are all of these
_MOST_LINE: Final = 65_536
_MOST_SENTENCE: Final = 500
_MOST_REPORT: Final = 8 << 20
_LIMITS: Final = {
    resource.RLIMIT_DATA: 384 << 20,
    resource.RLIMIT_FSIZE: _MOST_REPORT,
    resource.RLIMIT_CPU: int(LIMIT_S),  # also if growd is killed and can't end it
    resource.RLIMIT_CORE: 0,
}
_NICE: Final = 19
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""Not GROWD_...: these options are in the file already."""

_log = logging.getLogger(__name__)


class RecipeSimulationError(Exception):
    """A simulation failed; the message says why."""


class _Told(msgspec.Struct):
    """A line that the process prints."""

    done: Annotated[float, Meta(ge=0, le=1)] | None = None
    speed: Annotated[float, Meta(ge=0)] | None = None
    summary: dict[str, Any] | None = None


class RecipeSimulation:
    """Simulates one recipe at a time, in a process that growd can afford to lose.

    Its files are in `folder`, which exists only while it runs. The services are
    `<environment>/simulate_recipe` and `<environment>/stop_simulation`. The detail `simulation` of the node
    has the state (idle, running, done or failed) and the progress.
    """

    def __init__(
        self, bus: Bus, folder: Path, *, command: Sequence[str] = COMMAND, limit_s: float = LIMIT_S
    ) -> None:
        self.node = bus.node("simulator/recipe")
        self.report: bytes | None = None
        """The page about the last simulation, None if it failed or was stopped."""
        self._folder = folder
        self._command = command
        self._limit_s = limit_s
        self._task: asyncio.Task[None] | None = None
        self._state: dict[str, Any] = {"state": "idle"}
        self.node.describe("simulation", lambda: self._state)

    def serve(self, environment: str, library: Library, configuration: Callable[[], str]) -> None:
        """Offer the services of an environment; `configuration` returns its file (TOML)."""
        self.node.serve(
            f"{environment}/simulate_recipe",
            "growd/SimulateRecipe",
            partial(self._begin, environment, library, configuration),
            arguments=(
                Field("recipe_id", Kind.STRING, doc="the id of a document in the database recipes"),
                Field("days", Kind.INT64, 1, 100, doc="the days to simulate, from the start of the recipe"),
                Field("lang", Kind.STRING, default="en", doc="the language of the report", choices=LANGUAGES),
            ),
            doc="Simulate a recipe in this chamber, as `growd simulate` does, with the configuration in "
            "force. One simulation runs at a time; the node `simulator/recipe` has its progress.",
        )
        self.node.serve(
            f"{environment}/stop_simulation", "std_srvs/Trigger", self._stop, doc="Stop the simulation."
        )

    async def close(self) -> None:
        """End the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _begin(
        self,
        environment: str,
        library: Library,
        configuration: Callable[[], str],
        *,
        recipe_id: str,
        days: int,
        lang: str,
    ) -> dict[str, Any]:
        try:
            recipe = await library.read(recipe_id)
            await library.interpret(recipe_id, recipe)
            self._refuse_unless_free()  # after all that takes time
        except RecipeRefusedError as error:
            return {"success": False, "message": str(error)}
        self._state = {
            "state": "running", "environment": environment, "recipe_id": recipe_id, "days": days,
            "done": 0.0, "speed": 0.0, "reason": "", "summary": {},
        }  # fmt: skip
        self.report = None
        work = self._simulate(recipe, configuration(), "--days", str(days), "--lang", lang)
        self._task = asyncio.create_task(work, name="simulation")
        return {"success": True, "message": f"the simulation of {recipe_id} has begun"}

    async def _stop(self) -> dict[str, Any]:
        if not self._is_running:
            return {"success": False, "message": "no simulation is running"}
        await self.close()
        return {"success": True, "message": "the simulation has been stopped"}

    @property
    def _is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def _refuse_unless_free(self) -> None:
        if self._is_running:
            recipe_id = self._state["recipe_id"]
            raise RecipeRefusedError(f"{recipe_id} is being simulated; wait for its end, or stop it")

    async def _simulate(self, recipe: dict[str, Any], configuration: str, *options: str) -> None:
        """Simulate a recipe, and keep its report or why there is none."""
        state, reason = "idle", ""  # if it is cancelled
        try:
            async with asyncio.timeout(self._limit_s):
                await asyncio.to_thread(self._prepare, recipe, configuration)
                self.report = await self._reported(options)
            state = "done"
        except TimeoutError:
            state, reason = "failed", f"it took longer than {duration(self._limit_s)}"
        except OSError as error:
            state, reason = "failed", f"the simulation can't run: {error.strerror}"
        except RecipeSimulationError as error:
            state, reason = "failed", str(error)
        finally:
            await asyncio.to_thread(self.clear)
            self._state |= {"state": state, "reason": reason}
            recipe_id = self._state["recipe_id"]
            _log.info("the simulation of %s: %s", recipe_id, ": ".join(filter(None, (state, reason))))

    def _prepare(self, recipe: dict[str, Any], configuration: str) -> None:
        """Write the files that the process reads. Blocking. Raises OSError."""
        self.clear()
        self._folder.mkdir(mode=0o700)
        for name, content in (
            ("recipe.json", msgspec.json.encode(recipe)),
            ("growd.toml", configuration.encode()),
        ):
            path = self._folder / name
            path.touch(mode=0o600)
            path.write_bytes(content)

    def clear(self) -> None:
        """Remove the files, also those of a growd that was killed. Blocking."""
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _reported(self, options: Sequence[str]) -> bytes:
        """Run the process; its report."""
        process = await asyncio.create_subprocess_exec(
            *self._command, "recipe.json", "--config", "growd.toml", *options, "-o", "report.html",
            "--json", cwd=self._folder, env=_environment(), stdin=DEVNULL, stdout=PIPE, stderr=STDOUT,
            start_new_session=True, umask=0o077,
        )  # fmt: skip
        assert process.stdout is not None  # noqa: S101  it is a pipe
        try:
            await asyncio.to_thread(_restrain, process.pid)
            sentence = await self._follow(process.stdout)
            status = await process.wait()
        finally:
            await _end(process, process.stdout)
        if status:
            raise RecipeSimulationError(sentence or _ended(status))
        report = await asyncio.to_thread(read_regular, self._folder / "report.html", _MOST_REPORT)
        if not report:
            raise RecipeSimulationError("the simulation wrote no report")
        return report

    async def _follow(self, output: asyncio.StreamReader) -> str:
        """Take what the process prints, until its end; the last line that is no step."""
        rest, sentence, left = b"", "", _MOST_OUTPUT
        while chunk := await output.read(_MOST_LINE):
            left -= len(chunk)
            if left < 0:
                raise RecipeSimulationError("the simulation printed too much; it was ended")
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-_MOST_LINE:]
            for line in lines:
                sentence = self._take(line) or sentence
        return self._take(rest) or sentence

    def _take(self, line: bytes) -> str:
        """Take a step or the summary; "" then, and the text of any other line."""
        try:
            told = msgspec.json.decode(line, type=_Told)
        except msgspec.DecodeError:
            text = line[:_MOST_SENTENCE].decode(errors="replace").strip()
            return printable(text.removeprefix("growd: "))
        self._state |= {
            name: value for name, value in msgspec.structs.asdict(told).items() if value is not None
        }
        return ""


def _environment() -> dict[str, str]:
    """The variables of the process, with the packages of this one: an installed growd adds its own."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return passed_on | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _restrain(pid: int) -> None:
    """Let a process give way to everything else. Blocking. Raises OSError."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has ended
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
        for kind, most in _LIMITS.items():
            resource.prlimit(pid, kind, (most, most))
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")  # the first to end without memory


async def _end(process: asyncio.subprocess.Process, output: asyncio.StreamReader) -> None:
    """Kill a process that still runs, with its own ones, and wait for it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):  # it may have just ended
            os.killpg(process.pid, signal.SIGKILL)
        while await output.read(_MOST_LINE):  # its pipe stays open otherwise
            pass
        await process.wait()


def _ended(status: int) -> str:
    how = f"the signal {-status}" if status < 0 else f"status {status}"
    return f"the simulation ended with {how}"
