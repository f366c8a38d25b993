// Who may write design documents: their functions run inside this process, so only the owner of the server may.

/** The value of the option `by` of a write by the owner: an object that no query and no JSON of a client can hold. */
export const OWNER = new (class Owner {})(); // of a class, as PouchDB copies plain objects

const INDEX_MEMBERS = ['_id', '_rev', '_revisions', 'language', 'views', 'autoupdate'];

/** Why a client may not write the design document `doc` in the place of `before`; undefined where it may. */
export function reasonAgainst(doc, before) {
  if ((doc._deleted || (isIndex(doc) && isUsable(doc))) && (before === null || isIndex(before))) {
    return undefined;
  }
  return (
    'the embedded database takes design documents from growd alone, as their functions run inside it; ' +
    '[couchdb] client_design_documents = true lets clients write them'
  );
}

export function isDesign(doc) {
  return String(doc?._id).startsWith('_design/');
}

/** An index of `_find` holds no function: https://docs.couchdb.org/en/stable/api/database/find.html#db-index */
function isIndex(doc) {
  return (
    doc.language === 'query' &&
    Object.keys(doc).every((name) => INDEX_MEMBERS.includes(name)) &&
    Object.values(doc.views ?? {}).every((view) => view?.reduce === '_count' && isObject(view.map?.fields))
  );
}

/** Whether `_find` can read the definitions: it fails over all indexes when it can't read one. */
function isUsable(doc) {
  return isObject(doc.views) && Object.values(doc.views).every(isDefined);
}

/** Whether the view is of the fields that its definition names. */
function isDefined({ map, options }) {
  const fields = options?.def?.fields;
  if (!Array.isArray(fields) || fields.length === 0) {
    return false;
  }
  const names = fields.flatMap((field) => (isObject(field) ? Object.keys(field) : [field]));
  return names.length === fields.length && JSON.stringify(names.sort()) === JSON.stringify(Object.keys(map.fields).sort());
}

function isObject(value) {
  return value !== null && typeof value === 'object';
}
