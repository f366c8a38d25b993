"""How near the light of a day comes to its set point, over simulated days with random clouds.

The daemon's own filter, calculation, planner, controller and actuator on a clock that stands still until all
is done that falls due. The sensor is read, and the controllers run, each 20 s instead of each second.
"""

from __future__ import annotations

import contextlib
import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from closed_loop import ENVIRONMENT, LUX, Inline, Part, held_clock, tasks_around
from measuring import Options, Row, limited, main

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.config.lamp_light import ChannelLight, LampLight
from growd.control import actuation, controllers
from growd.control.controllers import LightController
from growd.control.derived.node import Derivations
from growd.control.filters import Filter
from growd.control.lamp import LightActuator
from growd.control.planning.light import TOLERANCE, LightPlanner
from growd.control.planning.light_day import DAY_S, Window
from growd.control.topics import declare_environment
from growd.runtime.event_loop import run_on_loop
from growd_simulation.simulated_clock import SimulatedLoop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.runtime.worker import Worker

DLI, EXPECTED, PPFD = "light_daily_integral", "light_daily_integral_expected", "light_ppfd"
INTERVAL_S = 20.0
DAYS = 100
TARGET_MOL = 14.0
LAMP = LampLight({"white": ChannelLight(1.0, 67.0)})
FULL_PPFD = 350.0
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
SUNRISE_H, SUNSET_H = 6.0, 19.0


class Sky:
    """Daylight in the chamber (PPFD): half a sine wave under clouds that come and go, new each day."""

    def __init__(self, seed: int, noon_ppfd: float) -> None:
        self._seed = seed
        self._noon = noon_ppfd
        self._day = -1
        self._shares: list[float] = []

    def ppfd(self, wall: float) -> float:
        """Daylight at a UNIX time."""
        day, second = divmod(wall, DAY_S)
        hour = second / 3_600.0
        if not SUNRISE_H < hour < SUNSET_H:
            return 0.0
        if day != self._day:
            self._day, self._shares = int(day), self._clouds(int(day))
        clear = self._noon * math.sin(math.pi * (hour - SUNRISE_H) / (SUNSET_H - SUNRISE_H))
        return clear * self._shares[int(second // 300)]

    def _clouds(self, day: int) -> list[float]:
        """The share of light that passes, each five minutes: by the weather of the day, which may turn."""
        chance = random.Random(f"{self._seed} {day}")
        weather, deviation, shares = chance.uniform(0.15, 1.0), 0.0, []
        turn = chance.randrange(72, 228) if chance.random() < 0.4 else 999  # between six and seven o'clock
        for number in range(288):
            if number == turn:
                weather = chance.uniform(0.15, 1.0)
            deviation = 0.9 * deviation + chance.gauss(0.0, 0.08)
            shares.append(min(1.0, max(0.05, weather + deviation)))
        return shares


@dataclass
class Chamber:
    """A lamp with daylight, whose light of the day is planned. `strength` is what the lamp really gives."""

    seed: int = 1
    noon_ppfd: float = 300.0
    strength: float = 1.0
    window: Window = field(default_factory=lambda: Window(5 * 3_600.0, 21 * 3_600.0))
    is_switched: bool = False

    def __post_init__(self) -> None:
        self.clock = held_clock(MIDNIGHT)
        self.bus = Bus(self.clock)
        declare_environment(self.bus, ENVIRONMENT, [LUX], [PPFD, DLI, EXPECTED, "light_photoperiod"])
        self.sky = Sky(self.seed, self.noon_ppfd)
        self.duty = 0.0
        self.quality = Quality.OK  # of what the sensor says
        self.light_mol = 0.0
        self.lamp_mol = 0.0
        self.lit_outside_s = 0.0
        self._raw = self.bus.node("sensor").publisher(f"{ENVIRONMENT}/raw/{LUX}")
        self._client = self.bus.node("client")
        full_lux = FULL_PPFD * 67.0
        self.controller = LightController(
            self.bus,
            ENVIRONMENT,
            full_scale_lux=full_lux,
            mix={"white": 1.0},
            measured_stale_after_s=60.0,
            is_switched=self.is_switched,
        )
        worker: Worker = Inline()  # type: ignore[assignment]  # all of it that an actuator needs
        lamp = LightActuator(
            self.bus, ENVIRONMENT, write=self._write, worker=worker, mix={"white": 1.0}, stale_after_s=60.0,
            switched={"white"} if self.is_switched else (),
        )  # fmt: skip
        self.derivations = Derivations(
            self.bus, ENVIRONMENT, [PPFD, DLI, EXPECTED, "light_photoperiod"], memory=Forgetful(),
            stale_after_s=lambda _: 60.0, lamp=LAMP, full_lux=lambda: full_lux, zone=UTC,
            daylight_lux=lambda: float(self.controller.node.detail("elsewhere_lux")),
        )  # fmt: skip
        self.planner = LightPlanner(
            self.bus, ENVIRONMENT, self.derivations, LAMP, full_lux=lambda: full_lux, window=self.window,
            is_switched=self.is_switched,
        )  # fmt: skip
        self.derivations.expect(self.planner.expected_mol)
        self.parts: list[Part] = [
            Filter(self.bus, ENVIRONMENT, LUX, weight=1.0), lamp, self.controller, self.derivations,
            self.planner,
        ]  # fmt: skip

    def want(self, mol: float | None) -> None:
        """Give the light of each day a set point."""
        self._client.publisher(f"{ENVIRONMENT}/desired/{DLI}").publish(mol)

    def value(self, variable: str) -> float:
        """The last value of a variable."""
        last = self.bus.topics.get(f"{ENVIRONMENT}/measured/{variable}").last
        return math.nan if last is None or last.value is None else float(last.value)

    @property
    def trouble(self) -> str:
        """What the planner reports."""
        return " ".join(each["text"] for each in self.planner.node.details()["problems"])

    def running(self) -> Any:
        """All parts run around the body."""
        return tasks_around(self.clock, [*(part.run() for part in self.parts), self._sense()])

    async def pass_day(self) -> float:
        """The light that the chamber really had in the 24 h that pass."""
        before = self.light_mol
        await self.clock.advance(DAY_S)
        return self.light_mol - before

    async def _sense(self) -> None:
        while True:
            wall = self.clock.time()
            daylight, of_lamp = self.sky.ppfd(wall), self.duty * FULL_PPFD * self.strength
            lux = daylight * 54.0 + of_lamp * 67.0
            self._raw.publish(lux if self.quality is Quality.OK else None, self.quality)
            await self.clock.sleep(INTERVAL_S)
            self.light_mol += (daylight + of_lamp) * INTERVAL_S * 1e-6
            self.lamp_mol += of_lamp * INTERVAL_S * 1e-6
            if of_lamp and not self.window.share((wall - MIDNIGHT) % DAY_S):
                self.lit_outside_s += INTERVAL_S

    def _write(self, _channel: str, level: float, _valid_s: float) -> None:
        self.duty = level


class Forgetful:
    """Stands in for the local file."""

    async def state(self, _key: str, default: Any = None) -> Any:
        """Nothing was saved."""
        return default

    async def save_state(self, _key: str, _value: Any) -> None:
        """Nothing is saved."""


async def days(count: int, target_mol: float, **chamber: Any) -> tuple[list[float], Chamber]:
    """The light of each day, and the chamber."""
    room = Chamber(**chamber)
    room.want(target_mol)
    with coarse():
        async with room.running():
            return [await room.pass_day() for _ in range(count)], room


@contextlib.contextmanager
def coarse() -> Iterator[None]:
    """Let controllers and actuators run each `INTERVAL_S` around the body."""
    modules: tuple[Any, ...] = (controllers, actuation)
    usual = [module.PERIOD_S for module in modules]
    for module in modules:
        module.PERIOD_S = INTERVAL_S
    try:
        yield
    finally:
        for module, period in zip(modules, usual, strict=True):
            module.PERIOD_S = period


def measure(options: Options) -> list[Row]:
    count = max(2, min(DAYS, int(DAYS * options.seconds)))  # a shorter round is for a look at the form
    light, room = run_on_loop(days(count, TARGET_MOL), SimulatedLoop)
    errors = [abs(each / TARGET_MOL - 1.0) for each in light]
    missed = sum(error > TOLERANCE for error in errors)
    return [
        limited(f"{DAYS} days: light missed by more than {TOLERANCE:.0%}", "days", missed, 1.0, None),
        limited("mean error of a day", "%", 100.0 * sum(errors) / count, 1.0, None),
        limited("lamp outside of its hours", "s", room.lit_outside_s, 0.0, None),
        Row("of the lamp", "mol/m2 a day", room.lamp_mol / count, None, None, "", met=True),
    ]


if __name__ == "__main__":
    main(measure, seconds=1.0)
