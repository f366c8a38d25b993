// Where documents live: one LevelDB folder per database below the data folder, and a lock on the whole.

import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

import { durableLevel, VIEW_INDEX } from './levels.mjs';
import { fastViews } from './mapreduce.mjs';
import { PouchDB } from './packages.mjs';

// Not a database name that CouchDB allows, so it can't meet one.
const SERVER_STATE = '.server';
/** The database of replications, the one system database of CouchDB's that is here. */
export const REPLICATOR = '_replicator';

/**
 * Take the data folder for this process alone and return the server's own storage, with its lasting id.
 *
 * A LevelDB holds a lock of the kernel (fcntl) while it is open: the lock goes with the process however it ends.
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

/** The databases in `folder`, each by the name of its folder. */
export async function databaseFolders(folder) {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && entry.name !== SERVER_STATE && !entry.name.includes(VIEW_INDEX))
    .map((entry) => entry.name);
}

/** PouchDB with its databases in `folder`; `allDbs` reads from the disk which there are. */
export function openPouchDB(folder) {
  const Pouch = PouchDB.plugin(fastViews).defaults({ prefix: folder + path.sep, db: durableLevel });
  // express-pouchdb decodes what this returns once more
  Pouch.allDbs = async () => (await databaseFolders(folder)).map(encodeURIComponent);
  return Pouch;
}

/** The folder's name of a database (as it stands in a URL, decoded once), or null for a name CouchDB refuses. */
export function folderName(database) {
  if (database === REPLICATOR) {
    return database;
  }
  // https://docs.couchdb.org/en/stable/api/database/common.html#put--db
  return /^[a-z][a-z0-9_$()+/-]{0,237}$/.test(database) ? encodeURIComponent(database) : null;
}
