function (newDoc) {
  var UNITS = ["days", "hours", "seconds", "milliseconds"];
  function demand(holds, place, what, found) {
    if (!holds) {
      var shown = found === undefined ? "it is missing" : "not " + JSON.stringify(found).slice(0, 80);
      throw({forbidden: place + " must be " + what + ", " + shown});
    }
  }
  function isObject(value) {
    return value !== null && typeof value === "object" && !isArray(value);
  }
  function isText(value) {
    return typeof value === "string" && value !== "";
  }
  function isScalar(value) {
    return value === null || ["number", "string", "boolean"].indexOf(typeof value) >= 0;
  }
  function checkOperation(operation, index) {
    var place = "operations[" + index + "]";
    demand(isArray(operation) && operation.length === 3, place, "[offset, variable, value]", operation);
    demand(typeof operation[0] === "number" && operation[0] >= 0, place + "[0]",
      "an offset in seconds, 0 or more", operation[0]);
    demand(isText(operation[1]), place + "[1]", "the name of a variable", operation[1]);
    demand(isScalar(operation[2]), place + "[2]", "a number, a string, true, false or null", operation[2]);
  }
  function checkSpan(span, place) {
    demand(isObject(span), place, "an object with start_time, end_time and value", span);
    demand(typeof span.start_time === "number" && span.start_time >= 0, place + ".start_time",
      "a number, 0 or more", span.start_time);
    demand(typeof span.end_time === "number" && span.end_time >= span.start_time, place + ".end_time",
      "a number, start_time or more", span.end_time);
    demand(span.value !== undefined && isScalar(span.value), place + ".value",
      "a number, a string, true, false or null", span.value);
  }
  function checkPhase(phase, index) {
    var place = "phases[" + index + "]";
    demand(isObject(phase), place, "an object", phase);
    demand(typeof phase.cycles === "number" && phase.cycles > 0, place + ".cycles", "a number above 0", phase.cycles);
    demand(UNITS.indexOf(phase.time_units) >= 0, place + ".time_units", "one of " + UNITS.join(", "),
      phase.time_units);
    demand(isObject(phase.step), place + ".step", "an object of lists, one for each variable", phase.step);
    Object.keys(phase.step).forEach(function (variable) {
      var spans = phase.step[variable];
      demand(isArray(spans), place + ".step." + variable, "an array", spans);
      spans.forEach(function (span, number) {
        checkSpan(span, place + ".step." + variable + "[" + number + "]");
      });
    });
  }
  if (newDoc._deleted || newDoc._id.indexOf("_design/") === 0) {
    return;
  }
  demand(isText(newDoc.format), "format", "the name of a recipe format", newDoc.format);
  if (newDoc.format === "simple") {
    demand(isArray(newDoc.operations), "operations", "an array", newDoc.operations);
    newDoc.operations.forEach(checkOperation);
  } else if (newDoc.format === "flexformat") {
    demand(isArray(newDoc.phases) && newDoc.phases.length > 0, "phases", "an array of one phase or more", newDoc.phases);
    newDoc.phases.forEach(checkPhase);
  }
}
