function (doc, req) {
  var asked = req.query;
  var category = doc.is_desired ? "desired" : "measured";
  return typeof doc.variable === "string" && typeof doc.timestamp === "number" &&
    (!asked.environment || doc.environment === asked.environment) &&
    (!asked.variable || doc.variable === asked.variable) &&
    (!asked.category || category === asked.category);
}
