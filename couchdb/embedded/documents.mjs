// Reads of single documents and attachments, which express-pouchdb does not answer as CouchDB does.

import { randomUUID } from 'node:crypto';

import { checkOpenRevs } from './guards.mjs';
import { HttpError, queryStrings, sandbox, sendJSON } from './http.mjs';
import { mixedParts } from './multipart.mjs';

const FLAGS = ['revs', 'revs_info', 'conflicts', 'attachments'];

/** GET and HEAD of one document, with its revision as ETag, or of the revisions in `open_revs`. */
export async function getDocument(req, res) {
  const query = queryStrings(req);
  const { id } = req.params;
  const options = Object.fromEntries(FLAGS.map((flag) => [flag, query.get(flag) === 'true']));
  const isLatest = query.get('latest') === 'true';
  if (query.has('open_revs')) {
    const wanted = checkOpenRevs(query.get('open_revs'));
    const open_revs = isLatest ? await latestOf(req.db, id, wanted) : wanted;
    await sendRevisions(req, res, { ...options, open_revs });
    return;
  }
  const given = query.get('rev');
  const rev = given !== null && isLatest ? (await latestOf(req.db, id, [given]))[0] : given;
  const doc = await req.db.get(id, { ...options, rev: rev ?? undefined });
  if (!isLatest && FLAGS.every((flag) => !options[flag])) {
    res.set('ETag', `"${doc._rev}"`); // the other forms change without a new revision
  }
  if (req.fresh) {
    res.status(304).end();
    return;
  }
  sendJSON(res, 200, doc);
}

/**
 * The leaves that descend from these revisions (`latest`), in place of those that are no leaves.
 *
 * PouchDB's own `latest` throws in a callback for an unknown revision, which ends the process.
 */
export async function latestOf(db, id, revs) {
  if (revs === 'all') {
    return revs;
  }
  const found = await db.get(id, { open_revs: 'all', revs: true });
  const latest = revs.flatMap((rev) => {
    const [position, hash] = rev.split('-');
    const after = found.filter(({ ok }) => ok?._revisions.ids[ok._revisions.start - position] === hash);
    return after.length > 0 ? after.map(({ ok }) => ok._rev) : [rev];
  });
  return [...new Set(latest)];
}

/**
 * Answer `open_revs` with a JSON list, or with multipart/mixed where the client asks for it.
 *
 * CouchDB's replicator reads design documents and documents with attachments from multipart/mixed only.
 */
async function sendRevisions(req, res, options) {
  if (!/multipart\/mixed/i.test(req.get('Accept') ?? '')) {
    sendJSON(res, 200, await req.db.get(req.params.id, options));
    return;
  }
  const found = await req.db.get(req.params.id, { ...options, attachments: true, binary: true });
  const boundary = randomUUID();
  const body = mixedParts(boundary, found);
  res.writeHead(200, { 'Content-Type': `multipart/mixed; boundary="${boundary}"`, 'Content-Length': body.length });
  res.end(req.method === 'HEAD' ? undefined : body);
}

/** GET and HEAD of an attachment: the whole, or the one range asked for. */
export async function getAttachment(req, res) {
  const { id, attachment } = req.params;
  const doc = await req.db.get(id, revision(req));
  const stub = Object.hasOwn(doc._attachments ?? {}, attachment) ? doc._attachments[attachment] : null;
  if (stub === null) {
    throw new HttpError(404, 'not_found', 'Document is missing attachment');
  }
  res.set({ ETag: JSON.stringify(stub.digest.slice('md5-'.length)), 'Accept-Ranges': 'bytes' });
  res.setHeader('Content-Type', stub.content_type);
  sandbox(res);
  if (req.fresh) {
    res.status(304).end();
    return;
  }
  sendRange(req, res, await req.db.getAttachment(id, attachment, revision(req)));
}

function sendRange(req, res, bytes) {
  const ranges = req.range(bytes.length); // undefined: none; -1: beyond the end; -2: not a range
  if (ranges === -1) {
    res.set('Content-Range', `bytes */${bytes.length}`);
    throw new HttpError(416, 'requested_range_not_satisfiable', 'Requested range not satisfiable');
  }
  if (!Array.isArray(ranges) || ranges.type !== 'bytes' || ranges.length !== 1) {
    res.status(200).set('Content-Length', String(bytes.length));
    res.end(req.method === 'HEAD' ? undefined : bytes);
    return;
  }
  const [{ start, end }] = ranges;
  res.status(206).set('Content-Range', `bytes ${start}-${end}/${bytes.length}`);
  res.set('Content-Length', String(end - start + 1));
  res.end(req.method === 'HEAD' ? undefined : bytes.subarray(start, end + 1));
}

function revision(req) {
  const rev = queryStrings(req).get('rev');
  return rev === null ? {} : { rev };
}
