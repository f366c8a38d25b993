import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_drivers.errors import NotReadyError, TransferError, WrongDeviceError
from growd_hwsim.chamber import Air
from growd_hwsim.chips.bme280 import CALIBRATION, ID, Coefficients
from support.chip_bench import AirBench


@given(
    st.floats(-10, 60),
    st.floats(5, 95),
    st.floats(600, 1_080),
    st.sampled_from(
        [Coefficients(), Coefficients(h=(75, 370, 0, 330, -50, 30)), Coefficients(t=(28_123, 26_000, 50))]
    ),
)
def test_the_values_follow_from_the_coefficients_of_any_part(degc, percent, hpa, coefficients):
    bench = AirBench("bme280", chip_options={"pressure_hpa": hpa, "coefficients": coefficients})
    bench.air = Air(400.0, degc, percent)
    sample = bench.next()
    assert sample.temperature_degc == pytest.approx(degc, abs=0.05)
    assert sample.humidity_percent == pytest.approx(percent, abs=0.3)
    assert sample.pressure_hpa == pytest.approx(hpa, abs=0.2)
    bench.bus.close()


def test_a_reading_is_one_measurement():
    bench = AirBench("bme280")
    bench.start()
    bench.chip.written.clear()
    before = bench.clock.now
    bench.driver.read()
    assert [data for data in bench.chip.written if data[0] == 0xF4] == [bytes([0xF4, 0x55])]
    assert bench.clock.now - before < 0.05


def test_a_chip_that_loses_power_while_it_measures_gives_no_number(said):
    bench = AirBench("bme280")
    bench.start()
    sleep = bench.clock.sleep

    def sleep_and_lose_power(seconds):
        sleep(seconds)
        bench.chip.power_cycle()

    bench.driver._registers._sleep = sleep_and_lose_power
    with said.raises(NotReadyError):
        bench.driver.read()
    bench.driver._registers._sleep = sleep
    assert bench.next()


@pytest.mark.parametrize(
    ("found", "words"),
    [(0x58, "is a BMP280, which has no humidity"), (0x61, "a BME680"), (0x12, "another chip")],
)
def test_another_chip_at_its_address_is_named_and_not_written_to(found, words):
    bench = AirBench("bme280")
    bench.chip.registers[ID] = found
    with pytest.raises(WrongDeviceError, match=words) as caught:
        bench.driver.read()
    assert (caught.value.found, caught.value.expected) == (found, 0x60)
    assert all(len(data) == 1 for data in bench.chip.written)  # it was only asked


def test_an_error_in_the_coefficients_is_noticed():
    bench = AirBench("bme280")
    read, asked = bench.chip.on_read, []

    def wrong_once(length):
        answer = read(length)
        if length == 24 and not asked:
            asked.append(answer)
            return bytes([answer[0] ^ 0x10]) + answer[1:]
        return answer

    bench.chip.on_read = wrong_once
    with pytest.raises(TransferError, match="answered the same question in two ways") as caught:
        bench.driver.read()
    assert caught.value.errno == errno.EBADMSG
    assert bench.next().temperature_degc == pytest.approx(25.0, abs=0.1)
    assert bench.chip.registers[CALIBRATION] == asked[0][0]
