/** Preact, its hooks, and `html`: templates without a build step. */
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export * from "../vendor/hooks.js";
export const html = htm.bind(h);
