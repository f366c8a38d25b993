import { html } from "../lib/html.js";

export function Data({ environment }) {
  return html``;
}
