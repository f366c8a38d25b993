function (newDoc) {
  var UNITS = ["days", "hours", "minutes", "seconds"];
  var PHASE = ["name", "description", "duration", "time_units", "otherwise", "daily", "course", "cycle"];
  var TIME_OF_DAY = /^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$/;
  function demand(holds, place, expected, found) {
    if (!holds) {
      var shown = found === undefined ? "it is missing" : "got " + JSON.stringify(found).slice(0, 80);
      throw({forbidden: place.slice(0, 300) + ": expected " + expected + ", " + shown});
    }
  }
  function under(place, name) {
    return place + "/" + name.replace(/~/g, "~0").replace(/\//g, "~1");
  }
  function isObject(value) {
    return value !== null && typeof value === "object" && !isArray(value);
  }
  function isNumber(value) {
    return typeof value === "number" && isFinite(value);
  }
  function isOneOf(names, value) {
    return typeof value === "string" && names.indexOf(value) >= 0;
  }
  function checkText(place, value) {
    demand(value === undefined || typeof value === "string", place, "a text", value);
  }
  function checkTime(place, what, value) {
    demand(isNumber(value) && value >= 0, place, what + " as a number, 0 or more", value);
  }
  function checkValue(place, value) {
    demand(isNumber(value) || typeof value === "boolean", place, "the value as a number, or true or false", value);
  }
  function checkMembers(place, found, known) {
    Object.keys(found).forEach(function (name) {
      demand(isOneOf(known, name), under(place, name), "one of " + known.join(", "), name);
    });
  }
  function checkTracks(place, tracks, least, checkPoint) {
    demand(isObject(tracks), place, "an object with an array for each variable", tracks);
    Object.keys(tracks).forEach(function (variable) {
      var here = under(place, variable);
      demand(isArray(tracks[variable]) && tracks[variable].length >= least, here,
        least ? "an array of one set point or more" : "an array of spans", tracks[variable]);
      tracks[variable].forEach(function (point, index) {
        checkPoint(here + "/" + index, point);
      });
    });
  }
  function checkOperation(operation, index) {
    var place = "/operations/" + index;
    demand(isArray(operation) && operation.length === 3, place, "[offset in s, variable, value]", operation);
    checkTime(place + "/0", "the offset", operation[0]);
    demand(typeof operation[1] === "string", place + "/1", "the name of a variable", operation[1]);
    checkValue(place + "/2", operation[2]);
  }
  function checkSpan(place, span) {
    demand(isObject(span), place, "an object with start_time, end_time and value", span);
    checkTime(place + "/start_time", "the start_time", span.start_time);
    checkTime(place + "/end_time", "the end_time", span.end_time);
    demand(span.end_time > span.start_time, place + "/end_time", "the end_time after the start_time", span.end_time);
    checkValue(place + "/value", span.value);
  }
  function checkStepPhase(place, phase) {
    var units = UNITS.concat(["milliseconds", "ms"]);
    checkText(place + "/name", phase.name);
    demand(isNumber(phase.cycles) && phase.cycles >= 1 && Math.floor(phase.cycles) === phase.cycles,
      place + "/cycles", "a whole number of cycles, 1 or more", phase.cycles);
    demand(isOneOf(units, phase.time_units), place + "/time_units", "one of " + units.join(", "), phase.time_units);
    demand(phase.variable_units === undefined || isObject(phase.variable_units), place + "/variable_units",
      "an object with the unit of each variable", phase.variable_units);
    checkTracks(place + "/step", phase.step, 0, checkSpan);
    demand(Object.keys(phase.step).length > 0, place + "/step", "an array for one variable or more", phase.step);
  }
  function checkPoint(place, point, checkAt) {
    demand(isObject(point), place, "an object with at and value", point);
    checkMembers(place, point, ["at", "value", "to_next"]);
    checkAt(place + "/at", point.at);
    checkValue(place + "/value", point.value);
    demand(point.to_next === undefined || isOneOf(["hold", "ramp", "sine"], point.to_next), place + "/to_next",
      "one of hold, ramp, sine", point.to_next);
  }
  function checkDailyPoint(place, point) {
    checkPoint(place, point, function (where, at) {
      demand(typeof at === "string" && TIME_OF_DAY.test(at), where, 'a time of day such as "06:30"', at);
    });
  }
  function checkCoursePoint(place, point) {
    checkPoint(place, point, function (where, at) {
      checkTime(where, "the time", at);
    });
  }
  function checkTimedPhase(place, phase) {
    checkMembers(place, phase, PHASE);
    checkText(place + "/name", phase.name);
    checkText(place + "/description", phase.description);
    demand(isNumber(phase.duration) && phase.duration > 0, place + "/duration", "a number above 0", phase.duration);
    demand(phase.cycle === undefined || isNumber(phase.cycle) && phase.cycle > 0, place + "/cycle",
      "a number above 0", phase.cycle);
    demand(isOneOf(UNITS, phase.time_units), place + "/time_units", "one of " + UNITS.join(", "), phase.time_units);
    demand(phase.otherwise === undefined || isOneOf(["hold", "release"], phase.otherwise), place + "/otherwise",
      "one of hold, release", phase.otherwise);
    checkTracks(place + "/daily", phase.daily === undefined ? {} : phase.daily, 1, checkDailyPoint);
    checkTracks(place + "/course", phase.course === undefined ? {} : phase.course, 1, checkCoursePoint);
  }
  function checkPhases(phases, checkPhase) {
    demand(isArray(phases) && phases.length > 0, "/phases", "an array of one phase or more", phases);
    phases.forEach(function (phase, index) {
      demand(isObject(phase), "/phases/" + index, "a phase as an object", phase);
      checkPhase("/phases/" + index, phase);
    });
  }
  if (newDoc._deleted || newDoc._id.indexOf("_design/") === 0) {
    return;
  }
  demand(typeof newDoc.format === "string" && newDoc.format !== "", "/format", "the name of a recipe format",
    newDoc.format);
  if (newDoc.format === "simple") {
    demand(isArray(newDoc.operations) && newDoc.operations.length > 0, "/operations",
      "an array of one operation or more", newDoc.operations);
    newDoc.operations.forEach(checkOperation);
  } else if (newDoc.format === "flexformat") {
    checkPhases(newDoc.phases, checkStepPhase);
  } else if (newDoc.format === "phased") {
    checkPhases(newDoc.phases, checkTimedPhase);
  }
}
