// Functions of design documents, each in a JavaScript context of its own.
//
// This keeps them apart from the server's variables; it is no wall against somebody who means harm, so only growd writes
// design documents unless its owner permits more.

import vm from 'node:vm';

import { HttpError } from './http.mjs';

// Objects that are handed in would lead to the server's own Function, which makes code that sees all of the process.
for (const kind of [function () {}, async function () {}, function* () {}, async function* () {}]) {
  Object.defineProperty(Object.getPrototypeOf(kind), 'constructor', { value: undefined });
}

const CALL = new vm.Script('subject_.apply(self_, arguments_)');

/** The function that `source` is, seeing the `names` and what CouchDB gives to every function. */
export function compile(source, kind, names = {}) {
  return compileIn(createContext(names), source, kind);
}

/** The same, ended with an error when a call takes more than `limit` milliseconds. A call costs some 0.1 ms more. */
export function compileLimited(source, kind, names, limit) {
  const context = createContext(names);
  context.subject_ = compileIn(context, source, kind);
  return function call(...args) {
    context.self_ = this;
    context.arguments_ = args;
    return CALL.runInContext(context, { timeout: limit });
  };
}

function compileIn(context, source, kind) {
  let compiled = null;
  try {
    compiled = vm.runInContext(`(${source.replace(/;\s*$/, '')})`, context);
  } catch (error) {
    throw new HttpError(500, 'compilation_error', `the ${kind} function can't be compiled: ${error.message}`);
  }
  if (typeof compiled !== 'function') {
    throw new HttpError(500, 'compilation_error', `the ${kind} function is no function`);
  }
  return compiled;
}

function createContext(names) {
  return vm.createContext({ isArray: Array.isArray, toJSON: JSON.stringify, log: console.error, sum: add, ...names });
}

function add(values) {
  return values.reduce((total, value) => total + value, 0);
}
