import { html } from "../lib/html.js";

export function Charts({ environment }) {
  return html``;
}
