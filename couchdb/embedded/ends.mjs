// The two ends of a replication: databases reached over HTTP, this server's own ones as well.

import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { pipeline } from 'node:stream';
import { rootCertificates } from 'node:tls';

import { HttpError } from './http.mjs';

const DEFAULT_TIMEOUT_MS = 30_000;
const REDIRECTS = [301, 302, 303, 307, 308];
const IDLE_MS = 3_000; // for a connection to wait for its next use; servers end theirs after 5 s or more

/** Where systems keep the certificates that they trust; the first that is there counts, as in Erlang. */
const SYSTEM_CERTIFICATES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/pki/tls/cacert.pem',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/ssl/cert.pem',
];

/**
 * Both ends of a replication, open until `close`, which breaks off what is under way.
 *
 * A connection that is silent for longer than the replication's `timeout` ends.
 */
export class Ends {
  #ended = false;

  /** `wanted` has source and target, as parseReplication gives them; `trust` says which certificates are good. */
  constructor(Pouch, wanted, trust) {
    this.wanted = wanted;
    const { timeout = DEFAULT_TIMEOUT_MS } = wanted;
    const secure = tlsOptions([wanted.source.url, wanted.target.url], trust);
    const agents = [http, https].map(({ Agent }) => new Agent({ keepAlive: true, timeout, ...secure }));
    this.agents = Object.fromEntries(agents.map((agent) => [agent.protocol, failing(withTimeout(agent, timeout))]));
    this.feedOptions = { heartbeat: Math.ceil(timeout / 3) }; // of PouchDB; CouchDB does the same
    [this.source, this.target] = [wanted.source, wanted.target].map((end) => this.#open(Pouch, end));
  }

  /** Refuse when a database is missing or closed to us; make the target when that is wished. */
  async check() {
    await check(this.source, this.wanted.source.url, false);
    await check(this.target, this.wanted.target.url, this.wanted.create_target);
  }

  close() {
    this.#ended = true;
    Object.values(this.agents).forEach((agent) => agent.destroy());
    [this.source, this.target].forEach((db) => db.close().catch(() => undefined));
  }

  #open(Pouch, { url, headers, auth }) {
    const fetch = async (address, options) => {
      if (this.#ended) {
        throw new Error('the replication has ended');
      }
      const agent = ({ protocol }) => this.agents[protocol];
      // compressed, an answer would pass through one stream more than `failing` knows
      const response = await Pouch.fetch(address, { ...options, agent, compress: false, redirect: 'manual' });
      refuseRedirect(response, url);
      return response;
    };
    const db = new Pouch(url, { headers, auth, fetch, skip_setup: true }); // else it makes a database that is missing
    db.id = async () => url; // PouchDB would ask the server for its id, and go without when that fails
    const info = db.info.bind(db);
    db.info = () => info().catch(() => ({ update_seq: 0 })); // nobody catches what goes wrong in there
    return db;
  }
}

/** A server elsewhere may not send a replication to another address, such as this server's own `_replicator`. */
function refuseRedirect(response, url) {
  if (REDIRECTS.includes(response.status)) {
    response.body.destroy();
    const words = `${url} answers with a redirect (${response.status}), which is not followed; name the address it leads to`;
    throw new HttpError(502, 'redirected', words);
  }
}

/** An agent whose connections end when the far side is silent for too long. */
function withTimeout(agent, timeout) {
  const methods = ['createConnection', 'keepSocketAlive', 'reuseSocket'];
  const [connect, keep, reuse] = methods.map((name) => agent[name].bind(agent));
  agent.keepSocketAlive = (socket) => {
    const isKept = keep(socket);
    socket.setTimeout(Math.min(socket.timeout || IDLE_MS, IDLE_MS));
    return isKept;
  };
  agent.reuseSocket = (socket, request) => {
    reuse(socket, request);
    socket.setTimeout(timeout); // while it was idle another held
  };
  agent.createConnection = (options, callback) => {
    const socket = connect(options, callback);
    socket.setTimeout(timeout);
    return socket.on('timeout', () => socket.destroy(new Error(`nothing was heard for ${timeout / 1000} s`)));
  };
  return agent;
}

/** The same agent; whoever reads an answer learns when it breaks off: node-fetch 2 would let them wait for ever. */
function failing(agent) {
  const { addRequest } = agent;
  agent.addRequest = (request, ...others) => {
    request.once('response', (response) => {
      response.pipe = (body) => {
        delete response.pipe; // pipeline calls the usual one
        return pipeline(response, body, () => undefined); // which hands an error on to the body
      };
    });
    addRequest.call(agent, request, ...others);
  };
  return agent;
}

/** CouchDB's `[replicator]` settings: without `verify` every certificate is good, with it those of `file`. */
function tlsOptions(urls, { verify, file }) {
  if (!verify || !urls.some((url) => url.startsWith('https:'))) {
    return { rejectUnauthorized: false };
  }
  return { rejectUnauthorized: true, ca: file === undefined ? systemCertificates() : readCertificates(file) };
}

function readCertificates(file) {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new HttpError(500, 'ssl_trusted_certificates_file', `can't read ${file}: ${error.code}`);
  }
}

function systemCertificates() {
  for (const file of SYSTEM_CERTIFICATES) {
    try {
      return readFileSync(file);
    } catch {
      // the next place
    }
  }
  return [...rootCertificates];
}

async function check(db, url, creates) {
  const found = await ask(db, 'GET');
  const status = found === 404 && creates ? await ask(db, 'PUT') : found;
  if (status === 401 || status === 403) {
    throw new HttpError(status, 'unauthorized', `unauthorized to access or create database ${url}`);
  }
  const wasMadeMeanwhile = status === 412;
  if (status >= 400 && !wasMadeMeanwhile) {
    throw new HttpError(status === 404 ? 404 : 500, 'db_not_found', `could not open ${url}`);
  }
}

async function ask(db, method) {
  const response = await db.fetch('', { method });
  await response.text(); // frees the connection
  return response.status;
}
