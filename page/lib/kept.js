/** What the browser keeps for the page; null if it keeps nothing. */
export const store = find();

function find() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}
