function (doc, req) {
  var asked = req.query;
  var known = doc.category === undefined || doc.category === "measured" || doc.category === "desired";
  var category = known ? (doc.is_desired ? "desired" : "measured") : doc.category;
  return typeof doc.variable === "string" && typeof doc.timestamp === "number" &&
    (!asked.environment || doc.environment === asked.environment) &&
    (!asked.variable || doc.variable === asked.variable) &&
    (asked.category ? category === asked.category : known);
}
