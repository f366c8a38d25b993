// The packages from npm. All are CommonJS: `require` starts a fifth faster than `import`, which parses them for exports.

import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** Modules that are rarely used and take a third of the time of a start: [module, package that requires it]. */
const SELDOM_USED = [
  ['level', 'pouchdb-node'], // only without the option `db`
  ['multiparty', 'express-pouchdb'], // replaced by multipart.mjs
  ['pouchdb-auth', 'express-pouchdb'], // for passwords in a file of settings
  ['pouchdb-fetch', 'pouchdb-abstract-mapreduce'], // for views of another server
  ['pouchdb-fetch', 'pouchdb-find'], // likewise
  ['psl', 'tough-cookie'], // the list of public suffixes, for cookies
  ['whatwg-url', 'node-fetch'], // for a Node without URL
];

SELDOM_USED.forEach(([name, user]) => loadWhenUsed(name, createRequire(require.resolve(user))));

export const express = require('express');
export const expressPouchDB = require('express-pouchdb');
export const { getOrCreateDB } = require('express-pouchdb/lib/create-or-delete-dbs');
export const leveldown = require('leveldown');
export const createMapReduce = require('pouchdb-abstract-mapreduce');
export const { collate } = require('pouchdb-collate');
export const PouchDB = require('pouchdb-node');

/** Load the module `name`, as `requireOf` finds it, at its first use. */
function loadWhenUsed(name, requireOf) {
  const file = requireOf.resolve(name);
  let loaded;
  const load = () => {
    if (loaded === undefined) {
      delete require.cache[file];
      loaded = requireOf(file);
    }
    return loaded;
  };
  const exports = new Proxy(() => undefined, {
    get: (_, key) => load()[key],
    apply: (_, self, args) => Reflect.apply(load(), self, args),
  });
  require.cache[file] = { id: file, filename: file, loaded: true, children: [], exports };
}
