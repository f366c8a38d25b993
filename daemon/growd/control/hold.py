"""The hold on all outputs, while growd runs; its files are those of `growd.host.hold`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from growd.bus.errors import NotKeptError
from growd.bus.fields import Field, Kind
from growd.bus.services import done, refused
from growd.control.topics import EVENT, event, events
from growd.host.hold import MOST_CHARACTERS, Hold, Holder, read_holds, release_hold, save_hold
from growd.runtime.sentence import Sentence, plain, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from growd.bus import Bus

logger = logging.getLogger(__name__)

SAFE_WITHIN_S: Final = 3.0  # real seconds: the time limit of a write, and some more
_CHECK_S: Final = 0.02
_REASON: Final = Field(
    "reason", Kind.STRING, default="", max_length=MOST_CHARACTERS, doc="the reason, in words"
)
_SINCE: Final = Field(
    "since", Kind.FLOAT64, default=0.0, unit="s", doc="`since` of the hold that is meant (default: any)"
)
_MEANT_REASON: Final = Field(
    "reason", Kind.JSON, default=None, doc="`reason` of the hold that is meant (default: any)"
)


class OutputHold:
    """The node `hold`: while a hold is set, every output of every environment is at its safe state.

    Actuators ask it through their guard. It counts as set until `read` has read the files of the data folder.
    Services set and release the hold of a person; other holders write their file and send SIGHUP. A hold
    takes effect before it is saved, and a release after the file is off the disk.
    """

    def __init__(self, bus: Bus, data: Path, environments: Iterable[str]) -> None:
        self.node = bus.node("hold")
        self._clock = bus.clock
        self._data = data
        self._holds: list[Hold] | None = None  # None: not read yet
        self._save_error = ""  # why the hold of a person is not on the disk
        self._setting = 0  # calls of hold/set that are not saved yet
        self._changing = asyncio.Lock()
        self._watchers: list[Callable[[], None]] = []
        self._unsafe: Callable[[], Collection[str]] = tuple
        self._settling = 0  # calls of hold/set that wait until the outputs are safe
        self._events = [self.node.advertise(events(environment), EVENT) for environment in environments]
        self.node.serve(
            "hold/set",
            "growd/SetHold",
            self._set,
            arguments=(_REASON,),
            names_caller=True,
            doc="Drive all outputs to their safe states, and hold them there until hold/release.",
        )
        self.node.serve(
            "hold/release",
            "growd/ReleaseHold",
            self._release,
            arguments=(_SINCE, _MEANT_REASON),
            names_caller=True,
            doc="Release the hold of hold/set: the outputs follow their commands again.",
        )
        self.node.describe("holds", lambda: plain(self._holds or []))
        self.node.describe("unsafe", self._unsafe_while_held)
        self.node.describe("problems", self._problems)

    @property
    def reason(self) -> str:
        """Why the outputs are held, "" while they are not."""
        if self._holds is None:
            return "it has not been read yet whether the outputs are held"
        return str(self._holds[0]) if self._holds else ""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed()` after each change of the holds."""
        self._watchers.append(changed)

    def judge_by(self, unsafe: Callable[[], Collection[str]]) -> None:
        """Ask `unsafe` for the names of the actuators whose outputs are not known to be safe."""
        self._unsafe = unsafe

    async def read(self) -> None:
        """Read the files, at the start and at SIGHUP. A hold that could not be saved stays."""
        async with self._changing:
            found = await asyncio.to_thread(read_holds, self._data)
            known = self._holds or []
            if any(hold.holder is Holder.PERSON for hold in found):
                self._save_error = ""
            elif self._save_error or self._setting:
                found += [hold for hold in known if hold.holder is Holder.PERSON]
            is_start, self._holds = self._holds is None, found
        if is_start:
            for hold in found:
                logger.warning("%s", hold)
        if is_start or found != known:
            self._notify()
            self._report([] if is_start else known, [] if is_start else found)

    def _notify(self) -> None:
        for changed in self._watchers:
            changed()

    async def _set(self, reason: str, who: str) -> dict[str, Any]:
        before = self._of_person()
        hold = before or Hold(Holder.PERSON, reason, who, self._clock.time())
        if before is not None and reason:  # setting it again without a reason keeps the first one
            hold = replace(before, reason=reason, by=who)
        self._setting += 1
        self._holds = [hold, *self._others()]  # before the disk, which may be slow
        self._notify()
        try:
            async with self._changing:
                await asyncio.to_thread(save_hold, self._data, hold)
                self._save_error = ""
        except OSError as error:
            self._save_error = error.strerror or str(error)
        finally:
            self._setting -= 1
        words = f"all outputs are {'still ' if before else ''}held{hold.why}"
        self._publish(Sentence(words, "hold_set", **_who(hold)))
        unsafe = await self._until_safe()
        if unsafe:
            names = ", ".join(unsafe)
            return refused(f"the hold is set, but these outputs are not known to be safe: {names}")
        if self._save_error:
            raise NotKeptError(f"all outputs are safe, but the hold is not saved: {self._save_error}")
        return done(str(hold))

    async def _release(self, since: float, reason: Any, who: str) -> dict[str, Any]:
        async with self._changing:
            before, hold = self._holds or [], self._of_person()
            if hold is not None and (since not in {0, hold.since} or reason not in {None, hold.reason}):
                return refused(f"this is another hold, it was not released: {hold}")
            try:
                was_saved = await asyncio.to_thread(release_hold, self._data, Holder.PERSON)
            except OSError as error:
                why = error.strerror or error
                words = f"the hold was not released, because it cannot be removed: {why}"
                raise NotKeptError(words) from error
            if self._setting:
                return refused("the hold was not released, because it was set again")
            self._save_error, self._holds = "", self._others()
        if not was_saved and self._holds == before:
            return done(_sentence("there was no hold to release", self._holds))
        self._notify()
        why = next((hold.why for hold in before if hold.holder is Holder.PERSON), "")
        self._publish(Sentence(f"the hold{why} is released by {who}", "hold_released", by=who))
        return done(_sentence("the hold is released", self._holds))

    def _of_person(self) -> Hold | None:
        return next((hold for hold in self._holds or [] if hold.holder is Holder.PERSON), None)

    def _others(self) -> list[Hold]:
        """The holds of all holders but the person."""
        return [hold for hold in self._holds or [] if hold.holder is not Holder.PERSON]

    async def _until_safe(self) -> list[str]:
        """Wait until all outputs are known to be safe, or for the time limit; the names of the others."""
        self._settling += 1
        try:
            async with asyncio.timeout(SAFE_WITHIN_S):
                while self._unsafe():  # noqa: ASYNC110  actuators report to nobody
                    await asyncio.sleep(_CHECK_S)
        except TimeoutError:
            return sorted(self._unsafe())
        finally:
            self._settling -= 1
        return []

    def _unsafe_while_held(self) -> list[str]:
        """The actuators whose outputs are not known to be safe though they are held, for `growd status`."""
        return sorted(self._unsafe()) if self._holds and not self._settling else []

    def _report(self, before: Collection[Hold], after: Collection[Hold]) -> None:
        for hold in after:
            if hold not in before:
                self._publish(Sentence(f"all outputs are held{hold.why}", "hold_set", **_who(hold)))
        for hold in before:
            if all(hold.holder is not each.holder for each in after):
                self._publish(Sentence(f"the hold{hold.why} is released", "hold_released", **_who(hold)))

    def _publish(self, message: str) -> None:
        logger.warning("%s", message, extra={"is_event": True})
        for publisher in self._events:
            publisher.publish(event("hold", self.node.name, message))

    def _problems(self) -> list[dict[str, Any]]:
        if not self._save_error:
            return []
        text = f"the hold is not saved and ends with growd: {self._save_error}"
        said = Sentence(text, "hold_not_saved", reason=self._save_error)
        return [problem(said, is_failure=True)]


def _who(hold: Hold) -> dict[str, str]:
    return {"by": hold.by, "reason": hold.reason}


def _sentence(done: str, left: Iterable[Hold]) -> str:
    """What was done, and the holds that remain."""
    return "; ".join([done, *(f"still held: {hold}" for hold in left)])
