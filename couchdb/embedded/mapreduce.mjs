// Views: PouchDB's index with functions that are compiled once, and CouchDB's built-in `_first` and `_last`.
//
// PouchDB's own map and reduce make a new JavaScript context for each call, which takes a millisecond or more per row.

import { HttpError } from './http.mjs';
import { readComplete } from './levels.mjs';
import { collate, createMapReduce } from './packages.mjs';
import { compile } from './sandbox.mjs';

// https://docs.couchdb.org/en/stable/ddocs/ddocs.html#built-in-reduce-functions
const BUILT_IN = {
  _count: (keys, values) => values.length,
  _sum: (keys, values) => sum(values),
  _stats: (keys, values) => ({
    sum: sum(values),
    count: values.length,
    min: values.reduce((least, value) => Math.min(least, value)),
    max: values.reduce((most, value) => Math.max(most, value)),
    sumsqr: sum(values.map((value) => value * value)),
  }),
  _first: (keys, values) => values[extreme(keys, -1)],
  _last: (keys, values) => values[extreme(keys, 1)],
};

// the name of PouchDB's own index, so that its clean-up finds the folders
const abstract = createMapReduce('mrviews', createMapper, createReducer, checkView);

/** A plugin of PouchDB: `query` and `viewCleanup`. */
export const fastViews = { query, viewCleanup: abstract.viewCleanup };

async function query(...args) {
  return readComplete(this.name, () => abstract.query.apply(this, args));
}

function createMapper(source, emit) {
  return compile(String(source), 'map', { emit });
}

/** A function of keys (pairs of key and document id), values and rereduce. */
function createReducer(source) {
  const name = String(source).trim();
  if (Object.hasOwn(BUILT_IN, name)) {
    return BUILT_IN[name];
  }
  if (name.startsWith('_')) {
    throw new HttpError(400, 'invalid_reduce', `the embedded server has no reduce ${name}`);
  }
  return compile(name, 'reduce', {});
}

function checkView(ddoc, name) {
  if (typeof ddoc.views?.[name]?.map !== 'string') {
    throw new HttpError(404, 'not_found', `missing_named_view: ${ddoc._id} has no map function ${name}`);
  }
}

function sum(values) {
  const text = values.find((value) => typeof value !== 'number');
  if (text !== undefined) {
    throw new HttpError(500, 'builtin_reduce_error', `a built-in reduce needs numbers, not ${JSON.stringify(text)}`);
  }
  return values.reduce((total, value) => total + value, 0);
}

/** The index of the first (sign -1) or last (1) row in the order of the view: by key, then by document id. */
function extreme(keys, sign) {
  return keys.reduce((best, key, index) => (sign * collate(key, keys[best]) > 0 ? index : best), 0);
}
