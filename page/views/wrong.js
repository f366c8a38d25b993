import { html } from "../lib/html.js";

export function Wrong({ environment }) {
  return html``;
}
