// The two databases of a replication: one of this server by its name, one of another server by its address.

import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { unescape } from 'node:querystring'; // does not throw on malformed percent signs
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { checkSelector } from './guards.mjs';
import { HttpError, isObject, isText } from './http.mjs';
import { folderName, REPLICATOR } from './storage.mjs';

const DEFAULT_TIMEOUT_MS = 30_000; // CouchDB's default of `connection_timeout`
const IDLE_MS = 3_000; // for an unused connection, since routers drop such connections silently
const WITHOUT_BODY = [204, 205, 304];

const OPTIONS = {
  continuous: [(value) => typeof value === 'boolean', 'true or false'],
  create_target: [(value) => typeof value === 'boolean', 'true or false'],
  selector: [isObject, 'a JSON object'],
  doc_ids: [(value) => Array.isArray(value) && value.every(isText), 'a list of strings'],
  connection_timeout: [(value) => Number.isSafeInteger(value) && value > 0, 'a number of milliseconds'],
  filter: [() => false, 'left out: the embedded server has selector and doc_ids'],
};

/**
 * What a document of `_replicator` or the body of `_replicate` asks for.
 *
 * https://docs.couchdb.org/en/stable/json-structure.html#replication-settings
 */
export function parseReplication(body) {
  if (!isObject(body)) {
    throw new HttpError(400, 'bad_request', 'Request body must be a JSON object');
  }
  for (const [name, [fits, shape]] of Object.entries(OPTIONS)) {
    if (body[name] !== undefined && !fits(body[name])) {
      throw wrong(name, shape, body[name]);
    }
  }
  checkSelector(body.selector);
  if (body.selector !== undefined && body.doc_ids !== undefined) {
    throw new HttpError(400, 'bad_request', 'only one of selector, doc_ids may be given');
  }
  const { continuous = false, create_target: creates = false, connection_timeout: timeout = DEFAULT_TIMEOUT_MS } = body;
  const { selector, doc_ids } = body;
  const [source, target] = ['source', 'target'].map((end) => parseEnd(end, body[end]));
  return { source, target, continuous, creates, timeout, selector, doc_ids };
}

/** Both databases of a replication. `close` also ends open requests. */
export class ReplicationEnds {
  /** `server` has `Pouch`, `openDatabase` and `settings`. */
  static async open(server, request) {
    const ends = new ReplicationEnds(server, request);
    ends.source = await ends.#open(request.source, false);
    ends.target = await ends.#open(request.target, request.creates);
    /** The end on this server, if there is one. */
    ends.local = request.target.folder === undefined ? ends.source : ends.target;
    return ends;
  }

  #agents;
  #remote = [];

  constructor(server, { timeout, selector, doc_ids }) {
    const tls = tlsOptions(server.settings.trust());
    this.server = server;
    this.timeout = timeout;
    /** PouchDB's options of the replication. */
    this.options = { selector, doc_ids, heartbeat: Math.ceil(timeout / 3) };
    const options = { keepAlive: true, timeout: IDLE_MS };
    this.#agents = { 'http:': new http.Agent(options), 'https:': new https.Agent({ ...options, ...tls }) };
  }

  /** Throw an HttpError where a database of another server is missing or refuses the login. */
  async check() {
    for (const db of this.#remote) {
      const response = await db.fetch('');
      await response.text();
      if (!response.ok) {
        const name = response.status === 404 ? 'db_not_found' : 'unauthorized';
        throw new HttpError(response.status, name, `${db.name} answers with status ${response.status}`);
      }
    }
  }

  close() {
    this.#remote.forEach((db) => db.close().catch(() => undefined));
    Object.values(this.#agents).forEach((agent) => agent.destroy());
  }

  async #open({ folder, url, auth, headers }, creates) {
    if (folder !== undefined) {
      return this.server.openDatabase(folder, creates);
    }
    const checkpoint = { isThere: false };
    const fetch = (address, options) => this.#fetch(address, options, checkpoint);
    const db = new this.server.Pouch(url, { auth, headers, fetch, skip_setup: !creates });
    db.id = async () => url; // PouchDB would ask the server, and lose its checkpoint while that is away
    this.#remote.push(db);
    return db;
  }

  /** The `fetch` of PouchDB, with an error for a redirect and for a silent connection. */
  async #fetch(address, { method = 'GET', headers = [], body, signal }, checkpoint) {
    const url = new URL(address);
    const { request } = url.protocol === 'https:' ? https : http;
    const agent = this.#agents[url.protocol];
    const { timeout } = this; // while the request is open; the agent's own is for unused connections
    const call = request(url, { agent, method, headers: Object.fromEntries(headers), signal, timeout });
    call.on('error', () => undefined); // an error after the head of the answer is also one of its body
    call.on('timeout', () => call.destroy(new Error(`no data for ${timeout / 1000} s`)));
    call.end(body);
    const [answer] = await once(call, 'response').catch((error) => {
      throw Object.assign(error, { status: 502 }); // not an error of this server
    });
    if (answer.statusCode >= 300 && answer.statusCode < 400 && answer.headers.location !== undefined) {
      answer.destroy();
      const reason = `${url.origin} answers with a redirect (${answer.statusCode}), which is not followed; name the address it leads to`;
      throw new HttpError(502, 'redirected', reason);
    }
    if (url.pathname.includes('/_local/')) {
      noteCheckpoint(checkpoint, answer);
    }
    const response = new Response(await bodyOf(answer, url), { status: answer.statusCode, headers: answer.headers });
    return Object.assign(response, { buffer: async () => Buffer.from(await response.arrayBuffer()) }); // as node-fetch
  }
}

/** A body that PouchDB can read: a proxy may refuse a request without one, or in HTML. */
async function bodyOf(answer, url) {
  const { statusCode: status } = answer;
  if (status < 400) {
    return WITHOUT_BODY.includes(status) ? null : Readable.toWeb(answer);
  }
  const body = await text(answer);
  const error = String(http.STATUS_CODES[status]).toLowerCase().replaceAll(' ', '_');
  return /^\s*\{/.test(body) ? body : JSON.stringify({ error, reason: `${url.origin} answers with status ${status}` });
}

/** Fail where the checkpoint is gone: PouchDB then begins anew. Else it would write a new one and go on. */
function noteCheckpoint(checkpoint, answer) {
  const isLost = checkpoint.isThere && answer.statusCode === 404;
  checkpoint.isThere = answer.statusCode < 300;
  if (isLost) {
    answer.destroy();
    throw new HttpError(502, 'checkpoint_lost', 'the checkpoint is gone; all documents are compared again');
  }
}

function parseEnd(end, value) {
  const { url: text, headers = {}, auth } = isObject(value) ? value : { url: value };
  const shape = 'the name of a database or its http(s) address';
  if (!isText(text) || text === '') {
    throw wrong(end, shape, text);
  }
  if (!isObject(headers) || !Object.values(headers).every(isText)) {
    throw wrong(`headers of ${end}`, 'a JSON object of strings', headers);
  }
  if (text.includes('://')) {
    return { ...parseAddress(end, text, auth?.basic), headers };
  }
  const folder = folderName(text);
  if (folder === null) {
    throw wrong(end, shape, text);
  }
  refuseReplicator(end, text);
  return { folder, shown: text };
}

function parseAddress(end, text, given) {
  if (!/^https?:/i.test(text) || !URL.canParse(text)) {
    throw wrong(end, 'the name of a database or its http(s) address', undefined);
  }
  const url = new URL(text);
  const inAddress = url.username === '' ? undefined : { username: unescape(url.username), password: unescape(url.password) };
  const auth = given ?? inAddress;
  if (auth !== undefined && !(isText(auth.username) && isText(auth.password))) {
    throw wrong(`auth.basic of ${end}`, 'an object with username and password', undefined);
  }
  Object.assign(url, { username: '', password: '', search: '', hash: '' });
  refuseReplicator(end, unescape(url.pathname));
  return { url: url.href, shown: url.href, auth };
}

function refuseReplicator(end, path) {
  if (path.replace(/\/*$/, '').split('/').at(-1) === REPLICATOR) {
    throw new HttpError(403, 'forbidden', `${end} can't be ${REPLICATOR}, whose documents hold passwords`);
  }
}

/** As CouchDB, trust every certificate until the settings say otherwise. */
function tlsOptions({ verify, file }) {
  return { rejectUnauthorized: verify, ca: verify && file ? readCertificates(file) : undefined };
}

function readCertificates(file) {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new HttpError(500, 'ssl_trusted_certificates_file', `can't read ${file}: ${error.code}`);
  }
}

function wrong(name, shape, value) {
  const found = value === undefined ? '' : `, not ${JSON.stringify(value)}`;
  return new HttpError(400, 'bad_request', `${name} must be ${shape}${found}`);
}
