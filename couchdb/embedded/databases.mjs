// Databases that come and go: `PUT /{db}` and `DELETE /{db}`, and what becomes of the other requests to them.
//
// https://docs.couchdb.org/en/stable/api/database/common.html

import { HttpError, queryStrings, sendInstead, sendJSON } from './http.mjs';
import { undoFailed } from './levels.mjs';
import { databaseFolders, deleting } from './storage.mjs';

export class Databases {
  #requests = new Map(); // the answers that are not finished, each with the folder of its database
  #turns = new Map(); // the end of the last creation or deletion of each folder

  /** `openDatabase(folder, creates)` opens one of those of `Pouch` in `dataFolder`. */
  constructor({ Pouch, dataFolder, openDatabase }) {
    Object.assign(this, { Pouch, dataFolder, openDatabase });
  }

  /** Follow a request to something in the database in `folder` to its end. */
  follow(res, folder) {
    this.#requests.set(res, folder);
    res.once('close', () => this.#requests.delete(res));
  }

  /** PUT of a database: as a whole, or nothing. */
  async create({ database }, res) {
    await this.#inTurn(database, async () => {
      if ((await databaseFolders(this.dataFolder)).includes(database)) {
        throw new HttpError(412, 'file_exists', 'The database could not be created.');
      }
      const db = await this.openDatabase(database, true);
      const unopened = await db.info().then(() => undefined, (error) => error);
      const failure = (await undoFailed(database, () => this.#destroy(db, database))) ?? unopened;
      if (failure !== undefined) {
        throw failure;
      }
    });
    res.location('');
    sendJSON(res, 201, { ok: true });
  }

  /** DELETE of a database. What is asked of it is answered first, since PouchDB may never answer it. */
  async remove(req, res) {
    const { database } = req;
    if (queryStrings(req).has('rev')) {
      throw new HttpError(400, 'bad_request', 'You tried to DELETE a database with a ?rev= parameter.');
    }
    await this.#inTurn(database, async () => {
      const db = await this.openDatabase(database, false);
      const asked = [...this.#requests].filter(([, folder]) => folder === database);
      asked.forEach(([other]) => sendInstead(other, new HttpError(404, 'not_found', 'Database does not exist.')));
      await this.#destroy(db, database);
    });
    sendJSON(res, 200, { ok: true });
  }

  /** Do what makes or deletes a database after what did so before. */
  async #inTurn(folder, work) {
    const turn = (this.#turns.get(folder) ?? Promise.resolve()).then(work);
    const ended = turn.catch(() => undefined);
    this.#turns.set(folder, ended);
    await turn.finally(() => this.#turns.get(folder) === ended && this.#turns.delete(folder));
  }

  async #destroy(db, folder) {
    const cache = this.Pouch.__dbCacheMap; // that of express-pouchdb
    cache.delete(folder);
    const destroyed = db.destroy();
    deleting.add(folder);
    await destroyed.finally(() => {
      cache.delete(folder); // one that was opened meanwhile never answers
      deleting.delete(folder);
    });
  }
}
