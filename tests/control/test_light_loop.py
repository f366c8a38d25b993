"""Light under control in the simulated chamber: an uncalibrated lamp, and daylight."""

import pytest
from closed_loop import Lamp, LightLoop

SETTLED_S = 300


@pytest.mark.parametrize("set_point", [200, 20_000])
@pytest.mark.parametrize("daylight_share", [0, 0.5, 1.1])
async def test_a_lamp_of_gamma_2_2_meets_each_set_point_beside_daylight(set_point, daylight_share):
    loop = LightLoop(Lamp(gamma=2.2, ramp_s=5))
    loop.daylight = set_point * daylight_share
    async with loop.running():
        loop.want(set_point)
        await loop.clock.advance(SETTLED_S)
        assert loop.lux == pytest.approx(max(set_point, loop.daylight), rel=0.05)
        assert (loop.level == 0) == (daylight_share > 1)


@pytest.mark.parametrize("strength", [0.9, 1.0, 2.0])
async def test_a_weak_or_strong_lamp_meets_rising_and_falling_set_points(strength):
    loop = LightLoop(Lamp(strength=strength))
    async with loop.running():
        for set_point in (16_000, 3_000, 200, 18_000, 200):
            loop.want(set_point)
            await loop.clock.advance(SETTLED_S)
            assert loop.lux == pytest.approx(set_point, rel=0.05)


async def test_the_lamp_adds_to_changing_daylight():
    loop = LightLoop(Lamp())
    async with loop.running():
        loop.want(8_000)
        for daylight in (0, 4_000, 30_000, 4_000, 0):
            loop.daylight = daylight
            await loop.clock.advance(SETTLED_S)
            assert loop.lux == pytest.approx(max(8_000, daylight), rel=0.05)


async def test_a_ramp_of_the_set_point_is_followed():
    loop = LightLoop(Lamp())
    async with loop.running():
        for second in range(1_800):
            loop.want(10 * second)
            await loop.clock.advance(1)
            if second > SETTLED_S:
                assert loop.lux == pytest.approx(10 * second, rel=0.05, abs=100)


async def test_the_trim_does_not_wind_up_while_an_interlock_holds_the_lamp():
    loop = LightLoop(Lamp())
    async with loop.running():
        loop.want(8_000)
        await loop.clock.advance(SETTLED_S)
        loop.hold.set(True)
        await loop.clock.advance(1_800)
        assert loop.lux == 0
        loop.hold.set(False)
        await loop.clock.advance(10)
        assert loop.lux == pytest.approx(8_000, rel=0.05)


async def test_a_lamp_at_its_minimum_does_not_blink():
    loop = LightLoop(Lamp(minimum_duty=0.1))
    levels = set()
    async with loop.running():
        loop.want(1_500)
        await loop.clock.advance(SETTLED_S)
        for _ in range(300):
            await loop.clock.advance(1)
            levels.add(loop.level > 0)
    assert levels == {True}


async def test_a_switched_lamp_follows_the_set_point_alone():
    loop = LightLoop(Lamp(gamma=1, is_switched=True))
    loop.daylight = 5_000
    async with loop.running():
        await loop.clock.advance(60)
        loop.want(12_000)
        await loop.clock.advance(SETTLED_S)
        assert loop.lux > 18_000
        loop.want(8_000)
        await loop.clock.advance(SETTLED_S)
        assert loop.lux == loop.daylight
