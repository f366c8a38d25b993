function (doc) {
  if (typeof doc.environment === "string" && typeof doc.started === "number") {
    emit([doc.environment, doc.started], {
      recipe_id: doc.recipe_id,
      recipe_rev: doc.recipe_rev,
      revisions: Array.isArray(doc.revisions) ? doc.revisions.length : 0,
      started_by: doc.started_by,
      offset: doc.offset,
      ended: doc.ended,
      ended_by: doc.ended_by,
      end_reason: doc.end_reason,
      elapsed: doc.elapsed,
      growd: doc.growd
    });
  }
}
