// Writes of single documents and attachments, each based on the revision in the request.
//
// https://docs.couchdb.org/en/stable/api/document/common.html
// https://docs.couchdb.org/en/stable/api/document/attachments.html

import { OWNER } from './designs.mjs';
import { isRevision } from './guards.mjs';
import { CONFLICT, HttpError, outsideAddress, queryStrings, sendJSON } from './http.mjs';
import { parameter } from './multipart.mjs';

/** PUT of a document. */
export async function putDocument(req, res) {
  await answer(req, res, 201, () => {
    const rev = namedRevision(req, req.body._rev);
    const doc = { ...req.body, _id: req.params.id, ...(rev === undefined ? {} : { _rev: rev }) };
    return queryStrings(req).get('new_edits') === 'false'
      ? putReplicated(req.db, doc)
      : req.db.put(doc, { by: req.isOwner ? OWNER : null });
  });
}

/** DELETE of a document. */
export async function deleteDocument(req, res) {
  await answer(req, res, 200, async () => {
    const rev = namedRevision(req);
    const { _id, _rev } = await req.db.get(req.params.id); // or 404
    if (_id.startsWith('_local/')) {
      return req.db.remove(_id, _rev); // CouchDB does not need their revision
    }
    if (rev === undefined) {
      throw conflict(); // PouchDB would delete the newest
    }
    return req.db.remove(_id, rev);
  });
}

/** COPY to the id, and onto the revision, in `Destination`. The request's own revision is the source's. */
export async function copyDocument(req, res) {
  await answer(req, res, 201, async () => {
    const { id, rev } = destination(req);
    const source = namedRevision(req);
    const options = source === undefined ? {} : { rev: source };
    const { _id, _rev, ...content } = await req.db.get(req.params.id, { ...options, attachments: true });
    const written = await req.db.put({ ...content, _id: id, ...(rev === undefined ? {} : { _rev: rev }) });
    res.set('Location', `${outsideAddress(req)}/${req.database}/${encodeURIComponent(id)}`);
    return written;
  });
}

/** PUT of an attachment, the bytes in `req.body`. Creates the document if it is missing. */
export async function putAttachment(req, res) {
  const { id, attachment } = req.params;
  await answer(req, res, 201, async () => {
    const rev = namedRevision(req);
    const doc = await documentAt(req.db, id, rev).catch((error) => {
      if (error.status === 404 && rev === undefined) {
        return { _id: id };
      }
      throw error;
    });
    const data = Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0);
    const content = { content_type: req.get('Content-Type') ?? 'application/octet-stream', data };
    return req.db.put({ ...doc, _attachments: { ...doc._attachments, [attachment]: content } });
  });
}

/** POST of a form: its files become attachments of the revision in the field `_rev`. */
export async function postForm(req, res) {
  await answer(req, res, 201, async () => {
    const parts = (req.parts ?? []).map((part) => ({ ...part, about: part.headers.get('content-disposition') }));
    const rev = parts.find(({ about }) => parameter(about, 'name') === '_rev')?.body.toString();
    checkRevision(rev);
    const doc = await documentAt(req.db, req.params.id, rev);
    const files = parts.filter(({ about }) => parameter(about, 'filename') !== undefined);
    const attachments = files.map(({ headers, body, about }) => {
      const content_type = headers.get('content-type') ?? 'application/octet-stream';
      return [parameter(about, 'filename'), { content_type, data: body }];
    });
    return req.db.put({ ...doc, _attachments: { ...doc._attachments, ...Object.fromEntries(attachments) } });
  });
}

/** DELETE of an attachment. */
export async function deleteAttachment(req, res) {
  await answer(req, res, 200, async () => {
    const doc = await documentAt(req.db, req.params.id, namedRevision(req));
    const { [req.params.attachment]: removed, ...others } = doc._attachments ?? {};
    if (removed === undefined) {
      throw new HttpError(404, 'not_found', 'Document is missing attachment');
    }
    return req.db.put({ ...doc, _attachments: others });
  });
}

/** DELETE of an index of `_find`. Its design document goes with the last one. */
export async function deleteIndex(req, res) {
  const { ddoc, type, name } = req.params;
  const doc = await req.db.get(`_design/${ddoc.replace(/^_design\//, '')}`); // or 404
  if (type !== 'json' || !Object.hasOwn(doc.views ?? {}, name)) {
    throw new HttpError(404, 'not_found', 'missing');
  }
  const { [name]: removed, ...views } = doc.views;
  await req.db.put(Object.keys(views).length === 0 ? { ...doc, _deleted: true } : { ...doc, views });
  await req.db.viewCleanup();
  sendJSON(res, 200, { ok: true });
}

async function answer(req, res, status, write) {
  const written = await write();
  res.set('ETag', `"${written.rev}"`);
  if (req.method === 'PUT') {
    res.location(''); // the address of the request
  }
  sendJSON(res, status, written);
}

/** The revision in the body, in `rev` or in `If-Match`; undefined without any. */
function namedRevision(req, inBody) {
  const header = req.get('If-Match')?.replaceAll('"', '');
  const named = [inBody, queryStrings(req).get('rev') ?? undefined, header].filter((rev) => rev !== undefined);
  named.forEach(checkRevision);
  if (new Set(named).size > 1) {
    throw new HttpError(400, 'bad_request', `the request names different revisions: ${named.join(', ')}`);
  }
  return named[0];
}

function checkRevision(rev) {
  if (!isRevision(rev)) {
    throw new HttpError(400, 'bad_request', 'Invalid rev format');
  }
}

function destination(req) {
  const [, text, rev] = /^([^?]+)(?:\?rev=(.*))?$/.exec(req.get('Destination') ?? '') ?? [];
  if (text === undefined) {
    throw new HttpError(400, 'bad_request', 'Destination header is mandatory for COPY.');
  }
  if (/^https?:\/\//.test(text)) {
    throw new HttpError(400, 'bad_request', 'Destination URL must be relative.');
  }
  if (rev !== undefined) {
    checkRevision(rev);
  }
  return { id: decodeId(text), rev };
}

/** The document to change: at `rev`, or without a revision, so that the change of an existing one is a conflict. */
async function documentAt(db, id, rev) {
  if (rev !== undefined) {
    return db.get(id, { rev }).catch((error) => {
      throw error.status === 404 ? conflict() : error;
    });
  }
  const { _rev, ...withoutRevision } = await db.get(id);
  return withoutRevision;
}

async function putReplicated(db, doc) {
  const [refused] = await db.bulkDocs([doc], { new_edits: false });
  if (refused !== undefined) {
    throw refused;
  }
  return { ok: true, id: doc._id, rev: doc._rev };
}

function conflict() {
  return new HttpError(409, 'conflict', CONFLICT);
}

function decodeId(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new HttpError(400, 'bad_request', `Destination is not percent-encoded UTF-8: ${text}`);
  }
}
