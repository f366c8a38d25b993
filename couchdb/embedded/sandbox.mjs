// Functions of design documents, each in a JavaScript context of its own.
//
// Node's contexts separate variables but do not stop hostile code, so only growd writes design documents by default.

import vm from 'node:vm';

import { HttpError } from './http.mjs';

// Objects passed in would lead to the server's own Function, and code made with that sees the whole process.
for (const kind of [function () {}, async function () {}, function* () {}, async function* () {}]) {
  Object.defineProperty(Object.getPrototypeOf(kind), 'constructor', { value: undefined });
}

const CALL = new vm.Script('subject_.apply(self_, arguments_)');

/** The function of `source`, with `names` and the globals of CouchDB in scope. */
export function compile(source, kind, names = {}) {
  return compileIn(createContext(names), source, kind);
}

/** The same, with an error if a call takes more than `limit` milliseconds. A call costs about 0.1 ms more. */
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
    throw new HttpError(500, 'compilation_error', `the ${kind} function is not a function`);
  }
  return compiled;
}

function createContext(names) {
  return vm.createContext({ isArray: Array.isArray, toJSON: JSON.stringify, log: console.error, sum: add, ...names });
}

function add(values) {
  return values.reduce((total, value) => total + value, 0);
}
