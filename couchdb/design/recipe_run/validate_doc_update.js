function (newDoc) {
  function demand(holds, field, what) {
    if (!holds) {
      throw({forbidden: field + " must be " + what + ", not " + JSON.stringify(newDoc[field])});
    }
  }
  function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
  }
  if (newDoc._deleted || newDoc._id.indexOf("_design/") === 0) {
    return;
  }
  demand(typeof newDoc.environment === "string" && newDoc.environment !== "", "environment", "a name");
  demand(typeof newDoc.recipe_id === "string" && newDoc.recipe_id !== "", "recipe_id", "the id of a recipe");
  demand(typeof newDoc.started === "number", "started", "a number of UNIX seconds");
  demand(newDoc.ended === null || typeof newDoc.ended === "number", "ended", "a number of UNIX seconds, or null");
  demand(newDoc.growd === undefined || typeof newDoc.growd === "string", "growd", "a version");
  ["configuration", "calibrations", "self_test", "figures"].forEach(function (field) {
    demand(newDoc[field] === undefined || isObject(newDoc[field]), field, "an object");
  });
}
