import { html } from "../lib/html.js";

export function AllSafe({ environment }) {
  return html``;
}
