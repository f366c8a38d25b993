/** Recipes as documents, and drafts of them in the browser. */
import { t } from "../lib/i18n.js";
import { store } from "../lib/kept.js";
import { notify } from "../lib/parts.js";
import { session } from "../lib/session.js";

const DRAFT = "growd recipe ";

/** The path of a recipe in the database. */
export const documentPath = (id) => `recipes/${encodeURIComponent(id)}`;

/** A recipe as people see it, without what the database adds. */
export const content = ({ _id, _rev, _conflicts, ...rest }) => rest;

// What is typed and not saved stays in the browser: {id, text, rev, saved}, with the revision and the text that it
// changes. The key is the id of the recipe, or one that no recipe has.

const unkept = {}; // drafts for which the browser has no room: they last until the page is closed
let hasWarned = false;

/** Each user has drafts of their own: a browser may be shared. */
const nameOf = (key) => `${DRAFT}${encodeURIComponent(session.value?.user ?? "")} ${key}`;

/** Keep a draft under its key. */
export function keep(key, draft) {
  const [name, text] = [nameOf(key), JSON.stringify({ ...draft, time: Date.now() })];
  try {
    store.setItem(name, text);
    delete unkept[name];
  } catch {
    unkept[name] = text;
    if (!hasWarned) notify(t("recipe_not_kept"), "bad");
    hasWarned = true;
  }
}

export function discard(key) {
  delete unkept[nameOf(key)];
  store?.removeItem(nameOf(key));
}

/** All drafts of the user, newest first, with their keys. */
export const drafts = () =>
  Object.entries({ ...store, ...unkept })
    .filter(([name]) => name.startsWith(nameOf("")))
    .flatMap(([name, text]) => draftIn(text, name.slice(nameOf("").length)))
    .sort((one, other) => other.time - one.time);

/** The draft of a text as a list, an empty one if it is damaged. */
function draftIn(text, key) {
  try {
    const draft = JSON.parse(text);
    return typeof draft.text === "string" && draft.time > 0 ? [{ ...draft, key }] : [];
  } catch {
    return [];
  }
}

/** Keep a draft of a new recipe and return its key. */
export function newDraft(id, text) {
  const key = `_${Date.now()}`;
  keep(key, { id, text });
  return key;
}

/** A recipe to begin with: two weeks of light by day. */
export function blank({ variables }) {
  const lamp = variables.find((each) => each.controlled && each.variable.startsWith("light"));
  const daily = lamp && { [lamp.variable]: [{ at: "06:00", value: lamp.reach[1] / 2 }, { at: "22:00", value: 0 }] };
  return { format: "phased", name: "", phases: [{ name: "growth", duration: 14, time_units: "days", daily }] };
}
