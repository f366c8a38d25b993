// `/{db}/_changes` in all its feeds.
//
// https://docs.couchdb.org/en/stable/api/database/changes.html
//
// PouchDB's own live feed stores every row and does not wait for the client. Here a feed reads some rows, waits until
// the client has taken them, and sleeps until the next write.

import { once } from 'node:events';

import { filterOptions } from './filters.mjs';
import { HttpError, queryStrings } from './http.mjs';

const ROWS_AT_ONCE = 100;
const DEFAULT_TIMEOUT_MS = 60_000; // CouchDB's chttpd/changes_timeout, also the longest

const RESULTS = {
  headers: { 'Content-Type': 'application/json' },
  begin: '{"results":[\n',
  row: (row, isFirst) => `${isFirst ? '' : ',\n'}${JSON.stringify(row)}`,
  beat: '\n',
  end: (since, pending) => `\n],\n"last_seq":${since},"pending":${pending}}\n`,
};

/** The feeds, each with the texts that it writes. */
const FEEDS = {
  normal: RESULTS,
  longpoll: RESULTS,
  continuous: {
    headers: { 'Content-Type': 'application/json' },
    begin: '',
    row: (row) => `${JSON.stringify(row)}\n`,
    beat: '\n',
    end: (since, pending) => `{"last_seq":${since},"pending":${pending}}\n`,
  },
  eventsource: {
    headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' },
    begin: '',
    row: (row) => `data: ${JSON.stringify(row)}\nid: ${row.seq}\n\n`,
    beat: 'event: heartbeat\ndata: \n\n',
    end: () => '',
  },
};

/** The number of writes to each open database. */
const writes = new WeakMap();

/** Wake the sleeping feeds of a database that was written. */
export function wakeFeeds(db) {
  writes.set(db, (writes.get(db) ?? 0) + 1);
  db.emit('written');
}

/** Answer one `_changes` request of `db`; `stopping` is the signal that the server is about to end. */
export async function serveChanges(db, req, res, stopping) {
  const ending = new AbortController();
  const end = () => ending.abort();
  res.once('close', end);
  db.once('destroyed', end);
  stopping.addEventListener('abort', end);
  try {
    const [query, body] = [queryStrings(req), req.body ?? {}];
    const request = parse(query, body);
    Object.assign(request.options, await filterOptions(db, query, body));
    await new Feed(db, request, res, ending.signal).run();
  } finally {
    stopping.removeEventListener('abort', end);
    db.off('destroyed', end);
  }
}

class Feed {
  #hasBegun = false;
  #written = 0;
  #writesSeen = 0;

  /** `end` is the signal that ends the feed. */
  constructor(db, request, res, end) {
    Object.assign(this, { db, request, res, end });
    this.ended = once(end, 'abort'); // PouchDB may not end a read of a database that is deleted
    this.texts = FEEDS[request.feed];
  }

  async run() {
    this.since = this.request.since === 'now' ? (await this.db.info()).update_seq : this.request.since;
    const heartbeat = this.#startHeartbeat();
    try {
      let rows = await this.#read(); // before the head, so that a bad filter is answered with its status
      this.#begin();
      await this.#write(rows);
      while (this.#goesOn(rows) && (rows.length > 0 || (await this.#isWritten()))) {
        rows = await this.#read();
        await this.#write(rows);
      }
    } finally {
      clearInterval(heartbeat);
    }
    // a database that was deleted meanwhile ends its feeds
    const { update_seq: newest } = await this.db.info().catch(() => ({ update_seq: this.since }));
    this.res.end(this.texts.end(this.since, Math.max(0, newest - this.since)));
  }

  #begin() {
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.res.writeHead(200, this.texts.headers);
      this.res.flushHeaders();
      this.res.write(this.texts.begin);
    }
  }

  get #left() {
    return this.request.limit - this.#written;
  }

  /** The next rows; none at the end of the changes. */
  async #read() {
    this.#writesSeen = writes.get(this.db);
    const { options } = this.request;
    const limit = options.descending ? this.#left : Math.min(this.#left, ROWS_AT_ONCE);
    const reading = this.db.changes({ ...options, since: this.since, limit });
    const { results = [], last_seq = 0 } = await Promise.race([reading, this.ended]);
    this.since = Math.max(this.since, last_seq);
    return results;
  }

  async #write(rows) {
    for (const row of rows) {
      this.res.write(this.texts.row(row, this.#written === 0));
      this.#written += 1;
      if (this.res.writableNeedDrain && !this.end.aborted) {
        await once(this.res, 'drain', { signal: this.end }).catch(() => undefined);
      }
    }
  }

  #goesOn(rows) {
    const { feed, options } = this.request;
    if (this.end.aborted || this.#left <= 0 || options.descending) {
      return false;
    }
    return feed === 'normal' ? rows.length > 0 : feed !== 'longpoll' || this.#written === 0;
  }

  /** Sleep until the database is written; false at the end of the feed's time, of the feed, or of the database. */
  #isWritten() {
    const { db, end, request } = this;
    if (end.aborted || writes.get(db) !== this.#writesSeen) {
      return !end.aborted;
    }
    return new Promise((resolve) => {
      const [written, ended] = [() => wakeUp(true), () => wakeUp(false)]; // also if the database is deleted
      const timer = request.heartbeat === null ? setTimeout(ended, request.timeout) : undefined;
      const wakeUp = (isWritten) => {
        clearTimeout(timer);
        db.off('written', written);
        end.removeEventListener('abort', ended);
        resolve(isWritten);
      };
      db.on('written', written);
      end.addEventListener('abort', ended);
    });
  }

  /** Beats come from the start on: a filter that passes few rows may read for a long time. */
  #startHeartbeat() {
    const beat = () => {
      this.#begin();
      this.res.write(this.texts.beat);
    };
    return this.request.heartbeat === null ? undefined : setInterval(beat, this.request.heartbeat);
  }
}

function parse(query, body) {
  const feed = query.get('feed') ?? 'normal';
  if (!Object.hasOwn(FEEDS, feed)) {
    const names = Object.keys(FEEDS).join(', ');
    throw new HttpError(400, 'bad_request', `feed must be one of ${names}, not ${JSON.stringify(feed)}`);
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
  if (text !== null && !/^\d{1,12}$/.test(text)) {
    throw new HttpError(400, 'query_parse_error', `${name} must be a number, not ${JSON.stringify(text)}`);
  }
  return text === null ? otherwise : Number(text);
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
