// The settings `[replicator]` of TLS: which certificates of other servers a replication trusts.
//
// https://docs.couchdb.org/en/stable/api/server/configuration.html, https://docs.couchdb.org/en/stable/config/replicator.html

import { HttpError, sendJSON } from './http.mjs';

const SECTION = 'replicator';
const VERIFY = 'verify_ssl_certificates';
const FILE = 'ssl_trusted_certificates_file';

/** Kept in `state`, the storage of the server. */
export class Settings {
  #values = new Map();

  static async load(state) {
    const settings = new Settings();
    settings.state = state;
    for (const name of [VERIFY, FILE]) {
      settings.#values.set(name, await state.read(`${SECTION}/${name}`));
    }
    return settings;
  }

  /** As in CouchDB every certificate is trusted until `verify` is set. */
  trust() {
    return { verify: this.#values.get(VERIFY) === 'true', file: this.#values.get(FILE) };
  }

  /** GET of one value. */
  get(req, res) {
    sendJSON(res, 200, this.#values.get(this.#name(req)) ?? missing());
  }

  /** PUT of one value, a JSON string as text in `req.body`: answers with the one before. */
  async put(req, res) {
    const name = this.#name(req);
    const value = parseValue(req.body);
    await this.state.write(`${SECTION}/${name}`, value);
    const before = this.#values.get(name) ?? '';
    this.#values.set(name, value);
    sendJSON(res, 200, before);
  }

  #name({ params: { section, key } }) {
    return section === SECTION && this.#values.has(key) ? key : missing();
  }
}

function missing() {
  throw new HttpError(404, 'not_found', 'unknown_config_value');
}

function parseValue(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value === 'string' && !/[\u0000-\u001f]/.test(value)) {
      return value.trim();
    }
  } catch {
    // refused below
  }
  throw new HttpError(400, 'bad_request', 'the value must be a JSON string of one line');
}
