"""What the parts of a chamber keep for their next start, in memory: a simulation has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from growd.store.points import PointMaker
    from growd_simulation.recipes.points import PointsInMemory


class ShortMemory:
    """A `Memory` of interlocks, counters and sums for one simulation."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}

    async def state(self, key: str, default: Any = None) -> Any:
        """The saved state, or `default`."""
        return self._states.get(key, default)

    async def save_state(self, key: str, value: Any) -> None:
        """Save the state."""
        self._states[key] = value


class OneRun:
    """The `Journal` of one run, whose present record is `document`."""

    def __init__(self, points: PointsInMemory, maker: PointMaker, environment: str) -> None:
        self.document: dict[str, Any] = {}
        self._points = points
        self._maker = maker
        self._environment = environment

    def new_run_id(self, time: float) -> str:
        """The id of the run."""
        return self._maker.new_id(time)

    async def load(self) -> None:
        """There is no earlier run."""

    async def commit(
        self,
        run: dict[str, Any] | None,  # noqa: ARG002  nothing resumes it
        variable: str,
        value: str,
        time: float,
        document: dict[str, Any],
    ) -> None:
        """Keep the point and the record."""
        self._points.add(self._maker.make(self._environment, variable, value, time, is_desired=True))
        self.document = document

    async def revise(self, run: dict[str, Any], document: dict[str, Any]) -> None:  # noqa: ARG002  as above
        """Keep the record."""
        self.document = document

    async def load_order(self) -> None:
        """No order waits."""

    async def save_order(self, order: dict[str, Any] | None) -> None:
        """Nothing resumes it."""

    async def progress(self, run: dict[str, Any]) -> None:
        """Nothing resumes it."""
