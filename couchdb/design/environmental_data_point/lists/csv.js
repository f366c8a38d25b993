function (head, req) {
  var units = {
    "air_carbon_dioxide": "ppm",
    "air_temperature": "degC",
    "air_humidity": "percent",
    "room_temperature": "degC",
    "room_humidity": "percent",
    "air_carbon_dioxide_valve_on": "switch",
    "air_flush_on": "switch",
    "light_illuminance": "lux",
    "air_pressure": "hPa",
    "air_vapour_pressure_deficit": "kPa",
    "air_dew_point": "degC",
    "air_absolute_humidity": "g/m3",
    "air_growing_degree_days": "degC d",
    "light_ppfd": "umol/m2/s",
    "light_daily_integral": "mol/m2",
    "light_daily_integral_expected": "mol/m2",
    "light_photoperiod": "h",
    "light_ultraviolet_index": "index",
    "door_open": "switch",
    "soil_moisture": "percent",
    "canopy_cover": "percent",
    "canopy_greenness": "fraction",
    "light_intensity_white": "fraction",
    "light_intensity_red": "fraction",
    "light_intensity_blue": "fraction",
    "water_temperature": "degC",
    "water_potential_hydrogen": "pH",
    "water_electrical_conductivity": "mS/cm",
    "water_oxidation_reduction_potential": "mV",
    "water_dissolved_oxygen": "mg/L",
    "water_level_low": "switch",
    "water_level_high": "switch",
    "water_level": "percent",
    "water_volume": "L",
    "nutrient_a": "ml/h",
    "nutrient_b": "ml/h",
    "nutrient_c": "ml/h",
    "nutrient_ph_up": "ml/h",
    "nutrient_ph_down": "ml/h",
    "nutrient_flora_duo_a": "ml/h",
    "nutrient_flora_duo_b": "ml/h",
    "air_heater": "fraction",
    "air_cooler": "fraction",
    "air_humidifier": "fraction",
    "air_dehumidifier": "fraction",
    "air_circulation": "fraction",
    "water_heater": "fraction",
    "water_cooler": "fraction",
    "water_fill": "fraction",
    "water_drain": "fraction",
    "water_circulation": "fraction",
    "water_aeration": "fraction",
    "water_irrigation": "fraction",
    "auxiliary_1": "fraction",
    "auxiliary_2": "fraction",
    "auxiliary_3": "fraction",
    "auxiliary_4": "fraction",
    "auxiliary_5": "fraction",
    "auxiliary_6": "fraction",
    "auxiliary_7": "fraction",
    "auxiliary_8": "fraction",
    "air_flush": "CFM",
    "air_oxygen": "percent",
    "plant_height": "cm",
    "plant_count": "plants",
    "leaf_count": "leaves",
    "water_added": "L",
    "harvest_fresh_mass": "g",
    "harvest_dry_mass": "g",
    "marker": "number"
  };
  function columns(text) {
    var asked;
    try {
      asked = text === undefined ? ["timestamp", "variable", "value"] : JSON.parse(text);
    } catch (error) {
      return null;
    }
    var named = isArray(asked) && asked.length > 0 && asked.every(function (column) {
      return typeof column === "string";
    });
    return named ? asked : null;
  }
  function cell(value) {
    if (value === null || value === undefined) {
      return "";
    }
    var text = typeof value === "string" ? value : JSON.stringify(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) {
      text = "'" + text;
    }
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }
  function time(timestamp) {
    var milliseconds = typeof timestamp === "number" ? Math.round(timestamp * 1000) : NaN;
    return Math.abs(milliseconds) <= 8.64e15 ? new Date(milliseconds).toISOString() : null;
  }
  function own(point, column) {
    var found = Object.prototype.hasOwnProperty.call(point, column) ? point[column] : null;
    return found === undefined ? null : found;
  }
  function field(point, column) {
    if (column === "time") {
      return time(own(point, "timestamp"));
    }
    var found = own(point, column);
    if (found !== null) {
      return found;
    }
    var category = own(point, "category");
    var isApart = typeof category === "string" && category !== "measured" && category !== "desired";
    if (column === "category") {
      return own(point, "is_desired") ? "desired" : "measured";
    }
    if (column === "unit" && !isApart) {
      var variable = own(point, "variable");
      return typeof variable === "string" ? own(units, variable) : null;
    }
    return column === "quality" && !isApart ? "ok" : null;
  }
  function line(cells) {
    send(cells.map(cell).join(",") + "\r\n");
  }
  var cols = columns(req.query.cols);
  if (cols === null) {
    start({code: 400, headers: {"Content-Type": "application/json"}});
    return JSON.stringify({
      error: "query_parse_error",
      reason: "cols must be a JSON array of column names, not " + req.query.cols
    }) + "\n";
  }
  start({headers: {"Content-Type": "text/csv; charset=utf-8; header=present"}});
  line(cols);
  var row;
  while ((row = getRow())) {
    var point = row.value || {};
    line(cols.map(function (column) {
      return field(point, column);
    }));
  }
}
