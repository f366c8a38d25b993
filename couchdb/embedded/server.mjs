// growd's embedded document database: `node server.mjs --data DIR [--port N] [--client-design-documents]`.
//
// Once it listens (on the loopback address only) it prints one line on stdout, `{"port": N, "password": TEXT}`. With
// that password, of the user `growd`, the parent writes design documents; others write them only with
// `--client-design-documents`. Everything else that it has to say goes to stderr, one line each. It ends within a second of SIGTERM, SIGINT or the end of its stdin:
// a parent that is gone, however it went, closes that. `--function-ms N` says after how long a validation is ended.

import { Console } from 'node:console';
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';

import { createApp } from './app.mjs';
import { Settings } from './settings.mjs';
import { lockDataFolder, openPouchDB } from './storage.mjs';

const REQUESTS_MAY_TAKE_MS = 500; // the rest of the second is for closing the databases
const CLOSING_MAY_TAKE_MS = 300;
const OWNER_NAME = 'growd';
const USAGE = 'server.mjs --data DIR [--port N] [--function-ms N] [--client-design-documents]';
const OPTIONS = {
  data: { type: 'string' },
  port: { type: 'string', default: '0' },
  'client-design-documents': { type: 'boolean', default: false },
  'function-ms': { type: 'string', default: '5000' }, // CouchDB's `os_process_timeout`
};

// a `$regex` of `_find` that backtracks without end goes on in linear time (those with look-around or back references
// can't: growd ends a server that is silent)
setFlagsFromString('--enable-experimental-regexp-engine-on-excessive-backtracks');
globalThis.console = new Console(process.stderr, process.stderr); // libraries log too: stdout has one line only

await main();

async function main() {
  const { folder, port, functions } = parseArguments();
  const state = await lockDataFolder(folder).catch((error) => fail(describeLock(folder, error)));
  const Pouch = openPouchDB(folder);
  const stopping = new AbortController();
  const settings = await Settings.load(state);
  const password = randomBytes(24).toString('hex');
  const isOwner = ownerCheck(password);
  const parts = { Pouch, folder, uuid: state.uuid, settings, functions, isOwner, stopping: stopping.signal };
  const server = createServer(await createApp(parts));
  server.requestTimeout = 0; // a large upload over a slow line takes as long as it takes
  server.on('error', (error) => fail(`can't listen on 127.0.0.1:${port}: ${error.message}`));
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  endWithParent(() => stop(server, Pouch, stopping));
  process.stdout.write(`${JSON.stringify({ port: server.address().port, password })}\n`);
}

function parseArguments() {
  try {
    const { data, port, 'function-ms': limit, 'client-design-documents': clientDesigns } = parseArgs({ options: OPTIONS }).values;
    if (data === undefined || !/^\d{1,5}$/.test(port) || !/^[1-9]\d{0,5}$/.test(limit)) {
      throw new Error('--data DIR is needed, and --port and --function-ms take a number');
    }
    return { folder: path.resolve(data), port: Number(port), functions: { limit: Number(limit), clientDesigns } };
  } catch (error) {
    return fail(`${error.message} (usage: ${USAGE})`);
  }
}

/** Whether a header Authorization is the owner's (RFC 7617). */
function ownerCheck(password) {
  const expected = Buffer.from(`Basic ${btoa(`${OWNER_NAME}:${password}`)}`);
  return (header = '') => {
    const given = Buffer.from(header);
    return given.length === expected.length && timingSafeEqual(given, expected);
  };
}

/** End on the signals and when stdin is closed; log what nobody caught. */
function endWithParent(end) {
  process.on('SIGTERM', () => end());
  process.on('SIGINT', () => end());
  process.stdin.on('end', () => end()).on('error', () => end()).resume();
  process.on('unhandledRejection', (reason) => log(`a request failed unseen: ${describe(reason)}`));
  process.on('rejectionHandled', () => {}); // logged already; Node would warn of each
  // an exception out of a callback may have left a write lock held: a fresh process is the safe state
  process.on('uncaughtException', (error) => fail(`ended by an error: ${describe(error)}`));
}

/** Finish the requests under way, close the databases, exit. */
async function stop(server, Pouch, stopping) {
  if (stopping.signal.aborted) {
    return;
  }
  stopping.abort();
  const idle = once(server.close(), 'close');
  server.closeIdleConnections();
  await Promise.race([idle, sleep(REQUESTS_MAY_TAKE_MS)]);
  const databases = [...(Pouch.__dbCacheMap?.values() ?? [])]; // express-pouchdb keeps the open ones there
  await Promise.race([Promise.allSettled(databases.map((db) => db.close())), sleep(CLOSING_MAY_TAKE_MS)]);
  process.exit(0);
}

function describeLock(folder, error) {
  const taken = /lock/i.test(error.message) && /held|unavailable/i.test(error.message);
  return taken ? `another server has the data folder ${folder}` : `can't open the data folder ${folder}: ${error.message}`;
}

function describe(error) {
  const text = error instanceof Error ? `${error.message} ${error.stack?.split('\n')[1]?.trim() ?? ''}` : String(error);
  return text.replaceAll(/\s+/g, ' ');
}

function log(sentence) {
  process.stderr.write(`${sentence}\n`);
}

function fail(sentence) {
  log(sentence);
  process.exit(1);
}
