// The database `_replicator`: each document is a replication that runs for as long as the document is there.
//
// https://docs.couchdb.org/en/stable/replication/replicator.html

import { Job, timestamp } from './replicationjob.mjs';
import { parseReplicatorDocument } from './replicatordocument.mjs';

export const REPLICATOR = '_replicator';

const MOST_AT_ONCE = 50; // the others wait
const CHANGES_AT_ONCE = 50;
const TERMINAL = ['completed', 'failed'];

export class Replicator {
  #jobs = new Map(); // by document
  #started = new Set();
  #wake = () => undefined;

  /** `stopping` is an AbortSignal that ends all jobs. */
  constructor(Pouch, settings, stopping) {
    Object.assign(this, { Pouch, settings, stopping });
    // apart from the one that serves requests: what is written here passes no validation
    this.db = new Pouch(REPLICATOR);
    stopping.addEventListener('abort', () => {
      this.#jobs.forEach((job) => job.stop());
      this.#wake();
    });
  }

  /** Make the database; the server waits for it before it listens. */
  async open() {
    await this.db.info();
  }

  /** Follow the documents; the jobs reach databases of this server over HTTP, so it listens by now. */
  start() {
    this.#follow().catch((error) => console.error(`_replicator is not followed any more: ${error?.message ?? error}`));
  }

  /** The job of a document, or undefined. */
  job(docId) {
    return this.#jobs.get(docId);
  }

  jobs() {
    return [...this.#jobs.values()];
  }

  /** What `_active_tasks` shows. */
  tasks() {
    return this.jobs()
      .filter((job) => job.state === 'running')
      .map(({ docId, wanted, startTime, info }) => ({
        type: 'replication',
        database: REPLICATOR,
        doc_id: docId,
        replication_id: wanted.id,
        source: wanted.source.url,
        target: wanted.target.url,
        continuous: wanted.continuous,
        started_on: Date.parse(startTime) / 1000,
        ...info,
      }));
  }

  async #follow() {
    let [since, changed] = [0, true];
    const feed = this.db.changes({ live: true, since: 'now', return_docs: false });
    feed.on('change', () => {
      changed = true;
      this.#wake();
    });
    feed.catch((error) => console.error(`_replicator can't be watched: ${error?.message ?? error}`));
    while (!this.stopping.aborted) {
      changed = false;
      const { results, last_seq } = await this.db.changes({ since, limit: CHANGES_AT_ONCE, include_docs: true });
      for (const { doc } of results) {
        await this.#apply(doc);
      }
      since = last_seq;
      if (results.length === 0 && !changed && !this.stopping.aborted) {
        await new Promise((resolve) => (this.#wake = resolve));
      }
    }
    feed.cancel();
  }

  /** Bring the job of a document in line with it. */
  async #apply(doc) {
    if (doc._id.startsWith('_design/')) {
      return;
    }
    if (doc._deleted || TERMINAL.includes(doc._replication_state)) {
      this.#remove(doc._id);
      return;
    }
    try {
      this.#replace(doc, parseReplicatorDocument(doc));
    } catch (error) {
      this.#remove(doc._id);
      await this.#fail(doc, error.message);
    }
  }

  /** A new job, unless the document asks for what the one that it has does. */
  #replace(doc, wanted) {
    const trust = this.settings.trust();
    const present = this.#jobs.get(doc._id);
    if (present && JSON.stringify([present.wanted, present.trust]) === JSON.stringify([wanted, trust])) {
      present.rev = doc._rev;
      return;
    }
    const other = this.jobs().find((job) => job.wanted.id === wanted.id && job.docId !== doc._id);
    if (other !== undefined) {
      throw new Error(
        `Replication \`${wanted.id}\` specified by document \`${doc._id}\` already started, ` +
          `triggered by document \`${other.docId}\` from db \`${REPLICATOR}\``,
      );
    }
    this.#remove(doc._id);
    const job = new Job(this.Pouch, doc._id, wanted, trust, (completed) => this.#complete(completed));
    this.#jobs.set(doc._id, Object.assign(job, { rev: doc._rev }));
    this.#startNext();
  }

  #remove(docId) {
    const job = this.#jobs.get(docId);
    job?.stop();
    this.#jobs.delete(docId);
    this.#started.delete(job);
    this.#startNext();
  }

  #startNext() {
    for (const job of this.#jobs.values()) {
      if (this.#started.size >= MOST_AT_ONCE || this.stopping.aborted) {
        return;
      }
      if (!this.#started.has(job)) {
        this.#started.add(job);
        job.start();
      }
    }
  }

  async #complete(job) {
    if (this.#jobs.get(job.docId) !== job) {
      return; // the document is another one by now
    }
    await this.#writeState({ _id: job.docId, _rev: job.rev }, 'completed', {
      _replication_stats: { ...job.info, start_time: job.startTime },
    });
    if (this.#jobs.get(job.docId) === job) {
      this.#remove(job.docId);
    }
  }

  async #fail(doc, reason) {
    console.error(`the replication ${doc._id} can't be: ${reason.replaceAll(/\s+/g, ' ')}`);
    await this.#writeState(doc, 'failed', { _replication_state_reason: reason });
  }

  /** Write how it ended into the document, unless that was changed meanwhile. */
  async #writeState({ _id, _rev }, state, more) {
    const { _replication_state_reason, _replication_stats, ...doc } = await this.db.get(_id).catch(() => ({}));
    if (doc._rev === _rev) {
      const ended = { ...doc, _replication_state: state, _replication_state_time: timestamp(), ...more };
      await this.db.put(ended).catch((error) => console.error(`${_id} in _replicator is not marked: ${error.message}`));
    }
  }
}
