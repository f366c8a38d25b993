"""Autotune: a service that finds the gains of a controller by an experiment."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.bus.errors import BusError, UnknownNameError
from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType, Quality
from growd.control.pulse_test import OPENS_WITHIN_S, TuneError
from growd.control.topics import OUTPUT_LEVEL, commanded, desired, measured, output_level
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Subscription
    from growd.control.loop import LoopController

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
HELD_S: Final = 120.0  # an experiment that is not renewed ends; simulated time runs fast


class TunedResponse(Protocol):
    """The result of a test."""

    @property
    def rise(self) -> float: ...
    @property
    def lag_s(self) -> float: ...
    @property
    def loss_per_h(self) -> float: ...

    def parameters(self) -> dict[str, float]:
        """The parameters of the controller."""

    def of_doses(self) -> dict[str, float]:
        """The parameters of the outputs."""

    def words(self) -> str:
        """The result for people."""


class OutputTest(Protocol):
    """Decides when the outputs are on, and takes readings (`pulse_test`, `step_test`)."""

    @property
    def is_done(self) -> bool: ...
    def progress(self, now: float) -> float: ...
    def left_s(self, now: float) -> float: ...
    def stage(self, now: float) -> str: ...
    def measured(self, now: float, value: float, /) -> None: ...
    def output(self, now: float, is_on: bool, /) -> None: ...  # noqa: FBT001  a state
    def wants_on(self, now: float) -> bool: ...
    def response(self) -> TunedResponse: ...


@dataclass(frozen=True)
class TunedOutput:
    """An output of the loop, by its own variable, with its name for people and its devices."""

    variable: str
    name: str
    devices: tuple[str, ...]
    is_tested: bool = True
    """Whether the test uses it; else it has to be off."""


def _message_type(variable: str) -> MessageType:
    """`state` is running, done or failed. `rise`, `lag` and `loss` are the result. `left` is the most that
    it still takes.
    """
    return MessageType(
        "growd/Autotune",
        (
            Field("state", Kind.STRING),
            Field("message", Kind.STRING),
            Field("progress", Kind.FLOAT64, 0, 1, "fraction"),
            Field("rise", Kind.FLOAT64, 0, unit=f"{VARIABLES[variable].unit}/s"),
            Field("lag", Kind.FLOAT64, 0, unit="s"),
            Field("loss", Kind.FLOAT64, 0, unit="1/h"),
            Field("left", Kind.FLOAT64, 0, unit="s"),
        ),
    )


class Autotuner:
    """The services `<environment>/controllers/<variable>/autotune` and `.../stop_autotune`.

    The first answers at once that it has started, or why not: the variable is unknown, it has a set point or
    an override, an output of it has one or is on, an interlock holds the tested outputs (`why_held` returns
    why, or ""), `minimum_on` is too long for the test, or an autotune or another experiment (`others`) is
    running. It switches the tested outputs on once, for at most `most_on_s`; `make_test` gives the test. If
    one of these conditions occurs meanwhile, it ends and changes nothing. With `raises` false the test is of
    the outputs that lower the variable.

    Progress and result are on `<environment>/autotune/<variable>`. The result is saved as parameters of the
    controller and of the tested outputs.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        controller: LoopController,
        outputs: tuple[TunedOutput, ...],
        make_test: Callable[[float], OutputTest],
        *,
        raises: bool = True,
        why_held: Callable[[], str] = lambda: "",
        most_on_s: float = 120.0,
        minutes: str = "a quarter of an hour",
        others: Callable[[], str] = lambda: "",
    ) -> None:
        variable = controller.variable
        self.node = bus.node(f"{environment}/autotuners/{variable}")
        self._bus = bus
        self._clock = bus.clock
        self._controller = controller
        self._variable = variable
        self._name = controller.name
        self._outputs = outputs
        self._make_test = make_test
        self._raises = raises
        self._why_held = why_held
        self._others = others
        self._most_on_s = most_on_s
        self._measured_topic = measured(environment, variable)
        self._environment = environment
        self._tested_topics = self._levels(is_tested=True)
        self._other_topics = {each.name: self._levels_of(each) for each in outputs if not each.is_tested}
        self._gains = f"{environment}/controllers/{variable}"
        self._output = self.node.advertise(f"{environment}/autotune/{variable}", _message_type(variable))
        self._requested = asyncio.Event()
        self._is_running = False
        self._stage = ""
        self._stopped = ""  # why it ends early
        self._is_saving = False
        self.node.describe("experiments", self._information)
        self.node.serve(
            f"{self._gains}/autotune",
            "std_srvs/Trigger",
            self._start,
            doc=f"Find the gains of the {self._name} controller with one dose. Takes {minutes}.",
            is_administrative=True,
        )
        self.node.serve(
            f"{self._gains}/stop_autotune",
            "std_srvs/Trigger",
            self._stop,
            doc=f"End the autotune: the {self._tested_name} is off, and nothing changes.",
            names_caller=True,
        )

    async def run(self) -> None:
        """Wait for calls until cancelled."""
        self._is_running = False
        while True:
            await self._requested.wait()
            self._requested.clear()
            self._is_running = True
            try:
                await self._tune()
            finally:
                self._is_running = False
                self._controller.experiment(None)

    @property
    def running(self) -> str:
        """What runs now, in words, or ""."""
        return f"the autotune of {self._variable}" if self._is_running or self._requested.is_set() else ""

    def _information(self) -> list[dict[str, Any]]:
        """For `growd status`."""
        if not self.running:
            return []
        return [
            {
                "environment": self._environment,
                "name": self.running,
                "text": self._stage,
                "variable": self._variable,
            }
        ]

    async def _stop(self, who: str) -> dict[str, Any]:
        if not self.running:
            return {"success": False, "message": "no autotune is running"}
        if self._is_saving:
            return {"success": False, "message": "the autotune has ended; its result is being saved"}
        self._stopped = f"it was stopped by {who}"
        return {"success": True, "message": "the autotune ends; nothing changes"}

    async def _start(self) -> dict[str, Any]:
        if not self.running:
            self._stopped = ""
        reason = self._obstacle()
        if self.running:
            reason = "an autotune is already running"
        elif others := self._others():
            reason = f"{others} is running; wait for its end"
        elif not reason and self._is_on(self._tested_topics):
            reason = f"the {self._tested_name} is {'open' if self._tested_name == 'valve' else 'on'}"
        elif not reason:
            reason = self._too_long_dose()
        if reason:
            return {"success": False, "message": f"no autotune: {reason}"}
        self._stage = "starts"
        self._requested.set()
        return {"success": True, "message": f"autotune has started; see the topic {self._output.topic.name}"}

    def _obstacle(self) -> str:
        """Why it cannot run, or ""."""
        if self._stopped:
            return self._stopped
        if self._controller.measured_value is None:
            return f"{self._name} is unknown"
        if self._controller.set_point is not None:
            topic = desired(self._environment, self._variable)
            return (
                f"{self._name} has a set point; stop the recipe, or release it: growd topic release {topic}"
            )
        if self._controller.is_overridden:
            topic = commanded(self._environment, self._variable)
            return f"{self._name} has an override; release it: growd topic release {topic}"
        return self._taken_output() or self._why_held()

    def _too_long_dose(self) -> str:
        """Why a dose of `minimum_on` is too long for the test, or ""."""
        longest = min(self._most_on_s, OPENS_WITHIN_S)  # a dose is due before it is given
        for output in self._outputs:
            name = f"{self._environment}/controllers/{output.variable}/minimum_on"
            least = self._bus.parameters.declared(name)
            if output.is_tested and least is not None and least.value > longest:
                where = f"minimum_on of the {output.name}"
                return f"{where} is above {longest:g} s, which is too long for the test dose"
        return ""

    def _taken_output(self) -> str:
        """Why an output is not free, or ""."""
        for output in self._outputs:
            if self._has_set_point(output.variable):
                command = f"growd topic release {desired(self._environment, output.variable)}"
                return (
                    f"the {output.name} has a set point of its own; stop the recipe, or release it: {command}"
                )
            if self._is_overridden(output.variable):
                command = f"growd topic release {commanded(self._environment, output.variable)}"
                return f"the {output.name} has an override; release it: {command}"
        for name, topics in self._other_topics.items():
            if self._is_on(topics):
                return f"the {name} {'runs' if name == 'fan' else 'is on'}"
        return ""

    @property
    def _tested_name(self) -> str:
        return next((each.name for each in self._outputs if each.is_tested), "output")

    def _levels(self, *, is_tested: bool) -> tuple[str, ...]:
        """The topics with the levels of the outputs that the test uses, or does not."""
        tested = (self._levels_of(each) for each in self._outputs if each.is_tested is is_tested)
        return tuple(topic for topics in tested for topic in topics)

    def _levels_of(self, output: TunedOutput) -> tuple[str, ...]:
        names = (output_level(self._environment, device) for device in output.devices)
        return tuple(self._bus.topics.declare(name, OUTPUT_LEVEL).name for name in names)

    def _is_on(self, topics: tuple[str, ...]) -> bool:
        lasts = (self._bus.topics.get(topic).last for topic in topics)
        return any(last is not None and _is_open(last) for last in lasts)

    def _has_set_point(self, variable: str) -> bool:
        last = self._bus.topics.get(desired(self._environment, variable)).last
        return last is not None and last.quality is Quality.OK

    def _is_overridden(self, variable: str) -> bool:
        try:
            left: float = self._bus.parameters.get(
                f"{self._environment}/controllers/{variable}/override_left"
            )
        except UnknownNameError:  # the chamber has no such switch
            return False
        return left > 0

    async def _tune(self) -> None:
        try:
            response = await self._experiment()
            await self._apply(response)
        except (TuneError, BusError, OSError) as error:
            self._report("failed", f"{error}; nothing has changed", 1.0)
            logger.warning("%s: autotune failed: %s", self.node.name, error)
        else:
            message = response.words()
            self._report("done", message, 1.0, response)
            logger.info("%s: autotune found %s", self.node.name, message)

    async def _experiment(self) -> TunedResponse:
        test = self._make_test(self._clock.monotonic())
        with self.node.subscribe(self._measured_topic, *self._tested_topics) as inbox:
            while not test.is_done:
                now = self._clock.monotonic()
                self._feed(test, inbox, now)
                if reason := self._obstacle():
                    raise TuneError(reason)
                self._controller.experiment(self._sign() * float(test.wants_on(now)), HELD_S)
                self._stage = f"{test.stage(now)}, {test.progress(now):.0%}"
                self._report("running", test.stage(now), test.progress(now), left_s=test.left_s(now))
                await self._clock.sleep(PERIOD_S)
        if self._stopped:  # in the last second
            raise TuneError(self._stopped)
        return test.response()

    def _sign(self) -> float:
        return 1.0 if self._raises else -1.0

    def _feed(self, test: OutputTest, inbox: Subscription, now: float) -> None:
        while (message := inbox.get_nowait()) is not None:
            # messages carry wall time, which may step; they are at most a second old
            if message.topic != self._measured_topic:
                test.output(self._when(message, now), self._is_on(self._tested_topics))
            elif message.quality is Quality.OK:
                test.measured(self._when(message, now), message.value)

    def _when(self, message: Message, now: float) -> float:
        ago = self._clock.time() - message.time
        return now - max(0.0, min(2 * PERIOD_S, ago))

    async def _apply(self, response: TunedResponse) -> None:
        """Set all results at once; if they cannot be saved, none is set."""
        found = {f"{self._gains}/{name}": value for name, value in response.parameters().items()}
        for name, value in response.of_doses().items():
            tested = (each.variable for each in self._outputs if each.is_tested)
            found |= {f"{self._environment}/controllers/{each}/{name}": value for each in tested}
        self._is_saving = True
        try:
            await self._bus.parameters.set_together(found)
        finally:
            self._is_saving = False

    def _report(
        self,
        state: str,
        message: str,
        progress: float,
        response: TunedResponse | None = None,
        left_s: float = 0.0,
    ) -> None:
        self._output.publish(
            {
                "state": state,
                "message": message,
                "progress": progress,
                "rise": 0.0 if response is None else response.rise,
                "lag": 0.0 if response is None else response.lag_s,
                "loss": 0.0 if response is None else response.loss_per_h,
                "left": left_s,
            }
        )


def _is_open(message: Message) -> bool:
    return message.quality is Quality.OK and bool(message.value)
