import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from closed_loop import (
    CO2,
    ENVIRONMENT,
    FAN,
    VALVE,
    Loop,
    Setting,
    co2_controller,
    co2_tuner,
    fan_controller,
    valve_controller,
)

from growd.bus.messages import Quality
from growd_commissioning.experiments import ExperimentError
from growd_commissioning.fits import least_squares
from growd_commissioning.relay import RelayTest, Response
from growd_hwsim.parameters import ChamberParameters

pytestmark = pytest.mark.long

CONTROLLER = f"{ENVIRONMENT}/controllers/{CO2}"
TUNED = [f"{CONTROLLER}/{name}" for name in ("kp", "ti", "td")]
TUNED += [f"{ENVIRONMENT}/controllers/{VALVE}/{name}" for name in ("minimum_on", "minimum_off")]


def nightly(*values):
    return pytest.param(*values, marks=pytest.mark.nightly)


class Rig(Loop):
    """A chamber with the whole control of CO2. `held` is why an interlock holds the valve."""

    def __init__(self, setting):
        super().__init__(setting)
        self.held = ""
        self.client = self.bus.node("another client")
        self.controller = co2_controller(self.bus, fans=self.fans)
        self.tuner = co2_tuner(
            self.bus, self.controller, ("valve", "second valve"), fans=self.fans, why_held=lambda: self.held
        )
        self.control = [self.controller, valve_controller(self.bus), self.tuner]
        if self.fans:
            self.control.append(fan_controller(self.bus))

    async def ask(self):
        return await self.bus.services.get(f"{CONTROLLER}/autotune").call()

    def progress(self):
        last = self.bus.topics.get(f"{ENVIRONMENT}/autotune/{CO2}").last
        return None if last is None else last.value

    def parameters(self):
        return [self.bus.parameters.get(name) for name in TUNED]

    def publish(self, topic, value, quality=Quality.OK):
        self.client.publisher(f"{ENVIRONMENT}/{topic}").publish(value, quality)

    async def until_over(self):
        for _ in range(400):
            await self.clock.advance(10)
            if self.progress()["state"] != "running":
                return self.progress()
        raise AssertionError("it does not end")


@asynccontextmanager
async def rigged(*, fan=False, **parameters):
    rig = Rig(Setting(replace(ChamberParameters(), **parameters), response_s=20.0, fan=fan))
    async with rig.running(rig.control):
        await rig.clock.advance(60)
        yield rig


@pytest.fixture
async def rig():
    async with rigged() as rig:
        yield rig


@pytest.mark.parametrize(
    ("volume_m3", "valve_flow_l_min", "leak_per_h"),
    [(0.1, 0.05, 1.5), (0.1, 0.01, 0.5), nightly(0.03, 0.1, 1.5), nightly(1.0, 0.25, 1.0)],
)
async def test_autotune_measures_the_chamber_and_its_gains_reach_the_set_points(
    volume_m3, valve_flow_l_min, leak_per_h
):
    area = 0.168 * (volume_m3 / 0.1) ** (2 / 3)
    async with rigged(
        volume_m3=volume_m3, valve_flow_l_min=valve_flow_l_min, leak_per_h=leak_per_h, growing_area_m2=area
    ) as rig:
        before = rig.parameters()
        assert (await rig.ask())["success"]
        outcome = await rig.until_over()
        assert outcome["state"] == "done", outcome["message"]
        after = rig.parameters()
        assert all(was != now for was, now in zip(before[:3], after[:3], strict=True))
        assert after[3] == after[4] == pytest.approx(min(60, max(0.5, 33 / outcome["rise"])))
        assert outcome["rise"] == pytest.approx(valve_flow_l_min / 60_000 / volume_m3 * 1e6, rel=0.1)
        assert outcome["lag"] == pytest.approx(20 + 5, abs=4)  # the sensor, and the filter's average
        assert outcome["loss"] == pytest.approx(leak_per_h, rel=0.25)
        await rig.clock.advance(900)
        for set_point in (1000.0, 1500.0):
            step, highest = set_point - rig.ppm, 0.0
            rig.want(CO2, set_point)
            for second in range(0, 1200, 5):
                await rig.clock.advance(5)
                highest = max(highest, rig.ppm)
                if second > 900:
                    assert rig.ppm == pytest.approx(set_point, abs=30 + 0.03 * set_point)
            assert highest - set_point < max(0.03 * step, 30 + 0.03 * set_point)


@pytest.mark.parametrize(("wait_s", "leak_per_h"), [(30, 1.5), nightly(180, 0.5)])
async def test_autotune_allows_for_co2_that_still_falls_after_a_recipe(wait_s, leak_per_h):
    async with rigged(leak_per_h=leak_per_h) as rig:
        rig.want(CO2, 1000.0)
        await rig.clock.advance(2_400)
        rig.publish(f"desired/{CO2}", None, Quality.STALE)
        await rig.clock.advance(wait_s)
        assert (await rig.ask())["success"]
        outcome = await rig.until_over()
        assert outcome["state"] == "done", outcome["message"]
        assert outcome["rise"] == pytest.approx(8.33, rel=0.1)
        assert outcome["loss"] == pytest.approx(leak_per_h, rel=0.25)


async def test_autotune_fails_if_co2_falls_by_more_than_the_dose_raises_it():
    async with rigged(leak_per_h=3.0) as rig:
        rig.want(CO2, 1500.0)
        await rig.clock.advance(2_400)
        rig.publish(f"desired/{CO2}", None, Quality.STALE)
        await rig.clock.advance(180)
        before = rig.parameters()
        assert (await rig.ask())["success"]
        outcome = await rig.until_over()
        assert outcome["state"] == "failed"
        assert "by itself" in outcome["message"]
        assert "wait until it is steady" in outcome["message"]
        assert rig.parameters() == before


@pytest.mark.parametrize("seconds", [0, nightly(1), 2, nightly(3)])
async def test_a_stop_in_the_last_seconds_changes_nothing_or_is_refused(rig, seconds):
    before = rig.parameters()
    await rig.ask()
    await rig.clock.advance(10)
    while rig.progress()["left"] > 0:
        await rig.clock.advance(1)
    await rig.clock.advance(seconds)
    answer = await rig.bus.services.get(f"{CONTROLLER}/stop_autotune").call(who="ann")
    outcome = await rig.until_over()
    assert answer["success"] == (outcome["state"] == "failed") == (rig.parameters() == before)


async def test_a_stop_while_the_result_is_saved_is_refused(rig, monkeypatch):
    """It comes too late to change nothing."""
    answers = []
    save = rig.bus.parameters.set_together

    async def stop_and_save(found):
        answers.append(await rig.bus.services.get(f"{CONTROLLER}/stop_autotune").call(who="ann"))
        await save(found)

    monkeypatch.setattr(rig.bus.parameters, "set_together", stop_and_save)
    await rig.ask()
    assert (await rig.until_over())["state"] == "done"
    message = "the autotune has ended; its result is being saved"
    assert answers == [{"success": False, "message": message}]


async def test_autotune_reports_the_time_left_and_can_be_stopped(rig, caplog):
    before = rig.parameters()
    stop = rig.bus.services.get(f"{CONTROLLER}/stop_autotune")
    assert await stop.call(who="ann") == {"success": False, "message": "no autotune is running"}
    await rig.ask()
    await rig.clock.advance(10)
    began = rig.clock.monotonic()
    left, progress = rig.progress()["left"], rig.progress()["progress"]
    await rig.clock.advance(295)
    assert "already running" in (await rig.ask())["message"]
    assert left - rig.progress()["left"] == pytest.approx(295, abs=10)
    assert 0 <= progress < rig.progress()["progress"] < 1
    assert (await stop.call(who="ann"))["success"]
    outcome = await rig.until_over()
    assert outcome["message"] == "it was stopped by ann; nothing has changed"
    assert (outcome["state"], outcome["left"]) == ("failed", 0)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert rig.parameters() == before
    await rig.clock.advance(10)
    assert rig.bus.topics.get(f"{ENVIRONMENT}/outputs/valve").last.value == 0
    assert (await rig.ask())["success"]
    last = await rig.until_over()
    assert last["state"] == "done"
    assert rig.clock.monotonic() - began < 400 + left


OBSTACLES = [
    (lambda rig: rig.want(CO2, 0.0), "set point"),
    (lambda rig: rig.publish(f"commanded/{CO2}", 0.0), "has an override"),
    (lambda rig: setattr(rig, "held", "CO2 is above 5000 ppm"), "5000 ppm"),
    (lambda rig: rig.publish(f"commanded/{VALVE}", 0.0), "the valve has an override"),
    (lambda rig: rig.want(VALVE, 0.0), "valve has a set point"),
    (lambda rig: rig.want(FAN, 0.0), "fan has a set point"),
    (lambda rig: rig.want(FAN, 1.0), "fan has a set point"),
    (lambda rig: rig.publish(f"commanded/{FAN}", 0.0), "the fan has an override"),
    (lambda rig: rig.bus.node("lock").publisher(f"{ENVIRONMENT}/outputs/fan").publish(1.0), "the fan is on"),
]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        *OBSTACLES,
        (lambda rig: rig.publish(f"raw/{CO2}", None, Quality.FAULT), "CO2 is unknown"),
        (lambda rig: rig.publish("outputs/second valve", 1.0), "the valve is on"),
    ],
)
async def test_autotune_is_refused_while_something_else_controls_co2(event, words):
    async with rigged(fan=True) as rig:
        event(rig)
        await rig.clock.settle()
        answer = await rig.ask()
        assert not answer["success"]
        assert words in answer["message"]
        await rig.clock.advance(10)
        assert rig.progress() is None


@pytest.mark.parametrize(
    ("after_s", "event", "words"),  # before, during and after the dose
    [(after_s, *each) for after_s, each in zip((100, 305, 600) * 3, OBSTACLES, strict=True)],
)
async def test_an_obstacle_ends_autotune_shuts_the_valve_and_changes_nothing(event, words, after_s):
    async with rigged(fan=True) as rig:
        before = rig.parameters()
        await rig.ask()
        await rig.clock.advance(after_s)
        assert rig.valve_open == (after_s == 305)
        event(rig)
        await rig.clock.advance(5)  # a dose of the valve lasts 4 s at least
        assert rig.progress()["state"] == "failed"
        assert words in rig.progress()["message"]
        assert not rig.valve_open
        assert rig.parameters() == before


@pytest.mark.parametrize(
    ("after_s", "words"), [(100, "somebody else"), (305, "the valve has an override"), (500, "somebody else")]
)
async def test_a_client_that_opens_the_valve_ends_autotune(rig, after_s, words):
    await rig.ask()
    await rig.clock.advance(after_s)
    rig.publish(f"commanded/{VALVE}", 1.0)
    assert words in (await rig.until_over())["message"]


@pytest.mark.parametrize(("after_s", "words"), [(60, "did not switch on"), (320, "did not switch off")])
async def test_autotune_fails_and_shuts_a_valve_that_does_not_open_or_shut(after_s, words):
    async with rigged(volume_m3=1.0, valve_flow_l_min=0.03) as rig:
        await rig.ask()
        await rig.clock.advance(after_s)
        assert rig.valve_open == (after_s == 320)
        await rig.bus.parameters.set(f"{ENVIRONMENT}/controllers/{VALVE}/minimum_on", 3600.0)
        assert words in (await rig.until_over())["message"]
        await rig.clock.advance(2)
        assert not rig.valve_open
        assert rig.open_s < 130 * (after_s == 320) + 1


@pytest.mark.parametrize("minimum_on", [2.0, 89.0])
async def test_the_dose_has_a_limit_for_every_minimum_time_and_none_may_be_above_it(minimum_on):
    async with rigged(volume_m3=1.0, valve_flow_l_min=0.03) as rig:
        parameter = f"{ENVIRONMENT}/controllers/{VALVE}/minimum_on"
        await rig.bus.parameters.set(parameter, 121.0)
        answer = await rig.ask()
        assert (answer["success"], "minimum_on" in answer["message"]) == (False, True)
        await rig.bus.parameters.set(parameter, minimum_on)
        await rig.ask()
        await rig.until_over()
        assert 100 < rig.open_s <= 120


async def test_autotune_fails_within_one_dose_of_an_empty_bottle():
    async with rigged(valve_flow_l_min=0.001) as rig:
        before = rig.parameters()
        await rig.ask()
        outcome = await rig.until_over()
        assert outcome["state"] == "failed"
        assert "bottle" in outcome["message"]
        assert rig.open_s < 130
        assert rig.parameters() == before


async def test_parameters_that_cannot_be_saved_do_not_change(rig):
    async def save(_changes, _removed):
        raise OSError("the disk is full")

    rig.bus.parameters._store = SimpleNamespace(save=save)
    before = rig.parameters()
    await rig.ask()
    outcome = await rig.until_over()
    assert outcome["state"] == "failed"
    assert "disk is full; nothing has changed" in outcome["message"]
    assert rig.parameters() == before


# --- The calculation


def co2_response(**values):
    return Response(CO2, **{"least_on_s": 4.0, **values})


def test_too_much_co2_at_the_start_and_a_sensor_that_is_too_slow_are_refused():
    with pytest.raises(ExperimentError):
        RelayTest(CO2, 0.0, 120.0, 60.0).measured(10.0, 2600.0)
    test = RelayTest(CO2, 0.0, 120.0, 60.0)
    for at in range(0, 300, 60):
        test.measured(at, 420.0)
    with pytest.raises(ExperimentError):
        test.wants_on(300.0)


def test_gains_of_a_chamber_without_losses_are_limited():
    gains = co2_response(rise=8.0, lag_s=25.0, loss_per_h=0.0).gains()
    assert gains.ti_s == 7200
    assert gains.kp == pytest.approx(1 / (15 * 33))  # 15 doses of 33 ppm from end to end


def test_a_strong_valve_gets_short_doses_and_a_low_gain():
    response = co2_response(rise=500.0, lag_s=5.0, loss_per_h=1.5)
    assert response.minimum_on_s == 0.5
    assert response.gains().kp == pytest.approx(1 / (500 * 20))


def test_the_least_squares_are_those_of_the_model():
    rows = [(x, y, 3.0 * x - 2.0 * y) for x, y in ((1.0, 0.5), (2.0, 3.0), (4.0, 1.0))]
    assert least_squares(rows) == pytest.approx([3.0, -2.0])
    with pytest.raises(ExperimentError):
        least_squares([(0.0, 0.0, 1.0)] * 3)
