// The settings `[replicator]` that can be changed while the server runs, and outlive it.
//
// https://docs.couchdb.org/en/stable/api/server/configuration.html
// https://docs.couchdb.org/en/stable/config/replicator.html

import { HttpError, sendJSON } from './http.mjs';

const SECTION = 'replicator';
const NAMES = ['verify_ssl_certificates', 'ssl_trusted_certificates_file'];
const LONGEST_VALUE = 4096;

export class Settings {
  #values = new Map();

  /** The settings kept in `state`, the server's own storage. */
  static async load(state) {
    const settings = new Settings();
    settings.state = state;
    for (const name of NAMES) {
      const value = await state.read(`${SECTION}/${name}`);
      if (value !== undefined) {
        settings.#values.set(name, value);
      }
    }
    return settings;
  }

  /** Which certificates of a far side are good; as in CouchDB all are, unless somebody says otherwise. */
  trust() {
    const file = this.#values.get('ssl_trusted_certificates_file') || undefined;
    return { verify: this.#values.get('verify_ssl_certificates') === 'true', file };
  }

  /** GET of the whole section. */
  async getAll(req, res) {
    sendJSON(res, 200, req.params.section === SECTION ? Object.fromEntries(this.#values) : {});
  }

  /** GET of one value. */
  async get(req, res) {
    const value = this.#values.get(knownName(req));
    if (value === undefined) {
      throw unknownValue();
    }
    sendJSON(res, 200, value);
  }

  /** PUT of one value, a JSON string as text in `req.body`: answers with the one before. */
  async put(req, res) {
    const name = knownName(req);
    const value = parseValue(req.body);
    await this.state.write(`${SECTION}/${name}`, value);
    const before = this.#values.get(name) ?? '';
    this.#values.set(name, value);
    sendJSON(res, 200, before);
  }

  /** DELETE of one value: CouchDB's default holds again. */
  async delete(req, res) {
    const name = knownName(req);
    const before = this.#values.get(name);
    if (before === undefined) {
      throw unknownValue();
    }
    await this.state.erase(`${SECTION}/${name}`);
    this.#values.delete(name);
    sendJSON(res, 200, before);
  }
}

function knownName({ params: { section, key } }) {
  if (section !== SECTION || !NAMES.includes(key)) {
    throw new HttpError(404, 'not_found', 'unknown_config_value');
  }
  return key;
}

function unknownValue() {
  return new HttpError(404, 'not_found', 'unknown_config_value');
}

function parseValue(text) {
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    throw new HttpError(400, 'bad_request', 'invalid UTF-8 JSON');
  }
  if (typeof value !== 'string') {
    throw new HttpError(400, 'bad_request', 'a JSON string expected');
  }
  if (/[\u0000-\u001f]/.test(value) || value.length > LONGEST_VALUE) {
    throw new HttpError(400, 'bad_request', `a value has at most ${LONGEST_VALUE} characters, and no line ends`);
  }
  return value.trim();
}
