import pytest

from growd.bus.messages import Quality
from growd.control.controllers import DirectController, LightController
from growd.control.topics import LIGHT_CHANNELS
from support.bus_rig import BusRig
from support.running import running

LUX = "light_illuminance"


class Rig(BusRig):
    def __init__(self):
        super().__init__(LUX)
        self.controllers = [
            LightController(self.bus, "e", full_scale_lux=20_000),
            *(DirectController(self.bus, "e", f"light_intensity_{channel}") for channel in LIGHT_CHANNELS),
        ]

    def commanded(self, variable=LUX):
        return self.bus.topics.get(f"e/commanded/{variable}")

    async def measure(self, lux, seconds):
        """The same reading each 2 s."""
        for _ in range(seconds // 2):
            self.publish(f"measured/{LUX}", lux)
            await self.clock.advance(2)


@pytest.fixture
async def rig():
    rig = Rig()
    async with running(rig.clock, *rig.controllers):
        yield rig


@pytest.mark.parametrize("quality", [Quality.STALE, Quality.FAULT])
async def test_without_a_set_point_the_lamp_is_commanded_dark_each_second(rig, quality):
    before = rig.commanded().count
    await rig.clock.advance(10)
    assert rig.commanded().last.value == 0.0
    assert rig.commanded().count - before >= 10
    rig.publish(f"desired/{LUX}", 8000.0)
    await rig.measure(4000.0, 60)
    rig.publish(f"desired/{LUX}", None, quality)
    await rig.clock.settle()
    assert rig.commanded().last.value == 0.0


async def test_the_trim_waits_for_the_filter_reaches_full_light_and_does_not_wind_up(rig):
    rig.publish(f"desired/{LUX}", 8000.0)
    await rig.measure(0.0, 18)
    assert rig.commanded().last.value == pytest.approx(0.4)
    await rig.measure(0.0, 3600)
    assert rig.commanded().last.value == 1.0
    await rig.measure(16_000.0, 120)  # no hour of error to work off first
    assert rig.commanded().last.value < 0.4
    rig.publish(f"desired/{LUX}", 19_000.0)
    await rig.measure(0.0, 600)
    assert rig.commanded().last.value == 1.0
    rig.publish(f"desired/{LUX}", 18_900.0)
    await rig.measure(19_900.0, 120)
    assert rig.commanded().last.value < 0.945


@pytest.mark.parametrize("failure", ["fault", "silence"])
async def test_without_a_measured_value_the_command_is_feed_forward_only(rig, failure):
    rig.publish(f"desired/{LUX}", 8000.0)
    await rig.measure(4000.0, 200)
    assert rig.commanded().last.value > 0.45
    if failure == "fault":
        rig.publish(f"measured/{LUX}", None, Quality.FAULT)
        await rig.clock.advance(1)
    else:
        await rig.clock.advance(32)
    assert rig.commanded().last.value == pytest.approx(0.4)


async def test_without_a_light_sensor_the_command_is_feed_forward_only():
    rig = BusRig("air_carbon_dioxide")
    async with running(rig.clock, LightController(rig.bus, "e")):
        rig.publish(f"desired/{LUX}", 8000.0)
        await rig.clock.advance(100)
        assert rig.last(f"commanded/{LUX}").value == pytest.approx(0.4)


async def test_an_override_with_a_length_is_a_dose(rig):
    rig.node.publisher(f"e/commanded/{LUX}").publish(0.7, valid_s=2.5)
    await rig.clock.advance(1)
    assert rig.commanded().last.value == 0.7
    assert rig.commanded().last.valid_s == pytest.approx(1.5)
    await rig.clock.advance(1.6)
    assert rig.commanded().last.value == 0
    assert rig.commanded().last.valid_s is None


async def test_the_automatic_value_is_never_published_after_an_override(rig):
    with rig.bus.node("watcher").subscribe(f"e/commanded/{LUX}") as seen:
        rig.publish(f"desired/{LUX}", 8000.0)
        rig.publish(f"commanded/{LUX}", 0.7)
        await rig.clock.advance(3)
        values = {seen.get_nowait().value for _ in range(len(seen))}
    assert values == {0.7}


async def test_the_time_of_an_override_is_a_parameter_and_what_remains_a_read_only_one(rig):
    left, length = (f"e/controllers/{LUX}/{name}" for name in ("override_left", "override"))
    assert rig.bus.parameters.get(left) == 0
    rig.publish(f"commanded/{LUX}", 0.7)
    await rig.clock.advance(100)
    assert rig.bus.parameters.get(left) == pytest.approx(500, abs=1)
    with pytest.raises(PermissionError):
        await rig.bus.parameters.set(left, 9_000)
    rig.publish(f"commanded/{LUX}", None, Quality.STALE)
    await rig.clock.advance(1)
    assert rig.bus.parameters.get(left) == 0
    await rig.bus.parameters.set(length, 5)
    rig.publish(f"commanded/{LUX}", 0.7)
    for seconds, level in ((4, 0.7), (2, 0.0)):
        await rig.clock.advance(seconds)
        assert rig.commanded().last.value == level


async def test_a_channel_follows_its_set_point_whose_release_ends_an_override_and_is_published_once(rig):
    red = rig.commanded("light_intensity_red")
    await rig.clock.advance(5)
    assert red.count == 0
    rig.publish("desired/light_intensity_red", 0.3)
    await rig.clock.advance(5)
    assert red.last.value == 0.3
    assert red.count >= 5
    rig.publish("commanded/light_intensity_red", 0.9)
    await rig.clock.advance(5)
    rig.publish("desired/light_intensity_red", None, Quality.STALE)
    await rig.clock.settle()
    count = red.count
    assert (red.last.value, red.last.quality) == (None, Quality.STALE)
    await rig.clock.advance(5)
    assert red.count == count


async def test_one_override_sets_all_channels_and_the_latest_counts(rig):
    rig.publish("commanded/light_channels", {"x": 0.1, "y": 0.2, "z": 0.3})
    await rig.clock.advance(5)
    assert [rig.commanded(f"light_intensity_{name}").last.value for name in LIGHT_CHANNELS] == [0.1, 0.2, 0.3]
    rig.publish("commanded/light_intensity_red", 0.9)
    await rig.clock.advance(5)
    assert [rig.commanded(f"light_intensity_{name}").last.value for name in LIGHT_CHANNELS] == [0.1, 0.9, 0.3]


async def test_a_restarted_controller_takes_the_last_set_point():
    rig = Rig()
    async with running(rig.clock, *rig.controllers):
        pass
    rig.publish(f"desired/{LUX}", 8000.0)
    async with running(rig.clock, *rig.controllers):
        assert rig.commanded().last.value == pytest.approx(0.4)


async def test_a_release_without_an_override_gets_a_remark(rig):
    topic = rig.bus.topics.get("e/commanded/light_intensity_red")
    client = rig.bus.find_node("client")
    said = []
    for value in (None, 0.9, None, None):
        message = client.publish_arguments(topic.name, [value])
        said.append(await topic.answer(message, "anna"))
        await rig.clock.advance(2)
    nothing = "there was no command by hand to release"
    holds = "holds for 10 min, or until you release it: growd topic release e/commanded/light_intensity_red"
    assert said == [nothing, holds, "", nothing]


@pytest.mark.parametrize("is_at_once", [False, True])
async def test_the_end_of_a_recipe_ends_every_override(rig, is_at_once):
    rig.publish(f"desired/{LUX}", 8000.0)
    for variable in (LUX, "light_intensity_red"):
        rig.publish(f"commanded/{variable}", 0.9)
    if not is_at_once:
        await rig.clock.advance(5)
    rig.publish(f"desired/{LUX}", None, Quality.STALE)
    rig.publish("desired/recipe_end", "lettuce")
    await rig.clock.advance(1)
    assert rig.commanded().last.value == 0.0
    red = rig.commanded("light_intensity_red").last
    assert (red.value, red.quality) == (None, Quality.STALE)  # published for a lamp that followed it


@pytest.mark.parametrize("what_the_lamp_does", ["ramp", "held", "fails"])
async def test_the_trim_waits_while_the_lamp_does_not_follow_its_command(what_the_lamp_does):
    rig = BusRig(LUX)
    controller = LightController(rig.bus, "e", full_scale_lux=20_000, mix={"white": 1.0})
    async with running(rig.clock, controller):
        rig.publish(f"desired/{LUX}", 8_000.0)
        for second in range(200):
            level = 0.4 * second / 200 if what_the_lamp_does == "ramp" else 0.0
            quality = Quality.FAULT if what_the_lamp_does == "fails" else Quality.OK
            rig.publish("light_channels", {"x": level, "y": 0.0, "z": 0.0}, quality)
            rig.publish(f"measured/{LUX}", 20_000 * level)
            await rig.clock.advance(1)
            assert rig.last(f"commanded/{LUX}").value == pytest.approx(0.4, abs=0.01)
        for _ in range(200):  # and it goes on when the lamp has arrived
            level = rig.last(f"commanded/{LUX}").value
            rig.publish("light_channels", {"x": level, "y": 0.0, "z": 0.0})
            rig.publish(f"measured/{LUX}", 18_000 * level)
            await rig.clock.advance(1)
        assert rig.last(f"commanded/{LUX}").value > 0.42
