import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_drivers.errors import NotReadyError, OutOfRangeError, SettingError, WrongDeviceError
from growd_hwsim.chips.as7341 import GAIN
from support.chip_bench import ChipBench


class Bench(ChipBench):
    def __init__(self, *, gain=1.0, **options):
        self.light = {"white": 100.0}
        super().__init__("as7341", lambda: self.light, chip_options={"gain": gain}, **options)

    def read(self, **light):
        self.light = light
        return self.driver.read().ppfd_umol_m2_s


@pytest.mark.parametrize("source", ["white", "red", "blue", "daylight"])
@pytest.mark.parametrize("ppfd", [2.0, 1_500.0])
def test_light_of_any_colour_is_measured_within_a_fifth(source, ppfd):
    assert Bench().read(**{source: ppfd}) == pytest.approx(ppfd, rel=0.2)


@pytest.mark.long
@given(st.lists(st.tuples(st.floats(0, 900), st.floats(0, 400), st.floats(0, 400)), min_size=1, max_size=4))
def test_any_light_after_any_other_is_read(lights):
    bench = Bench()
    for white, red, blue in lights:
        ppfd = white + red + blue
        assert bench.read(white=white, red=red, blue=blue) == pytest.approx(ppfd, rel=0.2, abs=0.8)
    bench.bus.close()


def test_light_is_proportional_across_the_ranges():
    bench = Bench()
    reference = bench.read(white=100.0)
    for ppfd in (0.5, 5.0, 18.0, 25.0, 250.0, 330.0, 3_000.0):
        assert bench.read(white=ppfd) == pytest.approx(reference * ppfd / 100, rel=0.02, abs=0.3)


def test_steady_light_takes_two_integrations_and_light_near_the_end_of_a_range_stays_in_it():
    bench = Bench()
    assert bench.read() == 0.0
    bench.read(white=150.0)
    gains, before = set(), bench.clock.now
    for ppfd in (200.0, 150.0, 200.0, 150.0, 200.0):
        bench.read(white=ppfd)
        gains.add(bench.chip.registers[GAIN])
    assert len(gains) == 1
    assert bench.clock.now - before < 5 * 0.12


def test_the_factor_of_a_quantum_sensor_scales_the_reading(said):
    assert Bench(gain=0.8, ppfd_factor=1.25).read(white=100.0) == pytest.approx(
        Bench().read(white=100.0), rel=0.02
    )
    with said.raises(SettingError):
        Bench(ppfd_factor=0.0)


def test_saturation_is_an_error_and_not_a_number(said):
    bench = Bench()
    with said.raises(OutOfRangeError):
        bench.read(white=9_000.0)
    assert bench.read(white=100.0) == pytest.approx(100.0, rel=0.2)


def test_a_flag_that_never_changes_does_not_hold_the_bus_for_long(monkeypatch, said):
    bench = Bench()
    bench.read(white=100.0)
    monkeypatch.setattr("growd_hwsim.chips.as7341._SMUX_S", 1e9)
    before = bench.clock.now
    with said.raises(NotReadyError):
        bench.read(white=100.0)
    assert bench.clock.now - before < 4.0


def test_another_chip_at_its_address_is_named_and_not_written_to():
    bench = Bench()
    bench.chip.registers[0x92] = 0xA4
    with pytest.raises(WrongDeviceError, match=r"0x39 on I2C bus 1 is another chip: .* 0xa4") as caught:
        bench.read(white=100.0)
    assert (caught.value.found, caught.value.expected) == (0xA4, 0x24)
    assert all(len(data) == 1 for data in bench.chip.written)  # it was only asked
