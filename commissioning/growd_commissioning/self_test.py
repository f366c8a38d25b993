"""The self-test of outputs: each is on for moments, and its sensor or feedback is watched."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType
from growd.control.interlocks.saved_states import SAVE_ERRORS
from growd.control.topics import SENTENCE, commanded, measured, said
from growd.runtime.event_loop import load
from growd.runtime.sentence import Sentence, code_of, told
from growd_commissioning.experiments import Experiment, ExperimentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.parts import ControlledChamber
    from growd_commissioning.output_trial import Found
    from growd_commissioning.outputs_under_test import OutputUnderTest

_MODULES: Final = ("growd_commissioning.outputs_under_test", "growd_commissioning.output_trial")
"""They are loaded when somebody tests outputs."""

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


class SelfTest(Experiment):
    """The services `<environment>/self_test/begin` and `.../stop`.

    The first answers at once that the test has begun, or why not: a recipe runs, a set point or an override
    is set, or all outputs are held. If one of these occurs meanwhile, it stops. The outputs are tested one
    after the other, by commands on `commanded`, so all interlocks hold.

    Progress and results are on `<environment>/self_test`. The last result outlasts a restart.
    """

    noun, refusal, end = "self-test", "no self-test: ", "all outputs are released"

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
        self._serve_test(environment)

    def _serve_test(self, environment: str) -> None:
        names = Field("outputs", Kind.JSON, default=[], doc="names of outputs, or their variables; none: all")
        include = Field(
            "include", Kind.JSON, default=[], doc="outputs beside them that must be asked for: CO2, dosing"
        )
        self._serve(
            f"{environment}/self_test/begin",
            "growd/SelfTest",
            self._ask,
            "Switch each output on for moments, and look whether its sensor or feedback follows. CO2 and "
            "dosing pumps are tested only if named. Refused while a recipe runs or a set point is set.",
            names,
            include,
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

    async def _ask(self, outputs: Any, include: Any, who: str) -> str:
        await load(*_MODULES)
        from growd_commissioning.outputs_under_test import outputs_under_test  # noqa: PLC0415

        self._outputs = outputs_under_test(self._chamber)
        chosen = self._named(outputs, "outputs")
        included = self._named(include, "include")
        self._refuse_unless_free()
        self._named_outputs = {each.variable for each in (*chosen, *included)}
        self._chosen = [*chosen, *(each for each in included if each not in chosen)] if chosen else []
        self._chosen = self._chosen or self._outputs
        self._report = {"begun": self._clock.time(), "ended": 0.0, "by": who, "results": []}
        self._begin_soon()
        self._publish("running", self._stage)
        return f"the self-test has begun; see the topic {self._topic.topic.name}"

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
                rival = next((number for number, each in enumerate(waiting) if output.opposes(each)), None)
                found = await self._tested(output, has_rival=rival is not None)
                if found is None and rival is not None:
                    waiting.insert(rival + 1, output)
                elif found is not None:
                    self._note(output, found)
            outcomes = [each["outcome"] for each in self._results]
            passed, failed, rest = map(outcomes.count, ("passed", "failed", "not_tested"))
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
        result = {"name": output.name, "variable": output.variable, "outcome": found.outcome}
        self._results.append(
            {**result, "finding": str(found.finding), "reason": str(found.reason), **code_of(found.sentence)}
        )
        level = logging.WARNING if found.outcome == "failed" else logging.INFO
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
        self._refuse_if_busy()
        self._stopped = ""
        self._refuse_if_disturbed()
        for output in self._outputs:
            self._refuse_if_overridden(output.variable, output.name)

    def _refuse_if_disturbed(self) -> None:
        """Raise if something else drives outputs, or the test was stopped."""
        self._refuse_if_stopped()
        if reason := self._interlocks.hold_reason:
            raise ExperimentError(reason)
        topic = f"{self._environment}/recipe_state"
        recipe = self._bus.topics.get(topic).last if topic in self._bus.topics else None
        if recipe is not None and recipe.value["state"] in ("running", "paused"):
            running = recipe.value["recipe_id"]
            text = f"the recipe {running} is running; stop it first"
            raise ExperimentError(text, "recipe_runs", recipe=running)
        for variable in self._set_points:
            self._refuse_if_wanted(variable, variable)

    # one output

    async def _tested(self, output: OutputUnderTest, *, has_rival: bool) -> Found | None:
        """What was found. None: a rival has to make room first, such as a fan in wet air."""
        from growd_commissioning.output_trial import Found, OutputTrial, Reason  # noqa: PLC0415

        if output.needs_asking and output.variable not in self._named_outputs:
            reason = f"it is tested only if you ask for it: --include {output.name}"
            return Found(Reason.NOT_ASKED, reason)
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
