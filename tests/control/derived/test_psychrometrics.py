"""The formulas beside published tables, and what holds for all air."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growd.control.derived.psychrometrics import (
    absolute_humidity_g_m3,
    dew_point_degc,
    humidity_for_deficit_percent,
    saturation_pressure_kpa,
    vapour_pressure_deficit_kpa,
)
from growd_hwsim.chamber import saturation_vapour_g_m3

DEGC = st.floats(-40, 60)
PERCENT = st.floats(1, 100)


@pytest.mark.parametrize(
    ("degc", "kpa"),
    [
        # FAO Irrigation and Drainage Paper 56, annex 2, table 2.3
        *((1, 0.657), (5, 0.872), (10, 1.228), (15, 1.705), (20, 2.338), (25, 3.168)),
        *((30, 4.243), (35, 5.624), (40, 7.376), (45, 9.585)),
        # Smithsonian Meteorological Tables (Goff-Gratch), over water
        *((0, 0.61078), (-20, 0.12540)),
    ],
)
def test_the_saturation_pressure_is_that_of_the_tables(degc, kpa):
    assert saturation_pressure_kpa(degc) == pytest.approx(kpa, rel=0.004)


@pytest.mark.parametrize(
    ("degc", "percent", "kpa"), [(20, 50, 1.169), (25, 60, 1.267), (25, 70, 0.950), (30, 80, 0.849)]
)
def test_the_deficit_is_that_of_the_tables(degc, percent, kpa):
    assert vapour_pressure_deficit_kpa(degc, percent) == pytest.approx(kpa, abs=0.005)


@pytest.mark.parametrize(
    ("degc", "percent", "dew"), [(25, 50, 13.9), (20, 60, 12.0), (30, 80, 26.2), (10, 30, -6.8)]
)
def test_the_dew_point_is_that_of_psychrometric_charts(degc, percent, dew):
    assert dew_point_degc(degc, percent) == pytest.approx(dew, abs=0.1)


@pytest.mark.parametrize(("degc", "g_m3"), [(0, 4.85), (10, 9.40), (20, 17.30), (30, 30.38), (40, 51.1)])
def test_the_vapour_of_saturated_air_is_that_of_the_tables(degc, g_m3):
    assert absolute_humidity_g_m3(degc, 100) == pytest.approx(g_m3, rel=0.004)


@given(DEGC, PERCENT)
def test_the_formulas_agree_with_each_other(degc, percent):
    deficit = vapour_pressure_deficit_kpa(degc, percent)
    assert deficit >= 0
    assert humidity_for_deficit_percent(degc, deficit) == pytest.approx(percent, abs=1e-6)
    dew = dew_point_degc(degc, percent)
    assert dew <= degc + 1e-9
    in_air = saturation_pressure_kpa(degc) * percent / 100
    assert saturation_pressure_kpa(dew) == pytest.approx(in_air, rel=1e-9)


@given(DEGC)
def test_the_simulated_chamber_has_the_same_vapour(degc):
    assert absolute_humidity_g_m3(degc, 100) == pytest.approx(saturation_vapour_g_m3(degc), rel=1e-9)


@given(st.floats(-40, 85), st.floats(0, 100))
@example(-11.0, 0.0)
@example(-40.0, 1e-3)
def test_every_air_that_a_sensor_can_measure_has_values_within_the_ranges(degc, percent):
    assert -100 <= dew_point_degc(degc, percent) <= 85
    assert 0 <= vapour_pressure_deficit_kpa(degc, percent) <= 60
    assert 0 <= absolute_humidity_g_m3(degc, percent) <= 400


def test_dry_air_has_a_dew_point():
    assert dew_point_degc(20, 0) == dew_point_degc(20, 1e-4)
