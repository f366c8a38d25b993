"""Recipes of openag_brain: names, units and gaps."""

import pytest

from growd.recipes.findings import errors
from growd.recipes.interpreter import check, interpret

DAY_S = 86_400.0


def spans(*rows):
    return [{"start_time": start, "end_time": end, "value": value} for start, end, value in rows]


def phase(name, step, cycles=2, unit="hours", **units):
    return {"name": name, "cycles": cycles, "time_units": unit, "variable_units": units, "step": step}


BASIL = {
    "_id": "basil",
    "author": "somebody",
    "downloads": 12,
    "format": "flexformat",
    "optimization": ["taste"],
    "rating": 3,
    "version": "1.0",
    "phases": [
        phase(
            "sprouts",
            {
                "air_temperature": spans((0, 8, 21), (8, 20, 24), (20, 24, 22)),
                "light_intensity_red": spans((0, 7, 0), (7, 21, 1), (21, 24, 0)),
                "nutrient_flora_duo_a": spans((0, 12, 4), (12, 24, 3)),
                "nutrient_flora_duo_b": spans((0, 5, 2)),
            },
            air_temperature="Celcius",
            light_illuminance="percent_relative",
            nutrient_flora_duo_a="ml",
            nutrient_flora_duo_b="ml",
        ),
        phase(
            "leaves",
            {
                "air_temperature": spans((0, 24, 23)),
                "light_illuminance": spans((0, 5, 3), (19, 24, 4)),
                "nutrient_flora_duo_b": spans((0, 5, 2)),
            },
            light_illuminance="percent_relative",
        ),
    ],
}


def sentences(recipe):
    return [finding.sentence for finding in check(recipe)]


def test_a_recipe_of_openag_brain_runs():
    assert errors(check(BASIL)) == []
    plan, _ = interpret(BASIL)
    assert plan.set_points(4 * 3600) == {
        "air_temperature": 21,
        "light_intensity_red": 0,
        "nutrient_flora_duo_a": 4,
        "nutrient_flora_duo_b": 2,
    }
    assert "nutrient_flora_duo_b" not in plan.set_points(6 * 3600)  # a gap doses nothing
    lit = [hour for hour in range(24) if "light_illuminance" in plan.set_points(2 * DAY_S + hour * 3600)]
    assert lit == [0, 1, 2, 3, 4, 19, 20, 21, 22, 23]
    reported = sentences(BASIL)
    assert any(text.startswith("light_illuminance is read in lux, as in openag_brain") for text in reported)
    assert "light_illuminance is lit 10 h a day: the light is off in the gaps" in reported
    assert any(text.startswith("no light_illuminance of this recipe is above 4 lux") for text in reported)


def test_names_and_units_of_openag_brain_are_known():
    step = {"air_flush": spans((0, 500, 20)), "air_oxygen": spans((0, 500, 21)), "marker": spans((0, 500, 1))}
    plan, warnings = interpret({"format": "flexformat", "phases": [phase("p", step, 1, "ms")]}, {})
    assert plan.duration == 0.5
    assert plan.set_points(0.1) == {"air_flush": 20, "air_oxygen": 21, "marker": 1}
    reported = {finding.sentence.split(":")[0] for finding in warnings}
    assert reported - {"the whole recipe lasts 0.5 s; are its times in another unit?"} == {
        f"nothing here drives {name}" for name in step
    }


@pytest.mark.parametrize(
    ("variable", "unit", "value", "converted"),
    [
        ("water_electrical_conductivity", "uS/cm", 1200, 1.2),
        ("water_electrical_conductivity", "µS/cm", 1200, 1.2),
        ("water_electrical_conductivity", "mS/cm", 1.2, 1.2),
        ("air_temperature", "degF", 75, 23.88889),
        ("water_temperature", "K", 293.15, 20),
        ("air_humidity", "percent relative", 60, 60),
        ("light_intensity_red", "percent relative", 0.4, 0.4),
        ("light_intensity_red", "%", 40, 0.4),
        ("light_illuminance", "klux", 8, 8000),
        ("nutrient_flora_duo_a", "mL/h", 5, 5),
    ],
)
def test_values_are_converted_from_the_named_unit(variable, unit, value, converted):
    recipe = {"format": "flexformat", "phases": [phase("p", {variable: spans((0, 12, value), (12, 24, 0))})]}
    recipe["phases"][0]["step"][variable][1]["value"] = value
    recipe["phases"][0]["variable_units"] = {variable: unit}
    plan, _ = interpret(recipe, {variable: (converted - 1, converted + 1)})
    assert plan.set_points(0)[variable] == pytest.approx(converted, rel=1e-6)
    assert not any("can be driven" in text for text in sentences(recipe))


def test_conductivity_without_a_unit_gets_a_warning():
    name = "water_electrical_conductivity"
    words = f"{name} is in mS/cm here and was in uS/cm in openag_brain; "
    flexible = {"format": "flexformat", "phases": [phase("p", {name: spans((0, 24, 1.8))})]}
    assert sentences(flexible) == [words + "name the unit in variable_units"]
    large = {"format": "flexformat", "phases": [phase("p", {name: spans((0, 24, 1800))})]}
    wrong, hint = sentences(large)
    assert wrong == f"{name} must be a number from 0 to 20 mS/cm, not 1800"
    assert hint == words + "name the unit in variable_units"
    simple = {"format": "simple", "operations": [[0, name, 1.8], [60, name, 1.8]]}
    assert sentences(simple) == [words + "a simple recipe can't name the unit"]
