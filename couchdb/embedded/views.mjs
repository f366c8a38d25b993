// `_view` and `_list` of design documents.
//
// https://docs.couchdb.org/en/stable/api/ddoc/views.html, https://docs.couchdb.org/en/stable/ddocs/ddocs.html#list-functions

import { HttpError, queryStrings, sendError, sendJSON } from './http.mjs';
import { compileLimited } from './sandbox.mjs';

const LONGEST_RUN_MS = 60_000;
const KEYS = { key: 'key', keys: 'keys', startkey: 'startkey', start_key: 'startkey', endkey: 'endkey', end_key: 'endkey' };
const NUMBERS = ['limit', 'skip', 'group_level'];
const FLAGS = ['reduce', 'group', 'descending', 'include_docs', 'inclusive_end', 'conflicts', 'attachments', 'update_seq'];
const STALE = { lazy: 'update_after', false: 'ok' }; // CouchDB 2's `update` in the words of its older `stale`

/** `_view/{view}`: the rows as JSON. */
export async function serveView(req, res) {
  try {
    const options = viewOptions(queryStrings(req), req.body ?? {});
    sendJSON(res, 200, await req.db.query(`${req.params.ddoc}/${req.params.view}`, options));
  } catch (error) {
    sendError(res, error);
  }
}

/** `_list/{list}/{view}` and `_list/{list}/{other ddoc}/{view}`: the rows through a list function. */
export async function serveList(req, res) {
  try {
    const { ddoc: id, list: name, view } = req.params;
    const ddoc = await req.db.get(`_design/${id}`);
    const source = Object.hasOwn(ddoc.lists ?? {}, name) ? ddoc.lists[name] : null;
    if (typeof source !== 'string') {
      throw new HttpError(404, 'not_found', `missing list function ${name} on design doc _design/${id}`);
    }
    const rows = await req.db.query(`${req.params.other ?? id}/${view}`, viewOptions(queryStrings(req), req.body ?? {}));
    const answer = runList(source, ddoc, rows, requestObject(req));
    res.status(answer.code);
    Object.entries(answer.headers).forEach(([header, value]) => res.setHeader(header, value));
    res.setHeader('Content-Length', answer.body.length);
    res.end(req.method === 'HEAD' ? undefined : answer.body);
  } catch (error) {
    sendError(res, error);
  }
}

/** PouchDB's options of a query: the body's members with the query string's over them. */
function viewOptions(query, body) {
  const options = { ...body };
  for (const [name, text] of query) {
    if (name in KEYS) {
      options[KEYS[name]] = parseJSON(name, text);
    } else if (NUMBERS.includes(name)) {
      options[name] = parseWhole(name, text);
    } else if (FLAGS.includes(name)) {
      options[name] = parseFlag(name, text);
    }
  }
  if (options.keys !== undefined && !Array.isArray(options.keys)) {
    throw new HttpError(400, 'query_parse_error', `keys must be a JSON array, not ${JSON.stringify(options.keys)}`);
  }
  const stale = query.get('stale') ?? STALE[query.get('update')];
  return stale === undefined ? options : { ...options, stale };
}

function parseJSON(name, text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new HttpError(400, 'query_parse_error', `${name} must be JSON, not ${text}`);
  }
}

function parseWhole(name, text) {
  if (!/^\d{1,12}$/.test(text)) {
    throw new HttpError(400, 'query_parse_error', `${name} must be a whole number, not ${JSON.stringify(text)}`);
  }
  return Number(text);
}

function parseFlag(name, text) {
  if (text !== 'true' && text !== 'false') {
    throw new HttpError(400, 'query_parse_error', `${name} must be true or false, not ${JSON.stringify(text)}`);
  }
  return text === 'true';
}

/** The request as a list function sees it: query values are strings. */
function requestObject(req) {
  const [path, search] = req.originalUrl.split('?', 2);
  return {
    method: req.method,
    path: path.split('/').filter(Boolean).map(decodeURIComponent),
    raw_path: req.originalUrl,
    query: Object.fromEntries(new URLSearchParams(search)),
    headers: { ...req.headers },
    peer: req.socket.remoteAddress,
    userCtx: { name: null, roles: ['_admin'] },
  };
}

function runList(source, ddoc, { rows, ...head }, request) {
  const answer = { code: 200, headers: { 'Content-Type': 'text/html; charset=utf-8' } };
  const chunks = [];
  const left = rows.values();
  const names = {
    start: (response) => startAnswer(answer, response ?? {}),
    send: (chunk) => chunks.push(String(chunk)),
    getRow: () => left.next().value ?? null,
  };
  const list = compileLimited(source, 'list', names, LONGEST_RUN_MS);
  try {
    chunks.push(String(list.call(ddoc, head, request) ?? ''));
  } catch (thrown) {
    throw listError(thrown);
  }
  return { ...answer, body: Buffer.from(chunks.join('')) };
}

function startAnswer(answer, { code, headers }) {
  answer.code = Number(code ?? answer.code);
  Object.assign(answer.headers, headers);
}

/** List functions may throw CouchDB's ["error", name, reason]. */
function listError(thrown) {
  const [, name, reason] = Array.isArray(thrown) ? thrown : [];
  return new HttpError(500, name ?? 'render_error', `the list function failed: ${reason ?? thrown?.message ?? thrown}`);
}
