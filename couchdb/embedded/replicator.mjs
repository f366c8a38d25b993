// Replication with PouchDB: each document of `_replicator` is a replication that runs while the document exists.
//
// https://pouchdb.com/api.html#replication, https://docs.couchdb.org/en/stable/replication/replicator.html
//
// PouchDB retries after failures, in place of CouchDB's scheduler. Any change of a document restarts its replication.
// `_scheduler/docs` shows the state of each.

import { createHash, randomUUID } from 'node:crypto';

import { HttpError, sendJSON } from './http.mjs';
import { parseReplication, ReplicationEnds } from './replication_ends.mjs';
import { REPLICATOR } from './storage.mjs';

const LONGEST_ERROR = 500;

/** The replications of one server. */
export class Replicator {
  #replications = new Map(); // by the id of the document

  /** `server` has `Pouch`, `settings`, `openDatabase(folder, creates)` and `stopping`, an AbortSignal. */
  constructor(server) {
    this.server = server;
  }

  /** Follow the documents in `db`, from the oldest. */
  start(db) {
    const feed = db.changes({ live: true, include_docs: true, return_docs: false });
    feed.on('change', ({ doc }) => this.#apply(doc));
    feed.on('error', (error) => console.error(`can't read ${REPLICATOR}: ${error.message}`));
    this.server.stopping.addEventListener('abort', () => this.#replications.forEach((replication) => replication.stop()));
  }

  /** GET `_scheduler/docs` and `_scheduler/docs/_replicator`. */
  list(req, res) {
    const docs = [...this.#replications.values()].map((replication) => replication.report());
    sendJSON(res, 200, { total_rows: docs.length, offset: 0, docs });
  }

  /** GET `_scheduler/docs/_replicator/{id}`. */
  show(req, res) {
    const replication = this.#replications.get(req.params.id);
    if (replication === undefined) {
      throw new HttpError(404, 'not_found', 'missing');
    }
    sendJSON(res, 200, replication.report());
  }

  /** POST `_replicate`: once, answered at its end. */
  async replicateOnce(req, res) {
    const request = parseReplication(req.body);
    if (request.continuous || req.body.cancel !== undefined) {
      const reason = `the embedded server has continuous replications in ${REPLICATOR} only`;
      throw new HttpError(501, 'not_implemented', reason);
    }
    const ends = await ReplicationEnds.open(this.server, request);
    try {
      await ends.check();
      sendJSON(res, 200, describeRun(await this.server.Pouch.replicate(ends.source, ends.target, ends.options)));
    } finally {
      ends.close();
    }
  }

  #apply(doc) {
    this.#replications.get(doc._id)?.stop();
    this.#replications.delete(doc._id);
    if (!doc._deleted && !doc._id.startsWith('_design/')) {
      const replication = new Replication(this.server, doc);
      this.#replications.set(doc._id, replication);
      replication.start();
    }
  }
}

/** The replication that one revision of a document asks for. */
class Replication {
  #request = null;
  #ends = null;
  #replication = null;
  #isStopped = false;
  #id = null;
  #state = 'initializing';
  #hasBegun = false;
  #through = null;
  #counts = { revisions_checked: 0, docs_written: 0, doc_write_failures: 0 };
  #errors = 0;
  #error = null;
  #startTime = new Date().toISOString();

  constructor(server, doc) {
    Object.assign(this, { server, doc });
  }

  async start() {
    try {
      this.#request = parseReplication(this.doc);
      this.#ends = await ReplicationEnds.open(this.server, this.#request);
      this.#id = await checkpointId(this.#ends, this.#request);
    } catch (error) {
      this.#fail(error, 'failed');
      return;
    }
    if (this.#isStopped) {
      this.#ends.close();
      return;
    }
    const options = { ...this.#ends.options, live: this.#request.continuous, retry: true };
    this.#replication = this.server.Pouch.replicate(this.#ends.source, this.#ends.target, options);
    this.#watch(this.#replication);
  }

  stop() {
    this.#isStopped = true;
    this.#replication?.cancel();
    this.#ends?.close();
  }

  /** A part of CouchDB's report, without credentials. */
  report() {
    const error = this.#error === null ? {} : { error: this.#error };
    const counts = this.#hasBegun ? { ...this.#counts, through_seq: this.#through } : {};
    const info = { ...counts, ...error };
    return {
      database: REPLICATOR,
      doc_id: this.doc._id,
      id: this.#id,
      source: this.#request?.source.shown ?? null,
      target: this.#request?.target.shown ?? null,
      state: this.#state,
      error_count: this.#errors,
      info: Object.keys(info).length === 0 ? null : info,
      start_time: this.#startTime,
    };
  }

  #watch(replication) {
    // not 'active', which comes before a request to the other server
    replication.on('paused', (error) => error || this.#catchUp());
    replication.on('change', ({ docs }) => (this.#counts.docs_written += docs.length));
    replication.on('denied', () => (this.#counts.doc_write_failures += 1));
    replication.on('checkpoint', ({ revs_diff: change, checkpoint }) => {
      this.#counts.revisions_checked += change?.changes.length ?? 0;
      if (checkpoint !== undefined) {
        this.#through = checkpoint;
        this.#run();
      }
    });
    replication.on('requestError', (error) => this.#fail(error, 'crashing'));
    replication.on('error', (error) => this.#fail(error, 'crashing')); // a refused login, without a retry
    replication.on('complete', ({ status }) => {
      if (status === 'cancelled') {
        this.#fail(new Error('a database was deleted'), 'crashing');
      } else {
        this.#state = 'completed';
      }
    });
  }

  /** All changes are copied. PouchDB has no event for those that the selector leaves out, but a checkpoint. */
  async #catchUp() {
    this.#run();
    const { last_seq } = await this.#ends.local.get(`_local/${this.#id}`).catch(() => ({}));
    this.#through = last_seq ?? this.#through;
  }

  #run() {
    if (this.#state === 'crashing') {
      console.error(`the replication ${this.doc._id} works again`);
    }
    [this.#state, this.#error, this.#hasBegun] = ['running', null, true];
  }

  #fail(error, state) {
    if (this.#isStopped) {
      return;
    }
    this.#error = describeError(error);
    this.#errors += 1;
    if (this.#state !== state) {
      console.error(`the replication ${this.doc._id} failed: ${this.#error}`);
    }
    this.#state = state;
  }
}

function describeError({ name, reason, message }) {
  const text = ['Error', undefined].includes(name) ? message : `${name}: ${reason ?? message}`;
  return String(text).replaceAll(/\s+/g, ' ').slice(0, LONGEST_ERROR);
}

/** The id of PouchDB's checkpoint (`generateReplicationId`), without its `_local/`. */
async function checkpointId({ source, target }, { selector, doc_ids }) {
  const parts = [await source.id(), await target.id(), [...(doc_ids ?? [])].sort(), selector ? JSON.stringify(selector) : ''];
  const digest = createHash('md5').update(parts.join(''), 'binary').digest('base64');
  return digest.replaceAll('/', '.').replaceAll('+', '_');
}

/** CouchDB's answer to `_replicate`. */
function describeRun({ ok, start_time, end_time, last_seq, docs_read, docs_written, doc_write_failures }) {
  const session_id = randomUUID().replaceAll('-', '');
  const run = { session_id, end_last_seq: last_seq, recorded_seq: last_seq, docs_read, docs_written, doc_write_failures };
  const [start, end] = [start_time, end_time].map((time) => new Date(time).toUTCString());
  return { ok, session_id, source_last_seq: last_seq, history: [{ start_time: start, end_time: end, ...run }] };
}
