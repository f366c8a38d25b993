// LevelDB for databases and view indexes: synchronous writes, and no write after a failed one.

import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

import { HttpError } from './http.mjs';
import { leveldown } from './packages.mjs';

export const VIEW_INDEX = '-mrview-'; // in the names of view indexes
const [FIRST_KEY, LAST_KEY] = [Buffer.from([0]), Buffer.alloc(16, 0xff)];
const SEQUENCE_DIGITS = 16; // of PouchDB's keys
const [ROWS_AHEAD, MOST_STEP] = [128, 64];
const [BLOCK_BYTES, KNOWN_BYTES] = [1024 * 1024, 4 * 1024 * 1024];
const TRIAL_BYTES = 1024 * 1024; // opening the databases needs some room

/** The first failed write of each LevelDB, by its folder. */
const failures = new Map();

/** The open LevelDBs by their folders. */
const levels = new Map();

/** The folders that could not be opened. */
const unopened = new Set();

/**
 * A LevelDB that syncs each batch before it acknowledges it, and refuses writes after a failed one.
 *
 * LevelDB itself would append to the log with the torn record, and drop everything after that record when it is opened
 * again. View indexes are not synced, because they can be built again after a power cut.
 */
export function durableLevel(location) {
  const level = leveldown(location);
  levels.set(location, level);
  failures.delete(location);
  unopened.delete(location);
  const sync = !location.includes(VIEW_INDEX);
  const forgetAhead = readAhead(level);
  for (const method of ['_open', '_put', '_del', '_batch']) {
    const write = level[method].bind(level);
    level[method] = (...args) => {
      const callback = args.pop();
      const options = args.pop();
      if (failures.has(location)) {
        process.nextTick(callback, refusal(location));
        return;
      }
      forgetAhead();
      write(...args, { ...options, sync }, (error) => {
        forgetAhead();
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

/**
 * Read documents ahead. The function that is returned forgets them: call it before a write and after it.
 *
 * PouchDB gets the documents or rows of a range one after the other, and each get waits for a thread. Those of one
 * series are a few sequence numbers apart, which are the last digits of their keys: from the second on, a block of them
 * is read in one piece.
 */
function readAhead(level) {
  const get = level._get.bind(level);
  const known = new Map();
  let [last, writes, bytes, isReading] = [NaN, 0, 0, false];
  const forget = () => {
    writes += 1;
    bytes = 0;
    known.clear();
  };
  level._get = (key, options, callback) => {
    const number = Number(String(key).slice(-SEQUENCE_DIGITS));
    const step = number - last;
    last = number;
    const isText = options.asBuffer === false; // attachments are not
    if (isText && known.has(key)) {
      process.nextTick(callback, null, known.get(key));
      return;
    }
    if (!isText || isReading || !step || !(Math.abs(step) <= MOST_STEP)) {
      get(key, options, callback);
      return;
    }
    const begun = writes;
    isReading = true;
    readBlock(level, key, step, (block, size) => {
      isReading = false;
      if (writes === begun) {
        if (bytes > KNOWN_BYTES) {
          forget();
        }
        bytes += size;
        block.forEach((each, place) => known.set(place, each));
      }
      get(key, options, callback);
    });
  };
  return forget;
}

/** Call back with the entries from `key` on, in the direction of `step`, and their bytes. */
function readBlock(level, key, step, callback) {
  const range = step > 0 ? { gte: key } : { lte: key, reverse: true };
  const read = { keyAsBuffer: false, valueAsBuffer: false, highWaterMark: BLOCK_BYTES };
  const entries = level.iterator({ ...range, ...read, limit: Math.abs(step) * ROWS_AHEAD });
  const block = new Map();
  let bytes = 0;
  const take = (error, place, value) => {
    if (error || place === undefined || bytes > BLOCK_BYTES) {
      entries.end(() => callback(block, bytes));
      return;
    }
    block.set(place, value);
    bytes += value.length;
    entries.next(take);
  };
  entries.next(take);
}

durableLevel.destroy = leveldown.destroy;

/** Rewrite the files of the database `name` and of its indexes without what was deleted. */
export async function compactFiles(name) {
  for (const [location, level] of levels) {
    const folder = path.basename(location);
    if (level.status === 'open' && (folder === name || folder.startsWith(name + VIEW_INDEX))) {
      await promisify(level.compactRange.bind(level))(FIRST_KEY, LAST_KEY);
    }
  }
}

/** The result of `read`, unless a view index of the database `name` failed: PouchDB leaves out rows it could not write. */
export async function readComplete(name, read) {
  checkIndexes(name);
  const found = await read();
  checkIndexes(name);
  return found;
}

/** Refuse a request to the database `name` if it could not be opened, since PouchDB does not try again. */
export function checkOpened(name) {
  const location = [...unopened].find((folder) => path.basename(folder) === name);
  if (location !== undefined) {
    throw refusal(location);
  }
}

/** The error of the database `name` if a write has failed while it was made; then nothing of it is left. */
export async function undoFailed(name, destroy) {
  const location = [...failures.keys()].find((folder) => path.basename(folder) === name);
  if (location === undefined) {
    return undefined;
  }
  const { message } = failures.get(location);
  await destroy().catch(() => undefined); // it may not be open
  rmSync(location, { recursive: true, force: true });
  [failures, levels, unopened].forEach((known) => known.delete(location));
  return new HttpError(500, 'write_failed', message);
}

function checkIndexes(name) {
  const location = [...failures.keys()].find((folder) => path.basename(folder).startsWith(name + VIEW_INDEX));
  if (location !== undefined) {
    throw refusal(location);
  }
}

/**
 * The error of the LevelDB at `location`. Ends the process once the disk has room, so that growd starts a new one.
 *
 * A new process opens the LevelDB with a new log. That fails on a full disk, where this process can still read.
 */
function refusal(location) {
  const { message } = failures.get(location);
  if (hasRoom(path.dirname(location))) {
    console.error(`restarting to open a database again after a failed write: ${message}`);
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
