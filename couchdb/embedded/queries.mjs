// The parameters of views and `_all_docs`, from the query string and the JSON body.
//
// https://docs.couchdb.org/en/stable/api/ddoc/views.html#get--db-_design-ddoc-_view-view

import { checkNumber } from './guards.mjs';
import { HttpError, isObject, queryStrings, sendJSON } from './http.mjs';

const KEYS = new Map([
  ['key', 'key'],
  ['startkey', 'startkey'],
  ['start_key', 'startkey'],
  ['endkey', 'endkey'],
  ['end_key', 'endkey'],
]);
const NUMBERS = ['limit', 'skip', 'group_level'];
const FLAGS = ['reduce', 'group', 'descending', 'include_docs', 'inclusive_end', 'conflicts', 'attachments', 'update_seq'];
// CouchDB 2's `update`, as its older `stale`
const STALE = {
  stale: { ok: 'ok', update_after: 'update_after' },
  update: { true: undefined, lazy: 'update_after', false: 'ok' },
};
const [MOST_QUERIES, MOST_ROWS, AT_ONCE] = [1000, 100_000, 8]; // of several queries in one request
const START_IDS = ['startkey_docid', 'start_key_doc_id'];
const END_IDS = ['endkey_docid', 'end_key_doc_id'];

/**
 * The handlers of one query and of `{"queries": [...]}`.
 *
 * `run` gets the request and PouchDB's options, and returns the answer.
 */
export function queryHandlers(run) {
  return {
    one: async (req, res) => sendJSON(res, 200, await run(req, queryOptions(req))),
    many: async (req, res) => sendJSON(res, 200, await runQueries(req, run)),
  };
}

/** PouchDB's options of a request. The query string overrides the body. */
export function queryOptions(req) {
  return { ...bodyOptions(req.body ?? {}), ...textOptions(req) };
}

/** Refuse grouping and reducing of a view without a reduce function. */
export function checkReduce(options, isReducing) {
  if (options.reduce === true && !isReducing) {
    throw parseError('Reduce is invalid for map-only views.');
  }
  const isMap = !isReducing || options.reduce === false;
  if (isMap && (options.group === true || options.group_level > 0)) {
    throw parseError('Invalid use of grouping on a map view.');
  }
}

/** Refuse to start at a document id, which only unreduced rows of a view can. */
export function checkNoStartId({ startkey_docid: start }) {
  if (start !== undefined) {
    throw new HttpError(501, 'not_implemented', 'the embedded server has startkey_docid only for rows of a view');
  }
}

async function runQueries(req, run) {
  const { queries } = req.body ?? {};
  if (!Array.isArray(queries)) {
    throw new HttpError(400, 'bad_request', `'queries' must be a JSON array, not ${JSON.stringify(queries)}`);
  }
  if (queries.length > MOST_QUERIES) {
    throw new HttpError(400, 'bad_request', `'queries' may have at most ${MOST_QUERIES} queries, not ${queries.length}`);
  }
  const common = textOptions(req);
  const all = queries.map((query) => ({ ...common, ...bodyOptions(query) }));
  checkNumber('keys of all queries', all.reduce((sum, { keys = [] }) => sum + keys.length, 0));
  const results = await Promise.all(all.slice(0, 1).map((options) => run(req, options)));
  let rows = 0;
  const worker = async () => {
    while (results.length < all.length && !req.socket.destroyed) {
      const place = results.push(undefined) - 1;
      results[place] = await run(req, { stale: 'ok', ...all[place] }); // the first has updated the index
      rows += results[place].rows.length;
      if (rows > MOST_ROWS) {
        all.length = 0; // the other workers end
        throw new HttpError(400, 'bad_request', `the queries have over ${MOST_ROWS} rows together: ask for fewer`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return { results };
}

function textOptions(req) {
  const parse = (name, text) => (KEYS.has(name) || name === 'keys' ? parseJSON(name, text) : unquoted(name, text));
  return toOptions([...queryStrings(req)].map(([name, text]) => [name, parse(name, text)]));
}

function bodyOptions(body) {
  if (!isObject(body)) {
    throw new HttpError(400, 'bad_request', `a query must be a JSON object, not ${JSON.stringify(body)}`);
  }
  return toOptions(Object.entries(body));
}

function toOptions(parameters) {
  const options = {};
  for (const [name, value] of parameters) {
    if (KEYS.has(name)) {
      options[KEYS.get(name)] = value;
    } else if (name === 'keys') {
      options.keys = checkList(name, value);
    } else if (NUMBERS.includes(name)) {
      options[name] = checkWhole(name, value);
    } else if (FLAGS.includes(name)) {
      options[name] = checkFlag(name, value);
    } else if (Object.hasOwn(STALE, name)) {
      options.stale = checkWord(name, value);
    } else if (START_IDS.includes(name)) {
      options.startkey_docid = String(value);
    } else if (END_IDS.includes(name)) {
      throw new HttpError(501, 'not_implemented', `the embedded server has no ${name}`);
    }
  }
  return options;
}

function parseJSON(name, text) {
  try {
    return JSON.parse(text);
  } catch {
    throw parseError(`${name} must be JSON, not ${text}`);
  }
}

/** The text, or the number where the parameter is one; checked later. */
function unquoted(name, text) {
  return NUMBERS.includes(name) && /^\d{1,12}$/.test(text) ? Number(text) : text;
}

function checkList(name, value) {
  if (!Array.isArray(value)) {
    throw parseError(`${name} must be a JSON array, not ${JSON.stringify(value)}`);
  }
  checkNumber(name, value.length);
  return value;
}

function checkWhole(name, value) {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw parseError(`${name} must be a whole number, not ${JSON.stringify(value)}`);
  }
  return value;
}

function checkFlag(name, value) {
  const text = String(value).toLowerCase();
  if (!['true', 'false'].includes(text)) {
    throw parseError(`${name} must be true or false, not ${JSON.stringify(value)}`);
  }
  return text === 'true';
}

function checkWord(name, value) {
  if (!Object.hasOwn(STALE[name], String(value))) {
    throw parseError(`${name} must be ${Object.keys(STALE[name]).join(' or ')}, not ${JSON.stringify(value)}`);
  }
  return STALE[name][String(value)];
}

function parseError(sentence) {
  return new HttpError(400, 'query_parse_error', sentence);
}
