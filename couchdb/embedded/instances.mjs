// What a replicator asks of a database as a whole: `GET /{db}` and `POST /{db}/_ensure_full_commit`.
//
// https://docs.couchdb.org/en/stable/replication/protocol.html

import { isCompacting } from './compaction.mjs';
import { sendJSON } from './http.mjs';

const ID_DIGITS = 12; // 48 bits, exact as a number

/** GET of a database. */
export async function showDatabase(req, res) {
  const [info, instance_start_time] = [await req.db.info(), await instanceStartTime(req.db)];
  sendJSON(res, 200, { ...info, compact_running: isCompacting(req.db), instance_start_time });
}

/** `_ensure_full_commit`: each write was synced before it was acknowledged (`levels.mjs`). */
export async function confirmCommit(req, res) {
  sendJSON(res, 201, { ok: true, instance_start_time: await instanceStartTime(req.db) });
}

/**
 * What a replicator compares before each checkpoint, to notice that a database was deleted and made again.
 *
 * CouchDB has the time at which the database was made. PouchDB stores an id with the database, not the time. A number
 * made of the id also stays the same over restarts, and is another for a new database.
 */
async function instanceStartTime(db) {
  const id = await db.id();
  return String(parseInt(id.replaceAll('-', '').slice(0, ID_DIGITS), 16));
}
