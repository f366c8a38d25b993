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

let opened = ""; // the address that `open` opened last

/** Open something over the present view, so that the browser's button closes it. */
export function open(address) {
  opened = address;
  location.hash = address;
}

/** Close it: back, or to `address` if it was not opened from this page. */
export function leave(address) {
  if (opened === location.hash) history.back();
  else location.replace(address);
  opened = "";
}
