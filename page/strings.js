/** All texts of the page: [English, German]. Each view has a section; keys begin with the view's name. */

export const STRINGS = {
  // general
  close: ["Close", "Schließen"],
  cancel: ["Cancel", "Abbrechen"],
  save: ["Save", "Speichern"],
  days_short: ["d", "T"],
  loading: ["Loading …", "Wird geladen …"],

  // the frame: navigation, connection, all safe, login
  nav: ["Views", "Ansichten"],
  now: ["Now", "Jetzt"],
  charts: ["Charts", "Verlauf"],
  recipes: ["Recipes", "Rezepte"],
  devices: ["Devices", "Geräte"],
  journal: ["Journal", "Journal"],
  data: ["Data", "Daten"],

  // now

  // wrong

  // charts

  // recipes

  // devices

  // journal

  // data
};

/** Names of growd's variables. */
export const VARIABLES = {
  air_temperature: ["Air temperature", "Lufttemperatur"],
  air_humidity: ["Humidity", "Luftfeuchte"],
  air_carbon_dioxide: ["CO₂", "CO₂"],
  air_oxygen: ["Oxygen", "Sauerstoff"],
  air_flush: ["Air flush", "Luftaustausch"],
  air_flush_on: ["Fan", "Lüfter"],
  air_carbon_dioxide_valve_on: ["CO₂ valve", "CO₂-Ventil"],
  light_illuminance: ["Light", "Licht"],
  light_ppfd: ["Light (PPFD)", "Licht (PPFD)"],
  light_intensity_red: ["Red light", "Rotes Licht"],
  light_intensity_white: ["White light", "Weißes Licht"],
  light_intensity_blue: ["Blue light", "Blaues Licht"],
  water_temperature: ["Water temperature", "Wassertemperatur"],
  water_potential_hydrogen: ["pH", "pH"],
  water_electrical_conductivity: ["Conductivity", "Leitfähigkeit"],
  water_dissolved_oxygen: ["Dissolved oxygen", "Gelöster Sauerstoff"],
  water_oxidation_reduction_potential: ["Redox potential", "Redoxpotential"],
  water_level_high: ["Water level high", "Wasserstand hoch"],
  water_level_low: ["Water level low", "Wasserstand niedrig"],
  nutrient_flora_duo_a: ["Nutrient A", "Nährstoff A"],
  nutrient_flora_duo_b: ["Nutrient B", "Nährstoff B"],
};
