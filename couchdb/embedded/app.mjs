// The HTTP application: express-pouchdb, with what it does badly answered before it is asked.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import express from 'express';
import expressPouchDB from 'express-pouchdb';

import { serveChanges } from './changes.mjs';
import { getAttachment, getDocument } from './documents.mjs';
import { checkDocs, checkDocument, checkMultipart, checkNesting, checkRequestedDocs, checkRevisions } from './guards.mjs';
import { HttpError, outsideAddress, sendError, sendJSON } from './http.mjs';
import { databaseFolders, folderName } from './storage.mjs';
import { installValidation } from './validation.mjs';
import { serveList, serveView } from './views.mjs';
import { copyDocument, deleteAttachment, deleteDocument, putAttachment, putDocument } from './writes.mjs';

const { setDBOnReq } = createRequire(import.meta.url)('express-pouchdb/lib/utils');
const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url)));

const PARTS = [
  'config-infrastructure', // in memory; asked for by routes/uuids
  'routes/404',
  'routes/active-tasks',
  'routes/all-docs',
  'routes/attachments',
  'routes/bulk-docs',
  'routes/bulk-get',
  'routes/compact',
  'routes/db',
  'routes/ddoc-info',
  'routes/documents',
  'routes/find',
  'routes/revs-diff',
  'routes/session-stub',
  'routes/uuids',
  'routes/view-cleanup',
];

/** Server-wide paths that express-pouchdb answers; any other that begins with an underscore is not there. */
const SERVER_PATHS = ['_active_tasks', '_session', '_uuids'];

// after the database's name; an id or a name that begins with an underscore means something else
const DOCUMENT = /^\/(?<db>[^/]+)\/(?<id>_design\/[^/]+|_local\/[^/]+|[^_/][^/]*)\/?$/;
const ATTACHMENT = /^\/(?<db>[^/]+)\/(?<id>[^_/][^/]*|_design\/[^/]+(?=\/[^_]))\/(?<attachment>.+)$/;

const ENCODED_SLASH = /^\/_(?<kind>design|local)%2f/i; // CouchDB takes these ids in both forms

const LARGEST_BODY_BYTES = 64 * 1024 * 1024; // `_bulk_docs` of 50 MB has to pass

/**
 * The application over the databases in `folder`, calling itself the server `uuid`.
 *
 * `stopping` is an AbortSignal: it ends the feeds, which would else go on for ever.
 */
export async function createApp(Pouch, folder, uuid, stopping) {
  const pouchApp = await createPouchApp(Pouch);
  const app = express();
  app.enable('case sensitive routing');
  app.disable('x-powered-by');
  app.disable('etag'); // a sum of the body is not CouchDB's ETag
  app.use(prepare);
  app.get('/', (req, res) => sendJSON(res, 200, welcome(uuid)));
  app.get('/_up', (req, res) => sendJSON(res, 200, { status: 'ok', seeds: {} }));
  app.get('/_all_dbs', async (req, res) => sendJSON(res, 200, await databases(folder)));
  app.use((req, res, next) => nameDatabase(folder, req, res, next).catch(next));
  addOwnRoutes(app, Pouch, pouchApp.dbWrapper, stopping);
  app.use(pouchApp);
  // express knows an error handler by its four parameters
  app.use((error, req, res, next) => sendError(res, error));
  return app;
}

/** What express-pouchdb has no answer for, or a wrong one. */
function addOwnRoutes(app, Pouch, dbWrapper, stopping) {
  const open = (req, res, next) => {
    req.PouchDB = Pouch;
    setDBOnReq(req.params.db, dbWrapper, req, res, next);
  };
  const body = express.json({ limit: LARGEST_BODY_BYTES, type: isJSON, verify: checkNesting });
  app.use(checkMultipart);
  app.post('*', body);
  const readable = (path, handler) => app.get(path, open, handler).post(path, open, handler);
  readable('/:db/_changes', (req, res) => serveChanges(req.db, req, res, stopping));
  readable('/:db/_design/:ddoc/_view/:view', serveView);
  readable(['/:db/_design/:ddoc/_list/:list/:view', '/:db/_design/:ddoc/_list/:list/:other/:view'], serveList);
  app.post('/:db/_bulk_docs', checkDocs);
  app.post('/:db/_bulk_get', checkRequestedDocs);
  app.post('/:db/_revs_diff', checkRevisions);
  app.post('/:db', checkDocument);
  app.get(DOCUMENT, open, getDocument);
  app.put(DOCUMENT, body, checkDocument, open, putDocument);
  app.delete(DOCUMENT, open, deleteDocument);
  app.copy(DOCUMENT, open, copyDocument);
  app.get(ATTACHMENT, open, getAttachment);
  app.put(ATTACHMENT, express.raw({ limit: LARGEST_BODY_BYTES, type: () => true }), open, putAttachment);
  app.delete(ATTACHMENT, open, deleteAttachment);
}

/** Bodies are JSON whatever they are called, as CouchDB has it: `curl -d` calls them a form. */
function isJSON(req) {
  return !(req.headers['content-type'] ?? '').startsWith('multipart/');
}

async function createPouchApp(Pouch) {
  const pouchApp = expressPouchDB({ mode: 'custom', inMemoryConfig: true, overrideMode: { include: PARTS } });
  pouchApp.couchConfig.registerDefault('couchdb', 'max_document_size', LARGEST_BODY_BYTES);
  pouchApp.disable('etag');
  pouchApp.disable('x-powered-by');
  pouchApp.dbWrapper.registerWrapper((name, db, next) => {
    db.setMaxListeners(0); // one for each request under way
    db.on('error', (error) => console.error(`a map function of ${name} failed: ${error?.message ?? error}`));
    installValidation(db);
    return next();
  });
  await pouchApp.setPouchDB(Pouch);
  return pouchApp;
}

function welcome(uuid) {
  // no version of CouchDB's: a client that looks for 3.x must not find its features here
  return { couchdb: 'Welcome', version, uuid, features: [], vendor: { name: 'growd embedded', version } };
}

async function databases(folder) {
  return (await databaseFolders(folder)).map(decodeURIComponent).sort();
}

/** What holds for every answer. */
function prepare(req, res, next) {
  res.set('Cache-Control', 'must-revalidate');
  // express-pouchdb names the address that it listens on
  res.location = (inside) => res.set('Location', outsideAddress(req) + locationPath(req, inside));
  if (req.accepts('json')) {
    req.headers.accept = 'application/json'; // express-pouchdb takes any other for a wish for plain text
  }
  const bytes = Number(req.get('Content-Length') ?? 0);
  next(bytes > LARGEST_BODY_BYTES ? new HttpError(413, 'too_large', `the body is over ${LARGEST_BODY_BYTES} bytes`) : undefined);
}

function locationPath(req, inside) {
  const path = req.originalUrl.split('?')[0].replace(/\/$/, '');
  const id = new RegExp('^https?://[^/]*/[^/]*/(.*)$').exec(inside)?.[1];
  return req.method === 'POST' && id !== undefined ? `${path}/${encodeURIComponent(id)}` : path;
}

/**
 * Put the folder's name in the place of the database's, and refuse names that are none.
 *
 * express-pouchdb drops the slashes of a decoded name, so it gets one that is encoded once more.
 */
async function nameDatabase(dataFolder, req, res, next) {
  const [, segment, rest] = /^\/([^/?]*)(.*)$/s.exec(req.url);
  if (SERVER_PATHS.includes(segment)) {
    next();
    return;
  }
  const folder = checkedFolder(segment);
  const creates = req.method === 'PUT' && /^\/?(\?|$)/.test(rest);
  if (!creates && !(await databaseFolders(dataFolder)).includes(folder)) {
    throw new HttpError(404, 'not_found', 'Database does not exist.');
  }
  req.database = folder;
  req.url = `/${encodeURIComponent(folder)}${rest.replace(ENCODED_SLASH, '/_$<kind>/')}`;
  next();
}

function checkedFolder(segment) {
  let name = segment;
  try {
    name = decodeURIComponent(segment);
  } catch {
    // stays as it came, and is refused for its percent sign
  }
  if (name.startsWith('_')) {
    throw new HttpError(404, 'not_found', `the embedded server has no ${name}`);
  }
  const folder = folderName(name);
  if (folder === null) {
    const rule = 'lowercase letters, digits and _$()+-/ are allowed, and it must begin with a letter';
    throw new HttpError(400, 'illegal_database_name', `Name: '${name}': ${rule}.`);
  }
  return folder;
}
