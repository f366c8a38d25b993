// The packages from npm, which all are CommonJS.
//
// `import` would first read through each of their files for names that it might export, a fifth of the time of a start.

import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** What packages load of others and use seldom or never: together a third of the time of a start. */
const SELDOM_USED = [
  ['level', 'pouchdb-node'], // where no `db` is given
  ['multiparty', 'express-pouchdb'], // multipart.mjs takes its place
  ['pouchdb-auth', 'express-pouchdb'], // passwords in a file of settings, of which there is none
  ['pouchdb-fetch', 'pouchdb-abstract-mapreduce'], // for views of a database elsewhere
  ['pouchdb-fetch', 'pouchdb-find'], // likewise
  ['psl', 'tough-cookie'], // the list of public suffixes, for cookies of a far side
  ['whatwg-url', 'node-fetch'], // for a Node that has no URL
];

SELDOM_USED.forEach(([name, user]) => loadWhenUsed(name, createRequire(require.resolve(user))));

export const express = require('express');
export const expressPouchDB = require('express-pouchdb');
export const { getOrCreateDB } = require('express-pouchdb/lib/create-or-delete-dbs');
export const { setDBOnReq } = require('express-pouchdb/lib/utils');
export const leveldown = require('leveldown');
export const createMapReduce = require('pouchdb-abstract-mapreduce');
export const { collate } = require('pouchdb-collate');
export const PouchDB = require('pouchdb-node');

/** Let `name`, as `requireOf` finds it, be loaded when it is called, or something of it is read, first. */
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
