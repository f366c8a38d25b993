// Requests that express-pouchdb or PouchDB would break on are refused before they get there.

import { HttpError, sendError } from './http.mjs';

const MULTIPART_ANSWER_MS = 10_000;

/** `_revs_diff`: an object of lists of revisions. */
export function checkRevisions(req, res, next) {
  const body = req.body ?? {};
  const wrong = Object.keys(body).find((id) => !Array.isArray(body[id]) || !body[id].every(isText));
  refuseUnless(isObject(body) && wrong === undefined, `the revisions of ${wrong} must be a list of strings`, next);
}

/** `_bulk_get`: `docs` is a list of objects with an id. */
export function checkRequestedDocs(req, res, next) {
  const docs = req.body?.docs;
  const fine = Array.isArray(docs) && docs.every((doc) => isObject(doc) && isText(doc.id));
  refuseUnless(fine, "'docs' must be a list of objects, each with an 'id'", next);
}

/** `_bulk_docs`: `docs` is a list of objects. */
export function checkDocs(req, res, next) {
  const docs = req.body?.docs;
  refuseUnless(Array.isArray(docs) && docs.every(isObject), "'docs' must be a list of JSON objects", next);
}

/** `open_revs` of a document: "all" or a JSON list of revisions. */
export function checkOpenRevs(text) {
  try {
    const revisions = text === 'all' ? [] : JSON.parse(text);
    if (Array.isArray(revisions) && revisions.every(isText)) {
      return;
    }
  } catch {
    // refused below
  }
  throw new HttpError(400, 'bad_request', `open_revs must be all or a JSON list of revisions, not ${text}`);
}

/** A multipart body that makes no sense: express-pouchdb would never answer. */
export function checkMultipart(req, res, next) {
  const type = req.get('Content-Type') ?? '';
  if (!type.startsWith('multipart/')) {
    next();
    return;
  }
  req.once('end', () => {
    const error = new HttpError(400, 'bad_request', 'the multipart body is malformed');
    const timer = setTimeout(() => res.headersSent || sendError(res, error), MULTIPART_ANSWER_MS);
    res.once('close', () => clearTimeout(timer));
  });
  refuseUnless(/;\s*boundary=/i.test(type), `${type} needs a boundary`, next);
}

function refuseUnless(fine, sentence, next) {
  next(fine ? undefined : new HttpError(400, 'bad_request', sentence));
}

function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function isText(value) {
  return typeof value === 'string';
}
