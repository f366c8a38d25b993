// `_view` and `_list` of design documents.
//
// https://docs.couchdb.org/en/stable/api/ddoc/views.html, https://docs.couchdb.org/en/stable/ddocs/ddocs.html#list-functions

import { HttpError, sandbox } from './http.mjs';
import { collate } from './packages.mjs';
import { checkNoStartId, checkReduce, queryOptions } from './queries.mjs';
import { compileLimited } from './sandbox.mjs';

const LONGEST_RUN_MS = 30_000; // growd kills a server that does not answer for a minute
const ROUNDING = 2e-15; // relative; PouchDB changes a number by at most 5e-16 of it

/** `_view/{view}`. */
export async function readView(req, options) {
  return queryView(req.db, req.params.ddoc, req.params.view, options);
}

/** `_list/{list}/{view}` and `_list/{list}/{other ddoc}/{view}`: the answer of a list function. */
export async function serveList(req, res) {
  const { ddoc: id, list: name, view } = req.params;
  const ddoc = await req.db.get(`_design/${id}`);
  const source = Object.hasOwn(ddoc.lists ?? {}, name) ? ddoc.lists[name] : null;
  if (typeof source !== 'string') {
    throw new HttpError(404, 'not_found', `missing list function ${name} on design doc _design/${id}`);
  }
  const rows = await queryView(req.db, req.params.other ?? id, view, queryOptions(req));
  const answer = runList(source, ddoc, rows, requestObject(req));
  res.status(answer.code);
  Object.entries(answer.headers).forEach(([header, value]) => res.setHeader(header, value));
  sandbox(res);
  res.setHeader('Content-Length', answer.body.length);
  res.end(req.method === 'HEAD' ? undefined : answer.body);
}

async function queryView(db, ddoc, view, options) {
  const isReducing = options.reduce !== false && (await hasReduce(db, ddoc, view));
  checkReduce(options, isReducing);
  const { startkey_docid: start, ...rest } = options;
  if (start === undefined || rest.startkey === undefined) {
    return db.query(`${ddoc}/${view}`, rest);
  }
  if (isReducing && rest.reduce !== false) {
    checkNoStartId(options);
  }
  const name = `${ddoc}/${view}`;
  const { from, skip } = await placeOf(db, name, rest, start);
  return db.query(name, { ...rest, startkey: from, skip: (rest.skip ?? 0) + skip });
}

async function hasReduce(db, ddoc, view) {
  const { views } = await db.get(`_design/${ddoc}`);
  return Object.hasOwn(views ?? {}, view) && Boolean(views[view]?.reduce);
}

/**
 * A start key, and how many rows to skip from there to the row of the document `start` with the key `startkey`.
 *
 * PouchDB rounds a number when it writes a key into the index and again when it reads it back, so the key of a row may
 * sort before or behind that row. The rows near it are read, and their keys compared as they are in the answers.
 */
async function placeOf(db, name, { startkey, descending, stale }, start) {
  const sign = descending ? -1 : 1;
  const from = moved(startkey, -sign);
  const near = { startkey: from, endkey: moved(startkey, sign), descending, reduce: false, stale };
  const { rows } = await db.query(name, near);
  const place = rows.findIndex(({ id, key }) => id === start && collate(key, startkey) === 0);
  const isBefore = ({ id, key }) => (sign * collate(key, startkey) || sign * collate(id, start)) < 0;
  return { from, skip: place >= 0 ? place : rows.filter(isBefore).length };
}

/** A key whose last number is a few roundings smaller (sign -1) or larger (1). */
function moved(key, sign) {
  if (Array.isArray(key)) {
    return key.length > 0 ? [...key.slice(0, -1), moved(key.at(-1), sign)] : key;
  }
  return typeof key === 'number' ? key + sign * ROUNDING * Math.abs(key) : key;
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
