// How many changes of the source a replication has not brought over yet.

import { createHash } from 'node:crypto';

const PAGE = 100;

/** Counts for one replication; what was counted is not read again until the replication went on. */
export class Pending {
  #since = undefined;
  #upTo = undefined;
  #counted = 0;

  /** The changes of `source`, a database over HTTP, after `since` that pass the replication's filter. */
  async count(source, since, options) {
    if (since !== this.#since) {
      [this.#since, this.#upTo, this.#counted] = [since, since, 0];
    }
    const { results, last_seq, pending } = await readChanges(source, this.#upTo, options);
    if (results.length === PAGE) {
      return this.#counted + PAGE + (pending ?? 0); // those beyond the page pass for all that there are
    }
    this.#upTo = last_seq;
    this.#counted += results.length;
    return this.#counted;
  }
}

/** How far the replication came in an earlier life, by the checkpoint in its source. */
export async function readCheckpoint(source, { source: { url }, target, options }) {
  const response = await source.fetch(checkpointId(url, target.url, options));
  const { last_seq } = await response.json();
  return response.ok ? (last_seq ?? 0) : refuseUnlessMissing(response.status);
}

function refuseUnlessMissing(status) {
  if (status !== 404) {
    throw new Error(`status ${status}`);
  }
  return 0;
}

/** The id of PouchDB's checkpoint; pouchdb-generate-replication-id is inside pouchdb-node and can't be called. */
function checkpointId(source, target, { filter = '', query_params, doc_ids = [], selector }) {
  const names = Object.keys(query_params ?? {}).sort();
  const sorted = Object.fromEntries(names.map((name) => [name, query_params[name]]));
  const parts = [
    source,
    target,
    filter,
    filter && query_params ? JSON.stringify(sorted) : '',
    [...doc_ids].sort(),
    selector ? JSON.stringify(selector) : '',
  ];
  const digest = createHash('md5').update(parts.join(''), 'binary').digest('base64');
  return `_local/${digest.replaceAll('/', '.').replaceAll('+', '_')}`;
}

async function readChanges(source, since, { filter, query_params, doc_ids, selector }) {
  const body = doc_ids ? { doc_ids } : selector && { selector };
  const chosen = body ? (doc_ids ? '_doc_ids' : '_selector') : filter;
  const query = new URLSearchParams({ ...query_params, ...(chosen && { filter: chosen }), since, limit: PAGE });
  const response = await source.fetch(`_changes?${query}`, body ? post(body) : {});
  if (!response.ok) {
    throw new Error(`status ${response.status}`);
  }
  return response.json();
}

function post(body) {
  return { method: 'POST', body: JSON.stringify(body), headers: new Headers({ 'Content-Type': 'application/json' }) };
}
