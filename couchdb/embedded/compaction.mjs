// Compaction of a database: `POST /{db}/_compact`.
//
// https://docs.couchdb.org/en/stable/api/database/compact.html
//
// PouchDB's own `compact` keeps a promise for each change since the last one. Here revisions are removed some at a time,
// and then LevelDB rewrites its files: it would give the space of deleted keys back only when later writes reach them.

import { sendJSON } from './http.mjs';
import { compactFiles } from './levels.mjs';

const CHANGES_AT_ONCE = 500;
const PROGRESS = '_local/compaction'; // PouchDB's own

/** The names of the databases that are being compacted. */
const running = new Set();

/** Start a compaction, and answer at once. */
export async function startCompaction(req, res) {
  const { db } = req;
  if (!running.has(db.name)) {
    running.add(db.name);
    compact(db)
      .catch((error) => db._destroyed || console.error(`the compaction of ${db.name} failed: ${error.message}`))
      .finally(() => running.delete(db.name));
  }
  sendJSON(res, 202, { ok: true });
}

/** Whether a database is being compacted. */
export function isCompacting(db) {
  return running.has(db.name);
}

async function compact(db) {
  const progress = await db.get(PROGRESS).catch(() => ({ _id: PROGRESS, last_seq: 0 }));
  for (let isEnd = false; !isEnd; ) {
    const { results = [], last_seq } = await db.changes({ since: progress.last_seq, limit: CHANGES_AT_ONCE });
    for (const { id } of results) {
      await db.compactDocument(id, 0);
    }
    isEnd = results.length === 0;
    progress.last_seq = last_seq;
    progress._rev = (await db.put(progress)).rev;
  }
  await compactFiles(db.name);
}
