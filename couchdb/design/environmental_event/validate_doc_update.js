function (newDoc) {
  function demand(field, holds, what) {
    if (!holds) {
      var found = newDoc[field] === undefined ? "it is missing" : "not " + JSON.stringify(newDoc[field]).slice(0, 80);
      throw({forbidden: field + " must be " + what + ", " + found});
    }
  }
  function isText(value) {
    return typeof value === "string" && value !== "";
  }
  if (newDoc._deleted || newDoc._id.indexOf("_design/") === 0) {
    return;
  }
  demand("environment", isText(newDoc.environment), "a non-empty string");
  demand("variable", isText(newDoc.variable), "a non-empty string");
  demand("category", isText(newDoc.category) && newDoc.category !== "measured" && newDoc.category !== "desired",
    "a text other than measured and desired");
  demand("value", newDoc.value === null || ["number", "string", "boolean"].indexOf(typeof newDoc.value) >= 0,
    "a number, a string, true, false or null");
  demand("timestamp", typeof newDoc.timestamp === "number", "a number, UNIX time in seconds");
}
