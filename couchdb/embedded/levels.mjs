// The LevelDBs of the server: one for each database and for each view index.

import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { HttpError } from './http.mjs';
import { leveldown } from './packages.mjs';

export const VIEW_INDEX = '-mrview-'; // in the names of view indexes
const TRIAL_BYTES = 1024 * 1024; // to open the databases again takes some room

/** The first failed write of each LevelDB, by its folder. */
const failures = new Map();

/** Those of them that could not be opened. */
const unopened = new Set();

/**
 * LevelDB that has put a batch on the disk before it says so, and takes no write after one that failed.
 *
 * LevelDB itself goes on in the log with the torn record, and drops what follows that when it is opened again. View
 * indexes can be built again: their batches may be lost in a power cut.
 */
export function durableLevel(location) {
  const level = leveldown(location);
  failures.delete(location);
  unopened.delete(location);
  const sync = !location.includes(VIEW_INDEX);
  for (const method of ['_open', '_put', '_del', '_batch']) {
    const write = level[method].bind(level);
    level[method] = (...args) => {
      const callback = args.pop();
      const options = args.pop();
      if (failures.has(location)) {
        process.nextTick(callback, refusal(location));
        return;
      }
      write(...args, { ...options, sync }, (error) => {
        if (error) {
          failures.set(location, error);
        }
        if (error && method === '_open') {
          unopened.add(location);
        }
        callback(error);
      });
    };
  }
  return level;
}

durableLevel.destroy = leveldown.destroy;

/** What `read` returns of the view indexes of the database `name`. PouchDB would leave out what it could not write. */
export async function readComplete(name, read) {
  checkIndexes(name);
  const found = await read();
  checkIndexes(name);
  return found;
}

/** Refuse a request to the database `name` that could not be opened: PouchDB would never try again. */
export function checkOpened(name) {
  const location = [...unopened].find((folder) => path.basename(folder) === name);
  if (location !== undefined) {
    throw refusal(location);
  }
}

function checkIndexes(name) {
  const location = [...failures.keys()].find((folder) => path.basename(folder).startsWith(name + VIEW_INDEX));
  if (location !== undefined) {
    throw refusal(location);
  }
}

/**
 * Return why the LevelDB at `location` takes nothing; end the process where it could take something again.
 *
 * A new process opens it with a new log. It can't be opened on a full disk: until there is room this one can be read.
 */
function refusal(location) {
  const { message } = failures.get(location);
  if (hasRoom(path.dirname(location))) {
    console.error(`ended to open a database again whose write failed: ${message}`);
    process.exit(1);
  }
  return new HttpError(500, 'write_failed', message);
}

function hasRoom(folder) {
  const trial = path.join(folder, '.trial');
  try {
    writeFileSync(trial, Buffer.alloc(TRIAL_BYTES), { flush: true });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(trial, { force: true });
  }
}
