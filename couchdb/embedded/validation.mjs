// Checks of every write: malformed documents, design documents of clients, and `validate_doc_update` functions.
//
// https://docs.couchdb.org/en/stable/ddocs/ddocs.html#validate-document-update-functions

import { wakeFeeds } from './changes.mjs';
import { isDesign, OWNER, reasonAgainst } from './designs.mjs';
import { malformation } from './guards.mjs';
import { CONFLICT, HttpError } from './http.mjs';
import { compile, compileLimited } from './sandbox.mjs';

const ADMIN = { name: null, roles: ['_admin'] };
const REFUSALS = { forbidden: 403, unauthorized: 401 };
const MALFORMED = ['doc_validation', 'badarg', 'TypeError']; // PouchDB has status 500 for these

/**
 * Check all writes in `db.bulkDocs`, which PouchDB's put, post, remove and attachments use too.
 *
 * A validation may take `limit` milliseconds. Without `clientDesigns` only the owner writes design documents.
 */
export function installValidation(db, { limit, clientDesigns }) {
  const write = db.bulkDocs.bind(db);
  let functions = null;
  db.bulkDocs = (request, options, callback) => {
    const docs = Array.isArray(request) ? request : request?.docs;
    const [settings, done] = typeof options === 'function' ? [{}, options] : [options ?? {}, callback];
    const written = (async () => {
      if (!Array.isArray(docs)) {
        return write(request, settings);
      }
      functions ??= await loadFunctions(db, limit);
      const refused = refuseMalformed(docs);
      const sound = docs.filter((doc) => !refused.has(doc));
      await check(db, functions, sound, refused);
      if (!clientDesigns && settings.by !== OWNER) {
        await refuseDesigns(db, sound, refused);
      }
      const accepted = { ...request, docs: docs.filter((doc) => !refused.has(doc)) };
      const results = await write(accepted, settings).catch((error) => {
        throw Object.assign(error, { status: MALFORMED.includes(error.name) ? 400 : error.status });
      });
      if (docs.some((doc) => isDesign(doc))) {
        functions = null;
      }
      wakeFeeds(db);
      results.filter((result) => result.name === 'conflict').forEach((result) => (result.message = CONFLICT));
      return merge(docs, refused, results);
    })();
    if (done) {
      written.then((results) => done(null, results), done);
    }
    return written;
  };
}

/** The validation functions of all design documents. Each checks many documents in one call. */
async function loadFunctions(db, limit) {
  const { rows } = await db.allDocs({ startkey: '_design/', endkey: '_design0', include_docs: true });
  return rows
    .filter((row) => typeof row.doc.validate_doc_update === 'string')
    .map((row) => loadFunction(row.doc.validate_doc_update, limit));
}

function loadFunction(source, limit) {
  try {
    compile(source, 'validate_doc_update');
  } catch (error) {
    return (jobs) => jobs.forEach((job) => job.thrown.push(error));
  }
  const loop = `function (jobs) {
    var validate = (${source.replace(/;\s*$/, '')});
    jobs.forEach(function (job) {
      try {
        validate(job.newDoc, job.oldDoc, job.userCtx, {});
      } catch (thrown) {
        job.thrown.push(thrown);
      }
    });
  }`;
  return compileLimited(loop, 'validate_doc_update', {}, limit);
}

/** The malformed documents, each with its error. */
function refuseMalformed(docs) {
  const errors = docs.map((doc) => [doc, malformation(doc)]).filter(([, reason]) => reason !== undefined);
  return new Map(errors.map(([doc, reason]) => [doc, refusal(doc, new HttpError(400, 'doc_validation', reason))]));
}

/** Add the documents that the functions refuse to `refused`, each with its error. */
async function check(db, functions, docs, refused) {
  const checked = functions.length === 0 ? [] : docs.filter(isChecked);
  const before = await currentDocs(db, checked);
  const jobs = checked.map((doc) => ({
    newDoc: doc,
    oldDoc: before.get(doc._id) ?? null,
    userCtx: ADMIN,
    thrown: [],
  }));
  functions.forEach((validateAll) => validateAll(jobs));
  const failed = jobs.filter((job) => job.thrown.length > 0);
  failed.forEach((job) => refused.set(job.newDoc, refusal(job.newDoc, job.thrown[0])));
}

async function refuseDesigns(db, docs, refused) {
  const designs = docs.filter(isDesign);
  const before = await currentDocs(db, designs);
  for (const doc of designs) {
    const forbidden = reasonAgainst(doc, before.get(doc._id) ?? null);
    if (forbidden !== undefined) {
      refused.set(doc, refusal(doc, { forbidden }));
    }
  }
}

async function currentDocs(db, docs) {
  const keys = docs.map((doc) => doc._id).filter((id) => typeof id === 'string');
  const { rows } = keys.length === 0 ? { rows: [] } : await db.allDocs({ keys, include_docs: true });
  return new Map(rows.filter((row) => row.doc).map((row) => [row.id, row.doc]));
}

function refusal(doc, thrown) {
  const name = Object.keys(REFUSALS).find((word) => thrown?.[word] !== undefined);
  const error =
    name === undefined
      ? new HttpError(thrown?.status ?? 500, thrown?.name ?? 'unknown_error', String(thrown?.message ?? thrown))
      : new HttpError(REFUSALS[name], name, String(thrown[name]));
  return Object.assign(error, { error: true, id: doc._id });
}

/** The results in the order of the documents. With `new_edits: false` only the refusals, as in CouchDB. */
function merge(docs, refused, results) {
  if (results.length !== docs.length - refused.size) {
    return [...results, ...refused.values()];
  }
  const written = results[Symbol.iterator]();
  return docs.map((doc) => refused.get(doc) ?? written.next().value);
}

function isChecked(doc) {
  return doc !== null && typeof doc === 'object' && !isDesign(doc) && !String(doc._id).startsWith('_local/');
}
