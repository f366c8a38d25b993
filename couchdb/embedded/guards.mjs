// Checks that refuse requests on which express-pouchdb or PouchDB would fail.

import { HttpError, isObject, isText } from './http.mjs';

const [QUOTE, BACKSLASH, BRACKET, BRACE] = Buffer.from('"\\[{');
const PROTOTYPE = 'a member of a document must not be called __proto__';
// https://docs.couchdb.org/en/stable/api/document/common.html#special-fields; PouchDB has more, for internal use
const SPECIAL_MEMBERS = /^_(id|rev|attachments|deleted|revisions|revs_info|conflicts|deleted_conflicts|local_seq|replication_.*)$/;
const UNRESERVED_UNDERSCORE = /^_(?!(design|local)\/.)/s;
const DEEPEST_NESTING = 500; // PouchDB copies documents recursively
const MOST_ITEMS = 10_000; // CouchDB's `max_bulk_get_count`; the time for more grows with their square

/** Refuse JSON that is nested too deeply, before it is parsed. */
export function checkNesting(req, res, bytes) {
  let depth = 0;
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index];
    if (byte === QUOTE) {
      index = endOfString(bytes, index);
    } else if (byte === BRACE || byte === BRACKET) {
      depth += 1;
    } else if (byte === BRACE + 2 || byte === BRACKET + 2) {
      depth -= 1; // the closing ones
    }
    if (depth > DEEPEST_NESTING) {
      throw new HttpError(400, 'bad_request', `the JSON is nested deeper than ${DEEPEST_NESTING} levels`);
    }
  }
}

/** `_bulk_docs` */
export const checkDocs = bodyCheck(
  ({ docs }) => Array.isArray(docs) && docs.every(isObject),
  "'docs' must be a list of JSON objects",
);

/** Refuse more than `MOST_ITEMS` in a field of a request. */
export function checkNumber(field, number) {
  if (number > MOST_ITEMS) {
    throw new HttpError(413, 'too_large', `${field} may have at most ${MOST_ITEMS} values, not ${number}: ask several times`);
  }
}

/** `_bulk_get` */
export const checkRequestedDocs = bodyCheck(
  ({ docs }) => Array.isArray(docs) && docs.every((doc) => isObject(doc) && isText(doc.id)),
  "'docs' must be a list of objects, each with an 'id'",
);

/** `_revs_diff` and `_missing_revs` */
export const checkRevisions = bodyCheck(
  (body) => isObject(body) && Object.values(body).every((revs) => Array.isArray(revs) && revs.every(isRevision)),
  'Request body must be a JSON object with a list of revisions for each id',
);

/** A document. Without a body express has an empty object. */
export function checkDocument(req, res, next) {
  const hasBody = req.get('Transfer-Encoding') !== undefined || Number(req.get('Content-Length') ?? 0) > 0;
  if (!hasBody || !isObject(req.body)) {
    throw new HttpError(400, 'bad_request', 'Document must be a JSON object');
  }
  if (hasPrototype(req.body)) {
    throw new HttpError(400, 'doc_validation', PROTOTYPE); // PouchDB's put and post lose it before `malformation`
  }
  next();
}

/** `_index`: the name of the design document without its prefix, as PouchDB needs it. */
export function checkIndex(req, res, next) {
  const { ddoc, name } = req.body ?? {};
  if (isText(ddoc)) {
    req.body.ddoc = ddoc.replace(/^_design\//, '');
  }
  if ([req.body?.ddoc, name].some(hasSlash)) {
    throw new HttpError(400, 'bad_request', 'ddoc and name of an index must not contain a slash');
  }
  next();
}

/** `_find` and `_explain` */
export function checkQuery(req, res, next) {
  checkSelector(req.body?.selector);
  next();
}

/** Refuse a selector that could hold up the server: by its size, or by a `$regex`. */
export function checkSelector(selector) {
  checkNumber('selector', sizeOf(selector));
  const slow = slowExpression(selector);
  if (slow !== undefined) {
    const rule = 'a regular expression of JavaScript without look-around, back references and counts above 16';
    throw new HttpError(400, 'bad_request', `$regex must be ${rule}, not ${JSON.stringify(slow)}`);
  }
}

/** The first `$regex` of a selector that can't run in linear time, or undefined. */
export function slowExpression(selector) {
  if (selector === null || typeof selector !== 'object') {
    return undefined;
  }
  if (Object.hasOwn(selector, '$regex') && !isLinear(selector.$regex)) {
    return selector.$regex;
  }
  return Object.values(selector).map(slowExpression).find((slow) => slow !== undefined);
}

/** The number of values in JSON, at all levels. */
function sizeOf(value) {
  const inner = value !== null && typeof value === 'object' ? Object.values(value) : [];
  return inner.reduce((sum, each) => sum + sizeOf(each), 1);
}

/** Whether PouchDB, which splits paths at slashes, would not find an index with this name. */
export function hasSlash(name) {
  return isText(name) && name.includes('/');
}

/** Whether it is a revision of a document: a number and a digest. */
export function isRevision(value) {
  return isText(value) && /^\d+-./.test(value);
}

/** The fault of a document that PouchDB would store wrongly or crash on, or undefined. */
export function malformation(doc) {
  if (hasPrototype(doc)) {
    return PROTOTYPE;
  }
  const unknown = Object.keys(doc).find((name) => name.startsWith('_') && !SPECIAL_MEMBERS.test(name));
  if (unknown !== undefined) {
    return `Bad special document member: ${unknown}`;
  }
  if (UNRESERVED_UNDERSCORE.test(doc._id) && !doc._deleted) {
    return 'Only reserved document ids may start with underscore.';
  }
  if (String(doc._id).startsWith('_local/')) {
    return Object.hasOwn(doc, 'error') ? 'a local document must not have a member called error' : undefined;
  }
  const { _rev: rev, _revisions: revisions, _attachments: attachments = {} } = doc;
  if (isRevision(rev) && !isHistory({ start: Number.parseInt(rev, 10), ids: [rev.slice(rev.indexOf('-') + 1)] })) {
    return 'Invalid rev format';
  }
  if (revisions !== undefined && !isHistory(revisions)) {
    return '_revisions must have a list of ids, and in start the number of the first';
  }
  if (!isObject(attachments)) {
    return '_attachments must be an object';
  }
  const wrong = Object.keys(attachments).find((name) => !isAttachment(attachments[name]));
  return wrong === undefined ? undefined : `the attachment ${wrong} must be a stub or have base64 text as data`;
}

function isHistory(value) {
  const { start, ids } = isObject(value) ? value : {};
  const isCounted = Number.isSafeInteger(start) && Array.isArray(ids) && ids.length > 0 && ids.length <= start;
  return isCounted && ids.every(isDigest);
}

/** PouchDB copies a member `__proto__` by assignment, which changes the prototype of the copy. */
function hasPrototype(value) {
  if (value === null || typeof value !== 'object' || Buffer.isBuffer(value)) {
    return false;
  }
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(hasPrototype);
}

/** V8's flag `l` accepts only what its linear engine can run. */
function isLinear(pattern) {
  try {
    return isText(pattern) && new RegExp(pattern, 'l') instanceof RegExp;
  } catch {
    return false;
  }
}

function isAttachment(value) {
  return isObject(value) && (value.stub === true || isText(value.data) || Buffer.isBuffer(value.data));
}

/** The value of `open_revs`: "all" or a list of revisions. */
export function checkOpenRevs(text) {
  try {
    const revisions = text === 'all' ? text : JSON.parse(text);
    if (revisions === 'all' || (Array.isArray(revisions) && revisions.every(isText))) {
      return revisions;
    }
  } catch {
    // refused below
  }
  throw new HttpError(400, 'bad_request', `open_revs must be all or a JSON list of revisions, not ${text}`);
}

/** The end of the string whose quote is at `start`. Most bytes of a large body are in strings. */
function endOfString(bytes, start) {
  let end = start;
  do {
    end = bytes.indexOf(QUOTE, end + 1);
  } while (end > 0 && isEscaped(bytes, end));
  return end < 0 ? bytes.length : end;
}

function isEscaped(bytes, quote) {
  let first = quote;
  while (bytes[first - 1] === BACKSLASH) {
    first -= 1;
  }
  return (quote - first) % 2 === 1;
}

/** Middleware that refuses a body that does not fit. */
function bodyCheck(fits, reason) {
  return (req, res, next) => {
    if (!fits(req.body ?? {})) {
      throw new HttpError(400, 'bad_request', reason);
    }
    next();
  };
}

/** PouchDB finds no revision whose digest is empty or has a hyphen. */
function isDigest(value) {
  return isText(value) && /^[^-]+$/.test(value);
}
