"""The recipe that runs or waits, beside its document in the database, for `growd status`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from growd.recipes.errors import RecipeRefusedError
from growd.recipes.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.recipes.library import Library
    from growd.recipes.run import Order
    from growd.runtime.clock import Clock

LOOK_UP_S: Final = 5.0  # between two look-ups
LOOK_UP_TIMEOUT_S: Final = 1.0


class DocumentWatch:
    """Describes the recipe that `present` returns, and whether its document has changed since it was read."""

    def __init__(
        self, library: Library, clock: Clock, environment: str, present: Callable[[], Run | Order | None]
    ) -> None:
        self._library = library
        self._clock = clock
        self._environment = environment
        self._present = present
        self._of: tuple[str, str] | None = None  # the recipe and revision that was looked up
        self._found = ""  # the revision in the database
        self._conflict = ""  # the words on other versions there
        self._due = 0.0

    async def look_up(self) -> None:
        """Look up the revision in the database, at most every `LOOK_UP_S` for the same recipe."""
        present = self._present()
        if present is None:
            return
        of = (present.recipe_id, present.revision)
        if of != self._of:
            self._of, self._found, self._conflict = of, "", ""
        elif self._clock.monotonic() < self._due:
            return
        self._due = self._clock.monotonic() + LOOK_UP_S
        with suppress(RecipeRefusedError, TimeoutError):
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                document = await self._library.read(present.recipe_id)
            from growd.recipes.doubts import conflict_in  # noqa: PLC0415  loaded with the plan

            if self._of == of:  # another recipe may have begun meanwhile
                self._found, self._conflict = str(document.get("_rev", "")), conflict_in(document)

    def problem(self) -> str:
        """The words on other versions of the recipe in the database, "" without any."""
        present = self._present()
        if present is None or self._of != (present.recipe_id, present.revision) or not self._conflict:
            return ""
        return f"recipe {present.recipe_id}: {self._conflict}"

    def described(self) -> dict[str, Any]:
        """The recipe; `changed` is the revision in the database if it is another.

        `started` is the UNIX time of the start, 0 before, and `by` who ordered it. `revised_at` is the UNIX
        time at which the recipe took over from another one, 0 if none did.
        """
        present = self._present()
        revision = "" if present is None else present.revision
        found = self._found if present is not None and self._of == (present.recipe_id, revision) else ""
        started, by, revised_at = 0.0, "", 0.0
        if isinstance(present, Run):
            started, by = present.start, present.started_by
            revised_at = present.ran[-1].time if present.ran else 0.0
        elif present is not None:
            by = present.by
        return {
            "environment": self._environment,
            "revision": revision,
            "changed": found if revision and found != revision else "",
            "revised_at": revised_at,
            "started": started,
            "by": by,
        }
