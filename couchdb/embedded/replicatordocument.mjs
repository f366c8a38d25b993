// Documents of the database `_replicator`: what they ask for.
//
// https://docs.couchdb.org/en/stable/replication/replicator.html

import { createHash } from 'node:crypto';

import { parseReplication } from './replicationrequest.mjs';

const DEFAULT_TIMEOUT_MS = 30_000; // CouchDB's, of `[replicator] connection_timeout`

/** Options of CouchDB's that do nothing here; a change of one begins the replication anew all the same. */
const TUNING = [
  'checkpoint_interval',
  'http_connections',
  'retries_per_request',
  'use_bulk_get',
  'use_checkpoints',
  'worker_batch_size',
  'worker_processes',
];

/** For installValidation: a document that asks for what can't be is refused, as CouchDB does. */
export function validateReplicatorDocuments(jobs) {
  for (const { newDoc, thrown } of jobs) {
    const isExempt = newDoc._deleted || newDoc._replication_state === 'failed';
    const reason = isExempt ? undefined : whatIsWrong(newDoc);
    if (reason !== undefined) {
      thrown.push({ forbidden: reason });
    }
  }
}

/**
 * The replication that a document asks for; throws when it makes no sense.
 *
 * As of parseReplication, with an `id` like CouchDB's, `timeout` (ms) and `tuning`, which make no part of it.
 */
export function parseReplicatorDocument(doc) {
  const reason = ['source', 'target'].map((end) => wrongEnd(end, doc[end])).find((wrong) => wrong !== undefined);
  if (reason !== undefined) {
    throw new Error(reason);
  }
  const { cancel, replication_id, _local_id, doc_ids, ...body } = doc;
  const request = doc_ids == null ? body : { ...body, doc_ids };
  const { continuous, create_target, source, target, options } = parseReplication(request);
  checkFilter(options.filter);
  const users = [source, target].map(({ auth }) => auth?.username);
  const digest = createHash('md5').update(JSON.stringify([source.url, target.url, users, options])).digest('hex');
  const extension = (continuous ? '+continuous' : '') + (create_target ? '+create_target' : '');
  const tuning = TUNING.map((name) => doc[name] ?? null);
  const timeout = parseTimeout(doc);
  return { id: digest + extension, source, target, continuous, create_target, options, timeout, tuning };
}

/** The address of an end without its credentials; null when it is no address. */
export function shownAddress(end) {
  const text = typeof end === 'object' ? end?.url : end;
  if (!isAddress(text)) {
    return null;
  }
  const url = Object.assign(new URL(text), { username: '', password: '', search: '', hash: '' });
  return url.href.replace(/\/*$/, '/');
}

function whatIsWrong(doc) {
  try {
    parseReplicatorDocument(doc);
    return undefined;
  } catch (error) {
    return error.message;
  }
}

/** CouchDB's words; they don't repeat an address, for a password may stand in it. */
function wrongEnd(end, value) {
  if (value === undefined || value === null) {
    return 'Missing replicator database';
  }
  if (typeof value === 'string') {
    return /^https?:\/\//.test(value) ? wrongAddress(value) : 'local_endpoints_not_supported';
  }
  return typeof value === 'object' && !Array.isArray(value) ? wrongAddress(value.url) : `${end} must be an address`;
}

function wrongAddress(text) {
  return isAddress(text) ? undefined : 'endpoint has an invalid url';
}

function isAddress(text) {
  return typeof text === 'string' && /^https?:\/\//i.test(text) && URL.canParse(text);
}

function parseTimeout({ connection_timeout: value = DEFAULT_TIMEOUT_MS }) {
  if (!/^[1-9]\d{0,8}$/.test(String(value))) {
    throw new Error('connection_timeout must be a number of milliseconds');
  }
  return Number(value);
}

function checkFilter(filter) {
  if (filter !== undefined && !/^[^/]+\/[^/]+$/.test(filter)) {
    throw new Error('Invalid filter. Must match `ddocname/filtername`.');
  }
}
