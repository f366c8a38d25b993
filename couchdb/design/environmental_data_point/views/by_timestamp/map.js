function (doc) {
  if (typeof doc.environment === "string" && typeof doc.variable === "string" && typeof doc.timestamp === "number") {
    emit([doc.environment, doc.timestamp], doc);
  }
}
