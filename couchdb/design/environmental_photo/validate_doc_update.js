function (newDoc) {
  function demand(field, holds, what) {
    if (!holds) {
      var found = newDoc[field] === undefined ? "it is missing" : "not " + JSON.stringify(newDoc[field]).slice(0, 80);
      throw({forbidden: field + " must be " + what + ", " + found});
    }
  }
  if (newDoc._deleted || newDoc._id.indexOf("_design/") === 0) {
    return;
  }
  ["environment", "camera", "sha256"].forEach(function (field) {
    demand(field, typeof newDoc[field] === "string" && newDoc[field] !== "", "a non-empty string");
  });
  ["timestamp", "width", "height", "bytes"].forEach(function (field) {
    demand(field, typeof newDoc[field] === "number", field === "timestamp" ? "a number, UNIX time in seconds" : "a number");
  });
}
