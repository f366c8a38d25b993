import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_drivers.errors import NotReadyError, OutOfRangeError, WrongDeviceError
from growd_drivers.tsl2591 import MAXIMUM_LUX
from growd_hwsim.chips.tsl2591 import CONTROL, ID, WHITE_LED_INFRARED_SHARE
from support.chip_bench import LightBench


@given(st.lists(st.one_of(st.floats(0, 106_000), st.floats(0, 10)), min_size=1, max_size=6))
def test_any_light_after_any_other_is_read(lights):
    bench = LightBench("tsl2591")
    for lux in lights:
        # two steps of the range that the light falls in, and the chip's noise of five deviations
        step = 0.0001 if lux < 1.6 else 0.0035 if lux < 75 else 0.09 if lux < 1_900 else 4.2
        assert bench.read(lux) == pytest.approx(lux, abs=2 * step + 0.01 * lux)
    bench.bus.close()


@pytest.mark.parametrize("before", [0.0, 100_000.0])
def test_saturation_of_either_channel_is_an_error_and_not_a_number(before):
    bench = LightBench("tsl2591")
    bench.read(before)
    with pytest.raises(OutOfRangeError, match="TSL2591 at 0x29 on I2C bus 1 is saturated") as caught:
        bench.read(MAXIMUM_LUX)
    assert caught.value.maximum == pytest.approx(150_401, abs=1)
    assert bench.read(500.0) == pytest.approx(500.0, rel=0.01)
    bench = LightBench("tsl2591", infrared_share=3.0)
    with pytest.raises(OutOfRangeError, match="is saturated"):
        bench.read(60_000.0)
    full, infrared = (int.from_bytes(bench.chip.registers[place : place + 2], "little") for place in (20, 22))
    assert full < 36_863 == infrared


@pytest.mark.parametrize(
    ("share", "factor"),
    [(0.0, 1.0), (0.4, 1.0 - 1.64 * 0.4), (0.6, 0.59 - 0.86 * 0.6), (0.9, 0.0)],  # Adafruit's coefficients
)
def test_lux_follow_from_both_channels(share, factor):
    # what the same count of channel 0 is in a white LED's light
    white = 1.0 - 1.64 * WHITE_LED_INFRARED_SHARE
    lux = LightBench("tsl2591", infrared_share=share).read(1_000.0)
    assert lux == pytest.approx(1_000.0 * factor / white, rel=0.02)


def test_steady_light_takes_one_measurement_a_reading_and_a_change_three_at_most():
    bench = LightBench("tsl2591")
    for lux, seconds in ((1.0, 0.648), (30.0, 0.324), (1_000.0, 0.216), (80_000.0, 0.108)):
        bench.read(lux)
        for _ in range(3):
            assert bench.seconds(lux) == pytest.approx(seconds)
    bench.read(0.0)
    assert bench.seconds(100_000.0) == pytest.approx(0.648 + 0.108)
    assert bench.seconds(0.0) == pytest.approx(0.108 + 0.648)
    assert bench.seconds(20.0) == pytest.approx(0.648 + 0.108 + 0.324)


def test_light_near_the_end_of_a_range_does_not_switch_ranges_repeatedly():
    bench = LightBench("tsl2591")
    bench.read(3_000.0)  # above what the medium gain has room for
    settings_used = []
    for lux in (3_000.0, 2_600.0, 3_000.0, 2_600.0, 3_000.0):
        bench.read(lux)
        settings_used.append(bench.chip.registers[CONTROL])
    assert len(set(settings_used)) == 1


def test_a_chip_that_loses_power_while_it_measures_gives_no_number(said):
    bench = LightBench("tsl2591")
    bench.read(300.0)

    def sleep_and_lose_power(seconds):
        bench.clock.advance(seconds)
        bench.chip.power_cycle()

    bench.driver._sleep = sleep_and_lose_power
    with said.raises(NotReadyError):
        bench.driver.read()
    bench.driver._sleep = bench.clock.sleep
    assert bench.read(300.0) == pytest.approx(300.0, rel=0.01)


def test_another_chip_at_its_address_is_named_and_not_written_to():
    bench = LightBench("tsl2591")
    bench.chip.registers[ID] = 0x44  # a TCS34725, a colour sensor
    with pytest.raises(WrongDeviceError, match=r"0x29 on I2C bus 1 is another chip: .* 0x44") as caught:
        bench.driver.read()
    assert (caught.value.found, caught.value.expected) == (0x44, 0x50)
    assert all(len(data) == 1 for data in bench.chip.written)  # it was only asked
