"""Autotune: a service that finds the gains of a controller by a relay experiment (`relay`)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from growd.bus.errors import BusError
from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType, Quality
from growd.control.topics import OUTPUT_LEVEL, SENTENCE, measured, output_level, said
from growd.control.watched_loops import name_of_output
from growd.loops import loop_kind
from growd.runtime.event_loop import load
from growd.runtime.sentence import Sentence, reworded, told
from growd.variables import CARBON_DIOXIDE, VARIABLES
from growd_commissioning.experiments import Experiment, ExperimentError, heard_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.bus import Bus
    from growd.bus.topics import Subscription
    from growd.config import Chamber
    from growd.control.interlocks.node import Interlocks
    from growd.control.loop import LoopController
    from growd_commissioning.relay import RelayTest, Response

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
HELD_S: Final = 120.0  # an experiment that is not renewed ends; simulated time runs fast
STARTS_WITHIN_S: Final = 60.0  # beside the times of the output


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
            *SENTENCE,
            Field("progress", Kind.FLOAT64, 0, 1, "fraction"),
            Field("rise", Kind.FLOAT64, 0, unit=f"{VARIABLES[variable].unit}/s"),
            Field("lag", Kind.FLOAT64, 0, unit="s"),
            Field("loss", Kind.FLOAT64, 0, unit="1/h"),
            Field("left", Kind.FLOAT64, 0, unit="s"),
        ),
    )


class Autotuner(Experiment):
    """The services `<environment>/controllers/<variable>/autotune` and `.../stop_autotune`.

    The first answers at once that it has started, or why not: the variable is unknown, it has a set point or
    an override, an output of it has one or is on, an interlock holds the tested outputs (`why_held`), or
    `minimum_on` is too long. If one of these occurs meanwhile, it ends and changes nothing. It switches the
    outputs that raise the variable on for at most `most_on_s` at a time.

    Progress and result are on `<environment>/autotune/<variable>`. The result is saved as parameters of the
    controller, for CO2 also as the doses of the tested outputs.
    """

    noun, refusal = "autotune", "no autotune: "

    def __init__(
        self,
        bus: Bus,
        environment: str,
        controller: LoopController,
        outputs: tuple[TunedOutput, ...],
        *,
        why_held: Callable[[], str] = lambda: "",
        most_on_s: float | None = None,
        others: Callable[[], str] = lambda: "",
    ) -> None:
        self._variable = variable = controller.variable
        super().__init__(bus, environment, f"autotuners/{variable}", others=others, variable=variable)
        self._controller = controller
        self._name = controller.name
        self._outputs = outputs
        self._tested = tuple(each for each in outputs if each.is_tested)
        self._why_held = why_held
        self._most_on_s = most_on_s or loop_kind(variable).test_on_s
        self._levels = {each: self._levels_of(each) for each in outputs}
        self._gains = f"{environment}/controllers/{variable}"
        self._output = self.node.advertise(f"{environment}/autotune/{variable}", _message_type(variable))
        finds = f"Find the gains of the {self._name} controller: the output is on once or twice."
        self._serve(f"{self._gains}/autotune", "std_srvs/Trigger", self._start, finds)
        stops = "End the autotune: the output is off, and nothing changes."
        self._serve_stop(f"{self._gains}/stop_autotune", stops)

    @property
    def title(self) -> Sentence:
        return Sentence(f"the autotune of {self._variable}", "autotune", variable=self._variable)

    async def _start(self, who: str) -> str:  # noqa: ARG002
        await load("growd_commissioning.relay")
        if self.running:
            raise ExperimentError("an autotune is already running")
        self._refuse_if_busy()
        self._stopped = ""
        self._refuse_if_disturbed()
        self._refuse_if_on(self._tested)
        if self._minimum_on() > self._most_on_s:
            raise ExperimentError(f"minimum_on is above {self._most_on_s:g} s, the longest time on")
        self._begin_soon()
        return f"autotune has started; see the topic {self._output.topic.name}"

    def _refuse_if_disturbed(self) -> None:
        """Raise if somebody else drives the variable or its outputs, or the autotune was stopped."""
        self._refuse_if_stopped()
        if self._controller.measured_value is None:
            raise ExperimentError(f"{self._name} is unknown", "variable_unknown", variable=self._variable)
        names = {self._variable: self._name} | {each.variable: f"the {each.name}" for each in self._outputs}
        for variable, name in names.items():
            self._refuse_if_wanted(variable, name, "stop the recipe, or release it")
            self._refuse_if_overridden(variable, name)
        self._refuse_if_on(each for each in self._outputs if not each.is_tested)
        if why := self._why_held():
            raise ExperimentError(why)

    def _minimum_on(self) -> float:
        return max(self._number(each.variable, "minimum_on") for each in self._tested)

    def _levels_of(self, output: TunedOutput) -> tuple[str, ...]:
        """The topics with the levels that are written."""
        names = (output_level(self._environment, device) for device in output.devices)
        return tuple(self._bus.topics.declare(name, OUTPUT_LEVEL).name for name in names)

    def _refuse_if_on(self, outputs: Iterable[TunedOutput]) -> None:
        for output in outputs:
            if self._is_on(output):
                raise ExperimentError(f"the {output.name} is on", "is_on", variable=output.variable)

    def _is_on(self, output: TunedOutput) -> bool:
        return any(self._bus.topics.get(topic).known for topic in self._levels[output])

    async def _run_once(self) -> None:
        try:
            response = await self._experiment()
            await self._apply(response)
        except (ExperimentError, BusError, OSError) as error:
            self._report("failed", reworded(f"{error}; nothing has changed", told(error)))
            logger.log(self._severity(), "%s: the autotune ended early: %s", self.node.name, error)
        else:
            found = {"rise": response.rise, "lag": response.lag_s, "loss": response.loss_per_h}
            self._report("done", Sentence(str(response), "tuned"), **found)
            logger.info("%s: autotune found %s", self.node.name, response)
        finally:
            self._controller.experiment(None)

    async def _experiment(self) -> Response:
        from growd_commissioning.relay import RelayTest  # noqa: PLC0415  few tune their loops

        cycle_s = max(self._number(each.variable, "minimum_cycle") for each in self._tested)
        starts_within_s = STARTS_WITHIN_S + self._minimum_on() + cycle_s
        test = RelayTest(self._variable, self._clock.monotonic(), self._most_on_s, starts_within_s)
        levels = [topic for each in self._tested for topic in self._levels[each]]
        with self.node.subscribe(measured(self._environment, self._variable), *levels) as inbox:
            while not test.is_done:
                now = self._clock.monotonic()
                self._feed(test, inbox)
                self._refuse_if_disturbed()
                self._controller.experiment(float(test.wants_on(now)), HELD_S)
                stage, progress = test.stage(now), test.progress(now)
                self._stage = reworded(f"{stage}, {progress:.0%}", stage)
                self._report("running", stage, progress=progress, left=test.left_s(now))
                await self._clock.sleep(PERIOD_S)
        self._refuse_if_stopped()  # in the last second
        return test.response(self._minimum_on())

    def _feed(self, test: RelayTest, inbox: Subscription) -> None:
        while (message := inbox.get_nowait()) is not None:
            at = heard_at(message, self._clock)
            if message.topic != measured(self._environment, self._variable):
                test.output(at, any(map(self._is_on, self._tested)))
            elif message.quality is Quality.OK:
                test.measured(at, message.value)

    async def _apply(self, response: Response) -> None:
        """Set all results at once; if they cannot be saved, none is set."""
        gains = response.gains()
        found = {"kp": gains.kp, "ti": gains.ti_s, "td": gains.td_s}
        parameters = {f"{self._gains}/{name}": value for name, value in found.items()}
        for output in self._tested if self._variable == CARBON_DIOXIDE else ():
            controller = f"{self._environment}/controllers/{output.variable}"
            parameters |= {f"{controller}/minimum_{name}": response.minimum_on_s for name in ("on", "off")}
        with self._saving():
            await self._bus.parameters.set_together(parameters)

    def _report(self, state: str, message: str, **found: float) -> None:
        nothing = {"progress": 1.0, "rise": 0.0, "lag": 0.0, "loss": 0.0, "left": 0.0}
        self._output.publish({"state": state, **said(message), **nothing, **found})


def autotuner(
    chamber: Chamber,
    bus: Bus,
    controller: LoopController,
    interlocks: Interlocks,
    others: Callable[[], str],
) -> Autotuner:
    """The autotune of a variable that has one."""
    variable, limits = controller.variable, chamber.options.interlock
    outputs: dict[str, TunedOutput] = {}
    for each in chamber.drivers_of(variable):
        own = each.own_variable
        devices = tuple(other.name for other in chamber.by_own_variable[own])
        name = name_of_output(own).removeprefix("the ")
        outputs[own] = TunedOutput(own, name, devices, each.moved[variable])
    most_on_s = loop_kind(variable).test_on_s
    if variable == CARBON_DIOXIDE:  # a valve may be open only as long as its interlocks allow
        most_on_s = min(most_on_s, limits.valve_open_s, limits.no_rise_open_s)
    tested = [each.variable for each in outputs.values() if each.is_tested]
    return Autotuner(
        bus,
        chamber.environment,
        controller,
        tuple(outputs.values()),
        why_held=partial(interlocks.why_held, tested),
        most_on_s=most_on_s,
        others=others,
    )
