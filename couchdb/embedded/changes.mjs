// `/{db}/_changes` in all its feeds, pulled from PouchDB in small pieces.
//
// https://docs.couchdb.org/en/stable/api/database/changes.html
//
// PouchDB's own live feed keeps every row it ever gave and asks nobody whether the client is still there. Here a
// feed reads some rows, waits until the client has taken them, and sleeps until the database says that it changed.

import { once } from 'node:events';

import { filterOptions } from './filters.mjs';
import { HttpError, queryStrings, sendError } from './http.mjs';

const ROWS_AT_ONCE = 100;
const DEFAULT_TIMEOUT_MS = 60_000; // CouchDB's chttpd/changes_timeout, also the longest
const FEEDS = ['normal', 'longpoll', 'continuous', 'eventsource'];

/** Answer one `_changes` request of `db`; `stopping` is the signal that the server is about to end. */
export async function serveChanges(db, req, res, stopping) {
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  const end = AbortSignal.any([gone.signal, stopping]);
  const wake = new Wake();
  try {
    const [query, body] = [queryStrings(req), req.body ?? {}];
    const request = parse(query, body);
    Object.assign(request.options, await filterOptions(db, query, body));
    if (request.feed !== 'normal') {
      await wake.watch(db);
    }
    await new Feed(db, request, res, wake, end).run();
  } catch (error) {
    sendError(res, error);
  } finally {
    wake.release();
  }
}

class Feed {
  constructor(db, request, res, wake, end) {
    this.db = db;
    this.request = request;
    this.wake = wake;
    this.end = end;
    this.writer = request.feed === 'continuous' ? new Lines(res) : new Results(res);
    if (request.feed === 'eventsource') {
      this.writer = new Events(res);
    }
    this.res = res;
    this.hasBegun = false;
    this.left = request.limit;
    this.written = 0;
  }

  async run() {
    this.since = this.request.since === 'now' ? (await this.db.info()).update_seq : this.request.since;
    const heartbeat = this.startHeartbeat();
    try {
      let rows = await this.read(); // before the head, so that a bad filter is answered with its status
      this.begin();
      await this.write(rows);
      while (this.goesOn(rows)) {
        if (rows.length === 0 && !(await this.wake.changed(this.idleTime(), this.end))) {
          break;
        }
        rows = await this.read();
        await this.write(rows);
      }
    } finally {
      clearInterval(heartbeat);
    }
    // the database may have been deleted meanwhile, which ends its feeds
    const { update_seq: newest } = await this.db.info().catch(() => ({ update_seq: this.since }));
    this.writer.finish(this.since, Math.max(0, newest - this.since));
  }

  begin() {
    if (!this.hasBegun) {
      this.hasBegun = true;
      this.writer.begin();
    }
  }

  /** The next rows; none when the feed has seen all there is. */
  async read() {
    const version = this.wake.version;
    const answer = await this.db.changes({
      ...this.request.options,
      since: this.since,
      limit: this.request.options.descending ? this.left : Math.min(this.left, ROWS_AT_ONCE),
    });
    this.since = Math.max(this.since, answer.last_seq);
    this.wake.seen = version;
    return answer.results;
  }

  async write(rows) {
    for (const row of rows) {
      this.writer.row(row);
      this.left -= 1;
      this.written += 1;
      if (this.res.writableNeedDrain && !this.end.aborted) {
        await once(this.res, 'drain', { signal: this.end }).catch(() => undefined);
      }
    }
  }

  goesOn(rows) {
    if (this.end.aborted || this.left <= 0 || this.request.options.descending) {
      return false;
    }
    if (this.request.feed === 'normal') {
      return rows.length > 0;
    }
    return this.request.feed !== 'longpoll' || this.written === 0;
  }

  idleTime() {
    return this.request.heartbeat === null ? this.request.timeout : Infinity;
  }

  /** Beats from the start: a filter that lets little through may read for longer than the client has patience. */
  startHeartbeat() {
    const { heartbeat } = this.request;
    const beat = () => {
      this.begin();
      this.writer.beat();
    };
    return heartbeat === null ? undefined : setInterval(beat, heartbeat);
  }
}

/** `{"results": [...], "last_seq": n}`: the normal and the long polling feed. */
class Results {
  constructor(res) {
    this.res = res;
    this.separator = '';
  }

  begin() {
    this.res.writeHead(200, { 'Content-Type': 'application/json' });
    this.res.write('{"results":[\n');
  }

  row(row) {
    this.res.write(this.separator + JSON.stringify(row));
    this.separator = ',\n';
  }

  beat() {
    this.res.write('\n');
  }

  finish(since, pending) {
    this.res.end(`\n],\n"last_seq":${since},"pending":${pending}}\n`);
  }
}

/** One JSON document a line: the continuous feed. */
class Lines {
  constructor(res) {
    this.res = res;
  }

  begin() {
    this.res.writeHead(200, { 'Content-Type': 'application/json' });
    this.res.flushHeaders();
  }

  row(row) {
    this.res.write(`${JSON.stringify(row)}\n`);
  }

  beat() {
    this.res.write('\n');
  }

  finish(since, pending) {
    this.res.end(`{"last_seq":${since},"pending":${pending}}\n`);
  }
}

/** Server-sent events: the eventsource feed. */
class Events {
  constructor(res) {
    this.res = res;
  }

  begin() {
    this.res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
    this.res.flushHeaders();
  }

  row(row) {
    this.res.write(`data: ${JSON.stringify(row)}\nid: ${row.seq}\n\n`);
  }

  beat() {
    this.res.write('event: heartbeat\ndata: \n\n');
  }

  finish() {
    this.res.end();
  }
}

/** What wakes the sleeping feeds of one database: a single live feed of PouchDB, kept while anyone sleeps. */
class Watch {
  static #ofDatabase = new Map();

  static async of(db) {
    const { update_seq: since } = await db.info();
    if (!Watch.#ofDatabase.has(db)) {
      Watch.#ofDatabase.set(db, new Watch(db, since));
    }
    const watch = Watch.#ofDatabase.get(db);
    watch.users += 1;
    return watch;
  }

  constructor(db, since) {
    this.db = db;
    this.version = 0;
    this.users = 0;
    this.ended = false;
    this.sleepers = new Set();
    this.live = db.changes({ live: true, since, return_docs: false });
    this.live.on('change', () => this.#tell());
    this.live.then(() => this.#finish(), () => this.#finish());
  }

  release() {
    this.users -= 1;
    if (this.users === 0) {
      this.#finish();
      this.live.cancel();
    }
  }

  #finish() {
    this.ended = true; // released, or the database was deleted
    Watch.#ofDatabase.delete(this.db);
    this.#tell();
  }

  #tell() {
    this.version += 1;
    for (const wakeUp of this.sleepers) {
      wakeUp();
    }
  }
}

/** One feed's share in the watch of its database. */
class Wake {
  seen = 0;
  #watch = null;

  async watch(db) {
    this.#watch = await Watch.of(db);
  }

  get version() {
    return this.#watch?.version ?? 0;
  }

  /** Wait until the database changed after `seen`; false when the time is up or the feed has to end. */
  async changed(milliseconds, end) {
    const watch = this.#watch;
    if (watch.version === this.seen) {
      await new Promise((resolve) => {
        const timer = Number.isFinite(milliseconds) ? setTimeout(wakeUp, milliseconds) : undefined;
        function wakeUp() {
          clearTimeout(timer);
          watch.sleepers.delete(wakeUp);
          end.removeEventListener('abort', wakeUp);
          resolve();
        }
        watch.sleepers.add(wakeUp);
        end.addEventListener('abort', wakeUp);
        if (end.aborted) {
          wakeUp();
        }
      });
    }
    return watch.version !== this.seen && !watch.ended && !end.aborted;
  }

  release() {
    this.#watch?.release();
  }
}

function parse(query, body) {
  const feed = query.get('feed') ?? 'normal';
  if (!FEEDS.includes(feed)) {
    throw new HttpError(400, 'bad_request', `feed must be one of ${FEEDS.join(', ')}, not ${JSON.stringify(feed)}`);
  }
  return {
    feed,
    since: parseSince(query.get('since') ?? body.since ?? query.get('last-event-id') ?? '0'),
    limit: Math.max(1, parseNumber(query, 'limit', Infinity)),
    heartbeat: parseHeartbeat(query),
    timeout: Math.min(DEFAULT_TIMEOUT_MS, parseNumber(query, 'timeout', DEFAULT_TIMEOUT_MS)),
    options: parseOptions(query),
  };
}

function parseSince(text) {
  if (text === 'now') {
    return 'now';
  }
  const match = /^"?(\d+)/.exec(String(text)); // CouchDB's own look like "12-g1AAAA"
  if (match === null) {
    throw new HttpError(400, 'bad_request', `since must be "now" or a sequence, not ${JSON.stringify(text)}`);
  }
  return Number(match[1]);
}

function parseNumber(query, name, otherwise) {
  const text = query.get(name);
  if (text === null) {
    return otherwise;
  }
  if (!/^\d{1,12}$/.test(text)) {
    throw new HttpError(400, 'query_parse_error', `${name} must be a number, not ${JSON.stringify(text)}`);
  }
  return Number(text);
}

function parseHeartbeat(query) {
  const text = query.get('heartbeat');
  if (text === null || text === 'false') {
    return null;
  }
  const milliseconds = text === 'true' ? DEFAULT_TIMEOUT_MS : parseNumber(query, 'heartbeat');
  if (milliseconds === 0) {
    throw new HttpError(400, 'query_parse_error', 'heartbeat must be more than 0');
  }
  return Math.min(DEFAULT_TIMEOUT_MS, milliseconds);
}

function parseOptions(query) {
  const flags = ['descending', 'include_docs', 'conflicts', 'attachments'];
  const options = Object.fromEntries(flags.map((name) => [name, query.get(name) === 'true']));
  return query.has('style') ? { ...options, style: query.get('style') } : options;
}
