function (doc, req) {
  var asked = req.query;
  return typeof doc.variable === "string" && typeof doc.timestamp === "number" &&
    (!asked.environment || doc.environment === asked.environment) &&
    (!asked.variable || doc.variable === asked.variable) &&
    (!asked.category || doc.category === asked.category);
}
