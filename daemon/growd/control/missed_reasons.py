"""Why a set point is not reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.bus.messages import Quality
from growd.control.health import LEVELS, State
from growd.control.topics import commanded, desired, diagnostics, output_level
from growd.control.watched_loops import name_of_output, names_of
from growd.runtime.sentence import Sentence
from growd.runtime.text import duration
from growd.variables import CARBON_DIOXIDE, FAN, ILLUMINANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.control.watched_loops import Loop

UNKNOWN: Final = Sentence("its output is not at a limit; the reason is unknown", "reason_unknown")


class MissedReasons:
    """The reasons of an environment. `why_held` returns why an interlock holds one of the outputs, or ""."""

    def __init__(self, bus: Bus, environment: str, why_held: Callable[[Iterable[str]], str]) -> None:
        self._bus = bus
        self._clock = bus.clock
        self._environment = environment
        self._why_held = why_held
        self._written: dict[str, int] = {}  # by device: the number of its last level
        self._dosed: dict[str, float] = {}  # by device: the end of its last dose, in monotonic seconds

    def watch_doses(self, loops: Iterable[Loop]) -> None:
        """Note the doses since the last call, which was less than a dose and a pause ago."""
        now = self._clock.monotonic()
        for device in (device for loop in loops if loop.is_dosed for device in loop.devices):
            topic = output_level(self._environment, device)
            last = self._last(topic) if topic in self._bus.topics else None
            if last is None:
                continue
            new = last.number - self._written.get(device, last.number)
            self._written[device] = last.number
            if new > 1 or (last.value or 0) > 0:
                self._dosed[device] = now

    def cause(self, loop: Loop, *, is_low: bool) -> str:
        """Why its outputs do not follow their commands, or ""."""
        if loop.through:
            return Sentence(f"it follows from {loop.through}", "set_point_follows", variable=loop.through)
        for device in loop.devices:
            last = self._last(diagnostics(self._environment, device))
            if last is not None and last.value["level"] >= LEVELS[State.FAILED]:
                text = f"its output {device} has failed ({last.value['message']})"
                return Sentence(text, "output_failed", device=device)
        if not loop.is_moved(is_low=is_low):
            return ""
        if why := self._why_held((loop.variable, *loop.outputs)):
            return Sentence(f"its output is held ({why})", "output_held", by=why)
        causes = " and ".join(self._own_set_points(loop, is_low=is_low))
        return (
            f"the full light is missed because {causes}"
            if causes and is_low and loop.variable == ILLUMINANCE
            else causes
        )

    def limit(self, loop: Loop, *, is_low: bool) -> str:
        """Why its outputs do not suffice."""
        if not loop.is_moved(is_low=is_low):
            return self._unmoved(loop, is_low=is_low)
        command = self._command(loop.variable)
        if command is None:
            return Sentence("nothing is commanded", "nothing_commanded")
        if loop.is_dosed:
            return self._doses(loop, is_low=is_low)
        lowest, highest = loop.limits
        if is_low:
            at_most = Sentence(loop.at_most, "output_at_most", outputs=list(loop.pushing(is_low=False)))
            return at_most if command >= highest else self._rival(loop) or UNKNOWN
        is_lowered = command <= lowest or (command < 0 and loop.variable == CARBON_DIOXIDE)
        at_least = Sentence(loop.at_least, "output_at_least", outputs=list(loop.pushing(is_low=True)))
        return at_least if is_lowered else UNKNOWN

    def _unmoved(self, loop: Loop, *, is_low: bool) -> str:
        """No output moves it back: another one may have moved it too far, or still does."""
        pushing = loop.pushing(is_low=is_low)
        verb = "is" if len(pushing) == 1 else "are"
        check = f", and check that {names_of(pushing)} {verb} off" if pushing else ""
        text = f"no output {'raises' if is_low else 'lowers'} it: adjust it by hand{check}"
        return Sentence(text, "no_output_raises" if is_low else "no_output_lowers", outputs=list(pushing))

    def _doses(self, loop: Loop, *, is_low: bool) -> str:
        names = names_of(loop.pushing(is_low=not is_low))
        pause = self._bus.parameters.declared(f"{self._environment}/controllers/{loop.variable}/mixing")
        mixing = f" of {duration(pause.value)}" if pause is not None else ""
        dosed = [self._dosed[device] for device in loop.devices if device in self._dosed]
        ago = f"ended {duration(self._clock.monotonic() - max(dosed))} ago" if dosed else "is not known"
        text = f"{names} works in doses with a pause{mixing} for mixing after each; the last dose {ago}"
        return Sentence(text, "doses", outputs=list(loop.pushing(is_low=not is_low)))

    def _own_set_points(self, loop: Loop, *, is_low: bool) -> Iterator[str]:
        """The set points of its outputs that prevent raising it, or lowering it."""
        for output in loop.outputs:
            last = self._last(desired(self._environment, output))
            if last is None or last.quality is not Quality.OK:
                continue
            level = float(last.value) / loop.full.get(output, 1.0)
            raises = 1.0 - level if output in loop.lowering else level
            if raises < 1.0 if is_low else raises > 0.0:
                whose = "of the recipe" if last.node == f"{self._environment}/recipe_runner" else "by hand"
                name = output.removeprefix("light_intensity_")
                part = f"the channel {name}" if name != output else name_of_output(output)
                yield f"{part} is held at {float(last.value):.3g} by the set point {output} {whose}"

    def _rival(self, loop: Loop) -> str:
        """The output that lowers it for another variable now, or ""."""
        for output, variables in loop.rivals.items():
            wanting = [each for each in variables if (self._command(each) or 0.0) < 0]
            if wanting:
                return f"{name_of_output(output)} also lowers it, and runs for {' and '.join(wanting)}"
        if loop.variable == CARBON_DIOXIDE and (self._command(FAN) or 0.0) > 0:
            return Sentence("the exhaust fan runs, and removes the CO2", "fan_removes_carbon_dioxide")
        return ""

    def _command(self, variable: str) -> float | None:
        """The demand of the controller of a variable, None without one."""
        demand: float | None = self._bus.topics.get(commanded(self._environment, variable)).known
        return demand

    def _last(self, topic: str) -> Message | None:
        return self._bus.topics.get(topic).last
