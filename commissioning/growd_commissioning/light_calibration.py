"""Calibration of a lamp: its light at each level, measured by the chamber's own sensor."""

from __future__ import annotations

import logging
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Final

from growd.bus.errors import BusError
from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType, Quality
from growd.control.calibration_log import CalibrationRecord
from growd.control.interlocks.saved_states import SAVE_ERRORS
from growd.control.light_curve import problem_of
from growd.control.topics import SENTENCE, commanded, desired, raw, said
from growd.runtime.sentence import Sentence, document, reworded, told
from growd.variables import ILLUMINANCE
from growd_commissioning.experiments import Experiment, ExperimentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus.messages import Message
    from growd.control.controllers import LightController
    from growd.parts import ControlledChamber

logger = logging.getLogger(__name__)

LAMP: Final = "light"
"""The device in records."""

LEVELS: Final = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
READINGS: Final = 5  # averaged at each level
_STEPS: Final = len(LEVELS) + 2  # with the dark lamp before and after
POLL_S: Final = 0.5
PATIENCE_S: Final = 10.0  # for the lamp to follow, and for each reading beyond its interval
DARK_SHARE: Final = 0.002  # of full light: less counts as dark
DRIFT_SHARE: Final = 0.05  # of full light: other light must not change by more

CALIBRATION: Final = MessageType(
    "growd/LightCalibration",
    (
        Field("state", Kind.STRING),
        *SENTENCE,
        Field("curve", Kind.JSON),
        Field("progress", Kind.FLOAT64, 0, 1, "fraction"),
        Field("left", Kind.FLOAT64, 0, unit="s"),
    ),
)
"""`state` is running, done or failed. `curve` is the result, or the points so far. `left` is an estimate."""


class LightCalibration(Experiment):
    """The services `<environment>/controllers/light_illuminance/calibrate_light` and `.../stop_calibration`.

    It answers at once that it has started, or why not. The lamp is dark, goes through `LEVELS`, and is dark
    again; the light measured while it is dark is subtracted. It takes about two minutes. Progress and result
    are on `<environment>/controllers/light_illuminance/calibration`. The resulting curve is saved as the
    controller's parameter; on failure nothing changes.

    It is refused, or stopped, while the sensor fails, a recipe or an override drives the light, a channel has
    its own command, or a hold or an interlock holds the lamp. A client's set point waits
    meanwhile. The log of calibrations keeps a record of it.
    """

    noun = "calibration of the lamp"

    def __init__(
        self,
        control: ControlledChamber,
        controller: LightController,
        others: Callable[[], str],
    ) -> None:
        chamber, bus, environment = control.chamber, control.bus, control.chamber.environment
        super().__init__(bus, environment, "light_calibration", others=others, variable=ILLUMINANCE)
        self._controller = controller
        self._interval = max(sensor.interval_s for sensor in chamber.sensors_of(ILLUMINANCE))
        self._ramp = chamber.light.ramp_s
        self._stale_after = chamber.stale_after_s(ILLUMINANCE)
        self._why_held = partial(control.interlocks.why_held, (ILLUMINANCE, *chamber.lamp_channels))
        self._log = control.log
        self._by = ""
        self._raw = bus.topics.get(raw(environment, "light_illuminance"))
        self._sensors = (f"{environment}/samplers/", f"{environment}/combiners/")
        self._recipe_topic = bus.topics.get(desired(environment, "light_illuminance"))
        self._command_topic = commanded(environment, "light_illuminance")
        self._recipe_node = f"{environment}/recipe_runner"
        self._channels = [
            bus.topics.get(commanded(environment, f"light_intensity_{name}"))
            for name in chamber.lamp_channels
        ]
        base = controller.node.name
        self._output = self.node.advertise(f"{base}/calibration", CALIBRATION)
        self._serve(
            f"{base}/calibrate_light",
            "growd/CalibrateLight",
            self._ask,
            "Measure the light of the lamp at each level, in about two minutes. Refused while the "
            "sensor does not work, a recipe or a command by hand drives the light, or an interlock holds it.",
        )
        self._serve_stop(f"{base}/stop_calibration", "End the calibration of the lamp; nothing changes.")

    @property
    def title(self) -> Sentence:
        return Sentence("the calibration of the lamp", "lamp_calibration")

    async def _ask(self, who: str) -> str:
        if self.running:
            raise ExperimentError("a calibration is under way")
        self._refuse_if_busy()
        if self._log is not None:
            self._log.require_read()
        self._stopped, self._by = "", who
        self._refuse_if_driven()
        self._value_of(self._raw.last)
        self._begin_soon()
        return f"the calibration has started; see the topic {self._output.topic.name}"

    async def _run_once(self) -> None:
        self._report("running", Sentence("the calibration has started", "starts"))
        try:
            points = await self._measured()
            with self._saving():
                before = self._controller.full_lux
                await self._controller.save_curve(points)
                await self._record(before, points)
        except (ExperimentError, BusError, OSError) as error:
            self._report("failed", reworded(f"{error}; nothing has changed", told(error)))
        finally:
            self._controller.drive(None)

    async def _record(self, before: float, points: list[list[float]]) -> None:
        """Keep a record of the full light before and after, then report that it is done."""
        full = points[-1][1]
        record = CalibrationRecord(
            LAMP, "calibrate_light", ILLUMINANCE, "lux", before, full, None, self._by, self._clock.time()
        )
        try:
            if self._log is not None:
                await self._log.keep(record)
        except SAVE_ERRORS as error:
            self._report("failed", f"the curve is saved, but not the record of the calibration: {error}")
        else:
            self._report(
                "done", Sentence(f"full light is {full:g} lux", "full_light", light=full, unit="lux"), points
            )

    def _report(self, state: str, message: str, points: list[list[float]] | None = None) -> None:
        self._publish(state, message, points or [], 0 if state == "running" else _STEPS)
        level = self._severity() if state == "failed" else logging.INFO
        logger.log(level, "%s: %s", self.node.name, message)

    def _publish(self, state: str, message: str, points: list[list[float]], number: int) -> None:
        step_s = POLL_S + (2 + READINGS) * max(self._interval, POLL_S)
        progress, left = number / _STEPS, (_STEPS - number) * step_s + self._ramp * (number < _STEPS)
        self._output.publish(
            {"state": state, **said(message), "curve": points, "progress": progress, "left": left}
        )

    async def _measured(self) -> list[list[float]]:
        before = await self._light_at(0.0)
        lit: list[float] = []
        for number, level in enumerate(LEVELS, 1):
            so_far = [[at, round(light - before, 1)] for at, light in zip(LEVELS, lit, strict=False)]
            self._publish("running", _lamp_at(level), so_far, number)
            lit.append(await self._light_at(level))
        after = await self._light_at(0.0)
        top = lit[-1] - (before + after) / 2
        if abs(after - before) > DRIFT_SHARE * abs(top):
            text = f"other light changed from {before:.0f} to {after:.0f} lux during the calibration"
            raise ExperimentError(text, "other_light_changed", before=before, after=after, unit="lux")
        steps = len(LEVELS) + 1
        points = []
        for number, (level, light) in enumerate(zip(LEVELS, lit, strict=True), 1):
            elsewhere = before + (after - before) * number / steps
            points.append([level, round(light - elsewhere, 1)])
        while len(points) > 1 and points[0][1] < DARK_SHARE * top:
            del points[0]
        if problem := problem_of(points, DARK_SHARE * top / 2):
            raise ExperimentError(f"the measured light is not a curve: {problem}", "no_light_curve")
        return points

    async def _light_at(self, level: float) -> float:
        """The mean of `READINGS` readings in lux, after lamp and sensor have settled at this level."""
        self._stage = _lamp_at(level)
        self._controller.drive(level)
        if not await self._until(self._controller.is_followed, self._ramp + PATIENCE_S):
            raise ExperimentError(f"the lamp does not reach level {level:g}", "lamp_does_not_follow")
        await self._until(bool, 2 * self._interval + POLL_S)  # a reading may have begun before
        return fmean([await self._next_reading(level) for _ in range(READINGS)])

    async def _next_reading(self, level: float) -> float:
        seen = self._raw.count

        def is_there() -> bool:
            if not self._controller.is_followed():
                raise ExperimentError(f"the lamp did not stay at level {level:g}", "lamp_does_not_follow")
            last = self._raw.last
            return last is not None and last.number > seen and last.node.startswith(self._sensors)

        if not await self._until(is_there, self._interval + PATIENCE_S):
            raise ExperimentError("the light sensor gives no reading", "no_light_reading")
        return self._value_of(self._raw.last)

    async def _until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Whether the condition holds within the limit, in which nothing else may drive the lamp."""
        end = self._clock.monotonic() + limit_s
        while not condition():
            if (left := end - self._clock.monotonic()) <= 0:
                return False
            await self._clock.sleep(min(left, POLL_S))
            self._refuse_if_driven()
        return True

    def _value_of(self, last: Message | None) -> float:
        """The value of a reading. Raises `ExperimentError` if it is bad or old."""
        if last is None or last.quality is not Quality.OK:
            raise ExperimentError("the light sensor has failed", "no_light_reading")
        if self._clock.time() - last.time > self._stale_after:
            raise ExperimentError("the light sensor has had no recent reading", "no_light_reading")
        value: float = last.value
        return value

    def _refuse_if_driven(self) -> None:
        self._refuse_if_stopped()
        if why := self._why_held():
            raise ExperimentError(f"the lamp is held: {why}", "lamp_held", why=document(why))
        wanted = self._recipe_topic.last
        if wanted is not None and wanted.node == self._recipe_node and wanted.quality is Quality.OK:
            raise ExperimentError("a recipe drives the light; stop it first", "recipe_runs")
        if self._controller.is_overridden:
            release = f"growd topic release {self._command_topic}"
            text = f"an override drives the light; release it: {release}"
            raise ExperimentError(text, "has_override", variable=ILLUMINANCE)
        for topic in self._channels:
            if topic.known is not None:
                release = f"release it: growd topic release {topic.name}"
                text = f"{topic.name} has a command of its own; {release}"
                raise ExperimentError(text, "has_override", variable=topic.name.rpartition("/")[2])


def _lamp_at(level: float) -> Sentence:
    return Sentence(f"lamp at {level:.0%}", "lamp_at", level=100 * level, unit="percent")
