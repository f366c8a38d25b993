// `_scheduler`: what the replications of the database `_replicator` do.
//
// https://docs.couchdb.org/en/stable/api/server/common.html#scheduler

import { HttpError, queryStrings, sendJSON } from './http.mjs';
import { REPLICATOR } from './replicator.mjs';
import { shownAddress } from './replicatordocument.mjs';

const NODE = 'nonode@nohost'; // Erlang's name for one that has none
const DEFAULT_JOBS = 100;
const STATES = ['initializing', 'error', 'pending', 'running', 'crashing', 'completed', 'failed'];

/** The endpoints over one Replicator. */
export class Scheduler {
  constructor(replicator) {
    this.replicator = replicator;
  }

  /** GET `_scheduler/jobs`. */
  async jobs(req, res) {
    const query = queryStrings(req);
    const [limit, skip] = [parseCount(query, 'limit', DEFAULT_JOBS), parseCount(query, 'skip', 0)];
    const all = this.replicator.jobs().sort((one, other) => (one.wanted.id < other.wanted.id ? -1 : 1));
    const offset = Math.min(skip, all.length);
    const jobs = all.slice(offset, offset + limit);
    await refresh(jobs);
    sendJSON(res, 200, { total_rows: all.length, offset, jobs: jobs.map(describeJob) });
  }

  /** GET `_scheduler/jobs/{id}`. */
  async job(req, res) {
    const id = req.params.id.replaceAll(' ', '+'); // as CouchDB: the + of an id is often sent as it is
    const job = this.replicator.jobs().find(({ wanted }) => wanted.id === id);
    if (job === undefined) {
      throw missing();
    }
    await refresh([job]);
    sendJSON(res, 200, describeJob(job));
  }

  /** GET `_scheduler/docs` and `_scheduler/docs/_replicator`. */
  async docs(req, res) {
    checkDatabase(req);
    const query = queryStrings(req);
    const states = parseStates(query.get('states'));
    const [limit, skip] = [parseCount(query, 'limit', Infinity), parseCount(query, 'skip', 0)];
    const { rows, total_rows } = await this.replicator.db.allDocs({
      include_docs: true,
      descending: query.get('descending') === 'true',
    });
    const replications = rows.map(({ doc }) => doc).filter((doc) => !doc._id.startsWith('_design/'));
    await refresh(replications.map((doc) => this.replicator.job(doc._id)));
    const all = replications.map((doc) => this.#describe(doc));
    const docs = states ? all.filter(({ state }) => states.includes(state)) : all;
    sendJSON(res, 200, { total_rows, offset: Math.min(skip, total_rows), docs: docs.slice(skip, skip + limit) });
  }

  /** GET `_scheduler/docs/_replicator/{doc_id}`. */
  async doc(req, res) {
    checkDatabase(req);
    const doc = await this.replicator.db.get(req.params.id);
    await refresh([this.replicator.job(doc._id)]);
    sendJSON(res, 200, this.#describe(doc));
  }

  #describe(doc) {
    const job = this.replicator.job(doc._id);
    return job === undefined ? describeEnded(doc) : describeDoc(job);
  }
}

async function refresh(jobs) {
  await Promise.all(jobs.map((job) => job?.refresh()));
}

function describeDoc(job) {
  return {
    database: REPLICATOR,
    doc_id: job.docId,
    id: job.wanted.id,
    node: NODE,
    source: shownAddress(job.wanted.source),
    target: shownAddress(job.wanted.target),
    state: job.state,
    info: job.info,
    error_count: job.errorCount,
    last_updated: job.lastUpdated,
    start_time: job.startTime,
    source_proxy: null,
    target_proxy: null,
  };
}

function describeJob(job) {
  const { error, ...info } = job.info ?? {};
  return {
    database: REPLICATOR,
    id: job.wanted.id,
    pid: job.state === 'running' ? String(process.pid) : null,
    source: shownAddress(job.wanted.source),
    target: shownAddress(job.wanted.target),
    user: null,
    doc_id: job.docId,
    info: job.info && info,
    history: job.history,
    node: NODE,
    start_time: job.startTime,
  };
}

/** A document without a job: how it ended stands in it. */
function describeEnded(doc) {
  const { start_time = doc._replication_state_time ?? null, ...stats } = doc._replication_stats ?? {};
  const state = STATES.includes(doc._replication_state) ? doc._replication_state : null;
  const hasFailed = state === 'failed';
  return {
    database: REPLICATOR,
    doc_id: doc._id,
    id: null,
    source: shownAddress(doc.source),
    target: shownAddress(doc.target),
    state,
    error_count: hasFailed ? 1 : 0,
    info: hasFailed ? { error: doc._replication_state_reason ?? null } : doc._replication_stats ? stats : null,
    start_time,
    last_updated: doc._replication_state_time ?? null,
  };
}

function checkDatabase({ params: { db = REPLICATOR } }) {
  if (db !== REPLICATOR) {
    throw new HttpError(400, 'bad_request', 'Invalid path');
  }
}

function parseStates(text) {
  const states = text?.toLowerCase().split(',').filter(Boolean);
  const unknown = states?.find((state) => !STATES.includes(state));
  if (unknown !== undefined) {
    throw new HttpError(400, 'query_parse_error', `Unknown states ${unknown}. Choose from: ${STATES.join(', ')}`);
  }
  return states;
}

function parseCount(query, name, otherwise) {
  const text = query.get(name);
  if (text !== null && !/^\d{1,12}$/.test(text)) {
    throw new HttpError(400, 'query_parse_error', `${name} must be an integer`);
  }
  return text === null ? otherwise : Number(text);
}

function missing() {
  return new HttpError(404, 'not_found', 'missing');
}
