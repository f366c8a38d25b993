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
  charts_range: ["Range", "Zeitraum"],
  charts_hour: ["Hour", "Stunde"],
  charts_day: ["Day", "Tag"],
  charts_week: ["Week", "Woche"],
  charts_run: ["Recipe run", "Rezeptlauf"],
  charts_any: ["From – to", "Von – bis"],
  charts_start: ["From", "Von"],
  charts_end: ["To", "Bis"],
  charts_order: ["The end must be later than the start.", "Das Ende muss nach dem Anfang liegen."],
  charts_no_run: ["No recipe has run yet.", "Bisher ist kein Rezept gelaufen."],
  charts_variables: ["Variables ({count})", "Größen ({count})"],
  charts_outputs: ["Outputs, commanded", "Ausgänge, Befehle"],
  charts_set_point: ["Set point", "Sollwert"],
  charts_time: ["Time", "Zeit"],
  charts_min: ["Minimum", "Minimum"],
  charts_mean: ["Mean", "Mittel"],
  charts_max: ["Maximum", "Maximum"],
  charts_table: ["Table", "Tabelle"],
  charts_events: ["Events ({count})", "Ereignisse ({count})"],
  charts_shortened: ["Only the newest events are shown.", "Nur die neuesten Ereignisse sind zu sehen."],
  charts_earlier: ["Earlier", "Früher"],
  charts_later: ["Later", "Später"],
  charts_in: ["Zoom in", "Vergrößern"],
  charts_out: ["Zoom out", "Verkleinern"],
  charts_follow: ["Follow now", "Jetzt folgen"],
  charts_failure: ["Stored values are missing: {reason}. Only values since the page was opened are shown.", "Gespeicherte Werte fehlen: {reason}. Zu sehen sind nur Werte, seit die Seite offen ist."],
  charts_help: [
    "Drag to pan, pinch or Ctrl + wheel to zoom, double click for the whole range. Keys: arrows, + and −, Home, End for now, Shift + arrows for the values.",
    "Ziehen verschiebt, zwei Finger oder Strg + Mausrad vergrößern, Doppelklick zeigt alles. Tasten: Pfeile, + und −, Pos1, Ende für jetzt, Umschalt + Pfeile für die Werte.",
  ],
  charts_points_csv: ["CSV: all stored points of this time", "CSV: alle gespeicherten Punkte dieser Zeit"],
  charts_csv: ["CSV: the values of these charts", "CSV: die Werte dieser Diagramme"],

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
