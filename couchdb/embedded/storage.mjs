// The data folder: a LevelDB for each database, one for the server's own values, and a lock.

import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

import { durableLevel, VIEW_INDEX } from './levels.mjs';
import { fastViews } from './mapreduce.mjs';
import { PouchDB } from './packages.mjs';

// not a valid name of a database
const SERVER_STATE = '.server';
/** The database of replications, the one system database of CouchDB's that is here. */
export const REPLICATOR = '_replicator';

/**
 * Lock the data folder and return the server's own storage, with its permanent id.
 *
 * An open LevelDB holds a lock of the kernel (fcntl), which ends with the process.
 */
export async function lockDataFolder(folder) {
  mkdirSync(folder, { recursive: true });
  const state = durableLevel(path.join(folder, SERVER_STATE));
  await promisify(state.open.bind(state))({ createIfMissing: true });
  const [get, put] = ['get', 'put'].map((method) => promisify(state[method].bind(state)));
  const read = (name) => get(name).then(String, () => undefined);
  const write = (name, value) => put(name, value, { sync: true });
  const known = await read('uuid');
  const uuid = known ?? randomUUID().replaceAll('-', '');
  if (known === undefined) {
    await write('uuid', uuid);
  }
  return { uuid, read, write };
}

/** The folders that are being deleted. */
export const deleting = new Set();

/** The folders of the databases in `folder`. */
export async function databaseFolders(folder) {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && entry.name !== SERVER_STATE && !entry.name.includes(VIEW_INDEX))
    .map((entry) => entry.name)
    .filter((name) => !deleting.has(name));
}

/** PouchDB with its databases in `folder`; `allDbs` lists the folders. */
export function openPouchDB(folder) {
  const Pouch = PouchDB.plugin(fastViews).defaults({ prefix: folder + path.sep, db: durableLevel });
  // express-pouchdb decodes these names once more
  Pouch.allDbs = async () => (await databaseFolders(folder)).map(encodeURIComponent);
  return Pouch;
}

/** The folder of a database, or null for a name that CouchDB refuses. */
export function folderName(database) {
  if (database === REPLICATOR) {
    return database;
  }
  // https://docs.couchdb.org/en/stable/api/database/common.html#put--db
  return /^[a-z][a-z0-9_$()+/-]{0,237}$/.test(database) ? encodeURIComponent(database) : null;
}
