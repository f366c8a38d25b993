"""What experiments with outputs share: a service begins one, it runs alone, and it can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from growd.bus.services import done, refused
from growd.control.errors import ControlError
from growd.runtime.sentence import Sentence, code_of, document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.bus import Bus


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

    def _why_busy(self) -> str:
        """Why it cannot begin beside another experiment, or ""."""
        others = self._others()
        return f"{others} is running; wait for its end" if others else ""

    def _serve_stop(self, name: str, doc: str) -> None:
        self.node.serve(name, "std_srvs/Trigger", self._stop, doc=doc, names_caller=True)

    async def _stop(self, who: str) -> dict[str, Any]:
        if not self.running:
            return refused(f"no {self.noun} is running")
        if self._is_saving:
            return refused(f"the {self.noun} has ended; its result is being saved")
        self._stopped = Sentence(f"it was stopped by {who}", "stopped_by", by=who)
        return done(f"the {self.noun} ends; {self.end}")

    def _stage_now(self) -> str:
        return self._stage

    def _experiments(self) -> list[dict[str, Any]]:
        if not self.running:
            return []
        stage = self._stage_now()
        about = {"environment": self._environment, "variable": self._driven, "text": str(stage)}
        return [about | {"name": str(self.running), **code_of(self.running), "stage": document(stage)}]
