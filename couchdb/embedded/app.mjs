// The HTTP application: express-pouchdb, with what it does badly answered before it is asked.

import { readFileSync } from 'node:fs';

import { bulkGet, missingRevs, readAllDocs, readDesignDocs } from './bulk.mjs';
import { serveChanges } from './changes.mjs';
import { getAttachment, getDocument } from './documents.mjs';
import { checkDocs, checkDocument, checkNesting, checkRequestedDocs, checkRevisions } from './guards.mjs';
import { HttpError, outsideAddress, sendError, sendJSON } from './http.mjs';
import { checkOpened, readComplete } from './levels.mjs';
import { joinRelated, readMultipart } from './multipart.mjs';
import { express, expressPouchDB, getOrCreateDB, setDBOnReq } from './packages.mjs';
import { queryHandlers } from './queries.mjs';
import { Replicator } from './replicator.mjs';
import { databaseFolders, folderName, REPLICATOR } from './storage.mjs';
import { installValidation } from './validation.mjs';
import { readView, serveList } from './views.mjs';
import { copyDocument, deleteAttachment, deleteDocument, postForm, putAttachment, putDocument } from './writes.mjs';

const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url)));

const PARTS = [
  'config-infrastructure', // in memory; asked for by routes/uuids
  'routes/bulk-docs',
  'routes/compact',
  'routes/db',
  'routes/documents',
  'routes/find',
  'routes/revs-diff',
  'routes/session-stub',
  'routes/uuids',
  'routes/view-cleanup',
];

/** Server-wide paths; any other that begins with an underscore is not there. */
const SERVER_PATHS = ['_active_tasks', '_node', '_replicate', '_scheduler', '_session', '_uuids'];

// after the database's name; an id or a name that begins with an underscore means something else
const DOCUMENT = /^\/(?<db>[^/]+)\/(?<id>_design\/[^/]+|_local\/[^/]+|[^_/][^/]*)\/?$/;
const ATTACHMENT = /^\/(?<db>[^/]+)\/(?<id>[^_/][^/]*|_design\/[^/]+(?=\/[^_]))\/(?<attachment>.+)$/;

/** Settings of a database that can be read only: PouchDB's. */
const FIXED_SETTINGS = { _security: {}, _revs_limit: 1000 };

/** CouchDB's endpoints that are not here. */
const NOT_IMPLEMENTED = [
  '/:db/:endpoint(_sync_shards|_auto_purge|_search_cleanup|_nouveau_cleanup)',
  '/:db/:endpoint(_purge|_purged_infos|_local_docs|_partition|_shards)*',
  '/:db/_compact/:ddoc',
  '/:db/_design/:ddoc/:endpoint(_info|_show|_update|_search|_search_info|_nouveau|_nouveau_info)*',
];
const ENCODED_SLASH = /^\/_(?<kind>design|local)%2f/i; // CouchDB takes these ids in both forms

const LARGEST_BODY_BYTES = 64 * 1024 * 1024; // `_bulk_docs` of 50 MB has to pass
const LARGEST_SETTING_BYTES = 16 * 1024;

/**
 * The application over the databases in `folder`, calling itself the server `uuid`.
 *
 * `functions` has the `limit` after which a validation is ended with an error, in milliseconds, as an endless one would
 * take the server with it, and `clientDesigns`: whether clients may write design documents, as the owner may.
 * `isOwner` tells of the header Authorization whether it is the owner's.
 * `stopping` is an AbortSignal: it ends the feeds, which would else go on for ever.
 */
export async function createApp({ Pouch, folder, uuid, settings, functions, isOwner, stopping }) {
  const pouchApp = await createPouchApp(Pouch, functions);
  const app = express();
  app.enable('case sensitive routing');
  app.disable('x-powered-by');
  app.disable('etag'); // a sum of the body is not CouchDB's ETag
  app.use(answerServerOptions);
  app.use(prepare);
  app.use((req, res, next) => {
    req.isOwner = isOwner(req.get('Authorization'));
    next();
  });
  app.get('/', (req, res) => sendJSON(res, 200, welcome(uuid)));
  app.get('/_up', (req, res) => sendJSON(res, 200, { status: 'ok', seeds: {} }));
  app.get('/favicon.ico', (req, res) => sendError(res, new HttpError(404, 'not_found', 'missing')));
  app.get('/_all_dbs', async (req, res) => sendJSON(res, 200, await databases(folder)));
  app.use((req, res, next) => nameDatabase(folder, req, res, next).catch(next));
  const openDatabase = databaseOpener(Pouch, folder, pouchApp);
  await openDatabase(REPLICATOR, true);
  const replicator = new Replicator({ Pouch, settings, stopping, openDatabase });
  replicator.start();
  addServerRoutes(app, pouchApp);
  addReplicatorRoutes(app, replicator, settings);
  addDatabaseRoutes(app, Pouch, pouchApp, stopping);
  app.use((req, res) => sendError(res, new HttpError(404, 'not_found', 'missing')));
  // express knows an error handler by its four parameters
  app.use((error, req, res, next) => sendError(res, error));
  return app;
}

function addServerRoutes(app, pouchApp) {
  serve(app, '/_active_tasks', { get: [(req, res) => sendJSON(res, 200, [])] });
  serve(app, '/_session', { get: [pouchApp], post: [pouchApp], delete: [pouchApp] });
  serve(app, '/_uuids', { get: [pouchApp] });
}

/** Replications, and the settings of those over TLS. */
function addReplicatorRoutes(app, replicator, settings) {
  const text = express.text({ limit: LARGEST_SETTING_BYTES, type: () => true });
  const answer = (object, method) => async (req, res) => {
    try {
      await object[method](req, res);
    } catch (error) {
      sendError(res, error);
    }
  };
  serve(app, '/_replicate', { post: [readJSON(), answer(replicator, 'replicateOnce')] });
  serve(app, ['/_scheduler/docs', `/_scheduler/docs/${REPLICATOR}`], { get: [answer(replicator, 'list')] });
  serve(app, `/_scheduler/docs/${REPLICATOR}/:id`, { get: [answer(replicator, 'show')] });
  serve(app, '/_node/:node/_config/:section/:key', { get: [answer(settings, 'get')], put: [text, answer(settings, 'put')] });
  app.all(['/_node*', '/_scheduler*'], (req, res) => sendError(res, new HttpError(404, 'not_found', 'missing')));
  app.delete(`/${REPLICATOR}`, (req, res) => {
    sendError(res, new HttpError(501, 'not_implemented', `the embedded server keeps its ${REPLICATOR}`));
  });
}

/** A function that opens the database of a folder as requests have it, with validation. */
function databaseOpener(Pouch, dataFolder, pouchApp) {
  return async (folder, creates) => {
    if (!creates && !(await databaseFolders(dataFolder)).includes(folder)) {
      throw new HttpError(404, 'db_not_found', `there is no database ${decodeURIComponent(folder)}`);
    }
    checkOpened(folder);
    return pouchApp.dbWrapper.wrap(folder, await getOrCreateDB(Pouch, folder));
  };
}

/** What a database answers; express-pouchdb is asked only for what it answers well. */
function addDatabaseRoutes(app, Pouch, pouchApp, stopping) {
  const open = (req, res, next) => {
    req.PouchDB = Pouch;
    setDBOnReq(req.params.db, pouchApp.dbWrapper, req, res, next);
  };
  addDocumentRoutes(app, open, pouchApp);
  app.post('*', readJSON());
  serve(app, '/:db', { get: [pouchApp], put: [pouchApp], delete: [pouchApp], post: [checkDocument, pouchApp] });
  addQueryRoutes(app, open, stopping);
  serve(app, '/:db/_bulk_docs', { post: [checkDocs, pouchApp] });
  serve(app, '/:db/_bulk_get', { post: [checkRequestedDocs, open, bulkGet] });
  serve(app, '/:db/_revs_diff', { post: [checkRevisions, pouchApp] });
  serve(app, '/:db/_missing_revs', { post: [checkRevisions, open, missingRevs] });
  serve(app, '/:db/_index', { get: [pouchApp], post: [pouchApp] });
  serve(app, '/:db/_index/:ddoc/:type/:name', { delete: [pouchApp] });
  for (const path of ['_find', '_explain', '_compact', '_view_cleanup', '_ensure_full_commit']) {
    serve(app, `/:db/${path}`, { post: [pouchApp] });
  }
  for (const [path, value] of Object.entries(FIXED_SETTINGS)) {
    serve(app, `/:db/${path}`, { get: [(req, res) => sendJSON(res, 200, value)], put: [refuseNotImplemented] });
  }
  app.all('/:db/_design/:ddoc/_rewrite*', refuseRewrite);
  app.all(NOT_IMPLEMENTED, refuseNotImplemented);
}

function addQueryRoutes(app, open, stopping) {
  const readable = (path, handler) => serve(app, path, { get: [open, handler], post: [open, handler] });
  const queries = { '_all_docs': readAllDocs, '_design_docs': readDesignDocs, '_design/:ddoc/_view/:view': readView };
  for (const [path, run] of Object.entries(queries)) {
    const { one, many } = queryHandlers(run);
    readable(`/:db/${path}`, one);
    serve(app, `/:db/${path}/queries`, { post: [open, many] });
  }
  readable('/:db/_changes', (req, res) => serveChanges(req.db, req, res, stopping));
  readable(['/:db/_design/:ddoc/_list/:list/:view', '/:db/_design/:ddoc/_list/:list/:other/:view'], serveList);
}

function addDocumentRoutes(app, open, pouchApp) {
  const multipart = readMultipart(LARGEST_BODY_BYTES);
  serve(app, DOCUMENT, {
    get: [open, getDocument, pouchApp], // `open_revs`
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

/** Answer the methods of `path` by their handlers, and the others with 405. */
function serve(app, path, handlers) {
  const names = Object.keys(handlers).flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
  for (const [method, chain] of Object.entries(handlers)) {
    app[method](path, chain);
  }
  app.all(path, (req, res) => {
    res.set('Allow', names.join(', '));
    sendError(res, new HttpError(405, 'method_not_allowed', `Only ${names.join(',')} allowed`));
  });
}

function refuseNotImplemented(req, res) {
  const path = req.path.split('/').slice(2).join('/');
  sendError(res, new HttpError(501, 'not_implemented', `the embedded server has no ${req.method} ${path}; CouchDB has`));
}

function refuseRewrite(req, res) {
  const page = `/${req.params.db}/_design/${req.params.ddoc}/index.html`;
  const reason = `the embedded server has no _rewrite; open the attachments of the design document, such as ${page}`;
  sendError(res, new HttpError(501, 'not_implemented', reason));
}

/** Bodies are JSON whatever they are called, as CouchDB has it: `curl -d` calls them a form. */
function readJSON() {
  return express.json({ limit: LARGEST_BODY_BYTES, type: () => true, verify: checkNesting });
}

async function createPouchApp(Pouch, functions) {
  const pouchApp = expressPouchDB({ mode: 'custom', inMemoryConfig: true, overrideMode: { include: PARTS } });
  pouchApp.couchConfig.registerDefault('couchdb', 'max_document_size', LARGEST_BODY_BYTES);
  pouchApp.disable('etag');
  pouchApp.disable('x-powered-by');
  pouchApp.dbWrapper.registerWrapper((name, db, next) => {
    db.setMaxListeners(0); // one for each request under way
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
  // no version of CouchDB's: a client that looks for 3.x must not find its features here
  return { couchdb: 'Welcome', version, uuid, features: [], vendor: { name: 'growd embedded', version } };
}

async function databases(folder) {
  return (await databaseFolders(folder)).map(decodeURIComponent).sort();
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
  checkOpened(folder);
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
