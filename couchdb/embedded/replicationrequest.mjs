// The body of a `_replicate`.

import { createHash } from 'node:crypto';
import { unescape } from 'node:querystring'; // takes what is wrongly encoded as it is

import { HttpError } from './http.mjs';

const FILTERS = ['doc_ids', 'filter', 'selector'];
const OPTIONS = [...FILTERS, 'query_params'];
const SHAPES = {
  continuous: [isBoolean, 'true or false'],
  create_target: [isBoolean, 'true or false'],
  cancel: [isBoolean, 'true or false'],
  doc_ids: [(value) => Array.isArray(value) && value.every(isText), 'a list of strings'],
  filter: [isText, 'a string'],
  selector: [isObject, 'a JSON object'],
  query_params: [isObject, 'a JSON object'],
};

/**
 * What the body of a `_replicate` asks for.
 *
 * `source` and `target` become addresses without credentials, and the `auth` and `headers` to reach them with; the
 * name of a database is one of the server on `port`. `options` are PouchDB's, `id` is the same for the same request.
 */
export function parseReplication(body, port) {
  checkShapes(body);
  const { cancel = false, continuous = false, create_target = false } = body;
  const named = body.replication_id ?? body._local_id;
  if (cancel && isText(named)) {
    return { cancel, id: named };
  }
  const [source, target] = ['source', 'target'].map((end) => parseEnd(end, body[end], port));
  const options = Object.fromEntries(Object.entries(body).filter(([name]) => OPTIONS.includes(name)));
  const digest = createHash('md5').update(JSON.stringify([source.url, target.url, options])).digest('hex');
  return { cancel, continuous, create_target, source, target, options, id: digest + (continuous ? '+continuous' : '') };
}

function checkShapes(body) {
  if (!isObject(body)) {
    throw new HttpError(400, 'bad_request', 'Request body must be a JSON object');
  }
  for (const [name, [fits, shape]] of Object.entries(SHAPES)) {
    if (body[name] !== undefined && !fits(body[name])) {
      throw wrong(name, shape, body[name]);
    }
  }
  if (FILTERS.filter((name) => body[name] !== undefined).length > 1) {
    throw new HttpError(400, 'bad_request', `only one of ${FILTERS.join(', ')} may be given`);
  }
}

function parseEnd(end, value, port) {
  const { url: text, headers = {}, auth = {} } = isObject(value) ? value : { url: value };
  const isAddress = isText(text) && /^https?:\/\//i.test(text);
  if (!isText(text) || text === '' || (isAddress ? !URL.canParse(text) : text.includes('://'))) {
    throw wrong(end, 'the name of a database or its http(s) address', text);
  }
  if (!isObject(headers) || !Object.values(headers).every(isText)) {
    throw wrong(`headers of ${end}`, 'a JSON object of strings', headers);
  }
  const url = new URL(isAddress ? text : `http://127.0.0.1:${port}/${encodeURIComponent(text)}`);
  const basic = auth?.basic ?? credentials(url);
  if (basic !== undefined && !(isText(basic.username) && isText(basic.password))) {
    throw wrong(`auth.basic of ${end}`, 'an object with username and password', undefined);
  }
  Object.assign(url, { username: '', password: '', search: '', hash: '' });
  if (/\/_replicator\/*$/.test(unescape(url.pathname))) {
    throw new HttpError(403, 'forbidden', `${end} can't be _replicator, whose documents hold passwords`);
  }
  return { url: url.href, headers, auth: basic };
}

function credentials({ username, password }) {
  return username === '' ? undefined : { username: unescape(username), password: unescape(password) };
}

function wrong(name, shape, value) {
  const found = value === undefined ? '' : `, not ${JSON.stringify(value)}`;
  return new HttpError(400, 'bad_request', `${name} must be ${shape}${found}`);
}

function isBoolean(value) {
  return typeof value === 'boolean';
}

function isText(value) {
  return typeof value === 'string';
}

function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
