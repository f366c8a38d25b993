// Who may write design documents: only the owner of the server, since their functions run inside this process.

import { hasSlash, slowExpression } from './guards.mjs';
import { isObject } from './http.mjs';

/** The option `by` of a write by the owner: an object, which no query and no JSON of a client can contain. */
export const OWNER = new (class Owner {})(); // an instance, because PouchDB copies plain objects

const INDEX_MEMBERS = ['_id', '_rev', '_revisions', 'language', 'views', 'autoupdate'];

/** The reason why a client may not replace the design document `before` by `doc`, or undefined. */
export function reasonAgainst(doc, before) {
  if ((doc._deleted || (isIndex(doc) && isUsable(doc))) && (before === null || isIndex(before))) {
    return undefined;
  }
  return (
    'only growd may write design documents of the embedded database, because their functions run inside it; ' +
    '[couchdb] client_design_documents = true lets clients write them'
  );
}

export function isDesign(doc) {
  return String(doc?._id).startsWith('_design/');
}

/** Whether it is an index of `_find`, which has no function: https://docs.couchdb.org/en/stable/api/database/find.html#db-index */
function isIndex(doc) {
  return (
    doc.language === 'query' &&
    Object.keys(doc).every((name) => INDEX_MEMBERS.includes(name)) &&
    Object.values(doc.views ?? {}).every((view) => view?.reduce === '_count' && isObject(view.map?.fields))
  );
}

/** Whether `_find` can read the definitions: one that it can't read makes all searches fail. */
function isUsable({ _id, views }) {
  const names = [_id.slice('_design/'.length), ...Object.keys(views ?? {})];
  return isObject(views) && !names.some(hasSlash) && Object.values(views).every(isDefined);
}

/** Whether the view has the fields of its definition. */
function isDefined({ map, options }) {
  const fields = options?.def?.fields;
  const isSlow = slowExpression(map.partial_filter_selector) !== undefined;
  if (isSlow || !Array.isArray(fields) || fields.length === 0) {
    return false;
  }
  const names = fields.flatMap((field) => (isObject(field) ? Object.keys(field) : [field]));
  return names.length === fields.length && JSON.stringify(names.sort()) === JSON.stringify(Object.keys(map.fields).sort());
}
