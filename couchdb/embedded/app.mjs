// The HTTP application: express-pouchdb, behind handlers of our own where it differs from CouchDB.

import { readFileSync } from 'node:fs';

import { bulkGet, missingRevs, readAllDocs, readDesignDocs } from './bulk.mjs';
import { serveChanges } from './changes.mjs';
import { startCompaction } from './compaction.mjs';
import { getAttachment, getDocument } from './documents.mjs';
import { Databases } from './databases.mjs';
import { checkDocs, checkDocument, checkIndex, checkNesting, checkQuery, checkRequestedDocs, checkRevisions } from './guards.mjs';
import { HttpError, outsideAddress, sendError, sendJSON } from './http.mjs';
import { confirmCommit, showDatabase } from './instances.mjs';
import { checkOpened, readComplete } from './levels.mjs';
import { joinRelated, readMultipart } from './multipart.mjs';
import { express, expressPouchDB, getOrCreateDB } from './packages.mjs';
import { queryHandlers } from './queries.mjs';
import { Replicator } from './replicator.mjs';
import { databaseFolders, deleting, folderName, REPLICATOR } from './storage.mjs';
import { inTurn } from './turns.mjs';
import { installValidation } from './validation.mjs';
import { readView, serveList } from './views.mjs';
import { copyDocument, deleteAttachment, deleteDocument, deleteIndex, postForm, putAttachment, putDocument } from './writes.mjs';

const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url)));

const PARTS = [
  'config-infrastructure', // in memory; routes/uuids needs it
  'routes/bulk-docs',
  'routes/db',
  'routes/documents',
  'routes/find',
  'routes/revs-diff',
  'routes/session-stub',
  'routes/uuids',
  'routes/view-cleanup',
];

/** Paths of the server. Other names that begin with an underscore do not exist. */
const SERVER_PATHS = ['_active_tasks', '_node', '_replicate', '_scheduler', '_session', '_uuids'];

// an id or an attachment that begins with an underscore is another endpoint
const DOCUMENT = /^\/(?<db>[^/]+)\/(?<id>_design\/[^/]+|_local\/[^/]+|[^_/][^/]*)\/?$/;
const ATTACHMENT = /^\/(?<db>[^/]+)\/(?<id>[^_/][^/]*|_design\/[^/]+(?=\/[^_]))\/(?<attachment>.+)$/;

/** Read-only settings of each database, with PouchDB's values. */
const FIXED_SETTINGS = { _security: {}, _revs_limit: 1000 };

/** Endpoints of CouchDB that the embedded server does not have. */
const NOT_IMPLEMENTED = [
  '/:db/:endpoint(_sync_shards|_auto_purge|_search_cleanup|_nouveau_cleanup)',
  '/:db/:endpoint(_purge|_purged_infos|_local_docs|_partition|_shards)*',
  '/:db/_compact/:ddoc',
  '/:db/_design/:ddoc/:endpoint(_info|_show|_update|_search|_search_info|_nouveau|_nouveau_info)*',
];
const RESERVED_SEGMENT = /^\/(?:_|%5f)[^/?]*/i;

const LARGEST_BODY_BYTES = 64 * 1024 * 1024; // a `_bulk_docs` of 50 MB must pass
const LARGEST_SETTING_BYTES = 16 * 1024;

/**
 * The application over the databases in `folder`, as the server `uuid`.
 *
 * `functions` has the time `limit` of a validation in milliseconds, and `clientDesigns`: whether clients may write
 * design documents. `isOwner` checks a header Authorization. `stopping` is an AbortSignal that ends the feeds.
 */
export async function createApp({ Pouch, folder, uuid, settings, functions, isOwner, stopping }) {
  const pouchApp = await createPouchApp(Pouch, functions);
  const app = express();
  app.enable('case sensitive routing');
  app.disable('x-powered-by');
  app.disable('etag'); // CouchDB's ETag is the revision, not a hash of the body
  app.use(answerServerOptions);
  app.use(prepare);
  app.use((req, res, next) => {
    req.isOwner = isOwner(req.get('Authorization'));
    next();
  });
  app.get('/', (req, res) => sendJSON(res, 200, welcome(uuid)));
  app.get('/_up', (req, res) => sendJSON(res, 200, { status: 'ok', seeds: {} }));
  app.get('/favicon.ico', refuseMissing);
  app.get('/_all_dbs', async (req, res) => sendJSON(res, 200, (await databaseFolders(folder)).map(decodeURIComponent).sort()));
  const openDatabase = databaseOpener(Pouch, folder, pouchApp);
  const databases = new Databases({ Pouch, dataFolder: folder, openDatabase });
  app.use((req, res, next) => nameDatabase(databases, req, res, next).catch(next));
  const replicator = new Replicator({ Pouch, settings, stopping, openDatabase });
  replicator.start(await openDatabase(REPLICATOR, true));
  addServerRoutes(app, pouchApp);
  addReplicatorRoutes(app, replicator, settings);
  addDatabaseRoutes(app, databases, pouchApp, stopping);
  app.use(refuseMissing);
  // four parameters make it an error handler of express
  app.use((error, req, res, next) => sendError(res, error));
  return app;
}

function addServerRoutes(app, pouchApp) {
  serve(app, '/_active_tasks', { get: [(req, res) => sendJSON(res, 200, [])] });
  serve(app, '/_session', { get: [pouchApp], post: [pouchApp], delete: [pouchApp] });
  serve(app, '/_uuids', { get: [pouchApp] });
}

/** Replications and their settings. */
function addReplicatorRoutes(app, replicator, settings) {
  const text = express.text({ limit: LARGEST_SETTING_BYTES, type: () => true });
  const [list, show] = [(req, res) => replicator.list(req, res), (req, res) => replicator.show(req, res)];
  serve(app, '/_replicate', { post: [readJSON(), (req, res) => replicator.replicateOnce(req, res)] });
  serve(app, ['/_scheduler/docs', `/_scheduler/docs/${REPLICATOR}`], { get: [list] });
  serve(app, `/_scheduler/docs/${REPLICATOR}/:id`, { get: [show] });
  serve(app, '/_node/:node/_config/:section/:key', {
    get: [(req, res) => settings.get(req, res)],
    put: [text, (req, res) => settings.put(req, res)],
  });
  app.all(['/_node*', '/_scheduler*'], refuseMissing);
  app.delete(`/${REPLICATOR}`, () => {
    throw new HttpError(501, 'not_implemented', `the embedded server can't delete ${REPLICATOR}`);
  });
}

/** A function that opens the database of a folder with validation, as for a request. */
function databaseOpener(Pouch, dataFolder, pouchApp) {
  return async (folder, creates) => {
    const missing = new HttpError(404, 'db_not_found', `there is no database ${decodeURIComponent(folder)}`);
    if (!creates && !(await databaseFolders(dataFolder)).includes(folder)) {
      throw missing;
    }
    checkOpened(folder);
    const db = await getOrCreateDB(Pouch, folder);
    if (deleting.has(folder)) { // since
      throw missing;
    }
    return pouchApp.dbWrapper.wrap(folder, db);
  };
}

/** The endpoints of a database. */
function addDatabaseRoutes(app, databases, pouchApp, stopping) {
  const open = async (req, res, next) => {
    req.db = await databases.openDatabase(req.params.db, false); // it may have been deleted while the body came
    next();
  };
  addDocumentRoutes(app, open);
  app.post('*', readJSON());
  const [create, remove] = [(req, res) => databases.create(req, res), (req, res) => databases.remove(req, res)];
  serve(app, '/:db', { get: [open, showDatabase], put: [create], delete: [remove], post: [checkDocument, pouchApp] });
  const [documents, rows] = [inTurn(), inTurn()]; // apart, since an index may take minutes
  addQueryRoutes(app, open, stopping, documents, rows);
  serve(app, '/:db/_bulk_docs', { post: [checkDocs, pouchApp] });
  serve(app, '/:db/_bulk_get', { post: [checkRequestedDocs, documents, open, bulkGet] });
  serve(app, '/:db/_revs_diff', { post: [checkRevisions, pouchApp] });
  serve(app, '/:db/_missing_revs', { post: [checkRevisions, open, missingRevs] });
  serve(app, '/:db/_index', { get: [pouchApp], post: [checkIndex, pouchApp] });
  serve(app, ['/:db/_index/:ddoc/:type/:name', '/:db/_index/_design/:ddoc/:type/:name'], { delete: [open, deleteIndex] });
  for (const path of ['_find', '_explain']) {
    serve(app, `/:db/${path}`, { post: [checkQuery, rows, pouchApp] });
  }
  serve(app, '/:db/_compact', { post: [open, startCompaction] });
  serve(app, '/:db/_ensure_full_commit', { post: [open, confirmCommit] });
  serve(app, '/:db/_view_cleanup', { post: [pouchApp] });
  for (const [path, value] of Object.entries(FIXED_SETTINGS)) {
    serve(app, `/:db/${path}`, { get: [(req, res) => sendJSON(res, 200, value)], put: [refuseNotImplemented] });
  }
  app.all('/:db/_design/:ddoc/_rewrite*', refuseRewrite);
  app.all(NOT_IMPLEMENTED, refuseNotImplemented);
}

function addQueryRoutes(app, open, stopping, documents, rows) {
  const readable = (path, ...chain) => serve(app, path, { get: chain, post: chain });
  const queries = { '_all_docs': readAllDocs, '_design_docs': readDesignDocs, '_design/:ddoc/_view/:view': readView };
  for (const [path, run] of Object.entries(queries)) {
    const { one, many } = queryHandlers(run);
    const turn = run === readView ? rows : documents;
    readable(`/:db/${path}`, turn, open, one);
    serve(app, `/:db/${path}/queries`, { post: [turn, open, many] });
  }
  readable('/:db/_changes', open, (req, res) => serveChanges(req.db, req, res, stopping));
  readable(['/:db/_design/:ddoc/_list/:list/:view', '/:db/_design/:ddoc/_list/:list/:other/:view'], rows, open, serveList);
}

function addDocumentRoutes(app, open) {
  const multipart = readMultipart(LARGEST_BODY_BYTES);
  serve(app, DOCUMENT, {
    get: [open, getDocument],
    put: [multipart, joinRelated, readJSON(), checkDocument, open, putDocument],
    delete: [open, deleteDocument],
    copy: [open, copyDocument],
    post: [multipart, open, postForm],
  });
  serve(app, ATTACHMENT, {
    get: [open, getAttachment],
    put: [express.raw({ limit: LARGEST_BODY_BYTES, type: () => true }), open, putAttachment],
    delete: [open, deleteAttachment],
  });
}

/** Answer the methods of `path` by their handlers, errors of handlers with their status, other methods with 405. */
function serve(app, path, handlers) {
  const names = Object.keys(handlers).flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
  for (const [method, chain] of Object.entries(handlers)) {
    app[method](path, chain.flat().map(passErrors));
  }
  app.all(path, (req, res) => {
    res.set('Allow', names.join(', '));
    throw new HttpError(405, 'method_not_allowed', `Only ${names.join(',')} allowed`);
  });
}

/** Express 4 does not await its handlers. */
function passErrors(handler) {
  return async (req, res, next) => {
    try {
      await handler(req, res, next);
    } catch (error) {
      next(error);
    }
  };
}

function refuseMissing() {
  throw new HttpError(404, 'not_found', 'missing');
}

function refuseNotImplemented(req) {
  const path = req.path.split('/').slice(2).join('/');
  throw new HttpError(501, 'not_implemented', `the embedded server has no ${req.method} ${path}; CouchDB has`);
}

function refuseRewrite(req) {
  const page = `/${req.params.db}/_design/${req.params.ddoc}/index.html`;
  const reason = `the embedded server has no _rewrite; open the attachments of the design document, such as ${page}`;
  throw new HttpError(501, 'not_implemented', reason);
}

/** As in CouchDB every body is JSON, also with the type of a form, which `curl -d` sends. */
function readJSON() {
  return express.json({ limit: LARGEST_BODY_BYTES, type: () => true, verify: checkNesting });
}

async function createPouchApp(Pouch, functions) {
  const pouchApp = expressPouchDB({ mode: 'custom', inMemoryConfig: true, overrideMode: { include: PARTS } });
  pouchApp.couchConfig.registerDefault('couchdb', 'max_document_size', LARGEST_BODY_BYTES);
  pouchApp.disable('etag');
  pouchApp.disable('x-powered-by');
  pouchApp.dbWrapper.registerWrapper((name, db, next) => {
    db.setMaxListeners(0); // one for each open request
    db.on('error', (error) => console.error(`a map function of ${name} failed: ${error?.message ?? error}`));
    installValidation(db, functions);
    return next();
  });
  await pouchApp.setPouchDB(Pouch);
  const { find } = Pouch.prototype;
  Pouch.plugin({
    find(request, callback) {
      readComplete(this.name, () => find.call(this, request)).then((found) => callback(null, found), callback);
    },
  });
  return pouchApp;
}

function welcome(uuid) {
  // not a version of CouchDB, whose features a client would expect
  return { couchdb: 'Welcome', version, uuid, features: [], vendor: { name: 'growd embedded', version } };
}

/** `OPTIONS *` asks for the server as a whole (RFC 9110 section 9.3.7). */
function answerServerOptions(req, res, next) {
  if (req.url !== '*') {
    next();
    return;
  }
  res.set('Allow', 'GET, HEAD, POST, PUT, DELETE, COPY, OPTIONS');
  res.status(204).end();
}

/** Middleware for every request. */
function prepare(req, res, next) {
  res.set('Cache-Control', 'must-revalidate');
  // express-pouchdb would name its own address
  res.location = (inside) => res.set('Location', outsideAddress(req) + locationPath(req, inside));
  req.url = req.url.replace(/^[^?]*/, (path) => path.replace(/\/{2,}/g, '/')); // as CouchDB reads paths
  if (req.accepts('json')) {
    req.headers.accept = 'application/json'; // with any other value express-pouchdb answers as plain text
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
 * Replace the name of the database in the URL by that of its folder, and refuse invalid names.
 *
 * express-pouchdb removes the slashes of a decoded name, so the name is encoded twice.
 */
async function nameDatabase(databases, req, res, next) {
  const [, segment, rest] = /^\/([^/?]*)(.*)$/s.exec(req.url);
  if (SERVER_PATHS.includes(segment)) {
    next();
    return;
  }
  const folder = checkedFolder(segment);
  const comesOrGoes = ['PUT', 'DELETE'].includes(req.method) && /^\/?(\?|$)/.test(rest);
  const creates = comesOrGoes && req.method === 'PUT';
  if (!creates && !(await databaseFolders(databases.dataFolder)).includes(folder)) {
    throw new HttpError(404, 'not_found', 'Database does not exist.');
  }
  checkOpened(folder);
  if (!comesOrGoes) {
    databases.follow(res, folder);
  }
  req.database = folder;
  req.url = `/${encodeURIComponent(folder)}${rest.replace(RESERVED_SEGMENT, plainSegment)}`;
  next();
}

/** A segment as the routes expect it: CouchDB takes `_design/x` also with the underscore, letters and slash encoded. */
function plainSegment(segment) {
  try {
    const encoded = encodeURIComponent(decodeURIComponent(segment.slice(1)));
    return `/${encoded.replace(/^_(design|local)%2F/, '_$1/')}`;
  } catch {
    throw new HttpError(400, 'bad_request', `the path is not percent-encoded UTF-8: ${segment}`);
  }
}

function checkedFolder(segment) {
  let name = segment;
  try {
    name = decodeURIComponent(segment);
  } catch {
    // refused below for its percent sign
  }
  const folder = folderName(name);
  if (folder === null && name.startsWith('_')) {
    throw new HttpError(404, 'not_found', `the embedded server has no ${name}`);
  }
  if (folder === null) {
    const rule = 'lowercase letters, digits and _$()+-/ are allowed, and it must begin with a letter';
    throw new HttpError(400, 'illegal_database_name', `Name: '${name}': ${rule}.`);
  }
  return folder;
}
