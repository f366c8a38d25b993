"""The calibration of dosing pumps: a session of measured doses into a measuring cylinder."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from growd.bus.errors import NotKeptError, counted
from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.calibration_log import CalibrationRecord
from growd.control.interlocks.on_times import OnTimes
from growd.control.interlocks.saved_states import SAVE_ERRORS
from growd.control.pumps import SERVICE
from growd.control.topics import commanded
from growd.output_roles import OutputClass
from growd.runtime.sentence import Sentence, code_of, document, told
from growd_commissioning.experiments import Experiment, ExperimentError
from growd_commissioning.pump_fit import FitPoint, PumpFit, fitted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.control.calibration_log import CalibrationLog
    from growd.control.pumps import PumpFlow
    from growd.parts import ControlledChamber
    from growd.runtime.clock import Cancellable
    from growd_hwsim.chamber import SimulatedChamber
    from growd_hwsim.hardware import SimulatedHardware

logger = logging.getLogger(__name__)

IDLE_S: Final = 900.0
"""A session ends by itself after this time without a call."""

PLAN: Final = (1, 2, 4, 1, 2, 4)
"""The lengths of the proposed doses, in units of the shortest."""

SHORTEST_S: Final = 0.5
BUDGET: Final = 0.5
"""Share of the volume that the pump may give within an hour, for the proposed doses."""

SETTLES_S: Final = 1.0
"""After the end of a dose, until it is certain that the pump is off."""

LEAST_RUN: Final = 0.1
"""Share of its time that a pump must have run for a dose to count."""

LEAST_WHOLE: Final = 0.9
"""Share of its time from which a dose is a whole one."""

_PUMP: Final = Field("pump", Kind.STRING, max_length=100, doc="the name of the output")
_SECONDS: Final = Field(
    "seconds", Kind.FLOAT64, 0, 3_600, "s", default=0.0, doc="the length of the dose; 0: the proposed one"
)
_ML: Final = Field("ml", Kind.FLOAT64, 0, 100_000, "ml", doc="the volume in the cylinder")
_NUMBER: Final = Field("dose", Kind.INT64, 0, 1_000, default=0, doc="the number of the dose; 0: the last one")


@dataclass(frozen=True)
class PumpRecord(CalibrationRecord):
    """A calibration of a pump: its flow in ml/min `before` and `after`, and the doses behind it.

    It holds while `configured`, the flow in the configuration, stays as it was. `litres` is the counter of
    its volume at that time.
    """

    dead_s: float
    configured: float
    litres: float
    points: list[FitPoint]


@dataclass(frozen=True)
class CalibratedPump:
    """A dosing pump: its own variable, its longest dose, the volume for an hour, and when it was on."""

    name: str
    variable: str
    longest_s: float
    ml_per_hour: float
    times: OnTimes


@dataclass
class _Dose:
    seconds: float
    ran_s: float | None = None
    """How long the pump really ran; None until it is known."""
    ml: float | None = None

    @property
    def is_unmeasured(self) -> bool:
        """Whether it was given, and its volume is not known yet."""
        return self.ran_s is not None and self.ml is None


@dataclass
class _Session:
    pump: CalibratedPump
    by: str
    since: float
    ends_at: float
    shortest_s: float
    doses: list[_Dose] = field(default_factory=list)
    note: str = ""
    """What went wrong with the last dose."""

    @property
    def points(self) -> list[FitPoint]:
        """The doses that were measured. Others, such as one that filled the hose, do not count."""
        return [FitPoint(each.ran_s, each.ml) for each in self.doses if each.ran_s and each.ml is not None]

    @property
    def next_s(self) -> float:
        """The length of the next proposed dose; after the plan those of the plan again."""
        return self.shortest_s * PLAN[len(self.points) % len(PLAN)]


class PumpCalibration(Experiment):
    """The services of `<environment>/pump_calibration`: begin, dose, measured, save, cancel.

    `begin` opens a session, in which the hose of the pump ends in a measuring cylinder. Each `dose` runs the
    pump for a known time, `measured` takes its volume, and `save` keeps the line through all of them in `log`
    and uses it. All dosing pumps are off meanwhile, but for that dose (`pumps`). The session ends without a
    change at `cancel`, after `IDLE_S` without a call, and when this task ends.

    The interlocks hold as ever, but for those of the tank, which the dose does not reach.
    """

    noun = "calibration of a pump"

    def __init__(
        self,
        control: ControlledChamber,
        log: CalibrationLog,
        others: Callable[[], str],
    ) -> None:
        environment = control.chamber.environment
        super().__init__(control.bus, environment, "pump_calibration", others=others)
        self._calibrated = _calibrated_pumps(control)
        self._pumps = control.pumps
        self._interlocks = control.interlocks
        self._log = log
        self._litres = control.litres
        self._simulated = _simulated_tank(control)
        self._moved = {each.name: each.role.moves for each in control.chamber.outputs if each.role}
        self._publishers = {
            each.variable: self.node.publisher(commanded(environment, each.variable))
            for each in self._calibrated.values()
        }
        self._session: _Session | None = None
        self._dosing: asyncio.Task[None] | None = None
        self._expiry: Cancellable | None = None
        self._serve_session()
        self.node.describe("session", self._session_now)
        self.node.describe("pumps", lambda: [self._described(each) for each in self._calibrated])

    async def run(self) -> None:
        """Give doses when asked, until cancelled."""
        try:
            await super().run()
        finally:
            self._dosing = None
            self._end("growd ends it")

    async def _run_once(self) -> None:
        if self._session is not None:
            async with asyncio.TaskGroup() as tasks:  # so that the end of the session ends a dose
                dose = self._dose(self._session)
                self._dosing = tasks.create_task(dose, name=f"{self.node.name}: dose")
            self._dosing = None

    @property
    def title(self) -> Sentence:
        name = self._pumps.calibrated
        return Sentence(f"the calibration of {name}", "pump_calibration", device=name)

    @property
    def running(self) -> str:
        return self.title if self._session is not None else ""

    @property
    def _is_dosing(self) -> bool:
        return self._dosing is not None or self._asked.is_set()

    def _serve_session(self) -> None:
        def serve(name: str, handler: Callable[..., Awaitable[str]], doc: str, *arguments: Field) -> None:
            request = f"growd/PumpCalibration_{name}" if arguments else "std_srvs/Trigger"
            is_administrative = name != "cancel"
            self._serve(
                f"{self.node.name}/{name}",
                request,
                handler,
                doc,
                *arguments,
                is_administrative=is_administrative,
            )

        serve("begin", self._begin, "Begin the calibration of a pump: its hose is in a cylinder.", _PUMP)
        serve("dose", self._ask, "Run the pump for a known time, into the empty cylinder.", _SECONDS)
        serve("measured", self._measured, "The volume of a dose; again to correct it.", _ML, _NUMBER)
        serve("save", self._save, "Save flow and dead time, and use them; the hose is in the tank again.")
        serve("cancel", self._cancel, "End the calibration; nothing changes.")

    # --- Services

    async def _begin(self, pump: str, who: str) -> str:
        chosen = self._chosen(pump)
        now = self._clock.monotonic()
        shortest_s = self._shortest_s(chosen)
        self._session = _Session(chosen, who, self._clock.time(), now + IDLE_S, shortest_s)
        self._driven = chosen.variable
        self._pumps.calibrated = chosen.name
        self._touch()
        logger.info("%s: %s began the calibration of %s", self.node.name, who, chosen.name)
        return f"put the hose of {chosen.name} into the cylinder; all dosing pumps wait meanwhile"

    async def _ask(self, seconds: float, who: str) -> str:  # noqa: ARG002
        session = self._idle_session()
        seconds = self._length(session, seconds or session.next_s)
        session.doses = [each for each in session.doses if each.ml is not None]
        session.doses.append(_Dose(seconds))
        session.note = ""
        self._touch()
        self._asked.set()
        return f"{session.pump.name} gives a dose of {seconds:.2f} s"

    async def _measured(self, ml: float, dose: int, who: str) -> str:  # noqa: ARG002
        session = self._idle_session()
        if dose > len(session.doses):
            raise ExperimentError(f"dose: there are {counted(len(session.doses), 'dose')}, not {dose}")
        if not session.doses or session.doses[dose - 1].ran_s is None:
            raise ExperimentError(f"there is no dose to measure{_because(session.note)}; give one first")
        session.doses[dose - 1].ml = ml
        self._touch()
        fit = self._fit(session)
        so_far = f"; so far the pump gives {fit}" if isinstance(fit, PumpFit) else ""
        return f"dose {dose or len(session.doses)}: {ml:g} ml{so_far}"

    async def _save(self, who: str) -> str:
        session = self._idle_session()
        fit = fitted(session.points, self._flow(session).configured)
        record = self._record(session, fit, who)
        try:
            with self._saving():
                await self._log.keep(record)
        except SAVE_ERRORS as error:
            words = f"the calibration could not be saved, and nothing has changed: {error}"
            raise NotKeptError(words) from None
        finally:
            self._touch()
        self._end(f"{who} saved it: {fit}")
        return f"{record.device} gives {fit}; put its hose back into the tank"

    async def _cancel(self, who: str) -> str:
        if self._session is None:
            raise ExperimentError("no pump is being calibrated")
        if self._is_saving:
            raise ExperimentError("the calibration is being saved")
        name = self._session.pump.name
        self._end(f"{who} cancelled it")
        return f"the calibration of {name} has ended, and nothing has changed"

    def _chosen(self, name: str) -> CalibratedPump:
        if name not in self._calibrated:
            known = ", ".join(self._calibrated)
            raise ExperimentError(f"pump: there is no dosing pump {name}; there is {known}")
        if self._session is not None:
            busy, where = self._session.pump.name, self.node.name.partition("/")[0]
            raise ExperimentError(
                f"{self._session.by} calibrates {busy}; save or cancel that: "
                f"growd pump cancel {busy} --environment {where}"
            )
        self._refuse_if_busy()
        self._log.require_read()
        if reason := self._interlocks.hold_reason:
            raise ExperimentError(reason)
        if self._calibrated[name].times.is_on:
            raise ExperimentError(f"{name} is on; wait for the end of its dose")
        return self._calibrated[name]

    def _idle_session(self) -> _Session:
        if self._session is None:
            raise ExperimentError("no pump is being calibrated; begin with the service begin")
        if self._is_dosing:
            raise ExperimentError(f"{self._session.pump.name} still gives a dose; wait for its end")
        if self._is_saving:
            raise ExperimentError("the calibration is being saved")
        return self._session

    def _length(self, session: _Session, seconds: float) -> float:
        longest = session.pump.longest_s
        if not SHORTEST_S <= seconds <= longest:
            limit = "dose_longest_s" if seconds > longest else "shortest dose"
            raise ExperimentError(
                f"seconds: must be from {SHORTEST_S:g} to {longest:g} s ({limit}), not {seconds:g}"
            )
        if why := self._interlocks.why_held([session.pump.variable], beside_tank=True):
            raise ExperimentError(f"{session.pump.name} is held: {why}")
        return seconds

    def _shortest_s(self, pump: CalibratedPump) -> float:
        """The shortest dose of the plan: its volume and its longest dose are within the limits."""
        within_s = BUDGET * pump.ml_per_hour / self._pumps.flows[pump.name].ml_s / sum(PLAN)
        return max(SHORTEST_S, min(within_s, pump.longest_s / max(PLAN)))

    def _flow(self, session: _Session) -> PumpFlow:
        return self._pumps.flows[session.pump.name]

    def _fit(self, session: _Session) -> PumpFit | str:
        """The line through the doses so far, or why there is none."""
        try:
            return fitted(session.points, self._flow(session).configured)
        except ExperimentError as error:
            return told(error)

    def _record(self, session: _Session, fit: PumpFit, who: str) -> PumpRecord:
        litres, flow = self._litres(session.pump.name), self._flow(session)
        if litres is None:
            raise ExperimentError("the counters of the outputs have not been read yet; try again")
        return PumpRecord(
            session.pump.name,
            SERVICE,
            session.pump.variable,
            "ml/min",
            before=flow.ml_min,
            after=fit.ml_min,
            reference=None,
            by=who,
            time=self._clock.time(),
            dead_s=fit.dead_s,
            configured=flow.configured,
            litres=litres,
            points=session.points,
        )

    # --- The dose

    async def _dose(self, session: _Session) -> None:
        dose, pump = session.doses[-1], session.pump
        guesses = pump.times.guesses
        ran_s, held = await self._run_pump(pump, dose.seconds)
        if pump.times.guesses > guesses:
            text = f"{pump.name} may have stopped early, so the dose does not count: give another one"
            session.note = Sentence(text, "dose_unsure", device=pump.name)
            return
        if ran_s >= LEAST_RUN * dose.seconds:
            dose.ran_s = ran_s
        if ran_s < LEAST_WHOLE * dose.seconds:
            text = f"{pump.name} ran for {ran_s:.2f} of {dose.seconds:.2f} s{_because(held)}"
            session.note = Sentence(text, "dose_short", device=pump.name)
        self._touch()

    async def _run_pump(self, pump: CalibratedPump, seconds: float) -> tuple[float, str]:
        """Run a pump for a time; returns how long it really ran, and what held it at the end."""
        command, before = self._publishers[pump.variable], pump.times.total(self._clock.monotonic())
        if self._simulated is not None:  # its hose ends in the cylinder
            self._simulated.collect(self._moved.get(pump.name, ""))
        self._pumps.dose(seconds + SETTLES_S)  # the device ends it in time
        try:
            command.publish(1.0, valid_s=seconds)
            await self._clock.sleep(seconds)
            held = self._interlocks.held_by(pump.name, pump.variable)
            await self._clock.sleep(SETTLES_S)
        finally:
            self._pumps.dose(0)
            command.publish(None, Quality.STALE)
        return pump.times.total(self._clock.monotonic()) - before, held

    # --- The end

    def _touch(self) -> None:
        """Somebody is there: the session ends later."""
        self._forget_expiry()
        if self._session is not None:
            self._session.ends_at = self._clock.monotonic() + IDLE_S
            self._expiry = self._clock.call_later(IDLE_S, lambda: self._end("nobody went on with it"))

    def _end(self, why: str) -> None:
        self._forget_expiry()
        session, self._session = self._session, None
        if session is None:
            return
        self._asked.clear()
        if self._dosing is not None:
            self._dosing.cancel()
        self._pumps.dose(0)
        self._pumps.calibrated = ""
        if self._simulated is not None:
            self._simulated.collect("")
        logger.info("%s: the calibration of %s has ended: %s", self.node.name, session.pump.name, why)

    def _forget_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    # --- Information

    def _stage_now(self) -> Sentence:
        assert self._session is not None  # noqa: S101  it is running
        doses, by = len(self._session.points), self._session.by
        return Sentence(f"{counted(doses, 'dose')} measured, by {by}", "doses_measured", doses=doses, by=by)

    def _session_now(self) -> dict[str, Any] | None:
        session, is_dosing = self._session, self._is_dosing
        if session is None:
            return None
        fit = self._fit(session)
        return {
            "pump": session.pump.name,
            "by": session.by,
            "since": session.since,
            "left_s": max(0.0, session.ends_at - self._clock.monotonic()),
            "longest_s": session.pump.longest_s,
            "next_s": session.next_s,
            "missing": max(0, len(PLAN) - len(session.points)),
            "is_dosing": is_dosing,
            "waits_for_ml": not is_dosing and bool(session.doses) and session.doses[-1].is_unmeasured,
            "doses": [asdict(each) for each in session.doses],
            "fit": None if isinstance(fit, str) else asdict(fit),
            "reason": str(fit) if isinstance(fit, str) else "",
            **code_of(fit if isinstance(fit, str) else ""),
            "note": str(session.note),
            "note_said": document(session.note),
            "simulated_ml": None if self._simulated is None or is_dosing else self._simulated.collected_ml(),
        }

    def _described(self, name: str) -> dict[str, Any]:
        flow: PumpFlow = self._pumps.flows[name]
        return {
            "pump": name,
            "variable": self._calibrated[name].variable,
            "ml_min": flow.ml_min,
            "dead_s": flow.dead_s,
            "configured_ml_min": flow.configured,
            "last": self._log.last(name),
            "due": self._log.due(name),
        }


def _calibrated_pumps(control: ControlledChamber) -> dict[str, CalibratedPump]:
    """The dosing pumps of an environment, by name."""
    chamber, pumps = control.chamber, {}
    limits = chamber.options.interlock
    for each in chamber.outputs_of(OutputClass.DOSING):
        times = OnTimes()
        control.interlocks.track(times, [each.own_variable], each.name)
        ml_per_hour = min(limits.dosing_ml_per_hour, limits.dosing_ml_per_day)
        longest_s = min(limits.dose_longest_s, each.longest_on_s or limits.dose_longest_s)
        pumps[each.name] = CalibratedPump(each.name, each.own_variable, longest_s, ml_per_hour, times)
    return pumps


def _simulated_tank(control: ControlledChamber) -> SimulatedChamber | None:
    """The simulated chamber with the tank and a measuring cylinder; None for real hardware."""
    config = control.chamber.config
    if not config.simulator.enabled:
        return None
    number = [*config.chambers()].index(control.chamber.environment)
    return cast("SimulatedHardware", control.hardware).chambers[number]


def _because(why: str) -> str:
    return f" ({why})" if why else ""
