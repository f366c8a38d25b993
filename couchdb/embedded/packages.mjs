// The packages from npm, which all are CommonJS.
//
// `import` would first read through each of their files for names that it might export, a fifth of the time of a start.

import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

export const express = require('express');
export const expressPouchDB = require('express-pouchdb');
export const { setDBOnReq } = require('express-pouchdb/lib/utils');
export const leveldown = require('leveldown');
export const createMapReduce = require('pouchdb-abstract-mapreduce');
export const { collate } = require('pouchdb-collate');
export const PouchDB = require('pouchdb-node');
