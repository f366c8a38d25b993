/** What is typed and not saved, kept in the browser so that a reload or a conflict loses nothing. */
import { notify } from "../lib/parts.js";
import { t } from "../lib/i18n.js";

const PREFIX = "growd recipe ";

/** Keep a draft of a new recipe, {id, text}, and return its key, which no recipe has for its id. */
export function openDraft(draft) {
  const key = `_new-${Date.now().toString(36)}`;
  keep(key, draft);
  return key;
}

/** Keep {id, text, rev, saved}: `rev` and `saved` are revision and text of the recipe that it changes. */
export function keep(key, draft) {
  try {
    localStorage.setItem(PREFIX + key, JSON.stringify({ ...draft, time: Date.now() }));
  } catch {
    notify(t("recipe_not_kept"), "bad");
  }
}

export const discard = (key) => localStorage.removeItem(PREFIX + key);

/** The draft of a key, null if there is none. */
export const draftOf = (key) => JSON.parse(localStorage.getItem(PREFIX + key));

/** All drafts, newest first, with their keys. */
export const drafts = () =>
  Object.keys(localStorage)
    .filter((name) => name.startsWith(PREFIX))
    .map((name) => ({ key: name.slice(PREFIX.length), ...JSON.parse(localStorage.getItem(name)) }))
    .sort((one, other) => other.time - one.time);
