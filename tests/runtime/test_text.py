"""Numbers as texts."""

import pytest

from growd.runtime.text import told_apart


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
