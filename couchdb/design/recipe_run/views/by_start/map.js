function (doc) {
  if (typeof doc.environment === "string" && typeof doc.started === "number") {
    emit([doc.environment, doc.started], null);
  }
}
