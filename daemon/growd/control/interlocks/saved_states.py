"""The saved states of interlocks: read at the start, and written when they have changed enough."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from growd.bus.errors import NotKeptError
from growd.bus.services import done, refused
from growd.control.interlocks.wall_time import SteadyWallClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from growd.control.interlocks.base import Interlock, PersistentInterlock
    from growd.runtime.clock import Clock

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
MOST_FORMER: Final = 64
"""How many states of interlocks that are not configured any more are kept."""
SAVE_ERRORS: Final = (OSError, RuntimeError)
"""What `Memory` raises on failure."""

_MALFORMED: Final = object()


class Memory(Protocol):
    """Storage that survives a restart.

    Both methods raise OSError on failure, or RuntimeError if the storage is closed or overloaded.
    """

    async def state(self, key: str, default: Any = None) -> Any:
        """The saved state, or `default` if there never was one. Raises ValueError if it is lost."""

    async def save_state(self, key: str, value: Any) -> None:
        """Save the state; it is on the disk when this returns."""


class _Former(msgspec.Struct, frozen=True):
    """A state from before this run: of monotonic time `at`, saved at a clean end or not."""

    at: float
    is_clean: bool
    state: Any


class SavedStates:
    """The states of `interlocks` in `memory`, below the name of their node.

    The states of interlocks that the configuration does not have any more are kept, so that an output that
    is left out for one start has its limits again afterwards.

    `update` is called after the states were read, or could not be read.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        interlocks: Sequence[PersistentInterlock],
        memory: Memory,
        update: Callable[[], None],
    ) -> None:
        self._name = name
        self._clock = clock
        self._interlocks = tuple(interlocks)
        self._memory = memory
        self._update = update
        self._changed = asyncio.Event()
        self._saving = asyncio.Lock()
        self._former: dict[str, _Former] = {}  # of interlocks that are not here
        self.wall = SteadyWallClock(clock)
        self.is_loaded = False
        self.error = ""
        """Why the states cannot be saved, "" if they can."""

    async def run(self) -> None:
        """Read the states, and save them when they have changed, until cancelled."""
        if not self._interlocks:
            return
        await self._load()
        self._changed.set()  # marks the run as not ended cleanly
        while True:
            await self._changed.wait()
            if await self._try_save():
                self._changed.clear()  # the next update finds later changes
            else:
                await self._clock.sleep(RETRY_S)

    def check(self, interlock: PersistentInterlock) -> None:
        """Save soon if the state of this one has changed enough."""
        if interlock.is_restored and interlock.needs_saving():
            self._changed.set()

    @contextlib.asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Nothing else saves meanwhile."""
        async with self._saving:
            yield

    async def save(self, *, is_clean: bool = False, reset: Interlock | None = None) -> None:
        """Save all states, inside `exclusive`; `reset` is saved as after its reset. Raises `SAVE_ERRORS`."""
        now = self._clock.monotonic()
        states = {each.name: each.state(now, as_reset=each is reset) for each in self._interlocks}
        former = {name: [now - each.at, each.is_clean, each.state] for name, each in self._former.items()}
        saved = {**self.wall.state(), "clean": is_clean, "interlocks": states, "former": former}
        await self._memory.save_state(self._name, saved)
        for each in self._interlocks:
            each.mark_saved()

    async def close(self) -> None:
        """Save at a clean end, when the outputs are safe."""
        if not self.is_loaded or not self._interlocks:
            return
        try:
            async with self.exclusive():
                await self.save(is_clean=True)
        except SAVE_ERRORS as error:
            logger.error("%s: cannot save the state: %s", self._name, error)  # noqa: TRY400  not a bug

    async def reset(self, interlock: Interlock) -> dict[str, Any]:
        """The service. It answers when the reset is on the disk; the interlock holds until then."""
        refusal = interlock.why_no_reset(self._clock.monotonic())
        if refusal:
            return refused(refusal)
        return await self._uncancelled(self._reset_now(interlock))

    async def _load(self) -> None:
        while not self.is_loaded:
            try:
                saved = await self._memory.state(self._name)
            except SAVE_ERRORS as error:
                for each in self._interlocks:
                    each.unreadable(str(error))
                self._update()
                await self._clock.sleep(RETRY_S)
            except ValueError as error:
                self._restore(_MALFORMED, str(error))
            else:
                self._restore(saved)

    def _restore(self, saved: Any, lost: str = "the saved state is damaged") -> None:
        """`lost` is the reason to give if `saved` is invalid."""
        now = self._clock.monotonic()
        if saved is None:
            saved = {**self.wall.state(), "clean": True, "interlocks": {}, "former": {}}
        none = _Former(now, is_clean=True, state=None)
        try:
            found = self._found(saved, now)
        except (TypeError, ValueError, KeyError, AttributeError):
            found, none = {}, _Former(now, is_clean=False, state=_MALFORMED)
        for each in self._interlocks:
            was = found.pop(each.name, none)
            if not each.restore(was.state, now, now - was.at, was_clean=was.is_clean, lost=lost):
                logger.error("%s/%s: %s; assuming the worst case", self._name, each.name, lost)
        newest = sorted(found, key=lambda name: found[name].at)[-MOST_FORMER:]
        self._former = {name: found[name] for name in newest}
        self.is_loaded = True
        self._update()

    def _found(self, saved: Any, now: float) -> dict[str, _Former]:
        """The saved states by interlock. Raises various errors if they are invalid."""
        at = now - self.wall.restore(saved)
        former = saved["former"].items()
        found = {name: _Former(at - float(age), clean is True, state) for name, (age, clean, state) in former}
        was_clean = saved["clean"] is True
        return found | {name: _Former(at, was_clean, state) for name, state in saved["interlocks"].items()}

    async def _try_save(self) -> bool:
        try:
            async with self.exclusive():
                await self.save()
        except SAVE_ERRORS as error:
            if not self.error:
                logger.error("%s: cannot save the state: %s", self._name, error)  # noqa: TRY400  no bug
            self.error = str(error) or type(error).__name__
            return False
        self.error = ""
        return True

    async def _reset_now(self, interlock: Interlock) -> dict[str, Any]:
        async with self.exclusive():
            try:
                await self.save(reset=interlock)
            except SAVE_ERRORS as error:
                sentence = f"{interlock.name} was not reset, because the reset could not be saved: {error}"
                raise NotKeptError(sentence) from error
            interlock.reset()
        self._update()
        logger.info("%s/%s was reset", self._name, interlock.name)
        return done(f"{interlock.name} has been reset")

    async def _uncancelled(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Finish `work` even if the caller is cancelled, so that disk and memory agree."""
        task = asyncio.create_task(work, name=f"{self._name}: reset")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise
