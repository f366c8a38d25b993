/** The view and the environment in the address: #environment_1/charts. */
import { Signal } from "./signal.js";

export const route = new Signal(read());

addEventListener("hashchange", () => (route.value = read()));

function read() {
  const [environment = "", view = ""] = location.hash.slice(1).split("/").map(decodeURIComponent);
  return { environment, view: view || "now" };
}

/** The address of a view. */
export const href = (environment, view) => `#${encodeURIComponent(environment)}/${view}`;
