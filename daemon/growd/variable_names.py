"""What people call the variables, in each language, and how a view groups them."""

from __future__ import annotations

from typing import Final

LANGUAGES: Final = ("en", "de")

VARIABLE_NAMES: Final[dict[str, tuple[str, str]]] = {
    "air_temperature": ("Air temperature", "Lufttemperatur"),
    "air_humidity": ("Humidity", "Luftfeuchte"),
    "air_carbon_dioxide": ("CO₂", "CO₂"),
    "air_oxygen": ("Oxygen", "Sauerstoff"),
    "air_flush": ("Air flush", "Luftaustausch"),
    "air_flush_on": ("Fan", "Lüfter"),
    "air_heater": ("Heater", "Heizung"),
    "air_cooler": ("Cooler", "Kühler"),
    "air_humidifier": ("Humidifier", "Befeuchter"),
    "air_dehumidifier": ("Dehumidifier", "Entfeuchter"),
    "air_circulation": ("Circulation fan", "Umluft"),
    "water_heater": ("Water heater", "Wasserheizung"),
    "water_cooler": ("Water chiller", "Wasserkühler"),
    "water_fill": ("Filling valve", "Füllventil"),
    "water_drain": ("Drain valve", "Ablassventil"),
    "water_circulation": ("Circulation pump", "Umwälzpumpe"),
    "water_aeration": ("Air pump", "Luftpumpe"),
    "water_irrigation": ("Irrigation pump", "Bewässerungspumpe"),
    "nutrient_a": ("Nutrient A", "Nährlösung A"),
    "nutrient_b": ("Nutrient B", "Nährlösung B"),
    "nutrient_c": ("Nutrient C", "Nährlösung C"),
    "nutrient_ph_up": ("Base (pH up)", "Lauge (pH +)"),
    "nutrient_ph_down": ("Acid (pH down)", "Säure (pH -)"),
    "air_carbon_dioxide_valve_on": ("CO₂ valve", "CO₂-Ventil"),
    "light_illuminance": ("Light", "Licht"),
    "light_ppfd": ("Light (PPFD)", "Licht (PPFD)"),
    "light_intensity_red": ("Red light", "Rotes Licht"),
    "light_intensity_white": ("White light", "Weißes Licht"),
    "light_intensity_blue": ("Blue light", "Blaues Licht"),
    "water_temperature": ("Water temperature", "Wassertemperatur"),
    "water_potential_hydrogen": ("pH", "pH"),
    "water_electrical_conductivity": ("Conductivity", "Leitfähigkeit"),
    "water_dissolved_oxygen": ("Dissolved oxygen", "Gelöster Sauerstoff"),
    "water_oxidation_reduction_potential": ("Redox potential", "Redoxpotential"),
    "water_level_high": ("Water level high", "Wasserstand hoch"),
    "water_level_low": ("Water level low", "Wasserstand niedrig"),
    "water_level": ("Water level", "Wasserstand"),
    "water_volume": ("Water volume", "Wassermenge"),
    "soil_moisture": ("Soil moisture", "Bodenfeuchte"),
    "door_open": ("Door", "Tür"),
    "canopy_cover": ("Canopy cover", "Bedeckung"),
    "canopy_greenness": ("Greenness", "Grünanteil"),
    "plant_height": ("Plant height", "Pflanzenhöhe"),
    "plant_count": ("Plants", "Pflanzen"),
    "leaf_count": ("Leaves", "Blätter"),
    "water_added": ("Water added", "Wasser nachgefüllt"),
    "harvest_fresh_mass": ("Harvest, fresh", "Ernte, frisch"),
    "harvest_dry_mass": ("Harvest, dry", "Ernte, trocken"),
    "nutrient_flora_duo_a": ("Nutrient A (FloraDuo)", "Nährlösung A (FloraDuo)"),
    "nutrient_flora_duo_b": ("Nutrient B (FloraDuo)", "Nährlösung B (FloraDuo)"),
    "room_temperature": ("Temperature of the room", "Raumtemperatur"),
    "room_humidity": ("Humidity of the room", "Raumfeuchte"),
    "air_pressure": ("Air pressure", "Luftdruck"),
    "air_vapour_pressure_deficit": ("Vapour pressure deficit", "Dampfdruckdefizit"),
    "air_dew_point": ("Dew point", "Taupunkt"),
    "air_absolute_humidity": ("Absolute humidity", "Absolute Feuchte"),
    "air_growing_degree_days": ("Degree days", "Gradtage"),
    "light_daily_integral": ("Light of the day", "Licht des Tages"),
    "light_daily_integral_expected": ("Light of the day, expected", "Licht des Tages, erwartet"),
    "light_photoperiod": ("Photoperiod", "Photoperiode"),
    "light_ultraviolet_index": ("UV index", "UV-Index"),
    "marker": ("Marker", "Marke"),
    **{f"auxiliary_{n}": (f"Auxiliary output {n}", f"Zusatzausgang {n}") for n in range(1, 9)},
}
"""The name of each variable in the languages of `LANGUAGES`."""

GROUPS: Final = ("air", "light", "water", "soil", "other")
_PREFIXES: Final = {"nutrient": "water", "room": "air"}


def group_of(variable: str) -> str:
    """The group of a variable, of `GROUPS`."""
    prefix = variable.partition("_")[0]
    group = _PREFIXES.get(prefix, prefix)
    return group if group in GROUPS else "other"
