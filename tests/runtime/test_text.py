"""Numbers as texts."""

import pytest

from growd.runtime.text import in_symbols, symbol, told_apart


@pytest.mark.parametrize(
    ("value", "limit", "precision", "texts"),
    [
        (31.25, 30.0, 2, ("31.25", "30.00")),
        (22.504, 22.5, 2, ("22.504", "22.500")),
        (22.5, 22.5, 2, ("22.5", "22.5")),
        (2000.3, 2000.25, 0, ("2000.30", "2000.25")),
        (25.0, 22.123456, 1, ("25.000", "22.123")),
        (1e-9 + 1, 1.0, 0, ("1.0000000", "1.0000000")),
        (-0.0001, 0.5, 1, ("0.0", "0.5")),
    ],
)
def test_a_value_and_its_limit_look_different_if_they_are(value, limit, precision, texts):
    assert told_apart(value, limit, precision) == texts


def test_units_are_written_as_people_write_them():
    text = "water_temperature was 32.6 degC; 2 degC d, 5 mol/m2 of 7 mol/m2, 90 umol/m2/s, 5 percent, 3 lux"
    assert in_symbols(text) == (
        "water_temperature was 32.6 °C; 2 °C d, 5 mol/m² of 7 mol/m², 90 µmol/m²/s, 5 %, 3 lux"
    )
    assert in_symbols("in degC, 5 mol/m2/d, 5 degCelsius") == "in degC, 5 mol/m2/d, 5 degCelsius"
    assert [symbol("degC"), symbol("ppm")] == ["°C", "ppm"]
