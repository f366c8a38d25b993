// Multipart bodies: documents with their attachments, and forms.
//
// The parsers of express-pouchdb throw in a callback, which ends the process, and leave files behind.

import { randomUUID } from 'node:crypto';
import { gunzipSync } from 'node:zlib';

import { checkNesting } from './guards.mjs';
import { HttpError, isObject } from './http.mjs';
import { express } from './packages.mjs';

const LINE_END = '\r\n';
const MOST_PARTS = 1000;
const LARGEST_ATTACHMENT_BYTES = 64 * 1024 * 1024;

/** Middleware: read a multipart body of up to `limit` bytes into `req.parts`, each `{ headers, body }`. */
export function readMultipart(limit) {
  const read = express.raw({ limit, type: isMultipart });
  const split = (req, res, next) => {
    if (isMultipart(req)) {
      req.parts = splitParts(Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0), req.get('Content-Type'));
    }
    next();
  };
  return [read, split];
}

/**
 * Middleware: put the document of a multipart/related body, with the attachments that follow it, into `req.body`.
 *
 * https://docs.couchdb.org/en/stable/api/document/attachments.html#multiple-attachments
 */
export function joinRelated(req, res, next) {
  if (req.parts !== undefined) {
    const [first, ...others] = req.parts;
    req.body = attach(parseDocument(first.body), others);
  }
  next();
}

/**
 * The multipart/mixed body of the revisions that `open_revs` found, each `{ ok }` or `{ missing }`.
 *
 * A document with attachments is a multipart/related of its own, in which they follow it as bytes.
 */
export function mixedParts(boundary, found) {
  const parts = found.map(({ ok, missing }) => (ok === undefined ? missingPart(missing) : documentPart(ok)));
  return joinParts(boundary, parts);
}

/** A parameter of a header such as Content-Disposition, or undefined. */
export function parameter(header, name) {
  const [, quoted, plain] = new RegExp(`;\\s*${name}=(?:"([^"]*)"|([^;\\s]+))`, 'i').exec(header ?? '') ?? [];
  return quoted ?? plain;
}

function isMultipart(req) {
  return /^multipart\//i.test(req.headers['content-type'] ?? '');
}

/** RFC 2046 section 5.1.1. */
function splitParts(bytes, type) {
  const boundary = parameter(type, 'boundary') || malformed(`${type} needs a boundary`);
  const delimiter = Buffer.from(`${LINE_END}--${boundary}`);
  const text = Buffer.concat([Buffer.from(LINE_END), bytes]); // the first delimiter may have no line before it
  const parts = [];
  let start = text.indexOf(delimiter);
  while (start >= 0) {
    start += delimiter.length;
    if (text.toString('latin1', start, start + 2) === '--') {
      return parts.length > 0 ? parts : malformed('it has no part');
    }
    const end = text.indexOf(delimiter, start);
    if (parts.length === MOST_PARTS) {
      malformed(`it has more than ${MOST_PARTS} parts`);
    }
    if (end >= 0) {
      parts.push(splitPart(text.subarray(start, end)));
    }
    start = end;
  }
  return malformed(`it does not end with --${boundary}--`);
}

function splitPart(bytes) {
  const end = bytes.indexOf(LINE_END + LINE_END);
  if (end < 0) {
    malformed('a part has no empty line after its headers');
  }
  const lines = bytes.toString('utf8', 0, end).split(LINE_END).slice(1);
  const headers = new Map(lines.map((line) => [line.split(':', 1)[0].toLowerCase(), line.replace(/^[^:]*:\s*/, '')]));
  return { headers, body: bytes.subarray(end + 2 * LINE_END.length) };
}

function parseDocument(bytes) {
  checkNesting(null, null, bytes);
  let doc = null;
  try {
    doc = JSON.parse(bytes);
  } catch {
    // refused below
  }
  return isObject(doc) ? doc : malformed('its first part must be a JSON object');
}

/** A part is the attachment that it names, or the next one that follows. */
function attach(doc, parts) {
  const attachments = isObject(doc._attachments) ? doc._attachments : {};
  const following = new Set(Object.keys(attachments).filter((name) => attachments[name]?.follows === true));
  const filled = parts.map(({ headers, body }) => {
    const named = parameter(headers.get('content-disposition'), 'filename');
    const name = following.has(named) ? named : following.values().next().value;
    if (!following.delete(name)) {
      malformed('it has more parts than attachments that follow');
    }
    const { follows, stub, encoding, encoded_length, ...about } = attachments[name];
    const length = encoded_length ?? about.length ?? body.length;
    if (length !== body.length) {
      malformed(`the attachment ${name} has ${body.length} bytes and not ${length}`);
    }
    const data = encoding === 'gzip' ? unzip(name, body) : body;
    return [name, { content_type: headers.get('content-type') ?? 'application/octet-stream', ...about, data }];
  });
  if (following.size > 0) {
    malformed(`the attachment ${[...following][0]} does not follow`);
  }
  return filled.length === 0 ? doc : { ...doc, _attachments: { ...attachments, ...Object.fromEntries(filled) } };
}

/** CouchDB stores attachments of text compressed, and replicates them so. */
function unzip(name, bytes) {
  try {
    return gunzipSync(bytes, { maxOutputLength: LARGEST_ATTACHMENT_BYTES });
  } catch (error) {
    return malformed(`the attachment ${name} can't be decompressed: ${error.message}`);
  }
}

function documentPart({ _attachments = {}, ...doc }) {
  const attachments = Object.entries(_attachments);
  if (attachments.length === 0) {
    return part(['Content-Type: application/json'], JSON.stringify(doc));
  }
  const followed = attachments.map(([name, { data, ...about }]) => [name, { ...about, length: data.length, follows: true }]);
  const whole = { ...doc, _attachments: Object.fromEntries(followed) };
  const parts = attachments.map(([name, { data, content_type }]) =>
    part([`Content-Disposition: attachment; filename="${inHeader(name)}"`, `Content-Type: ${inHeader(content_type)}`], data),
  );
  const boundary = randomUUID();
  const body = joinParts(boundary, [part(['Content-Type: application/json'], JSON.stringify(whole)), ...parts]);
  return part([`Content-Type: multipart/related; boundary="${boundary}"`], body);
}

/** Names and types are of clients: none ends a header, or a quoted name. The document has them as they are. */
function inHeader(text) {
  return text.replace(/["\r\n]/g, encodeURIComponent);
}

function missingPart(missing) {
  return part(['Content-Type: application/json; error="true"'], JSON.stringify({ missing }));
}

function part(headers, body) {
  return Buffer.concat([Buffer.from(headers.join(LINE_END) + LINE_END + LINE_END), Buffer.from(body)]);
}

function joinParts(boundary, parts) {
  const delimiter = `--${boundary}`;
  const lines = parts.flatMap((bytes) => [Buffer.from(delimiter + LINE_END), bytes, Buffer.from(LINE_END)]);
  return Buffer.concat([...lines, Buffer.from(`${delimiter}--`)]);
}

function malformed(reason) {
  throw new HttpError(400, 'bad_request', `the multipart body is malformed: ${reason}`);
}
