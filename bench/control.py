"""Closed loops of CO2 and light on the simulated chamber, compared with the controller of the predecessor.

The reference is the predecessor's PID with its gains for air temperature (1, 0, 1) and its two outputs:
one device above 0, another below. Rows of their own have its gains for pH (0.25, 0.25, 0.75), the package
simple-pid with growd's gains, doses and fan rule, and growd's on/off control. Values are those of the true
air, or of the filter where the row says "measured".

Overshoot is the farthest point beyond the set point once a step is nine tenths done; a step that never
gets so far misses the target. The error is the largest in the second half of a step. The worst seed counts
(--rounds); --seconds is the length of a step on the chamber's clock; --figure draws the courses. The error
of light is that after five minutes, in percent of the set point; with too much daylight it is the part of
the lamp.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from climate_scenes import scene_rows
from closed_loop import (
    CO2,
    ENVIRONMENT,
    FAN,
    VALVE,
    Lamp,
    LightLoop,
    Loop,
    Setting,
    co2_controller,
    co2_tuner,
    fan_controller,
    valve_controller,
)
from courses import Course, Plot, draw_courses
from measuring import Options, Row, limited, machine, main

from growd.bus.messages import Quality
from growd.control.loop import usual_settings
from growd.runtime.event_loop import run_on_loop
from growd_hwsim.parameters import ChamberParameters
from growd_simulation.simulated_clock import SimulatedLoop

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Sequence

    from closed_loop import Part

    from growd.bus.topics import Publisher

PERCENT = "% of the step"
OVERSHOOT_PERCENT = 5.0  # more than half of a dose of 4 s (17 ppm) in a step of 500 ppm
FEWER = 0.5  # of the predecessor's openings, which are few where it overshoots far
DOSE_LITRES = 0.0033  # 33 ppm in 100 l: what the openings may be where the reference has few
FAN_BAND_PPM = 30.0
DRAWN_S = 5  # between two points of a course
DOOR_S = 60.0
SHUT_S = 1_800.0
TUNED_WITHIN_S = 2_000
SIMPLE_PID = "simple_pid"
HAND = "hand"
LIT_S = 300.0
LIGHT_PERCENT = 5.0
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)  # of full scale
DAYLIGHT = (0.0, 0.5, 1.1, 2.0)  # of the set point


def accuracy_ppm(ppm: float) -> float:
    """What an SCD30 promises (datasheet)."""
    return 30.0 + 0.03 * ppm


# --- Who controls


class Predecessor:
    """u = Kp e + Ki sum(e) + Kd (e - e before) for each sample, whatever the time between.

    The sum within +-1000, u within -1..1, and 0 where e is within the dead band. Facts from nodes/pid.py,
    nodes/arduino_handler.py and launch/personal_food_computer_v2.launch of openag_brain.
    """

    def __init__(self, loop: Loop, gains: tuple[float, float, float]) -> None:
        self._gains = gains
        self._sum = self._before = 0.0
        node = loop.bus.node("predecessor")
        self._inbox = node.subscribe(*(f"{ENVIRONMENT}/{kind}/{CO2}" for kind in ("measured", "desired")))
        self._outputs = [(node.publisher(f"{ENVIRONMENT}/commanded/{VALVE}"), 1)]
        if loop.setting.fan:
            self._outputs.append((node.publisher(f"{ENVIRONMENT}/commanded/{FAN}"), -1))

    async def run(self) -> None:
        set_point = None
        async for message in self._inbox:
            if message.topic.endswith(f"desired/{CO2}"):
                set_point = message.value
            elif set_point is not None and message.value is not None:
                u = self._command(set_point - message.value)
                for output, sign in self._outputs:
                    output.publish(float(sign * u > 0))

    def _command(self, error: float) -> float:
        if abs(error) < 0.5:
            return 0.0
        kp, ki, kd = self._gains
        self._sum = max(-1000.0, min(1000.0, self._sum + error))
        u = kp * error + ki * self._sum + kd * (error - self._before)
        self._before = error
        return max(-1.0, min(1.0, u))


class SimplePid:
    """The package, in the place of growd's PID: same gains, limits, and the same rule for the fan.

    While a hand commands the valve it is in manual mode, as its documentation has it, and goes on from a shut
    valve. What an interlock does it can't be told.
    """

    def __init__(self, loop: Loop) -> None:
        package: Any = importlib.import_module(SIMPLE_PID)
        gains = usual_settings(CO2).gains
        kp, ti_s, td_s = gains.kp, gains.ti_s, gains.td_s
        self._pid = package.PID(kp, kp / ti_s, kp * td_s, sample_time=None)
        self._pid.output_limits = (-1 if loop.setting.fan else 0, 1)
        self._clock = loop.clock
        node = loop.bus.node("simple-pid")
        inputs = (f"{ENVIRONMENT}/{kind}/{CO2}" for kind in ("measured", "desired"))
        self._inbox = node.subscribe(*inputs, f"{ENVIRONMENT}/commanded/{VALVE}")
        self._output: Publisher = node.publisher(f"{ENVIRONMENT}/commanded/{CO2}")

    async def run(self) -> None:
        set_point, last = None, self._clock.monotonic()
        async for message in self._inbox:
            if message.topic.endswith(f"desired/{CO2}"):
                set_point = self._pid.setpoint = message.value
            elif message.topic.endswith(VALVE):
                if message.node == HAND:
                    self._pid.set_auto_mode(message.quality is not Quality.OK, last_output=0.0)
            elif set_point is not None and message.value is not None:
                now = self._clock.monotonic()
                if self._pid.auto_mode:
                    u = self._pid(message.value, dt=max(1e-6, now - last))
                    self._output.publish(u if message.value > set_point + FAN_BAND_PPM else max(0.0, u))
                last = now


def switches(loop: Loop) -> list[Part]:
    """What gives the doses of valve and fan."""
    made: list[Part] = [valve_controller(loop.bus)]
    if loop.setting.fan:
        made.append(fan_controller(loop.bus, minimum_on_s=10.0, minimum_off_s=10.0))
    return made


def growd(loop: Loop, *, on_off: bool = False) -> list[Part]:
    """As the daemon has it, with its usual gains."""
    method = "on_off" if on_off else "pid"
    controller = co2_controller(loop.bus, fans=loop.fans, method=method, lowers_band=FAN_BAND_PPM)
    tuner = co2_tuner(loop.bus, controller, fans=loop.fans)
    return [controller, *switches(loop), tuner]


def predecessor(loop: Loop) -> list[Part]:
    return [Predecessor(loop, (1.0, 0.0, 1.0))]


def with_integral(loop: Loop) -> list[Part]:
    return [Predecessor(loop, (0.25, 0.25, 0.75))]


def simple_pid(loop: Loop) -> list[Part]:
    return [SimplePid(loop), *switches(loop)]


# --- What happens


@dataclass
class Figures:
    """What one step came to. Overshoot in percent of the step, the error and its limit in ppm."""

    overshoot: float
    measured_overshoot: float
    rise_s: float
    error: float
    openings_per_h: float
    litres: float
    litres_per_h: float
    limit: float
    reached: bool  # nine tenths of the step: else there is no overshoot to tell of
    course: dict[float, float] = field(default_factory=dict)


async def watched(loop: Loop, set_point: float, seconds: float) -> Figures:
    """The step to this set point from what there is."""
    start, openings, litres, begin = loop.ppm, loop.openings, loop.litres, loop.clock.monotonic()
    loop.want(CO2, set_point)
    way = math.copysign(1.0, set_point - start)
    size = max(1.0, abs(set_point - start))
    beyond, beyond_measured, rise, error = 0.0, 0.0, math.nan, 0.0
    course = {}
    while (at := loop.clock.monotonic() - begin) < seconds:
        await loop.clock.advance(1.0)
        ppm = course[begin + at] = loop.ppm
        if math.isnan(rise) and way * (ppm - start) >= 0.9 * size:
            rise = at
        if not math.isnan(rise):
            beyond = max(beyond, way * (ppm - set_point))
            beyond_measured = max(beyond_measured, way * (loop.measured - set_point))
        if at >= seconds / 2:
            error = max(error, abs(ppm - set_point))
    return Figures(
        100 * beyond / size,
        100 * beyond_measured / size,
        seconds if math.isnan(rise) else rise,
        error,
        (loop.openings - openings) * 3600 / seconds,
        loop.litres - litres,
        (loop.litres - litres) * 3600 / seconds,
        accuracy_ppm(set_point),
        not math.isnan(rise),
        course,
    )


async def steps(loop: Loop, seconds: float, set_points: Sequence[float]) -> list[Figures]:
    return [await watched(loop, set_point, seconds) for set_point in set_points]


async def tuned_step(loop: Loop, seconds: float, *, tunes: bool) -> list[Figures]:
    """A step after autotune (where there is one), from the room's air again."""
    if tunes:
        await loop.clock.advance(60)
        await loop.bus.services.get(f"{ENVIRONMENT}/controllers/{CO2}/autotune").call()
        await loop.clock.advance(TUNED_WITHIN_S)
        loop.chamber.set_door(True)
        await loop.clock.advance(5 * DOOR_S)
        loop.chamber.set_door(False)
    await loop.clock.advance(30)
    return await steps(loop, seconds, [1000.0])


async def door(loop: Loop, seconds: float) -> list[Figures]:
    """It is opened for a minute while 1000 ppm are kept."""
    loop.want(CO2, 1000.0)
    await loop.clock.advance(1800)
    loop.chamber.set_door(True)
    await loop.clock.advance(DOOR_S)
    loop.chamber.set_door(False)
    return await steps(loop, seconds, [1000.0])


async def day_and_night(loop: Loop, seconds: float) -> list[Figures]:
    """1000 ppm over plants: the lamps go on, and off again."""
    loop.want(CO2, 1000.0)
    await loop.clock.advance(1800)
    figures = []
    for level in (1.0, 0.0):
        for channel in ("white", "red", "blue"):
            loop.chamber.set_lamp(channel, level)
        figures.append(await watched(loop, 1000.0, seconds))
    return figures


async def held_shut(loop: Loop, seconds: float) -> list[Figures]:
    """Somebody keeps the valve shut for half an hour, and lets go of it."""
    loop.want(CO2, 1000.0)
    hand = loop.bus.node(HAND).publisher(f"{ENVIRONMENT}/commanded/{VALVE}")
    for _ in range(int(SHUT_S / 60)):
        hand.publish(0.0)
        await loop.clock.advance(60)
    hand.publish(None, Quality.STALE)
    return await steps(loop, seconds, [1000.0])


async def interlocked(loop: Loop, seconds: float) -> list[Figures]:
    """An interlock keeps the valve shut for half an hour, and tells no controller."""
    loop.want(CO2, 1000.0)
    loop.valve_hold.set(True)
    await loop.clock.advance(SHUT_S)
    loop.valve_hold.set(False)
    return await steps(loop, seconds, [1000.0])


async def _ran(
    setting: Setting,
    contender: Callable[[Loop], list[Part]],
    scene: Callable[[Loop], Awaitable[list[Figures]]],
) -> list[Figures]:
    loop = Loop(setting)
    async with loop.running(contender(loop)):
        await loop.clock.advance(10)
        return await scene(loop)


def worst(
    rounds: int,
    setting: Setting,
    contender: Callable[[Loop], list[Part]],
    scene: Callable[[Loop], Awaitable[list[Figures]]],
) -> list[Figures]:
    """The figures of each step, the worst of all seeds; the course is that of the first."""
    taken = [
        run_on_loop(_ran(replace(setting, seed=seed), contender, scene), SimulatedLoop)
        for seed in range(1, rounds + 1)
    ]
    return [_worst_of(each) for each in zip(*taken, strict=True)]


def _worst_of(each: Sequence[Figures]) -> Figures:
    names = ("overshoot", "measured_overshoot", "rise_s", "error", "openings_per_h", "litres")
    highest = {name: max(getattr(one, name) for one in each) for name in names}
    return replace(each[0], **highest, reached=all(one.reached for one in each))


# --- What is told


def step_rows(name: str, ours: Figures, theirs: Figures, *, is_step: bool = True) -> list[Row]:
    """All figures of a step; what is none, such as a door, has no target for its overshoot."""
    most = OVERSHOOT_PERCENT if is_step else None
    measured = (ours.measured_overshoot, None, theirs.measured_overshoot)
    overshoot = limited(f"{name}: overshoot", PERCENT, ours.overshoot, most, theirs.overshoot)
    return [
        replace(overshoot, met=overshoot.met and (ours.reached or not is_step)),
        limited(f"{name}: overshoot, measured", PERCENT, *measured),
        limited(f"{name}: rise to 90 %", "s", ours.rise_s, None, theirs.rise_s),
        limited(f"{name}: largest error", "ppm", ours.error, ours.limit, theirs.error),
        openings_row(name, ours, theirs),
        limited(f"{name}: CO2 used", "l", ours.litres, None, theirs.litres),
    ]


def openings_row(name: str, ours: Figures, theirs: Figures) -> Row:
    """How often the valve opens: half as often as the reference, or no more than the CO2 used takes."""
    fewer = ours.openings_per_h / theirs.openings_per_h if theirs.openings_per_h else None
    return Row(
        f"{name}: openings of the valve",
        "1/h",
        ours.openings_per_h,
        theirs.openings_per_h,
        fewer,
        f"at most {FEWER:g} of the reference, or one for each {1000 * DOSE_LITRES:g} ml",
        ours.openings_per_h <= max(FEWER * theirs.openings_per_h, ours.litres_per_h / DOSE_LITRES),
    )


def beside_rows(name: str, ours: Figures, theirs: Figures) -> list[Row]:
    """What tells them apart, without a target."""
    return [
        limited(f"{name}: overshoot", PERCENT, ours.overshoot, None, theirs.overshoot),
        limited(f"{name}: largest error", "ppm", ours.error, None, theirs.error),
        limited(f"{name}: openings of the valve", "1/h", ours.openings_per_h, None, theirs.openings_per_h),
    ]


def measure(options: Options) -> list[Row]:
    file: Path | None = options.arguments.figure
    if file is not None and importlib.util.find_spec("matplotlib") is None:
        sys.exit("matplotlib, which draws the figure, is not installed: .venv/bin/pip install matplotlib")
    has_package = importlib.util.find_spec(SIMPLE_PID) is not None
    if not has_package:
        print("simple-pid is not installed: what needs it is left out", file=sys.stderr)
    seconds = max(20.0, options.seconds)
    run = partial(worst, options.rounds)
    plots: list[Plot] = []
    rows = three_steps(run, seconds, plots, has_package=has_package)
    rows += other_chambers(run, seconds, plots)
    rows += disturbances(run, seconds, plots)
    if has_package:
        alone = Setting(fan=False)
        for name, who in (("by hand", held_shut), ("by an interlock", interlocked)):
            scene = partial(who, seconds=seconds)
            ours, theirs = run(alone, growd, scene), run(alone, simple_pid, scene)
            rows += beside_rows(f"valve held shut {name}, beside simple-pid", ours[0], theirs[0])
    rows += light_rows()
    rows += scene_rows(options.rounds, seconds)
    if file is not None:
        draw_courses(file, plots, f"{machine()}, {time.strftime('%Y-%m-%d')}")
    return rows


def three_steps(
    run: Callable[..., list[Figures]], seconds: float, plots: list[Plot], *, has_package: bool
) -> list[Row]:
    """Up, further up, and down, with valve and fan."""
    set_points = (1000.0, 1500.0, 800.0)
    scene = partial(steps, seconds=seconds, set_points=set_points)
    others = {
        "predecessor": predecessor,
        "predecessor, with integral": with_integral,
        "on and off": partial(growd, on_off=True),
    }
    if has_package:
        others["simple-pid"] = simple_pid
    ours = run(Setting(), growd, scene)
    theirs = {name: run(Setting(), contender, scene) for name, contender in others.items()}
    rows = []
    for number, name in enumerate(("420 to 1000 ppm", "1000 to 1500 ppm", "1500 to 800 ppm")):
        rows += step_rows(name, ours[number], theirs["predecessor"][number])
    for other, figures in theirs.items():
        if other != "predecessor":
            rows += beside_rows(f"420 to 1000 ppm, beside {other}", ours[0], figures[0])
    courses = [_course("growd", ours), *(_course(name, each) for name, each in theirs.items())]
    plots += [Plot("Valve and fan", courses[:2]), Plot("Beside others", [courses[0], *courses[2:]])]
    return rows


def other_chambers(run: Callable[..., list[Figures]], seconds: float, plots: list[Plot]) -> list[Row]:
    """The same step without a fan, with a sensor that has no lag, and with other valves after autotune."""
    usual = ChamberParameters()
    scene = partial(steps, seconds=seconds, set_points=(1000.0,))
    rows: list[Row] = []
    for name, setting in (
        ("420 to 1000 ppm, no fan", Setting(fan=False)),
        ("420 to 1000 ppm, sensor without lag", Setting(response_s=0.0)),
    ):
        ours, theirs = run(setting, growd, scene), run(setting, predecessor, scene)
        rows += step_rows(name, ours[0], theirs[0])
        plots.append(Plot(name, [_course("growd", ours), _course("predecessor", theirs)]))
    for name, flow in (("small valve, 10 ml/min", 0.01), ("large valve, 250 ml/min", 0.25)):
        setting = Setting(replace(usual, valve_flow_l_min=flow))
        ours = run(setting, growd, partial(tuned_step, seconds=seconds, tunes=True))
        theirs = run(setting, predecessor, partial(tuned_step, seconds=seconds, tunes=False))
        rows += step_rows(f"{name}, after autotune", ours[0], theirs[0])
    return rows


def disturbances(run: Callable[..., list[Figures]], seconds: float, plots: list[Plot]) -> list[Row]:
    """What comes from outside while 1000 ppm are kept."""
    rows: list[Row] = []
    scene = partial(door, seconds=seconds)
    ours, theirs = run(Setting(), growd, scene), run(Setting(), predecessor, scene)
    rows += step_rows("door open for 60 s", ours[0], theirs[0], is_step=False)
    scene = partial(day_and_night, seconds=seconds)
    ours, theirs = run(Setting(), growd, scene), run(Setting(), predecessor, scene)
    for name, mine, other in zip(("lamps on, over plants", "lamps off"), ours, theirs, strict=True):
        rows += [
            limited(f"{name}: largest error", "ppm", mine.error, mine.limit, other.error),
            openings_row(name, mine, other),
            limited(f"{name}: CO2 used", "l", mine.litres, None, other.litres),
        ]
    plots.append(Plot("Lamps on, and off", [_course("growd", ours), _course("predecessor", theirs)]))
    return rows


def light_rows() -> list[Row]:
    """The worst error of each scene; no noise, so one round is enough."""
    from_dark = [
        run_on_loop(_lit(Lamp(), [share * Lamp.full_scale_lux], daylight), SimulatedLoop)
        for share in SHARES
        for daylight in DAYLIGHT
    ]
    up_and_down = [share * Lamp.full_scale_lux for share in (0.8, 0.15, 0.01, 0.9, 0.025, 0.1, 0.4)]
    scenes = {
        "light, gamma 2.2, not calibrated, daylight 0 to 2 times the set point": max(from_dark),
        "light, gamma 2.2, up and down": run_on_loop(_lit(Lamp(), up_and_down, 0.0), SimulatedLoop),
        "light, gamma 1, up and down": run_on_loop(_lit(Lamp(gamma=1.0), up_and_down, 0.0), SimulatedLoop),
        "light, lamp 20 % weaker than configured, up and down": run_on_loop(
            _lit(Lamp(strength=0.8), up_and_down[1:3] + up_and_down[4:], 0.0), SimulatedLoop
        ),
    }
    return [limited(f"{name}: error", "%", error, LIGHT_PERCENT, None) for name, error in scenes.items()]


async def _lit(lamp: Lamp, set_points: Sequence[float], daylight: float) -> float:
    """The largest error after each of the set points, in percent; daylight as a share of the set point."""
    loop, worst = LightLoop(lamp), 0.0
    async with loop.running():
        for set_point in set_points:
            loop.daylight = daylight * set_point
            loop.want(set_point)
            await loop.clock.advance(LIT_S)
            error = abs(loop.lux - max(set_point, loop.daylight))
            worst = max(worst, 100 * error / set_point)
    return worst


def _course(name: str, figures: Sequence[Figures]) -> Course:
    begin = min(figures[0].course)
    points = [point for each in figures for point in each.course.items()]
    return Course(name, {round((at - begin) / 60, 2): round(ppm, 1) for at, ppm in points[::DRAWN_S]})


def add_figure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the courses, as SVG")


if __name__ == "__main__":
    main(measure, rounds=2, seconds=3600.0, add_arguments=add_figure)
