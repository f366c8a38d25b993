// Reads of many documents.
//
// https://docs.couchdb.org/en/stable/api/database/bulk-api.html

import { latestOf } from './documents.mjs';
import { checkNumber, isRevision } from './guards.mjs';
import { queryStrings, sendJSON } from './http.mjs';
import { checkNoStartId, checkReduce } from './queries.mjs';

/** `_all_docs`. */
export async function readAllDocs(req, options) {
  checkReduce(options, false);
  checkNoStartId(options);
  return req.db.allDocs(options);
}

/** `_design_docs`: only design documents, also in `total_rows`. */
export async function readDesignDocs(req, options) {
  checkReduce(options, false);
  checkNoStartId(options);
  const { rows } = await req.db.allDocs({ startkey: '_design/', endkey: '_design0', inclusive_end: false });
  const ids = rows.map((row) => row.id);
  const { include_docs, conflicts, attachments, skip = 0, limit = Infinity } = options;
  const matching = (options.keys ?? inRange(ids, options)).filter((id) => String(id).startsWith('_design/'));
  const keys = matching.slice(skip, skip + limit);
  const found = await req.db.allDocs({ keys, include_docs, conflicts, attachments });
  return { total_rows: ids.length, offset: skip, rows: found.rows };
}

/** `_bulk_get`: a result for each requested document, with an error for a missing one. */
export async function bulkGet(req, res) {
  checkNumber('docs', req.body.docs.length);
  const query = queryStrings(req);
  const flags = ['revs', 'attachments'].map((name) => [name, query.get(name) === 'true']);
  const isLatest = query.get('latest') === 'true';
  const results = [];
  for (const { id, rev } of req.body.docs) {
    results.push({ id, docs: await leaves(req.db, id, rev, isLatest, Object.fromEntries(flags)) });
  }
  sendJSON(res, 200, { results });
}

/** `_missing_revs`, the predecessor of `_revs_diff`. */
export async function missingRevs(req, res) {
  const diff = Object.entries(await req.db.revsDiff(req.body));
  sendJSON(res, 200, { missing_revs: Object.fromEntries(diff.map(([id, { missing }]) => [id, missing])) });
}

function inRange(ids, { key, startkey, endkey, inclusive_end = true, descending = false }) {
  const [least, most] = descending ? [endkey, startkey] : [startkey, endkey];
  const chosen = ids.filter(
    (id) =>
      (key === undefined || id === key) &&
      (least === undefined || id >= least) &&
      (most === undefined || id <= most) &&
      (inclusive_end || id !== endkey),
  );
  return descending ? chosen.reverse() : chosen;
}

async function leaves(db, id, rev, isLatest, flags) {
  if (rev !== undefined && !isRevision(rev)) {
    return [failure(id, rev, { name: 'bad_request', reason: 'Invalid rev format' })];
  }
  try {
    const wanted = rev === undefined ? 'all' : [rev];
    const open_revs = isLatest ? await latestOf(db, id, wanted) : wanted;
    const found = await db.get(id, { ...flags, open_revs });
    return found.map(({ ok, missing }) => (ok === undefined ? failure(id, missing) : { ok }));
  } catch (error) {
    if (error.status !== 404) {
      throw error;
    }
    return [failure(id, rev)];
  }
}

function failure(id, rev = 'undefined', { name = 'not_found', reason = 'missing' } = {}) {
  return { error: { id, rev, error: name, reason } };
}
