"""The calibration of a lamp in the simulated chamber, whose light is not proportional to its level."""

import logging
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from growd.bus.errors import BusyError
from growd.bus.messages import Quality
from growd.config import Config, InterlockOptions, Light, Sensor
from growd_hwsim.faults import Fault
from support.memory import ShortMemory
from support.rig import rigged

LUX = Sensor(name="lux", kind="bh1750", interval_s=1.0)
AIR = Sensor(name="air", kind="scd30", bus=3)
LAMP = Light(gamma=2.2, full_scale_lux=20_000)
CONTROLLER = "environment_1/controllers/light_illuminance"
SET_POINTS = (500.0, 2_000.0, 8_000.0, 15_000.0)
WITHIN_S = 300.0


class Scene:
    def __init__(self, rig):
        self.rig, self.bus, self.clock, self.machine = rig, rig.bus, rig.clock, rig.machine
        self.client = self.bus.node("client")

    def publish(self, topic, *arguments):
        self.client.publish_arguments(f"environment_1/{topic}", list(arguments))

    async def calibrate(self):
        return await self.bus.services.get(f"{CONTROLLER}/calibrate_light").call()

    def outcome(self):
        last = self.bus.topics.get(f"{CONTROLLER}/calibration").last
        return None if last is None else last.value

    async def calibrated(self):
        """What comes of a calibration that has begun."""
        await self.clock.until(lambda: self.outcome()["state"] != "running", within=WITHIN_S)
        return self.outcome()

    def curve(self):
        return self.bus.parameters.get(f"{CONTROLLER}/curve")

    async def open_loop_errors(self):
        """For each set point, by how much of it the light is wrong without any trim."""
        await self.bus.parameters.set(f"{CONTROLLER}/trim_time", 86_400)
        errors = []
        for lux in SET_POINTS:
            self.publish("desired/light_illuminance", lux)
            await self.clock.advance(5)
            errors.append(abs(self.machine.chamber.illuminance_lux() - self.daylight() - lux) / lux)
        return errors

    def daylight(self):
        chamber = self.machine.chamber
        return chamber._daylight_lux(self.clock.monotonic())


@asynccontextmanager
async def scene(light=LAMP, **options):
    async with rigged(Config(sensor=(LUX, AIR), light=light, **options), ShortMemory()) as rig:
        await rig.clock.advance(5)
        yield Scene(rig)


@pytest.mark.parametrize("ramp_s", [0.0, 20.0])
async def test_a_calibrated_lamp_gives_the_set_point_without_trim(ramp_s):
    async with scene(replace(LAMP, ramp_s=ramp_s, full_scale_lux=10_000)) as on:
        on.machine.chamber._daylight_lux = lambda _: 0.0
        before = await on.open_loop_errors() if not ramp_s else [1.0]
        answer = await on.calibrate()
        assert answer["success"]
        assert answer["message"] == f"the calibration has started; see the topic {CONTROLLER}/calibration"
        assert on.curve() == []
        outcome = await on.calibrated()
        assert outcome["state"] == "done"
        assert outcome["curve"] == on.curve()
        assert len(on.curve()) >= 10
        await on.clock.advance(30)
        if not ramp_s:
            after = await on.open_loop_errors()
            assert min(before[:3]) > 0.3
            assert max(after) < 0.03


async def test_daylight_is_subtracted_from_the_curve_unless_it_changes():
    async with scene() as on:
        curves = []
        for daylight in (0.0, 300.0):
            on.machine.chamber._daylight_lux = lambda _, lux=daylight: lux
            await on.calibrate()
            await on.calibrated()
            curves.append(on.curve())
        for (level, lux), (_, with_daylight) in zip(*curves, strict=True):
            assert with_daylight == pytest.approx(lux, abs=60 + 0.01 * lux), level
        start = on.clock.monotonic()
        on.machine.chamber._daylight_lux = lambda now: 100.0 * (now - start)
        await on.calibrate()
        outcome = await on.calibrated()
        assert outcome["state"] == "failed"
        assert "other light changed from " in outcome["message"]
        assert outcome["message"].endswith("; nothing has changed")
        assert on.curve() == curves[-1]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("recipe", "a recipe drives the light; stop it first"),
        ("hand", "an override drives the light"),
        ("channel", "environment_1/commanded/light_intensity_red has a command of its own"),
        ("interlock", "the lamp is held: air_temperature was 2"),
        ("sensor", "the light sensor has failed"),
    ],
)
async def test_another_cause_refuses_or_ends_a_calibration(when, cause, words):
    limits = InterlockOptions(light_off_degc=5.0 if cause == "interlock" and when == "before" else 35.0)
    async with scene(interlock=limits) as on:

        async def strike():
            if cause == "recipe":
                runner = on.bus.node("environment_1/recipe_runner")
                runner.publisher("environment_1/desired/light_illuminance").publish(3_000.0)
            elif cause == "hand":
                on.publish("commanded/light_illuminance", 0.7)
            elif cause == "channel":
                on.publish("desired/light_intensity_red", 0.3)
            elif cause == "sensor":
                on.machine.faults.inject(Fault("absent", "bh1750"))
            elif when == "meanwhile":
                on.machine.chips[3, 0x61].memory.temperature_offset = -1_500
                await on.clock.advance(10)
            await on.clock.advance(10 if cause == "sensor" else 1)

        if when == "before":
            await strike()
            answer = await on.calibrate()
            assert not answer["success"]
            assert answer["message"].startswith(words)
            assert on.outcome() is None
            return
        assert (await on.calibrate())["success"]
        await on.clock.advance(30)
        await strike()
        outcome = await on.calibrated()
        assert outcome["state"] == "failed"
        if cause != "interlock":
            assert words in outcome["message"]
        else:
            assert "the lamp is held: air_temperature was 3" in outcome["message"]
        assert on.curve() == []
        await on.clock.advance(2)
        driven = on.rig.last("commanded/light_illuminance").value
        assert driven == pytest.approx(
            {"recipe": 0.15 ** (1 / LAMP.gamma), "hand": 0.7}.get(cause, 0.0), rel=0.01
        )


async def test_a_calibration_reports_progress_and_can_be_stopped(said, caplog):
    async with scene() as on:
        stop = on.rig.bus.services.get(f"{CONTROLLER}/stop_calibration")
        assert not (await stop.call(who="ann"))["success"]
        await on.calibrate()
        before = on.clock.monotonic()
        seen = []
        for _ in range(8):
            await on.clock.advance(10)
            seen.append(on.rig.last("controllers/light_illuminance/calibration").value)
        progress, left = ([each[name] for each in seen] for name in ("progress", "left"))
        assert progress == sorted(progress)
        assert 0 < progress[0] < progress[-1] < 1
        assert left == sorted(left, reverse=True)
        assert seen[-1]["message"] in {"lamp at 70%", "lamp at 80%"}
        measured = [lux for _, lux in seen[-1]["curve"]]
        assert len(measured) > 5
        assert measured == sorted(measured)
        assert (await stop.call(who="ann"))["success"]
        outcome = await on.calibrated()
        said(outcome["message"])
        assert (outcome["state"], outcome["curve"], outcome["left"]) == ("failed", [], 0)
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert on.clock.monotonic() - before < 90
        assert on.curve() == []
        await on.calibrate()
        await on.clock.advance(1)
        began = on.clock.monotonic()
        expected = on.rig.last("controllers/light_illuminance/calibration").value["left"]
        assert (await on.calibrated())["state"] == "done"
        assert on.clock.monotonic() - began == pytest.approx(expected, rel=0.25)


async def test_one_calibration_runs_at_a_time_and_a_set_point_waits(monkeypatch):
    answers = []
    async with scene() as on:
        save, stop = on.bus.parameters.set, on.bus.services.get(f"{CONTROLLER}/stop_calibration")

        async def stop_and_save(*given, **more):
            answers.append(await stop.call(who="ann"))
            await save(*given, **more)

        monkeypatch.setattr(on.bus.parameters, "set", stop_and_save)
        on.publish("desired/light_illuminance", 8_000.0)
        await on.clock.advance(2)
        assert (await on.calibrate())["success"]
        await on.clock.advance(2)
        assert await on.calibrate() == {"success": False, "message": "a calibration is under way"}
        assert on.rig.last("commanded/light_illuminance").value == 0.0
        assert (await on.calibrated())["state"] == "done"
        assert [each["success"] for each in answers] == [False]  # a stop while the curve is saved
        await on.clock.advance(2)
        assert on.rig.last("measured/light_illuminance").quality is Quality.OK
        await on.clock.until(lambda: on.rig.last("commanded/light_illuminance").value > 0.3, within=5)


@pytest.mark.parametrize("error", [OSError("the disk is full"), BusyError("sets of parameters", 256)])
async def test_a_curve_that_cannot_be_saved_changes_nothing(error):
    async with scene() as on:

        async def refuse(*_):
            raise error

        on.bus.parameters._store = type("Full", (), {"save": staticmethod(refuse)})()
        await on.calibrate()
        outcome = await on.calibrated()
        assert (outcome["state"], outcome["message"]) == ("failed", f"{error}; nothing has changed")
        assert on.curve() == []
