// `validate_doc_update`: every write passes the functions of the database's design documents.
//
// https://docs.couchdb.org/en/stable/ddocs/ddocs.html#validate-document-update-functions

import vm from 'node:vm';

import { HttpError } from './http.mjs';

const ADMIN = { name: null, roles: ['_admin'] };
const LONGEST_RUN_MS = 5_000; // an endless loop must not take the server with it

/** Put validation before `db.bulkDocs`, through which PouchDB's put, post, remove and attachments pass as well. */
export function installValidation(db) {
  const write = db.bulkDocs.bind(db);
  let functions = null;
  db.bulkDocs = (request, options, callback) => {
    const docs = Array.isArray(request) ? request : request?.docs;
    const [settings, done] = typeof options === 'function' ? [{}, options] : [options ?? {}, callback];
    const written = (async () => {
      if (!Array.isArray(docs)) {
        return write(request, settings);
      }
      functions ??= await loadFunctions(db);
      const refused = await check(db, functions, docs);
      const results = await write({ ...request, docs: docs.filter((doc) => !refused.has(doc)) }, settings);
      if (docs.some((doc) => isDesign(doc))) {
        functions = null;
      }
      return merge(docs, refused, results);
    })();
    if (done) {
      written.then((results) => done(null, results), done);
    }
    return written;
  };
}

/** The functions of all design documents, ready to run. */
async function loadFunctions(db) {
  const { rows } = await db.allDocs({ startkey: '_design/', endkey: '_design0', include_docs: true });
  return rows
    .filter((row) => typeof row.doc.validate_doc_update === 'string')
    .map((row) => compile(row.id, row.doc.validate_doc_update));
}

function compile(design, source) {
  const context = vm.createContext({ isArray: Array.isArray, toJSON: JSON.stringify, log: console.error });
  try {
    // no trailing semicolon inside the brackets
    vm.runInContext(`validate = (${source.replace(/;\s*$/, '')})`, context);
  } catch (error) {
    return () => {
      throw new HttpError(500, 'compilation_error', `validate_doc_update of ${design}: ${error.message}`);
    };
  }
  const call = new vm.Script('validate(newDoc, oldDoc, userCtx, secObj)');
  return (newDoc, oldDoc) => {
    Object.assign(context, { newDoc, oldDoc, userCtx: ADMIN, secObj: {} });
    call.runInContext(context, { timeout: LONGEST_RUN_MS });
  };
}

/** Which of the documents are refused, each with its error. */
async function check(db, functions, docs) {
  const refused = new Map();
  const checked = functions.length === 0 ? [] : docs.filter(isChecked);
  const before = await currentDocs(db, checked);
  for (const doc of checked) {
    try {
      functions.forEach((validate) => validate(doc, before.get(doc._id) ?? null));
    } catch (error) {
      refused.set(doc, refusal(doc, error));
    }
  }
  return refused;
}

async function currentDocs(db, docs) {
  const keys = docs.map((doc) => doc._id).filter((id) => typeof id === 'string');
  const { rows } = keys.length === 0 ? { rows: [] } : await db.allDocs({ keys, include_docs: true });
  return new Map(rows.filter((row) => row.doc).map((row) => [row.id, row.doc]));
}

function refusal(doc, thrown) {
  const [status, name] =
    thrown?.forbidden !== undefined ? [403, 'forbidden'] : thrown?.unauthorized !== undefined ? [401, 'unauthorized'] : [];
  const error = new HttpError(
    status ?? thrown?.status ?? 500,
    name ?? thrown?.name ?? 'unknown_error',
    String(thrown?.[name] ?? thrown?.message ?? thrown),
  );
  return Object.assign(error, { error: true, id: doc._id });
}

/** Results in the order of the documents; with `new_edits: false` only the refusals, as CouchDB answers. */
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

function isDesign(doc) {
  return String(doc?._id).startsWith('_design/');
}
