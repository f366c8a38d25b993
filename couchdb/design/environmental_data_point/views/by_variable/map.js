function (doc) {
  if (typeof doc.environment === "string" && typeof doc.variable === "string" && typeof doc.timestamp === "number") {
    emit([doc.environment, doc.is_desired ? "desired" : "measured", doc.variable, doc.timestamp], doc);
  }
}
