/** What the browser keeps for the page; `store` is null if it keeps nothing. */
export const store = find();

function find() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

/** A value as JSON; `otherwise` if there is none, or if it is not JSON. */
export function kept(key, otherwise) {
  try {
    return JSON.parse(store?.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keep a value as JSON, as far as the browser has room. */
export function keep(key, value) {
  try {
    store?.setItem(key, JSON.stringify(value));
  } catch {} // it is for this visit only
}
