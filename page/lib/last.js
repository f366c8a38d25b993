/** The last state of growd that this browser has seen, to be shown with its age while growd does not answer. */
import { keep, kept, store } from "./kept.js";

const PLACE = "last";
const EVERY_MS = 30_000;

/** Keep what `read` returns at times, and when the page is left. */
export function keepLast(read) {
  const write = () => {
    const state = read();
    if (state) keep(PLACE, { ...state, at: Date.now() });
  };
  setInterval(() => document.hidden || write(), EVERY_MS);
  addEventListener("pagehide", write);
  document.addEventListener("visibilitychange", () => document.hidden && write());
}

/** {status, environments, messages, age} with the age in seconds; null without one. */
export function lastState() {
  const state = kept(PLACE, null);
  return state && { ...state, age: Math.max(0, (Date.now() - state.at) / 1000) };
}

/** After a logout: nothing that the user saw stays. */
export const forgetLast = () => store?.removeItem(PLACE);
