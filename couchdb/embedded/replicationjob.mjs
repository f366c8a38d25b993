// One replication of the database `_replicator`: runs, fails, waits and runs again until it is stopped.
//
// https://docs.couchdb.org/en/stable/replication/replicator.html#replication-states

import { setTimeout as sleep } from 'node:timers/promises';

import { Ends } from './ends.mjs';
import { HttpError } from './http.mjs';
import { Pending, readCheckpoint } from './pending.mjs';

const FIRST_WAIT_MS = 1_000; // doubled with each failure; CouchDB begins with 30 s and goes up to 8 h
const LONGEST_WAIT_MS = 300_000;
const HEALTHY_AFTER_MS = 60_000; // the failures before a run of this length are forgotten
const LONGEST_HISTORY = 20;
const LONGEST_ERROR = 500;
const COUNT_AGAIN_AFTER_MS = 1_000;
const COUNTING_MAY_TAKE_MS = 2_000;

export class Job {
  errorCount = 0;
  error = null;
  history = [];
  startTime = timestamp();
  #stopping = new AbortController();
  #running = false;
  #hasBegun = false;
  #pending = new Pending();
  #counting = null;
  #countedAt = -Infinity;
  #through = undefined;
  #stats = { revisions_checked: 0, missing_revisions_found: 0, docs_read: 0, docs_written: 0, changes_pending: null };
  #failures = 0;

  /** `wanted` comes from parseReplicatorDocument; `trust` from the settings; `finished` gets a completed job. */
  constructor(Pouch, docId, wanted, trust, finished) {
    Object.assign(this, { Pouch, docId, wanted, trust, finished });
    this.#note('added');
  }

  /** Run until the end; a job runs once. */
  start() {
    this.#loop().catch((error) => console.error(`the replication ${this.docId} ended: ${error?.message ?? error}`));
  }

  stop() {
    this.#stopping.abort();
  }

  get state() {
    if (this.#running) {
      return 'running';
    }
    return this.error === null ? 'pending' : 'crashing';
  }

  get lastUpdated() {
    return this.history[0].timestamp;
  }

  /** What CouchDB calls `info`: null until both ends agreed where to begin. A job that fails keeps its numbers. */
  get info() {
    if (!this.#hasBegun && this.error === null) {
      return null;
    }
    const seq = this.#through ?? null;
    return {
      ...this.#stats,
      doc_write_failures: this.#failures,
      checkpointed_source_seq: seq,
      source_seq: seq,
      through_seq: seq,
      ...(this.error !== null && !this.#running && { error: this.error }),
    };
  }

  /** Bring `changes_pending` up to date, also while the target is away; null when the source can't tell. */
  async refresh() {
    if (performance.now() - this.#countedAt > COUNT_AGAIN_AFTER_MS) {
      this.#counting ??= this.#count().finally(() => (this.#counting = null));
    }
    await this.#counting;
  }

  async #loop() {
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#run();
        if (!this.#stopping.signal.aborted) {
          await this.#count();
          await this.finished(this);
        }
        return;
      } catch (error) {
        if (!this.#stopping.signal.aborted) {
          this.#crash(error);
          await sleep(this.#wait(), undefined, { signal: this.#stopping.signal }).catch(() => undefined);
        }
      }
    }
  }

  /** One run: to the end of the source, or for ever when it is continuous. */
  async #run() {
    const { signal } = this.#stopping;
    const ends = new Ends(this.Pouch, this.wanted, this.trust);
    const breakOff = () => ends.close();
    signal.addEventListener('abort', breakOff);
    let [replication, healthy] = [null, undefined];
    try {
      await ends.check();
      this.#start();
      healthy = setTimeout(() => this.#recover(), HEALTHY_AFTER_MS);
      this.#watch(ends);
      const { continuous, options } = this.wanted;
      const how = { ...options, ...ends.feedOptions, continuous, retry: false };
      replication = this.Pouch.replicate(ends.source, ends.target, how);
      replication.on('checkpoint', ({ checkpoint = this.#through }) => (this.#through = checkpoint));
      await Promise.race([replication, aborted(signal)]);
    } finally {
      clearTimeout(healthy);
      replication?.cancel(); // after an error too: PouchDB leaves its feed open
      ends.close();
      signal.removeEventListener('abort', breakOff);
    }
  }

  /**
   * Count what passes between the ends, and notice the checkpoints.
   *
   * PouchDB writes none where the one that is there says the same, as after an end between those of target and source;
   * that it came so far is then in its events alone. Those tell nothing of changes that the filter keeps out.
   */
  #watch({ source, target }) {
    const { changes } = source;
    source.changes = (options) => {
      [this.#through, this.#hasBegun] = [options.since, true];
      source.changes = changes;
      return changes.call(source, options);
    };
    const { revsDiff, bulkDocs } = target;
    target.revsDiff = async (revisions) => {
      const missing = await revsDiff(revisions);
      this.#stats.revisions_checked += Object.values(revisions).flat().length;
      this.#stats.missing_revisions_found += Object.values(missing).flatMap((doc) => doc.missing).length;
      return missing;
    };
    target.bulkDocs = async (request, options) => {
      this.#stats.docs_read += request.docs.length;
      const results = await bulkDocs.call(target, request, options);
      const refused = results.filter((result) => result.error).length;
      this.#stats.docs_written += request.docs.length - refused;
      this.#failures += refused;
      return results;
    };
    for (const end of [source, target]) {
      const { put } = end;
      end.put = async (doc, ...others) => {
        const written = await put.call(end, doc, ...others);
        this.#through = doc.last_seq; // PouchDB puts nothing but its checkpoints
        return written;
      };
    }
  }

  #start() {
    this.#running = true;
    this.#note('started');
  }

  #recover() {
    if (this.errorCount > 0) {
      console.error(`the replication ${this.docId} works again`);
    }
    [this.errorCount, this.error] = [0, null];
  }

  #crash(error) {
    const text = error instanceof HttpError ? `${error.name}: ${error.message}` : String(error?.message ?? error);
    [this.#running, this.error] = [false, text.slice(0, LONGEST_ERROR)];
    this.errorCount += 1;
    this.#note('crashed', { reason: this.error });
    if (this.errorCount === 1) {
      console.error(`the replication ${this.docId} failed and is tried again: ${this.error.replaceAll(/\s+/g, ' ')}`);
    }
  }

  #wait() {
    const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(this.errorCount - 1, 20));
    return most * (0.5 + Math.random() / 2);
  }

  #note(type, more = {}) {
    this.history = [{ timestamp: timestamp(), type, ...more }, ...this.history].slice(0, LONGEST_HISTORY);
  }

  async #count() {
    const ends = await this.#openToCount();
    const slow = setTimeout(() => ends?.close(), COUNTING_MAY_TAKE_MS);
    try {
      this.#through ??= await readCheckpoint(ends.source, this.wanted);
      this.#stats.changes_pending = await this.#pending.count(ends.source, this.#through, this.wanted.options);
    } catch {
      this.#stats.changes_pending = null; // the source is away, as CouchDB shows it
    } finally {
      clearTimeout(slow);
      ends?.close();
      this.#countedAt = performance.now();
    }
  }

  async #openToCount() {
    try {
      return new Ends(this.Pouch, this.wanted, this.trust);
    } catch {
      return null; // the file with the certificates can't be read
    }
  }
}

/** The time as CouchDB's replicator writes it. */
export function timestamp() {
  return `${new Date().toISOString().slice(0, 19)}Z`;
}

function aborted(signal) {
  return new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}
