function (newDoc) {
  function demand(field, holds, what) {
    if (!holds) {
      throw({forbidden: field + " must be " + what + ", not " + JSON.stringify(newDoc[field])});
    }
  }
  if (newDoc._deleted || newDoc._id.indexOf("_design/") === 0) {
    return;
  }
  ["environment", "category", "variable"].forEach(function (field) {
    demand(field, typeof newDoc[field] === "string" && newDoc[field] !== "", "a non-empty string");
  });
  demand("width", typeof newDoc.width === "number", "a number of seconds");
  demand("start", typeof newDoc.start === "number", "a number, UNIX time in seconds");
  ["at", "min", "mean", "max", "last", "last_at", "count"].forEach(function (field) {
    demand(field, Array.isArray(newDoc[field]) && newDoc[field].length === newDoc.at.length, "an array as long as at");
  });
}
