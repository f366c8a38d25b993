"""What experiments with outputs share: a service begins one, it runs alone, and it can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import UnknownNameError
from growd.bus.services import done, refused
from growd.control.errors import ControlError
from growd.control.topics import commanded, desired
from growd.runtime.sentence import Sentence, code_of, document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from growd.bus import Bus
    from growd.bus.fields import Field
    from growd.bus.messages import Message
    from growd.runtime.clock import Clock

HEARD_WITHIN_S: Final = 2.0
"""A message that is heard is not older than this."""


class ExperimentError(ControlError):
    """An experiment or a calibration is refused, or ends early. The text says why."""

    def __init__(self, text: str, code: str = "", **fields: Any) -> None:
        super().__init__(Sentence(text, code, **fields) if code else text)


class Experiment(ABC):
    """An experiment: an autotune, a calibration or a self-test.

    `others` returns the experiment that runs, in words, or "": they would disturb each other. The detail
    `experiments` of the node is for `growd status`.
    """

    noun: str
    """What it is, in the answers to clients."""
    refusal = ""
    """What refusals begin with."""
    end = "nothing changes"
    """What follows from a stop."""

    def __init__(
        self, bus: Bus, environment: str, node: str, *, others: Callable[[], str], variable: str = ""
    ) -> None:
        self.node = bus.node(f"{environment}/{node}")
        self._bus = bus
        self._clock = bus.clock
        self._environment = environment
        self._others = others
        self._driven = variable
        self._asked = asyncio.Event()
        self._stage: str = ""
        self._stopped: str = ""  # why it ends early
        self._is_saving = False
        self.node.describe("experiments", self._experiments)

    @property
    @abstractmethod
    def title(self) -> Sentence:
        """What it is, in words."""

    @property
    def running(self) -> str:
        """What runs now, in words, or ""."""
        return self.title if self._asked.is_set() else ""

    async def run(self) -> None:
        """Wait for calls until cancelled."""
        while True:
            await self._asked.wait()
            try:
                await self._run_once()
            finally:
                self._asked.clear()

    @abstractmethod
    async def _run_once(self) -> None:
        """The experiment, to its end."""

    def _serve(
        self,
        name: str,
        request_type: str,
        handler: Callable[..., Awaitable[str]],
        doc: str,
        *arguments: Field,
        is_administrative: bool = True,
    ) -> None:
        """Offer a service. The handler returns what it did; its `ExperimentError` refuses the call."""

        async def serve(**given: Any) -> dict[str, Any]:
            try:
                return done(await handler(**given))
            except ExperimentError as error:
                return refused(f"{self.refusal}{error}")

        self.node.serve(
            name,
            request_type,
            serve,
            arguments=arguments,
            doc=doc,
            names_caller=True,
            is_administrative=is_administrative,
        )

    def _serve_stop(self, name: str, doc: str) -> None:
        self.node.serve(name, "std_srvs/Trigger", self._stop, doc=doc, names_caller=True)

    async def _stop(self, who: str) -> dict[str, Any]:
        if not self.running:
            return refused(f"no {self.noun} is running")
        if self._is_saving:
            return refused(f"the {self.noun} has ended; its result is being saved")
        self._stopped = Sentence(f"it was stopped by {who}", "stopped_by", by=who)
        return done(f"the {self.noun} ends; {self.end}")

    def _begin_soon(self) -> None:
        self._stopped, self._stage = "", Sentence("starts", "starts")
        self._asked.set()

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        """The result is being saved: a stop comes too late."""
        self._is_saving = True
        try:
            yield
        finally:
            self._is_saving = False

    # what is in the way: these raise `ExperimentError`

    def _refuse_if_busy(self) -> None:
        """Another experiment runs."""
        if others := self._others():
            raise ExperimentError(f"{others} is running; wait for its end")

    def _severity(self) -> int:
        """That of its early end, for the log: a stop that somebody asked for is no fault."""
        return logging.INFO if self._stopped else logging.WARNING

    def _refuse_if_stopped(self) -> None:
        if self._stopped:
            raise ExperimentError(self._stopped)

    def _refuse_if_wanted(self, variable: str, name: str, advice: str = "release it") -> None:
        """A variable has a set point."""
        topic = desired(self._environment, variable)
        if self._bus.topics.get(topic).known is not None:
            text = f"{name} has a set point; {advice}: growd topic release {topic}"
            raise ExperimentError(text, "has_set_point", variable=variable)

    def _refuse_if_overridden(self, variable: str, name: str) -> None:
        """A variable has a command by hand."""
        if self._number(variable, "override_left") > 0:
            release = f"growd topic release {commanded(self._environment, variable)}"
            text = f"{name} has an override; release it: {release}"
            raise ExperimentError(text, "has_override", variable=variable)

    def _number(self, variable: str, name: str) -> float:
        """A parameter of a controller; 0 if it has none."""
        try:
            return float(self._bus.parameters.get(f"{self._environment}/controllers/{variable}/{name}"))
        except UnknownNameError:  # what is dimmed has no doses
            return 0.0

    # information

    def _stage_now(self) -> str:
        return self._stage

    def _experiments(self) -> list[dict[str, Any]]:
        if not self.running:
            return []
        stage = self._stage_now()
        about = {"environment": self._environment, "variable": self._driven, "text": str(stage)}
        return [about | {"name": str(self.running), **code_of(self.running), "stage": document(stage)}]


def heard_at(message: Message, clock: Clock) -> float:
    """When a message was published, in monotonic seconds. It carries wall time, which may step."""
    ago = clock.time() - message.time
    return clock.monotonic() - max(0.0, min(HEARD_WITHIN_S, ago))
