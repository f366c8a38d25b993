/** The view and the environment in the address, and what the view keeps there: #environment_1/charts?range=day. */
import { Signal } from "./signal.js";

/** {environment, view, query}: `query` is a URLSearchParams. */
export const route = new Signal(read());

addEventListener("hashchange", () => (route.value = read()));

function read() {
  const [path, query] = location.hash.slice(1).split("?");
  const [environment = "", view = ""] = path.split("/").map(decoded);
  return { environment, view: view || "now", query: new URLSearchParams(query) };
}

/** A part of an address; as it is if it is malformed. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a view; `query` is an object. */
export const href = (environment, view, query) =>
  `#${encodeURIComponent(environment)}/${view}${query ? `?${new URLSearchParams(query)}` : ""}`;
