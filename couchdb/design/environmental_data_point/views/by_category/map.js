function (doc) {
  var apart = typeof doc.category === "string" && doc.category !== "measured" && doc.category !== "desired";
  if (apart && typeof doc.environment === "string" && typeof doc.variable === "string" &&
      typeof doc.timestamp === "number") {
    emit([doc.environment, doc.category, doc.variable, doc.timestamp], doc);
  }
}
