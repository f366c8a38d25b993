// Filters of `_changes`.
//
// https://docs.couchdb.org/en/stable/ddocs/ddocs.html#filter-functions

import { checkSelector } from './guards.mjs';
import { HttpError, isObject } from './http.mjs';
import { compile } from './sandbox.mjs';

/** PouchDB's options for the filter of a request. Filter functions read `req.query` from `query_params`. */
export async function filterOptions(db, query, body) {
  const filter = query.get('filter');
  switch (filter) {
    case null:
      return {};
    case '_doc_ids':
      return { doc_ids: parseIds(query, body) };
    case '_selector':
      return { filter, selector: parseSelector(body) };
    case '_design':
      return { filter: (doc) => doc._id.startsWith('_design/') };
    case '_view':
      return { filter: viewFilter(await designMember(db, query.get('view') ?? '', 'views')) };
    default: {
      const source = await designMember(db, filter, 'filters');
      return { filter: compile(source, 'filter'), query_params: Object.fromEntries(query) };
    }
  }
}

/** A map function as a filter: documents for which it emits pass. */
function viewFilter(source) {
  let emitted = false;
  const map = compile(source, 'map', {
    emit: () => {
      emitted = true;
    },
  });
  return (doc) => {
    emitted = false;
    map(doc);
    return emitted;
  };
}

async function designMember(db, path, kind) {
  const [ddoc, name, ...rest] = path.split('/');
  if (!ddoc || !name || rest.length > 0) {
    throw new HttpError(400, 'bad_request', `a filter is named designname/functionname, not ${JSON.stringify(path)}`);
  }
  const members = (await db.get(`_design/${ddoc}`))[kind] ?? {};
  const member = Object.hasOwn(members, name) ? members[name] : undefined;
  const source = kind === 'views' ? member?.map : member;
  if (typeof source !== 'string') {
    throw new HttpError(404, 'not_found', `missing json key: ${name} in ${kind} of _design/${ddoc}`);
  }
  return source;
}

function parseSelector({ selector }) {
  if (!isObject(selector)) {
    throw new HttpError(400, 'bad_request', "filter _selector needs a JSON body with an object 'selector'");
  }
  checkSelector(selector);
  return selector;
}

function parseIds(query, body) {
  try {
    const ids = body.doc_ids ?? JSON.parse(query.get('doc_ids'));
    if (Array.isArray(ids)) {
      return ids;
    }
  } catch {
    // refused below
  }
  throw new HttpError(400, 'bad_request', 'filter _doc_ids needs doc_ids, a JSON array of document ids');
}
