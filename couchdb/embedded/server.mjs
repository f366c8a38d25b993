// growd's embedded document database: `node server.mjs --data DIR [--port N] [--client-design-documents] [--no-signals]`.
//
// Once it listens (on the loopback address only) it prints one line on stdout, `{"port": N, "password": TEXT}`. The user
// `growd` with that password may write design documents, clients only with `--client-design-documents`. Log lines go to
// stderr. The server ends within a second of SIGTERM, SIGINT or the end of stdin, which a dead parent closes. With
// `--no-signals` only the end of stdin ends it: systemd sends SIGTERM to all processes of a service, and growd still
// stores its last points.
// `--function-ms N` is the time limit of a validation.

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

const REQUESTS_TIMEOUT_MS = 500; // with the next line less than the second of a stop
const CLOSING_TIMEOUT_MS = 300;
const LARGEST_HEAD_BYTES = 192 * 1024; // the front door sends up to 128 KiB and its own headers
const OWNER_NAME = 'growd';
const USAGE = 'server.mjs --data DIR [--port N] [--function-ms N] [--client-design-documents] [--no-signals]';
const OPTIONS = {
  data: { type: 'string' },
  port: { type: 'string', default: '0' },
  'client-design-documents': { type: 'boolean', default: false },
  'no-signals': { type: 'boolean', default: false },
  'function-ms': { type: 'string', default: '5000' }, // CouchDB's `os_process_timeout`
};

// a `$regex` that backtracks too much continues in linear time; the flag `l`, with which `checkSelector` finds those
// that can't, needs the second option
setFlagsFromString('--enable-experimental-regexp-engine-on-excessive-backtracks');
setFlagsFromString('--enable-experimental-regexp-engine');
globalThis.console = new Console(process.stderr, process.stderr); // libraries log too, and stdout has one line only

await main();

async function main() {
  const { folder, port, functions, heedsSignals } = parseArguments();
  const state = await lockDataFolder(folder).catch((error) => fail(describeLock(folder, error)));
  const Pouch = openPouchDB(folder);
  const stopping = new AbortController();
  const settings = await Settings.load(state);
  const password = randomBytes(24).toString('hex');
  const isOwner = ownerCheck(password);
  const parts = { Pouch, folder, uuid: state.uuid, settings, functions, isOwner, stopping: stopping.signal };
  const server = createServer({ maxHeaderSize: LARGEST_HEAD_BYTES }, await createApp(parts));
  server.requestTimeout = 0; // a large upload over a slow line may take long
  server.on('error', (error) => fail(`can't listen on 127.0.0.1:${port}: ${error.message}`));
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  endWithParent(() => stop(server, Pouch, stopping), heedsSignals);
  process.stdout.write(`${JSON.stringify({ port: server.address().port, password })}\n`);
}

function parseArguments() {
  try {
    const { values } = parseArgs({ options: OPTIONS });
    const { data, port, 'function-ms': limit, 'client-design-documents': clientDesigns } = values;
    if (data === undefined || !/^\d{1,5}$/.test(port) || !/^[1-9]\d{0,5}$/.test(limit)) {
      throw new Error('--data DIR is needed, and --port and --function-ms take a number');
    }
    const functions = { limit: Number(limit), clientDesigns };
    return { folder: path.resolve(data), port: Number(port), functions, heedsSignals: !values['no-signals'] };
  } catch (error) {
    return fail(`${error.message} (usage: ${USAGE})`);
  }
}

/** A function that checks a header Authorization for the owner's login (RFC 7617). */
function ownerCheck(password) {
  const expected = Buffer.from(`Basic ${btoa(`${OWNER_NAME}:${password}`)}`);
  return (header = '') => {
    const given = Buffer.from(header);
    return given.length === expected.length && timingSafeEqual(given, expected);
  };
}

/** End at the end of stdin, and on signals if it heeds them; log uncaught errors. */
function endWithParent(end, heedsSignals) {
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, () => heedsSignals && end());
  }
  process.stdin.on('end', () => end()).on('error', () => end()).resume();
  process.on('unhandledRejection', (reason) => log(`uncaught error in a request: ${describe(reason)}`));
  process.on('rejectionHandled', () => {}); // already logged; Node would warn again
  // an exception in a callback may leave a write lock held, so only a new process is safe
  process.on('uncaughtException', (error) => fail(`uncaught error: ${describe(error)}`));
}

/** Finish open requests, close the databases, exit. */
async function stop(server, Pouch, stopping) {
  if (stopping.signal.aborted) {
    return;
  }
  stopping.abort();
  const idle = once(server.close(), 'close');
  server.closeIdleConnections();
  await Promise.race([idle, sleep(REQUESTS_TIMEOUT_MS)]);
  const databases = [...(Pouch.__dbCacheMap?.values() ?? [])]; // the open databases of express-pouchdb
  await Promise.race([Promise.allSettled(databases.map((db) => db.close())), sleep(CLOSING_TIMEOUT_MS)]);
  process.exit(0);
}

function describeLock(folder, error) {
  const taken = /lock/i.test(error.message) && /held|unavailable/i.test(error.message);
  return taken ? `another server uses the data folder ${folder}` : `can't open the data folder ${folder}: ${error.message}`;
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
