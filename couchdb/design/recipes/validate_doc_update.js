function (newDoc) {
  var FORMATS = {
    "flexformat": {"type": "object", "properties": {"phases": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"name": {"type": "string", "expected": "a text"}, "cycles": {"type": "integer", "minimum": 1, "expected": "a whole number, 1 or more"}, "time_units": {"enum": ["days", "hours", "minutes", "seconds", "milliseconds", "ms"], "expected": "one of days, hours, minutes, seconds, milliseconds, ms"}, "variable_units": {"type": "object", "expected": "an object with the unit of each variable"}, "step": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object", "properties": {"start_time": {"type": "number", "minimum": 0, "expected": "a number, 0 or more"}, "end_time": {"type": "number", "exclusiveMinimum": 0, "expected": "a number above 0"}, "value": {"type": ["number", "boolean"], "expected": "a number, true or false"}}, "required": ["start_time", "end_time", "value"], "ascending": ["start_time", "end_time"], "expected": "an object with start_time, end_time and value"}, "expected": "an array of spans"}, "minProperties": 1, "expected": "an object with an array of spans for one variable or more"}}, "required": ["cycles", "time_units", "step"], "expected": "a phase as an object"}, "expected": "an array of 1 to 1000 phases"}}, "required": ["phases"], "expected": "an object with phases"},
    "phased": {"type": "object", "properties": {"phases": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"name": {"type": "string", "expected": "a text"}, "description": {"type": "string", "expected": "a text"}, "duration": {"type": "number", "exclusiveMinimum": 0, "expected": "a number above 0"}, "time_units": {"enum": ["days", "hours", "minutes", "seconds"], "expected": "one of days, hours, minutes, seconds"}, "otherwise": {"enum": ["hold", "release"], "expected": "one of hold, release"}, "daily": {"type": "object", "additionalProperties": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"at": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$", "expected": "a time of day such as \"06:30\""}, "value": {"type": ["number", "boolean"], "expected": "a number, true or false"}, "to_next": {"enum": ["hold", "ramp", "sine"], "expected": "one of hold, ramp, sine"}}, "required": ["at", "value"], "additionalProperties": false, "expected": "an object with at and value"}, "expected": "an array of one set point or more"}, "expected": "an object with an array for each variable"}, "course": {"type": "object", "additionalProperties": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"at": {"type": "number", "minimum": 0, "expected": "a number, 0 or more"}, "value": {"type": ["number", "boolean"], "expected": "a number, true or false"}, "to_next": {"enum": ["hold", "ramp", "sine"], "expected": "one of hold, ramp, sine"}}, "required": ["at", "value"], "additionalProperties": false, "expected": "an object with at and value"}, "expected": "an array of one set point or more"}, "expected": "an object with an array for each variable"}, "cycle": {"type": "number", "exclusiveMinimum": 0, "expected": "a number above 0"}}, "required": ["duration", "time_units"], "additionalProperties": false, "expected": "a phase as an object"}, "expected": "an array of 1 to 1000 phases"}}, "required": ["phases"], "expected": "an object with phases"},
    "simple": {"type": "object", "properties": {"operations": {"type": "array", "minItems": 1, "items": {"type": "array", "prefixItems": [{"type": "number", "minimum": 0, "expected": "the offset as a number of seconds, from 0 to ten years"}, {"type": "string", "expected": "the name of a variable"}, {"type": ["number", "boolean"], "expected": "a number, true or false"}], "minItems": 3, "expected": "[offset in s, variable, value]"}, "expected": "an array of 1 to 100000 operations"}}, "required": ["operations"], "expected": "an object with operations"}
  };
  function demand(holds, place, expected, found) {
    if (!holds) {
      var shown = found === undefined ? "; it is missing" : ", got " + JSON.stringify(found).slice(0, 80);
      throw({forbidden: place.slice(0, 300) + ": expected " + expected + shown});
    }
  }
  function under(place, name) {
    return place + "/" + name.replace(/~/g, "~0").replace(/\//g, "~1");
  }
  function fitsNumber(node, value) {
    return typeof value === "number" && isFinite(value) && (node.type !== "integer" || Math.floor(value) === value) &&
      !(value < node.minimum) && !(value <= node.exclusiveMinimum);
  }
  function fits(node, value) {
    if (node.type === "object") {
      return value !== null && typeof value === "object" && !isArray(value) &&
        Object.keys(value).length >= (node.minProperties || 0);
    }
    if (node.type === "array") {
      return isArray(value) && value.length >= (node.minItems || 0) &&
        !(node.prefixItems && value.length !== node.prefixItems.length);
    }
    if (node.type === "number" || node.type === "integer") {
      return fitsNumber(node, value);
    }
    if (isArray(node.type)) {
      return typeof value === "boolean" || fitsNumber(node, value);
    }
    return typeof value === "string" && (!node.enum || node.enum.indexOf(value) >= 0) &&
      (!node.pattern || new RegExp(node.pattern).test(value));
  }
  function check(node, value, place) {
    demand(fits(node, value), place, node.expected, value);
    if (isArray(value)) {
      value.forEach(function (item, index) {
        check(node.prefixItems ? node.prefixItems[index] : node.items, item, place + "/" + index);
      });
    } else if (node.type === "object") {
      checkMembers(node, value, place);
    }
  }
  function checkMembers(node, value, place) {
    var known = node.properties || {}, others = node.additionalProperties;
    Object.keys(value).forEach(function (name) {
      if (Object.prototype.hasOwnProperty.call(known, name)) {
        check(known[name], value[name], under(place, name));
      } else if (others) {
        check(others, value[name], under(place, name));
      } else {
        demand(others !== false, under(place, name), "one of " + Object.keys(known).join(", "), name);
      }
    });
    (node.required || []).forEach(function (name) {
      demand(value[name] !== undefined, under(place, name), known[name].expected);
    });
    (node.ascending || []).slice(1).forEach(function (upper, index) {
      var lower = node.ascending[index];
      demand(value[upper] > value[lower], under(place, upper), "a number above " + lower + ", " + value[lower],
        value[upper]);
    });
  }
  if (newDoc._deleted || newDoc._id.indexOf("_design/") === 0) {
    return;
  }
  demand(typeof newDoc.format === "string" && newDoc.format !== "", "/format", "the name of a recipe format",
    newDoc.format);
  if (Object.prototype.hasOwnProperty.call(FORMATS, newDoc.format)) {
    check(FORMATS[newDoc.format], newDoc, "");
  }
}
