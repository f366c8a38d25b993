"""The trial of one output: it is on for moments, and its sensor or feedback is watched."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from growd.bus.messages import Quality
from growd.control.health import LEVELS, State
from growd.control.interlocks.feedback import CONFIRM_ABOVE, CONFIRM_S
from growd.control.topics import commanded, diagnostics, feedback, measured
from growd.runtime.sentence import Sentence
from growd.variables import VARIABLES
from growd_commissioning.effect_course import EFFECT, WATCHING, EffectCourse
from growd_commissioning.experiments import HEARD_WITHIN_S, ExperimentError, heard_at
from growd_commissioning.outputs_under_test import BRIEFLY_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus, Node
    from growd.bus.topics import Subscription
    from growd.control.interlocks.base import Interlock
    from growd.control.interlocks.node import Interlocks
    from growd_commissioning.outputs_under_test import OutputUnderTest

PERIOD_S: Final = 1.0
STEADY_S: Final = 300.0  # for readings that say how the variable goes on by itself
WRITTEN_S: Final = 30.0  # an interlock or the device may delay it
PAUSE_S: Final = 900.0  # the longest pause of an interlock, such as that of the mixing tank

SWITCHING_ON: Final = Sentence("switching on", "switching_on")
IS_ON: Final = Sentence("it is on", "output_on")
SWITCHING_OFF: Final = Sentence("switching off", "switching_off")


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
    def outcome(self) -> str:
        """What follows from it: passed, failed or not_tested."""
        if self.finding is Reason.WORKS:
            return "passed"
        return "not_tested" if self.finding in _NOT_TESTED else "failed"


class _EarlyError(Exception):
    """The trial ends before its time."""

    def __init__(self, finding: Reason, reason: str) -> None:
        super().__init__(reason)
        self.found = Found(finding, reason)


class OutputTrial:
    """The trial of one output by commands of `node`.

    `inbox` has the commands of the output, and what is measured of what it moves. `proceeds(stage)` is called
    each second, and raises `ExperimentError` to end the whole test.
    """

    def __init__(
        self,
        bus: Bus,
        node: Node,
        output: OutputUnderTest,
        *,
        interlocks: Interlocks,
        inbox: Subscription,
        proceeds: Callable[[str], None],
    ) -> None:
        environment = node.name.partition("/")[0]
        self._proceeds = proceeds
        self._bus = bus
        self._clock = bus.clock
        self._environment = environment
        self._output = output
        self._interlocks = interlocks
        self._inbox = inbox
        self._own = (node.name, f"{environment}/controllers/")
        self._command = node.publisher(commanded(environment, output.variable))
        beside = output.beside and commanded(environment, output.beside)
        self._beside = node.publisher(beside) if beside else None
        self._courses = {measured(environment, each.variable): EffectCourse(each) for each in output.watched}
        self._ends_at: float | None = None  # of a dose

    async def found(self, *, has_rival: bool) -> Found | None:
        """Run it; None: a rival has to make room first. The output is released also by an error."""
        try:
            await self._settle()
            if has_rival and not all(each.has_room for each in self._courses.values()):
                return None
            await self._switch_on()
            await self._stay_on()
            await self._switch_off()
            return await self._watched_after()
        except _EarlyError as early:
            return early.found
        finally:
            self._command.publish(None, Quality.STALE)
            if self._beside is not None:
                self._beside.publish(None, Quality.STALE)

    async def _settle(self) -> None:
        """Wait until the readings say how the variables go on by themselves."""
        stage = WATCHING
        if self._courses:
            await self._until(
                lambda: all(each.is_steady() for each in self._courses.values()), STEADY_S, stage
            )
            known = {topic: each for topic, each in self._courses.items() if each.is_known()}
            if not known:
                names = ", ".join(each.variable for each in self._output.watched)
                raise _EarlyError(Reason.SENSOR, f"{names} is unknown: check its sensor")
            self._courses = known
        for device in self._output.feedback:
            if self._reads_on(device) is not bool(self._output.safe):
                await self._confirmed(device, stage, wanted=bool(self._output.safe))

    async def _switch_on(self) -> None:
        """Command it until it is written."""
        output = self._output
        began = self._clock.monotonic()
        while not await self._until(self._is_written, PERIOD_S, SWITCHING_ON, is_on=True):
            self._raise_device_failure("it could not be switched on")
            waited = self._clock.monotonic() - began
            holder = self._holder()
            if holder is None and waited > WRITTEN_S:
                raise _EarlyError(Reason.DEVICE, "it was not switched on")
            passes = holder is not None and (holder.is_routine or holder.is_expected)
            if holder is not None and (not passes or waited > PAUSE_S) and waited > HEARD_WITHIN_S:
                self._raise_held()
        now = self._clock.monotonic()
        self._ends_at = now + output.on_s if output.is_dose else None
        for course in self._courses.values():
            course.switched_on(now)

    async def _stay_on(self) -> None:
        """Keep it on until its effect is seen, or for its time."""
        output = self._output
        seen = self._is_seen if self._courses and not output.is_dose else bool
        on_s = output.on_s if self._courses else BRIEFLY_S
        await self._until(lambda: seen() or not self._is_written(), on_s, IS_ON, is_on=True)
        for device in output.feedback:
            await self._confirmed(device, IS_ON, wanted=bool(output.level), is_on=True)
        if not self._is_written() and not output.is_dose and not self._is_seen():
            self._raise_device_failure("it failed while it was on")
            self._raise_held()

    async def _switch_off(self) -> None:
        """Release it until the safe level is written."""
        self._command.publish(None, Quality.STALE)
        for course in self._courses.values():
            course.switched_off(self._clock.monotonic())
        began = self._clock.monotonic()
        while not await self._until(lambda: self._level() == self._output.safe, PERIOD_S, SWITCHING_OFF):
            self._raise_device_failure("it could not be switched off, and may be on")
            if self._clock.monotonic() - began > PAUSE_S:
                self._raise_held()
        for device in self._output.feedback:
            await self._confirmed(device, SWITCHING_OFF, wanted=bool(self._output.safe))

    async def _watched_after(self) -> Found:
        """Whether the effect comes, and ends."""
        output, courses = self._output, self._courses.values()
        if not courses:
            return self._without_sensor()
        await self._until(
            lambda: any(each.runs_away or self._has_worked(each) for each in courses) and not output.is_dose,
            output.after_s,
            EFFECT,
        )
        self._raise_device_failure("it could not be switched off, and may be on")
        works = [each for each in courses if self._has_worked(each) and not each.runs_away]
        if works:
            return Found(Reason.WORKS, _moved(works[0]))
        rising = next((each for each in courses if each.is_seen), None)
        if rising is not None:
            reason = f"{_moved(rising)}, and goes on: it may stay on, switch off its power"
            return Found(Reason.STAYS_ON, reason)
        return self._without_effect(list(courses))

    def _without_sensor(self) -> Found:
        if self._output.feedback:
            return Found(Reason.WORKS, "its feedback follows it")
        reason = (
            "it was switched on and off without an error, and no sensor measures what it does: look at it"
        )
        return Found(Reason.UNSEEN, reason)

    def _without_effect(self, courses: list[EffectCourse]) -> Found:
        words = "; ".join(_moved(each) for each in courses)
        for each in courses:
            if each.is_reversed:
                reason = f"{words}, the wrong way: check its polarity (active), and direction"
                return Found(Reason.REVERSED, reason)
        if not all(each.has_room for each in courses):
            causes = (
                "there may be no room for more, or it stays on, or it is broken: bring it back, and try again"
            )
        elif any(each.drifts_along for each in courses):
            causes = "it moves that way all the time, so the output may stay on, or it is broken"
        elif not any(each.is_steady() for each in courses):
            reason = f"{words}, and it moves by itself: wait until it is steady, and try again"
            return Found(Reason.UNSTEADY, reason)
        else:
            causes = "it may be broken, empty or not connected, or the sensor is elsewhere"
            if not any(each.watched.raises for each in courses):
                causes += ", or there was nothing to lower, as in air like that of the room"
        return Found(Reason.NO_EFFECT, f"{words}: {causes}")

    def _has_worked(self, course: EffectCourse) -> bool:
        """Whether the effect came, and has ended; that of a dose ends when the tank has mixed."""
        return course.is_seen and (self._output.is_dose or course.has_ceased)

    # conditions

    async def _until(
        self, condition: Callable[[], bool], limit_s: float, stage: str, *, is_on: bool = False
    ) -> bool:
        """Whether the condition holds within the limit. With `is_on` the command is renewed meanwhile."""
        end = self._clock.monotonic() + limit_s
        while True:
            self._proceeds(stage)
            self._feed()
            if self._beside is not None:
                self._beside.publish(1.0)
            if condition():
                return True
            left = end - self._clock.monotonic()
            if left <= 0:
                return False
            if is_on:
                self._renew()
            await self._clock.sleep(min(PERIOD_S, left))

    def _renew(self) -> None:
        now = self._clock.monotonic()
        if self._ends_at is None:
            valid_s = self._output.on_s if self._output.is_dose else None
            self._command.publish(self._output.level, valid_s=valid_s)
        elif now < self._ends_at:
            self._command.publish(self._output.level, valid_s=self._ends_at - now)

    def _feed(self) -> None:
        while (message := self._inbox.get_nowait()) is not None:
            if message.topic in self._courses:
                if message.quality is Quality.OK:
                    self._courses[message.topic].take(heard_at(message, self._clock), message.value)
            elif not message.node.startswith(self._own):
                words = f"{self._output.name} was commanded by {message.node}"
                raise ExperimentError(words, "commanded_by_other", output=self._output.name)

    def _is_seen(self) -> bool:
        return any(each.is_seen for each in self._courses.values())

    def _is_written(self) -> bool:
        return self._level() == self._output.level

    def _level(self) -> float | None:
        """The level that was written to all its devices, None if it is not known or not the same."""
        found = set()
        for name in self._output.level_topics:
            level = self._bus.topics.get(name).known
            if level is None:
                return None
            found.add(level[self._output.field] if self._output.field else level)
        return found.pop() if len(found) == 1 else None

    def _reads_on(self, device: str) -> bool | None:
        value = self._bus.topics.get(feedback(self._environment, device)).known
        return None if value is None else bool(value > CONFIRM_ABOVE)

    async def _confirmed(
        self,
        device: str,
        stage: str,
        *,
        wanted: bool,
        is_on: bool = False,
    ) -> None:
        """Wait until the feedback reads what is written."""
        if await self._until(lambda: self._reads_on(device) is wanted, CONFIRM_S, stage, is_on=is_on):
            return
        reads = self._reads_on(device)
        if reads is None:
            raise _EarlyError(Reason.SENSOR, f"the feedback of {device} is unknown")
        if reads:
            words = f"{device} is written off, and its feedback says that it is on: switch off its power"
            raise _EarlyError(Reason.STAYS_ON, words)
        words = f"{device} is written on, and its feedback says that it is off: check wires and power"
        raise _EarlyError(Reason.NO_EFFECT, words)

    def _holder(self) -> Interlock | None:
        output = self._output
        return self._interlocks.holder(output.devices[0], output.place, output.level)

    def _raise_device_failure(self, words: str) -> None:
        for device in self._output.devices:
            last = self._bus.topics.get(diagnostics(self._environment, device)).last
            if last is not None and last.value["level"] == LEVELS[State.FAILED]:
                reason = f"{words}: {last.value['message']}"
                raise _EarlyError(Reason.DEVICE, reason)

    def _raise_held(self) -> None:
        holder = self._holder()
        if holder is None:
            raise _EarlyError(Reason.HELD, "it did not stay as it was commanded")
        words = f"it is held by {holder.name}: {holder.reason}"
        if holder.is_failure:
            raise _EarlyError(Reason.INTERLOCK, words)
        for each in self._courses.values():
            if each.drifts_along:
                words += f"; {each.watched.variable} moved that way while it was off, so it may stay on"
                raise _EarlyError(Reason.STAYS_ON, words)
        raise _EarlyError(Reason.HELD, words)


def _moved(course: EffectCourse) -> Sentence:
    """A change in words, in the direction of the variable."""
    change = course.moved if abs(course.moved) > course.most or not course.is_seen else course.most
    change = change if course.watched.raises else -change
    variable = VARIABLES[course.watched.variable]
    text = f"{variable.name} changed by {change:+.{variable.precision}f} {variable.unit}".rstrip()
    return Sentence(text, "changed", variable=variable.name, change=change, unit=variable.unit)
