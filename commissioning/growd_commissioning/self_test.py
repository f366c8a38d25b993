"""The self-test of outputs: each is on for moments, and its sensor or feedback is watched."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType
from growd.bus.services import done, refused
from growd.control.interlocks.saved_states import SAVE_ERRORS
from growd.control.topics import SENTENCE, commanded, desired, measured, said
from growd.runtime.event_loop import load
from growd.runtime.sentence import Sentence, code_of, told
from growd_commissioning.experiments import Experiment, ExperimentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.parts import ControlledChamber
    from growd_commissioning.effect_course import Watched

logger = logging.getLogger(__name__)

SELF_TEST: Final = MessageType(
    "growd/SelfTest",
    (
        Field("state", Kind.STRING),
        *SENTENCE,
        Field("progress", Kind.FLOAT64, 0, 1, "fraction"),
        Field("begun", Kind.FLOAT64, 0, unit="s"),
        Field("ended", Kind.FLOAT64, 0, unit="s"),
        Field("by", Kind.STRING),
        Field("results", Kind.JSON),
    ),
)
"""`state` is running, done or stopped. Times are UNIX seconds, `ended` 0 before the end. `results` has for
each output `name`, `variable`, `outcome`, `finding`, and `reason` with its `code` and `fields`."""

BRIEFLY_S: Final = 5.0  # for an output without a sensor


class TrialOutcome(StrEnum):
    """What the self-test says of an output."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_TESTED = "not_tested"


class Reason(StrEnum):
    """The kind of a reason."""

    WORKS = "works"
    NO_EFFECT = "no_effect"
    REVERSED = "reversed"
    STAYS_ON = "stays_on"
    DEVICE = "device"
    SENSOR = "sensor"
    INTERLOCK = "interlock"
    HELD = "held"
    NOT_ASKED = "not_asked"
    UNSEEN = "unseen"
    UNSTEADY = "unsteady"


@dataclass(frozen=True)
class FeedbackSensor:
    """A sensor of the state of a device: above `above` it is on; it follows within `confirm_s`."""

    device: str
    above: float
    confirm_s: float


@dataclass(frozen=True)
class OutputUnderTest:
    """The outputs of one own variable, which are switched together.

    `level_topics` have the levels that were written, for the lamp in a `field`. `place` is the output for its
    interlocks. It is switched off when `watched` has moved, after `on_s` at most; a dose takes `on_s` in any
    case, while the outputs `beside` run, such as a pump that mixes the water. The effect may come, and must
    end, within `after_s`. What `needs_asking` is tested only if somebody names it.
    """

    name: str
    variable: str
    devices: tuple[str, ...]
    level_topics: tuple[str, ...]
    place: str
    watched: tuple[Watched, ...] = ()
    on_s: float = BRIEFLY_S
    after_s: float = 60.0
    is_dose: bool = False
    beside: str = ""
    safe: float = 0.0
    field: str = ""
    feedback: tuple[FeedbackSensor, ...] = ()
    needs_asking: bool = False

    @property
    def level(self) -> float:
        """Its level in the test."""
        return 1.0 - self.safe

    def is_named(self, name: str) -> bool:
        """Whether a name is that of this output, of a device of it, or its own variable."""
        return name in (self.name, self.variable, *self.devices)


_NOT_TESTED: Final = (Reason.HELD, Reason.NOT_ASKED, Reason.UNSEEN, Reason.UNSTEADY)


@dataclass(frozen=True)
class Found:
    """What was found, and the reason in words."""

    finding: Reason
    reason: str

    @property
    def sentence(self) -> Sentence:
        """The reason; without a code of its own it has that of the finding."""
        return (
            self.reason
            if isinstance(self.reason, Sentence)
            else Sentence(self.reason, f"test_{self.finding}")
        )

    @property
    def outcome(self) -> TrialOutcome:
        """What follows from it."""
        if self.finding is Reason.WORKS:
            return TrialOutcome.PASSED
        return TrialOutcome.NOT_TESTED if self.finding in _NOT_TESTED else TrialOutcome.FAILED


class SelfTest(Experiment):
    """The services `<environment>/self_test/begin` and `.../stop`.

    The first answers at once that the test has begun, or why not: a recipe runs, a set point or an override
    is set, or all outputs are held. If one of these occurs meanwhile, it stops. The outputs are tested one
    after the other, by commands on `commanded`, so all interlocks hold. `find` returns all outputs.

    Progress and results are on `<environment>/self_test`. The last result is kept in `memory`.
    """

    noun, end = "self-test", "all outputs are released"

    def __init__(
        self,
        control: ControlledChamber,
        others: Callable[[], str],
    ) -> None:
        environment = control.chamber.environment
        super().__init__(control.bus, environment, "self_test", others=others)
        self._chamber = control.chamber
        self._outputs: list[OutputUnderTest] = []
        self._interlocks = control.interlocks
        self._memory = control.memory
        self._set_points = tuple(control.chamber.reach())
        self._chosen: list[OutputUnderTest] = []
        self._named_outputs: set[str] = set()
        self._report: dict[str, Any] | None = None
        self._last: dict[str, Any] | None = None
        self._topic = self.node.advertise(f"{environment}/self_test", SELF_TEST)
        self.node.describe("last", lambda: self._last)
        self._serve(environment)

    def _serve(self, environment: str) -> None:
        names = Field("outputs", Kind.JSON, default=[], doc="names of outputs, or their variables; none: all")
        include = Field(
            "include", Kind.JSON, default=[], doc="outputs beside them that must be asked for: CO2, dosing"
        )
        self.node.serve(
            f"{environment}/self_test/begin",
            "growd/SelfTest",
            self._ask,
            arguments=(names, include),
            doc="Switch each output on for moments, and look whether its sensor or feedback follows. CO2 and "
            "dosing pumps are tested only if named. Refused while a recipe runs or a set point is set.",
            names_caller=True,
            is_administrative=True,
        )
        self._serve_stop(f"{environment}/self_test/stop", "Stop the self-test: all outputs are safe.")

    async def run(self) -> None:
        """Wait for calls until cancelled."""
        await self._restore()
        await super().run()

    @property
    def title(self) -> Sentence:
        return Sentence("the self-test of the outputs", "self_test")

    # services

    async def _ask(self, outputs: Any, include: Any, who: str) -> dict[str, Any]:
        await load("growd_commissioning.outputs_under_test", "growd_commissioning.output_trial")
        from growd_commissioning.outputs_under_test import outputs_under_test  # noqa: PLC0415

        self._outputs = outputs_under_test(self._chamber)
        try:
            chosen = self._named(outputs, "outputs")
            included = self._named(include, "include")
            self._refuse_unless_free()
        except ExperimentError as error:
            return refused(f"no self-test: {error}")
        self._named_outputs = {each.variable for each in (*chosen, *included)}
        self._chosen = [*chosen, *(each for each in included if each not in chosen)] if chosen else []
        self._chosen = self._chosen or self._outputs
        self._report = {"begun": self._clock.time(), "ended": 0.0, "by": who, "results": []}
        self._begin_soon()
        self._publish("running", self._stage)
        return done(f"the self-test has begun; see the topic {self._topic.topic.name}")

    def _named(self, names: Any, argument: str) -> list[OutputUnderTest]:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ExperimentError(f"{argument}: it must be a list of names of outputs")
        for name in names:
            if not any(each.is_named(name) for each in self._outputs):
                there = ", ".join(each.name for each in self._outputs) or "none"
                raise ExperimentError(f"{argument}: there is no output {name}; there is {there}")
        return [each for each in self._outputs if any(map(each.is_named, names))]

    # the whole test

    async def _run_once(self) -> None:
        state = "stopped"
        message: str = Sentence("it was interrupted", "interrupted")
        try:
            waiting = list(self._chosen)
            while waiting:
                output = waiting.pop(0)
                rival = next((number for number, each in enumerate(waiting) if _oppose(output, each)), None)
                found = await self._tested(output, has_rival=rival is not None)
                if found is None and rival is not None:
                    waiting.insert(rival + 1, output)
                elif found is not None:
                    self._note(output, found)
            failed = sum(each["outcome"] == TrialOutcome.FAILED for each in self._results)
            passed = sum(each["outcome"] == TrialOutcome.PASSED for each in self._results)
            rest = len(self._results) - passed - failed
            text = f"{passed} passed, {failed} failed, {rest} not tested"
            state, message = "done", Sentence(text, "test_done", passed=passed, failed=failed, rest=rest)
        except ExperimentError as error:
            message = told(error)
        finally:
            self._end(state, message)
        await self._save()

    @property
    def _results(self) -> list[dict[str, Any]]:
        assert self._report is not None  # noqa: S101
        return self._report["results"]  # type: ignore[no-any-return]

    def _note(self, output: OutputUnderTest, found: Found) -> None:
        result = {"name": output.name, "variable": output.variable, "outcome": str(found.outcome)}
        self._results.append(
            {**result, "finding": str(found.finding), "reason": str(found.reason), **code_of(found.sentence)}
        )
        level = logging.WARNING if found.outcome is TrialOutcome.FAILED else logging.INFO
        logger.log(level, "%s: %s %s: %s", self.node.name, output.name, found.outcome, found.reason)

    def _end(self, state: str, message: str) -> None:
        assert self._report is not None  # noqa: S101
        self._report["ended"] = self._clock.time()
        self._publish(state, message, 1.0)
        self._last = {name: each for name, each in self._report.items() if name != "progress"}
        logger.info("%s: %s: %s", self.node.name, state, message)

    def _publish(self, state: str, message: str, progress: float = 0.0) -> None:
        assert self._report is not None  # noqa: S101
        self._stage = message
        self._report |= {"state": state, **said(message), "progress": progress}
        self._topic.publish(dict(self._report))

    async def _restore(self) -> None:
        """Take the last result of an earlier life; one that is lost is none."""
        try:
            saved = await self._memory.state(self.node.name)
            if self._last is None and saved is not None:
                self._topic.publish({"code": "", "fields": {}, **saved, "progress": 1.0})
                self._last = saved
        except (*SAVE_ERRORS, ValueError, TypeError) as error:
            logger.warning("%s: cannot read the last result: %s", self.node.name, error)

    async def _save(self) -> None:
        try:
            await self._memory.save_state(self.node.name, self._last)
        except SAVE_ERRORS as error:
            logger.warning("%s: cannot save the result: %s", self.node.name, error)

    def _refuse_unless_free(self) -> None:
        """Raise if the test cannot begin."""
        if busy := self._why_busy():
            raise ExperimentError(busy)
        self._stopped = ""
        self._refuse_if_disturbed()
        for output in self._outputs:
            topic = commanded(self._environment, output.variable)
            if self._bus.parameters.get(f"{self._environment}/controllers/{output.variable}/override_left"):
                raise ExperimentError(
                    f"{output.name} has an override; release it: growd topic release {topic}"
                )

    def _refuse_if_disturbed(self) -> None:
        """Raise if something else drives outputs, or the test was stopped."""
        if self._stopped:
            raise ExperimentError(self._stopped)
        if reason := self._interlocks.hold_reason:
            raise ExperimentError(reason)
        topic = f"{self._environment}/recipe_state"
        recipe = self._bus.topics.get(topic).last if topic in self._bus.topics else None
        if recipe is not None and recipe.value["state"] in ("running", "paused"):
            running = recipe.value["recipe_id"]
            text = f"the recipe {running} is running; stop it first"
            raise ExperimentError(text, "recipe_runs", recipe=running)
        for variable in self._set_points:
            topic = desired(self._environment, variable)
            if self._bus.topics.get(topic).known is not None:
                text = f"{variable} has a set point; release it: growd topic release {topic}"
                raise ExperimentError(text, "has_set_point", variable=variable)

    # one output

    async def _tested(self, output: OutputUnderTest, *, has_rival: bool) -> Found | None:
        """What was found. None: a rival has to make room first, such as a fan in wet air."""
        if output.needs_asking and output.variable not in self._named_outputs:
            reason = f"it is tested only if you ask for it: --include {output.name}"
            return Found(Reason.NOT_ASKED, reason)
        from growd_commissioning.output_trial import OutputTrial  # noqa: PLC0415  few test their outputs

        topics = [measured(self._environment, each.variable) for each in output.watched]
        with self.node.subscribe(commanded(self._environment, output.variable), *topics) as inbox:
            trial = OutputTrial(
                self._bus,
                self.node,
                output,
                interlocks=self._interlocks,
                inbox=inbox,
                proceeds=partial(self._proceed, output),
            )
            return await trial.found(has_rival=has_rival)

    def _proceed(self, output: OutputUnderTest, stage: str) -> None:
        self._refuse_if_disturbed()
        text = Sentence(f"{output.name}: {stage}", "trial", output=output.name, stage=stage)
        self._publish("running", text, len(self._results) / len(self._chosen))


def _oppose(one: OutputUnderTest, other: OutputUnderTest) -> bool:
    """Whether they move a variable in opposite directions."""
    ways = {(each.variable, not each.raises) for each in one.watched}
    return any((each.variable, each.raises) in ways for each in other.watched)
