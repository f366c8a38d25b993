function (newDoc) {
  if (!newDoc._deleted && newDoc.name !== undefined && typeof newDoc.name !== "string") {
    throw({forbidden: "name must be a string, not " + JSON.stringify(newDoc.name).slice(0, 80)});
  }
}
