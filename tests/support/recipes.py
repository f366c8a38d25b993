"""A recipe runner on a bus, with the state that survives its restart."""

import asyncio
import copy
import json
import secrets
from contextlib import asynccontextmanager
from datetime import UTC

from growd.bus import Bus
from growd.bus.errors import NotKeptError, UnavailableError
from growd.bus.params import Parameters
from growd.control.topics import declare_environment
from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.recipes.services import RecipeServices
from growd.runtime.liveness import Liveness
from growd.server.errors import ApiError
from growd_analysis.recipes.desk import RecipeDesk
from support.clock import ManualClock
from support.running import running

TEMPERATURE, LIGHT = "air_temperature", "light_illuminance"
DAY = {
    "_id": "day",
    "format": "simple",
    "operations": [[0, TEMPERATURE, 20], [100, TEMPERATURE, 25], [200, LIGHT, 8000], [1000, TEMPERATURE, 18]],
}
BEGAN = 1_700_000_000.0


class MemoryJournal:
    """A journal with its records in a list; while `broken` it refuses writes, as on a full disk."""

    def __init__(self):
        self.run = None
        self.order = None
        self.points = []
        self.documents = []
        self.progressed = 0
        self.broken = False
        self.hold = None  # an event for which each write waits

    async def load(self):
        self._check()
        return copy.deepcopy(self.run)

    def new_run_id(self, time):
        return f"run {time:.15g}"

    async def commit(self, run, variable, value, time, document):
        if self.hold is not None:
            await self.hold.wait()
        self._check()
        self.run = copy.deepcopy(run)
        self.order = None
        self.points.append((variable, value, time))
        self.documents.append(copy.deepcopy(document))

    async def revise(self, run, document):
        if self.hold is not None:
            await self.hold.wait()
        self._check()
        self.run = copy.deepcopy(run)
        self.documents.append(copy.deepcopy(document))

    async def load_order(self):
        self._check()
        return copy.deepcopy(self.order)

    async def save_order(self, order):
        if self.hold is not None:
            await self.hold.wait()
        self._check()
        self.order = copy.deepcopy(order)

    async def progress(self, run):
        if self.hold is not None:
            await self.hold.wait()
        self._check()
        self.run = copy.deepcopy(run)
        self.progressed += 1

    def _check(self):
        if self.broken:
            raise OSError(28, "No space left on device")

    def recorded(self):
        return [(variable, value) for variable, value, _ in self.points]


class MemorySetPoints:
    """Manual set points, stored as JSON as in the real store."""

    def __init__(self):
        self.text = "{}"
        self.saves = 0
        self.broken = False

    async def load(self):
        return json.loads(self.text)

    async def save(self, set_points):
        if self.broken:
            raise OSError(28, "No space left on device")
        self.text = json.dumps(set_points)
        self.saves += 1


class Chamber:
    """Recipes, journal and parameters, which survive a restart, and the current runner."""

    def __init__(self):
        self.clock = ManualClock(BEGAN)
        self.recipes = {"day": DAY}
        self.database_error = None
        self.journal = MemoryJournal()
        self.set_points_by_hand = MemorySetPoints()
        self.kept = {}
        self.is_new_boot = True
        self.catches_up = True
        self.zone = UTC
        self.reach = None
        self.held = ""
        self.period_s = 1.0
        self.about = {}

    def boot(self):
        self.bus = Bus(self.clock, Parameters(self.kept), Liveness(monotonic=self.clock.monotonic))
        self.client = self.bus.node("http")
        declare_environment(self.bus, "e", [])
        self.clock.boot = secrets.token_hex(8) if self.is_new_boot else self.clock.boot
        self.library = Library(self.fetch, self.reach)
        self.runner = RecipeRunner(
            self.bus,
            "e",
            library=self.library,
            journal=self.journal,
            set_points=self.set_points_by_hand,
            zone=self.zone,
            about=lambda: self.about,
            catches_up=self.catches_up,
            period_s=self.period_s,
        )
        why_held = lambda: self.held  # noqa: E731
        RecipeServices(self.runner, "e", self.library, self.clock, self.zone, why_held=why_held)
        RecipeDesk(
            self.bus.node("recipe_plans"),
            "e",
            self.library,
            clock=self.clock,
            zone=self.zone,
            running=lambda: self.runner.active,
        )
        return self.runner

    async def fetch(self, recipe_id):
        if self.database_error is not None:
            raise self.database_error
        return copy.deepcopy(self.recipes[recipe_id])

    @asynccontextmanager
    async def on(self):
        async with running(self.clock, self.boot()):
            await self.clock.until(lambda: self.runner.is_loaded or self.journal.broken)
            await self.clock.settle()
            yield
        self.kept = {name: self.bus.parameters.get(name) for name in self.bus.parameters.names()}

    @asynccontextmanager
    async def while_it_is_written(self, asking):
        """A call whose write to the journal lasts as long as the body."""
        self.journal.hold = asyncio.Event()
        call = asyncio.create_task(asking, name="call")
        await self.clock.until(lambda: self.journal.hold._waiters)
        assert not call.done()
        yield call
        self.journal.hold.set()

    async def call(self, service, *arguments):
        """The answer; of an error, what the API says and its status."""
        try:
            return await self.bus.services.get(f"e/{service}").call(list(arguments))
        except (NotKeptError, UnavailableError) as error:
            return {"success": False, "message": str(error), "status": ApiError.from_bus(error).status}

    async def ask(self, service, *arguments):
        answer = await self.call(service, *arguments)
        await self.clock.settle()
        return answer

    async def post(self, variable, value, who="anna"):
        """Publish `[value]` as the API does; returns the hint of the answer."""
        name = f"e/desired/{variable}"
        message = self.client.publish_arguments(name, [value])
        words = await self.bus.topics.get(name).keeper(message, who)
        await self.clock.settle()
        return words

    async def start(self, *arguments):
        return await self.ask("start_recipe", *(arguments or ["day"]))

    async def stop(self):
        return await self.ask("stop_recipe")

    def desired(self, variable):
        return self.bus.topics.get(f"e/desired/{variable}").last

    def set_points(self):
        found = {name: self.desired(name) for name in (TEMPERATURE, LIGHT)}
        return {name: last.value for name, last in found.items() if last is not None}

    def parameter(self, name):
        return self.bus.parameters.get(f"e/{name}")
