// `_replicate`: copies of databases, once or for as long as the server runs.
//
// https://docs.couchdb.org/en/stable/api/server/common.html#replicate
//
// Both ends are reached over HTTP, also a database of this server: what is written passes the same checks, and
// CouchDB does so as well.

import { randomUUID } from 'node:crypto';

import { Ends } from './ends.mjs';
import { HttpError, sendError, sendJSON } from './http.mjs';
import { parseReplication } from './replicationrequest.mjs';

const MOST_AT_ONCE = 50;

/** The replications of one server; they end with `stopping`, an AbortSignal. */
export class Replications {
  #jobs = new Map();

  constructor(Pouch, settings, stopping) {
    Object.assign(this, { Pouch, settings });
    stopping.addEventListener('abort', () => this.#jobs.forEach((job) => job.replication.cancel()));
  }

  /** POST `_replicate`. */
  async serve(req, res) {
    try {
      const wanted = parseReplication(req.body ?? {}, req.socket.localPort);
      if (wanted.cancel) {
        this.#cancel(wanted.id);
        sendJSON(res, 200, { ok: true, _local_id: wanted.id });
        return;
      }
      const job = this.#jobs.get(wanted.id) ?? (await this.#start(wanted));
      if (wanted.continuous) {
        sendJSON(res, 202, { ok: true, _local_id: wanted.id });
      } else {
        sendJSON(res, 200, summary(await job.replication));
      }
    } catch (error) {
      sendError(res, error);
    }
  }

  /** What `_active_tasks` shows. */
  tasks() {
    return [...this.#jobs.values()].map(({ wanted, startedOn, counts }) => ({
      type: 'replication',
      replication_id: wanted.id,
      source: wanted.source.url,
      target: wanted.target.url,
      continuous: wanted.continuous,
      started_on: startedOn,
      ...counts,
    }));
  }

  async #start(wanted) {
    if (this.#jobs.size >= MOST_AT_ONCE) {
      throw new HttpError(503, 'too_many_replications', `${MOST_AT_ONCE} replications are running already`);
    }
    const ends = new Ends(this.Pouch, wanted, this.settings.trust());
    try {
      await prepare(ends, wanted);
    } catch (error) {
      ends.close();
      throw error;
    }
    const other = this.#jobs.get(wanted.id); // the same was asked for meanwhile
    if (other !== undefined) {
      ends.close();
    }
    return other ?? this.#run(wanted, ends);
  }

  #run(wanted, ends) {
    const { continuous, options } = wanted;
    const how = { ...options, ...ends.feedOptions, continuous, retry: continuous };
    const replication = this.Pouch.replicate(ends.source, ends.target, how);
    const counts = { docs_read: 0, docs_written: 0, doc_write_failures: 0 };
    const job = { wanted, replication, startedOn: Math.floor(Date.now() / 1000), counts };
    this.#jobs.set(wanted.id, job);
    replication.on('change', (info) => Object.keys(counts).forEach((name) => (counts[name] = info[name])));
    replication.on('paused', (error) => error && logRetry(wanted, error));
    const end = () => {
      if (this.#jobs.get(wanted.id) === job) {
        this.#jobs.delete(wanted.id);
      }
      ends.close();
    };
    replication.then(end, end);
    return job;
  }

  #cancel(id) {
    if (!this.#jobs.has(id)) {
      throw new HttpError(404, 'not_found', 'missing');
    }
    this.#jobs.get(id).replication.cancel();
    this.#jobs.delete(id);
  }
}

/** Both databases are there and open to us. One that can't be reached now is tried again if that goes on for ever. */
async function prepare(ends, { continuous, create_target: creates }) {
  try {
    await ends.check();
  } catch (error) {
    if (error instanceof HttpError) {
      throw error;
    }
    if (!continuous || creates) {
      throw new HttpError(500, 'error', error.message);
    }
  }
}

function summary({ ok, status, start_time, end_time, last_seq, docs_read, docs_written, doc_write_failures }) {
  if (status === 'cancelled') {
    throw new HttpError(500, 'cancelled', 'the replication was cancelled before its end');
  }
  const session_id = randomUUID().replaceAll('-', '');
  const run = {
    session_id,
    start_time: new Date(start_time).toUTCString(),
    end_time: new Date(end_time).toUTCString(),
    end_last_seq: last_seq,
    recorded_seq: last_seq,
    docs_read,
    docs_written,
    doc_write_failures,
  };
  return { ok, session_id, source_last_seq: last_seq, history: [run] };
}

function logRetry({ source, target }, error) {
  console.error(`the replication from ${source.url} to ${target.url} failed and is tried again: ${error.message ?? error}`);
}
