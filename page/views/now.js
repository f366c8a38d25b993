import { html } from "../lib/html.js";

export function Now({ environment }) {
  return html``;
}
