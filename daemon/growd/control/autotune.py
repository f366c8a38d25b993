"""Autotune: a service that finds the gains of the CO2 controller by an experiment."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import BusError, UnknownNameError
from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType, Quality
from growd.control.pulse_test import OPENS_WITHIN_S, PulseTest, TuneError
from growd.control.topics import SWITCH_STATE, commanded, desired, measured, switch_state
from growd.variables import CARBON_DIOXIDE, FAN, VALVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Subscription
    from growd.control.loop import LoopController
    from growd.control.pulse_test import Response

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
HELD_S: Final = 120.0  # an experiment that is not renewed ends; simulated time runs fast

AUTOTUNE: Final = MessageType(
    "growd/Autotune",
    (
        Field("state", Kind.STRING),
        Field("message", Kind.STRING),
        Field("progress", Kind.FLOAT64, 0, 1, "fraction"),
        Field("rise", Kind.FLOAT64, 0, unit="ppm/s"),
        Field("lag", Kind.FLOAT64, 0, unit="s"),
        Field("loss", Kind.FLOAT64, 0, unit="1/h"),
        Field("left", Kind.FLOAT64, 0, unit="s"),
    ),
)
"""`state` is running, done or failed. `rise`, `lag` and `loss` are the result. `left` is the most that
it still takes."""


class Autotuner:
    """The services `<environment>/controllers/air_carbon_dioxide/autotune` and `.../stop_autotune`.

    The first answers at once that it has started, or why not: CO2 is unknown, CO2 has a set point or an
    override, the valve or the fan has its own set point or override, a valve is open, a fan runs, an
    interlock holds the valve (`why_held` returns why, or ""), a dose of `minimum_on` is too long, or an
    autotune or another experiment (`others`) is running.
    It opens the valve once, for at most `most_open_s`, and takes a quarter of an hour
    (`growd.control.pulse_test`). If one of these conditions occurs meanwhile, it ends and changes nothing.

    Progress and result are on `<environment>/autotune/air_carbon_dioxide`. The result is saved as parameters:
    `kp`, `ti` and `td` of the controller, and the minimum times of the valve's doses.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        controller: LoopController,
        valves: tuple[str, ...],
        *,
        fans: tuple[str, ...] = (),
        why_held: Callable[[], str] = lambda: "",
        most_open_s: float = 120.0,
        others: Callable[[], str] = lambda: "",
    ) -> None:
        self.node = bus.node(f"{environment}/autotuners/{CARBON_DIOXIDE}")
        self._bus = bus
        self._clock = bus.clock
        self._controller = controller
        self._why_held = why_held
        self._others = others
        self._most_open_s = most_open_s
        self._measured_topic = measured(environment, CARBON_DIOXIDE)
        self._environment = environment
        self._valve_topics = self._states(valves)
        self._fan_topics = self._states(fans)
        self._gains = f"{environment}/controllers/{CARBON_DIOXIDE}"
        self._doses = f"{environment}/controllers/{VALVE}"
        self._output = self.node.advertise(f"{environment}/autotune/{CARBON_DIOXIDE}", AUTOTUNE)
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
            doc="Find the gains of the CO2 controller with one dose. Takes a quarter of an hour.",
            is_administrative=True,
        )
        self.node.serve(
            f"{self._gains}/stop_autotune",
            "std_srvs/Trigger",
            self._stop,
            doc="End the autotune: the valve closes, and nothing changes.",
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
        return "the autotune of air_carbon_dioxide" if self._is_running or self._requested.is_set() else ""

    def _information(self) -> list[dict[str, Any]]:
        """For `growd status`."""
        if not self.running:
            return []
        return [
            {
                "environment": self._environment,
                "name": self.running,
                "text": self._stage,
                "variable": CARBON_DIOXIDE,
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
        longest = min(self._most_open_s, OPENS_WITHIN_S)  # a dose is due before it is given
        if self.running:
            reason = "an autotune is already running"
        elif others := self._others():
            reason = f"{others} is running; wait for its end"
        elif not reason and self._is_on(self._valve_topics):
            reason = "the valve is open"
        elif not reason and self._bus.parameters.get(f"{self._doses}/minimum_on") > longest:
            reason = f"minimum_on of the valve is above {longest:g} s, which is too long for the test dose"
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
            return "CO2 is unknown"
        if self._controller.set_point is not None:
            topic = desired(self._environment, CARBON_DIOXIDE)
            return f"CO2 has a set point; stop the recipe, or release it: growd topic release {topic}"
        if self._controller.is_overridden:
            topic = commanded(self._environment, CARBON_DIOXIDE)
            return f"CO2 has an override; release it: growd topic release {topic}"
        return self._taken_switch() or self._why_held()

    def _taken_switch(self) -> str:
        """Why the valve or the fan is not free, or ""."""
        for variable, name in ((VALVE, "valve"), (FAN, "fan")):
            if self._has_set_point(variable):
                command = f"growd topic release {desired(self._environment, variable)}"
                return f"the {name} has a set point of its own; stop the recipe, or release it: {command}"
            if self._is_overridden(variable):
                command = f"growd topic release {commanded(self._environment, variable)}"
                return f"the {name} has an override; release it: {command}"
        if self._is_on(self._fan_topics):
            return "the fan runs"
        return ""

    def _states(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        """The topics with the states of these switches."""
        names = (switch_state(self._environment, device) for device in devices)
        return tuple(self._bus.topics.declare(name, SWITCH_STATE).name for name in names)

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
            gains = response.gains()
            message = (
                f"kp {gains.kp:.3g} 1/ppm, ti {gains.ti_s:.0f} s, td {gains.td_s:.1f} s, "
                f"doses of {response.minimum_on_s():.1f} s"
            )
            self._report("done", message, 1.0, response)
            logger.info("%s: autotune found %s", self.node.name, message)

    async def _experiment(self) -> Response:
        test = PulseTest(self._clock.monotonic(), self._most_open_s)
        with self.node.subscribe(self._measured_topic, *self._valve_topics) as inbox:
            while not test.is_done:
                now = self._clock.monotonic()
                self._feed(test, inbox, now)
                if reason := self._obstacle():
                    raise TuneError(reason)
                self._controller.experiment(float(test.wants_open(now)), HELD_S)
                self._stage = f"{test.stage(now)}, {test.progress(now):.0%}"
                self._report("running", test.stage(now), test.progress(now), left_s=test.left_s(now))
                await self._clock.sleep(PERIOD_S)
        if self._stopped:  # in the last second
            raise TuneError(self._stopped)
        return test.response()

    def _feed(self, test: PulseTest, inbox: Subscription, now: float) -> None:
        while (message := inbox.get_nowait()) is not None:
            # messages carry wall time, which may step; they are at most a second old
            if message.topic != self._measured_topic:
                test.valve(self._when(message, now), self._is_on(self._valve_topics))
            elif message.quality is Quality.OK:
                test.measured(self._when(message, now), message.value)

    def _when(self, message: Message, now: float) -> float:
        ago = self._clock.time() - message.time
        return now - max(0.0, min(2 * PERIOD_S, ago))

    async def _apply(self, response: Response) -> None:
        """Set all results at once; if they cannot be saved, none is set."""
        gains, least = response.gains(), response.minimum_on_s()
        found = {
            f"{self._gains}/kp": gains.kp,
            f"{self._gains}/ti": gains.ti_s,
            f"{self._gains}/td": gains.td_s,
            f"{self._doses}/minimum_on": least,
            f"{self._doses}/minimum_off": least,
        }
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
        response: Response | None = None,
        left_s: float = 0.0,
    ) -> None:
        self._output.publish(
            {
                "state": state,
                "message": message,
                "progress": progress,
                "rise": 0.0 if response is None else response.rise_ppm_s,
                "lag": 0.0 if response is None else response.lag_s,
                "loss": 0.0 if response is None else response.loss_per_h,
                "left": left_s,
            }
        )


def _is_open(message: Message) -> bool:
    return message.quality is Quality.OK and bool(message.value)
